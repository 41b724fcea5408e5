//! What may lie in a collected object: [`Trace`] says where a type's pointers are, [`NoGc`] that it
//! leads to no collected object at all.
//!
//! Invariant: for every `T: Trace`, no destructor that runs when a `T` is dropped follows a [`Gc`],
//! and each may run on any thread. So the objects that one cycle found dead may be dropped in any
//! order, by the collector's threads. Nothing here runs; read by the compiler.
//!
//! # Safety
//!
//! The traits are unsafe: their implementations promise what a marker and the collector's threads
//! rely on. Those here are argued one by one.
//!
//! [`Gc`]: crate::Gc

#![allow(unsafe_code)]

use crate::types::shape::Shape;

/// What may be part of a collected object. Derived: `#[derive(Trace)]`.
///
/// ```
/// use neap::{Gc, Trace};
/// use std::cell::Cell;
///
/// #[derive(Trace)]
/// struct Node {
///     value: u64,
///     next: Cell<Option<Gc<Node>>>,
/// }
///
/// let node = Gc::new(Node { value: 1, next: Cell::new(None) });
/// node.next.set(Some(node));
/// assert_eq!(node.next.get().unwrap().value, 1);
/// ```
///
/// The derive asks that every field is `Trace`, and implements [`NoGc`] where every field is that.
///
/// - It refuses a type with a `Drop` of its own, unless the type says `#[trace(drop)]`: then the
///   type must be `Send`, and no field may lead to a collected object.
/// - A field with `#[trace(conservative)]` may have any type that needs no drop; each of its words
///   may then be a pointer.
/// - A field may be any `fn`. Elsewhere one that takes references, as an `Option<fn(&str)>`, is not
///   `Trace`: there is `#[trace(conservative)]` for it.
/// - A type that contains itself through a `Box` or a `Vec` says `#[trace(no_gc)]`: that no field
///   leads to a collected object, which is checked.
/// - It asks that each type parameter is `Trace`, unless the type says something else, as
///   `#[trace(bound = "T: Clone")]` does, or `#[trace(bound = "")]` for a type that has only a
///   `Gc<T>` or a `PhantomData<T>`. Of the fields it asks what it always asks.
/// - It refuses `#[repr(packed)]`, unions, and types with lifetimes other than `'static`.
///
/// # Safety
///
/// [`SHAPE`](Self::SHAPE) names every aligned word of a value in which a [`Gc`](crate::Gc) can lie.
/// No destructor that runs when a value is dropped follows a `Gc`, or lets others do so, and each
/// may run on any thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a collected object",
    label = "does not implement `Trace`",
    note = "derive it with `#[derive(Trace)]`; a container of collected objects that is part of \
            one is `neap::Vec`, `neap::HashMap` or `Gc<[T]>`, not one of the standard library's, \
            whose memory is not collected"
)]
pub unsafe trait Trace: 'static {
    /// Where its pointers are.
    const SHAPE: &'static Shape;
}

/// What leads to no collected object, itself or through memory that it owns or shares: its
/// destructor can do no harm to one. Implemented by `#[derive(Trace)]` where it holds of all
/// fields.
///
/// ```
/// fn is_free_of_objects<T: neap::NoGc>() {}
/// is_free_of_objects::<Vec<String>>();
/// ```
///
/// # Safety
///
/// No [`Gc`](crate::Gc) can be reached through a value of the type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may lead to a collected object",
    label = "does not implement `NoGc`",
    note = "a destructor must not follow a `Gc`: the object behind it may have been dropped already"
)]
pub unsafe trait NoGc {}
