//! vfork(2): until it returns in the parent, the code that runs on the thread's stack and with its
//! thread-local data is the child's.
//!
//! Invariant: the child begins no blocked region: it may be killed in its wait, and the thread that
//! goes on would count as blocked for ever. Called from any thread, and with what it made, from its
//! child.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use crate::runtime::interposed::errno;
use crate::world::{attach, current, host};

/// The system call.
pub const NUMBER: c_int = libc::SYS_vfork as c_int;

/// The calling thread is about to make a child; whether it is one itself. It is attached before:
/// the child would attach it under its own number.
pub extern "C" fn begins() -> bool {
    if crate::runtime::is_initialized() && host::get().is_none() {
        attach::attach(None);
    }
    current::get().is_some_and(|mutator| mutator.has_child_on_it.swap(true, Relaxed))
}

/// The child is gone, or was not made; gives what vfork gives, of what the kernel said. With what
/// [`begins`] gave: children of the child may have been under way when it ended.
pub extern "C" fn is_over(result: isize, is_child: bool) -> c_int {
    if let Some(mutator) = current::get() {
        mutator.has_child_on_it.store(is_child, Relaxed);
    }
    if result < 0 {
        errno::set_error(-result as c_int);
        return -1;
    }
    result as c_int
}
