//! [`Trace`] and [`NoGc`] for what the language and the standard library have.
//!
//! Invariant: memory that a container of the standard library owns is not collected, so what it
//! holds inside a collected object leads to no other one: a cycle through it would never die.
//! Nothing here runs; read by the compiler.
//!
//! # Safety
//!
//! A type that owns nothing has no pointers, or is itself the word that may be one. A type whose
//! fields are private counts as all words if what it holds has pointers. The destructors of
//! containers only run those of what they hold, which is [`NoGc`] and `Send`.

#![allow(unsafe_code)]

use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::num::{
    NonZeroI8, NonZeroI16, NonZeroI32, NonZeroI64, NonZeroI128, NonZeroIsize, NonZeroU8,
    NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, NonZeroUsize, Wrapping,
};
use std::ops::{Range, RangeFrom, RangeInclusive};
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16,
    AtomicU32, AtomicU64, AtomicUsize,
};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crate::types::shape::{Field, Form, Shape};
use crate::types::trace::{NoGc, Trace};

macro_rules! leaves {
    ($($type:ty)*) => {$(
        // SAFETY: no pointers that the program may follow, or memory of its own without any.
        unsafe impl Trace for $type {
            const SHAPE: &'static Shape = &Shape::leaf::<Self>();
        }
        // SAFETY: as above.
        unsafe impl NoGc for $type {}
    )*};
}
leaves! {
    () bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64
    AtomicBool AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize
    AtomicI8 AtomicI16 AtomicI32 AtomicI64 AtomicIsize
    NonZeroU8 NonZeroU16 NonZeroU32 NonZeroU64 NonZeroU128 NonZeroUsize
    NonZeroI8 NonZeroI16 NonZeroI32 NonZeroI64 NonZeroI128 NonZeroIsize
    Duration Instant SystemTime PhantomPinned std::cmp::Ordering std::any::TypeId
    std::thread::ThreadId std::alloc::Layout
    String std::ffi::OsString std::ffi::CString std::path::PathBuf
    std::net::IpAddr std::net::SocketAddr std::fs::File std::net::TcpStream
}

macro_rules! unsized_leaves {
    ($($type:ty)*) => {$(
        // SAFETY: text and bytes have no pointers.
        unsafe impl NoGc for $type {}
    )*};
}
unsized_leaves! { str std::ffi::OsStr std::ffi::CStr std::path::Path }

// SAFETY: all parts are.
unsafe impl<T: NoGc> NoGc for [T] {}

/// Functions that take a reference of any lifetime are types of their own, of which one cannot say
/// anything beside these. The derive knows a field of one by its form.
macro_rules! functions {
    ($($argument:ident)*) => {
        functions! { fn($($argument),*) -> Result; $($argument)* }
        functions! { unsafe fn($($argument),*) -> Result; $($argument)* }
        functions! { extern "C" fn($($argument),*) -> Result; $($argument)* }
        functions! { unsafe extern "C" fn($($argument),*) -> Result; $($argument)* }
    };
    ($type:ty; $($argument:ident)*) => {
        // SAFETY: functions own nothing.
        unsafe impl<Result: 'static, $($argument: 'static),*> Trace for $type {
            const SHAPE: &'static Shape = &Shape::leaf::<Self>();
        }
        // SAFETY: as above.
        unsafe impl<Result, $($argument),*> NoGc for $type {}
    };
}
functions! {}
functions! { A }
functions! { A B }
functions! { A B C }
functions! { A B C D }
functions! { A B C D E }
functions! { A B C D E F }
functions! { A B C D E F G }
functions! { A B C D E F G H }

/// Those that are as their one part.
macro_rules! as_the_part {
    ($($type:ident)*) => {$(
        // SAFETY: the type has the layout of its part.
        unsafe impl<T: Trace> Trace for $type<T> {
            const SHAPE: &'static Shape = T::SHAPE;
        }
        // SAFETY: as its part.
        unsafe impl<T: NoGc> NoGc for $type<T> {}
    )*};
}
as_the_part! { Cell UnsafeCell ManuallyDrop MaybeUninit Wrapping }

/// Those that hold one at a place that is theirs to know.
macro_rules! around {
    ($($type:ident)*) => {$(
        // SAFETY: all words, unless what it holds has no pointers; its destructor only runs that
        // of what it holds.
        unsafe impl<T: Trace> Trace for $type<T> {
            const SHAPE: &'static Shape = &Shape::somewhere_any::<Self>(&[T::SHAPE]);
        }
        // SAFETY: as what it holds.
        unsafe impl<T: NoGc> NoGc for $type<T> {}
    )*};
}
around! { Option RefCell OnceCell Mutex RwLock OnceLock Range RangeFrom RangeInclusive }

// SAFETY: as above, of what either holds.
unsafe impl<T: Trace, E: Trace> Trace for Result<T, E> {
    const SHAPE: &'static Shape = &Shape::somewhere_any::<Self>(&[T::SHAPE, E::SHAPE]);
}
// SAFETY: as what either holds.
unsafe impl<T: NoGc, E: NoGc> NoGc for Result<T, E> {}

/// Those with memory of their own, which is not collected.
macro_rules! owners {
    ($($type:ident<$($part:ident $(: $more:ident)?),*>)*) => {$(
        // SAFETY: the pointers in it are to memory that is freed and not collected; its destructor
        // runs those of its parts, which follow no `Gc`, on any thread.
        unsafe impl<$($part: NoGc $(+ $more)? + Send + 'static),*> Trace for $type<$($part),*> {
            const SHAPE: &'static Shape = &Shape::leaf::<Self>();
        }
        // SAFETY: as its parts.
        unsafe impl<$($part: NoGc $(+ $more)?),*> NoGc for $type<$($part),*> {}
    )*};
}
owners! {
    Vec<T> VecDeque<T> BTreeMap<K, V> BTreeSet<T> BinaryHeap<T> HashMap<K, V> HashSet<T>
}

// SAFETY: as above.
unsafe impl<T: NoGc + Send + ?Sized + 'static> Trace for Box<T> {
    const SHAPE: &'static Shape = &Shape::leaf::<Self>();
}
// SAFETY: as its part.
unsafe impl<T: NoGc + ?Sized> NoGc for Box<T> {}

// SAFETY: as above; the last owner's destructor may run on any thread.
unsafe impl<T: NoGc + Send + Sync + ?Sized + 'static> Trace for Arc<T> {
    const SHAPE: &'static Shape = &Shape::leaf::<Self>();
}
// SAFETY: as its part.
unsafe impl<T: NoGc + ?Sized> NoGc for Arc<T> {}

// SAFETY: the reference is one of the words.
unsafe impl<T: ?Sized> Trace for &'static T {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}
// SAFETY: as what it refers to.
unsafe impl<T: NoGc + ?Sized> NoGc for &'static T {}

// SAFETY: the pointer is one of the words. Who follows it has to know that it is valid.
unsafe impl<T: ?Sized + 'static> Trace for *const T {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}
// SAFETY: as above.
unsafe impl<T: ?Sized + 'static> Trace for *mut T {
    const SHAPE: &'static Shape = &Shape::words::<Self>();
}

// SAFETY: no bytes.
unsafe impl<T: ?Sized + 'static> Trace for PhantomData<T> {
    const SHAPE: &'static Shape = &Shape::leaf::<Self>();
}
// SAFETY: as above.
unsafe impl<T: ?Sized> NoGc for PhantomData<T> {}

// SAFETY: elements side by side.
unsafe impl<T: Trace, const COUNT: usize> Trace for [T; COUNT] {
    const SHAPE: &'static Shape = &Shape {
        form: Form::Repeated(COUNT),
        bytes: size_of::<Self>(),
        fields: &[Field { offset: 0, shape: T::SHAPE }],
    };
}
// SAFETY: as its elements.
unsafe impl<T: NoGc, const COUNT: usize> NoGc for [T; COUNT] {}

macro_rules! tuples {
    ($($part:ident $index:tt),*) => {
        // SAFETY: every part at its place.
        unsafe impl<$($part: Trace),*> Trace for ($($part,)*) {
            const SHAPE: &'static Shape = &Shape {
                form: Form::Fields,
                bytes: size_of::<Self>(),
                fields: &[$(
                    Field { offset: offset_of!(Self, $index), shape: $part::SHAPE }
                ),*],
            };
        }
        // SAFETY: as its parts.
        unsafe impl<$($part: NoGc),*> NoGc for ($($part,)*) {}
    };
}
tuples! { A 0 }
tuples! { A 0, B 1 }
tuples! { A 0, B 1, C 2 }
tuples! { A 0, B 1, C 2, D 3 }
tuples! { A 0, B 1, C 2, D 3, E 4 }
tuples! { A 0, B 1, C 2, D 3, E 4, F 5 }
tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6 }
tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7 }
