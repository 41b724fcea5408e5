//! Functions of libc, never a front end's own of the same name, looked up when the library is
//! loaded.
//!
//! Invariant: glibc is `libc.so.6`. A lookup takes the loader's lock, which a stopped thread may
//! hold, so no lookup is left for a stop, a critical section or a signal's handler: what a front
//! end exports or the core calls is looked up by [`LibcFunction::find`] from the library's
//! constructor. What is called before that (from another library's constructor) is looked up by its
//! first call. Called from any thread.
//!
//! # Safety
//! A function is used as being of the type that who names it says it is.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use super::print;
use crate::sync::function::{AtomicFunction, Function};

/// A function of libc.
pub struct LibcFunction<F> {
    name: &'static CStr,
    known: AtomicFunction<F>,
}

impl<F: Function> LibcFunction<F> {
    /// The one of this name, which ends in its only zero.
    ///
    /// # Safety
    /// libc's function of this name has this type.
    pub const unsafe fn named(name: &'static str) -> Self {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Self { name, known: AtomicFunction::none() },
            Err(_) => panic!("a name that does not end in its only zero"),
        }
    }

    /// Looks it up; whether there is one.
    pub fn find(&self) -> bool {
        // SAFETY: the promise of who made this.
        unsafe { self.known.set_address(look_up(self.name)) };
        self.known.is_set()
    }

    /// Whether it was looked up, and there is one.
    pub fn is_known(&self) -> bool {
        self.known.is_set()
    }

    /// The function. Ends the process if there is none: its caller cannot do without.
    #[inline]
    pub fn get(&self) -> F {
        match self.known.get() {
            Some(function) => function,
            // SAFETY: the promise of who made this.
            None => unsafe { libc_function(self.name, &self.known) },
        }
    }
}

/// The same for a function that is kept by the caller.
///
/// # Safety
/// libc's function of this name has this type.
#[cold]
pub unsafe fn libc_function<F: Function>(name: &CStr, known: &AtomicFunction<F>) -> F {
    if !known.is_set() {
        // SAFETY: the caller's promise.
        unsafe { known.set_address(look_up(name)) };
    }
    known.get().unwrap_or_else(|| {
        print::fatal(format_args!(
            "no {} in libc.so.6; a program that is linked with -static, libc included, needs what \
             neap flags --all-static prints, and cannot have libgc's interface",
            name.to_string_lossy()
        ))
    })
}

/// From libc itself: in the order of the search it may stand before this library as well as behind.
fn look_up(name: &CStr) -> *mut c_void {
    static LIBC: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    // SAFETY: looks a loaded library and a symbol up.
    unsafe {
        let mut libc = LIBC.load(Relaxed);
        if libc.is_null() {
            libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            LIBC.store(libc, Relaxed);
        }
        let from = if libc.is_null() { libc::RTLD_NEXT } else { libc };
        libc::dlsym(from, name.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore)]
    fn finds_what_there_is_and_nothing_else() {
        type Getpid = extern "C" fn() -> i32;
        // SAFETY: getpid(2) has this type.
        static PID: LibcFunction<Getpid> = unsafe { LibcFunction::named("getpid\0") };
        // SAFETY: it is not there to be called.
        static NONE: LibcFunction<Getpid> = unsafe { LibcFunction::named("no_such_function\0") };
        assert_eq!(PID.get()() as u32, std::process::id());
        assert!(PID.find() && !NONE.find());
        assert!(PID.is_known() && !NONE.is_known());
    }
}
