//! `Weak<T>`: a reference that does not keep its object.
//!
//! Invariant: the handle behind a `Weak` is its own and its clones', and lives as long as they do.
//! What `upgrade` gives is alive, and its destructor has not begun: a handle is empty from the
//! moment when only finalizers could get at the object. Used by any thread of the program.
//!
//! # Safety
//!
//! The object of the handle is a `T`, or there is none.

#![allow(unsafe_code)]

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use neap_core::api::handles::{self, DomainId, Handle, HandleKind};

use crate::Gc;
use crate::types::shape::Shape;
use crate::types::trace::{NoGc, Trace};

/// A reference to an object that does not keep it alive. Clones of one share what it takes.
///
/// ```
/// use neap::Gc;
///
/// let object = Gc::new(5);
/// let weak = Gc::downgrade(object);
/// assert_eq!(weak.upgrade().as_deref(), Some(&5));
/// ```
///
/// An object with a `Weak` in it has a destructor, for the sake of the `Weak`.
pub struct Weak<T> {
    /// None refers to nothing.
    shared: Option<Arc<Own>>,
    object: PhantomData<Gc<T>>,
}

/// A handle that is freed with this.
struct Own(Handle);

impl Own {
    fn new(object: *const ()) -> Self {
        match handles::allocate(DomainId::DEFAULT, HandleKind::Weak, object.cast()) {
            Ok(handle) => Self(handle),
            Err(_) => handle_alloc_error(Layout::new::<Handle>()),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let freed = handles::free(self.0);
        debug_assert!(freed.is_ok(), "a handle of its own: {freed:?}");
    }
}

impl<T> Gc<T> {
    /// A weak reference to the object.
    ///
    /// ```
    /// use neap::Gc;
    /// let weak = Gc::downgrade(Gc::new([0_u8; 100]));
    /// neap::collect();
    /// // It is gone, unless a stale word on the stack looks like it.
    /// assert!(weak.upgrade().is_none_or(|object| object.len() == 100));
    /// ```
    pub fn downgrade(this: Self) -> Weak<T> {
        Weak::of(Own::new(this.as_ptr().cast()))
    }
}

impl<T: Trace> Gc<T> {
    /// Makes an object that knows a weak reference to itself: that gives nothing until this
    /// returns.
    ///
    /// ```
    /// use neap::{Gc, Trace, Weak};
    ///
    /// #[derive(Trace)]
    /// struct Widget {
    ///     own: Weak<Widget>,
    /// }
    ///
    /// let widget = Gc::new_cyclic(|own| {
    ///     assert!(own.upgrade().is_none());
    ///     Widget { own: own.clone() }
    /// });
    /// assert!(Gc::ptr_eq(widget.own.upgrade().unwrap(), widget));
    /// ```
    pub fn new_cyclic(make: impl FnOnce(&Weak<T>) -> T) -> Self {
        let weak = Weak::prepared();
        let object = Self::new(make(&weak));
        weak.set(object);
        object
    }
}

impl<T> Weak<T> {
    fn of(own: Own) -> Self {
        Self { shared: Some(Arc::new(own)), object: PhantomData }
    }

    /// One that refers to nothing.
    ///
    /// ```
    /// assert!(neap::Weak::<String>::new().upgrade().is_none());
    /// ```
    pub const fn new() -> Self {
        Self { shared: None, object: PhantomData }
    }

    /// One that [`set`](Self::set) will make refer to something.
    fn prepared() -> Self {
        Self::of(Own::new(std::ptr::null()))
    }

    /// Makes it, and its clones, refer to the object: for one that was prepared.
    fn set(&self, object: Gc<T>) {
        if let Some(own) = &self.shared {
            let set = handles::set(own.0, object.as_ptr().cast());
            debug_assert!(set.is_ok(), "a handle of its own, and an object: {set:?}");
        }
    }

    /// The object, if it is still there.
    ///
    /// ```
    /// let object = neap::Gc::new(1);
    /// assert!(neap::Gc::downgrade(object).upgrade() == Some(object));
    /// ```
    pub fn upgrade(&self) -> Option<Gc<T>> {
        let object = handles::get(self.shared.as_ref()?.0).ok()?;
        NonNull::new(object.cast::<T>()).map(Gc::of)
    }
}

impl<T> Clone for Weak<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), object: PhantomData }
    }
}

impl<T> Default for Weak<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Weak<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(Weak)")
    }
}

// SAFETY: a handle is a number; its destructor frees it, on any thread.
unsafe impl<T: 'static> Trace for Weak<T> {
    const SHAPE: &'static Shape = &Shape::leaf::<Self>();
}
// SAFETY: what it leads to has not been dropped, and will not be while somebody has it.
unsafe impl<T> NoGc for Weak<T> {}
