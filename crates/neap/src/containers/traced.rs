//! Where the pointers of collected containers are.
//!
//! Invariant: the pointer to a container's memory is one of its words. Nothing here runs; read by
//! the compiler.
//!
//! # Safety
//!
//! All words are named, and the containers have no destructor.

#![allow(unsafe_code)]

use super::{BTreeMap, HashMap, String, Vec, VecDeque};
use crate::types::shape::Shape;
use crate::types::trace::Trace;

// SAFETY: as above.
unsafe impl<T: Trace> Trace for Vec<T> {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

// SAFETY: as above.
unsafe impl<K: Trace, V: Trace> Trace for HashMap<K, V> {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

// SAFETY: as above.
unsafe impl<T: Trace> Trace for VecDeque<T> {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

// SAFETY: as above.
unsafe impl<K: Trace, V: Trace> Trace for BTreeMap<K, V> {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

// SAFETY: as above.
unsafe impl Trace for String {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}
