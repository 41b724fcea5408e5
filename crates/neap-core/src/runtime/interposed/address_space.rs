//! setrlimit(2) and prlimit(2), where a program limits its own address space: what the heap has
//! reserved, and hardly ever uses, would count, and leave none for threads and `malloc`.
//!
//! Invariant: each does what libc's does as far as the program can see; half of the limit is left
//! to the program, as at the start. Called by program threads, also in their signal handlers.
//!
//! # Safety
//! Each asks what libc's function of its name asks.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use core::sync::atomic::Ordering;

use libc::{pid_t, rlimit};

use crate::heap::HEAP;
use crate::runtime;
use crate::sys::libc_function::LibcFunction;
use crate::sys::thread;
use crate::world::{attach, current};

type Setrlimit = unsafe extern "C" fn(c_uint, *const rlimit) -> c_int;
type Prlimit = unsafe extern "C" fn(pid_t, c_uint, *const rlimit, *mut rlimit) -> c_int;
// SAFETY: libc's functions of these names have these types.
static SETRLIMIT: LibcFunction<Setrlimit> = unsafe { LibcFunction::named("setrlimit\0") };
// SAFETY: as above.
static PRLIMIT: LibcFunction<Prlimit> = unsafe { LibcFunction::named("prlimit\0") };

/// Finds libc's.
pub fn find() {
    SETRLIMIT.find();
    PRLIMIT.find();
}

/// As setrlimit(2).
///
/// # Safety
/// As setrlimit(2).
pub unsafe fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { SETRLIMIT.get()(resource, limit) };
    if result == 0 {
        // SAFETY: the kernel has just read it.
        make_room(resource, unsafe { limit.as_ref() });
    }
    result
}

/// As prlimit(2).
///
/// # Safety
/// As prlimit(2).
pub unsafe fn prlimit(
    process: pid_t,
    resource: c_uint,
    limit: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { PRLIMIT.get()(process, resource, limit, old) };
    if result == 0 && (process == 0 || process == thread::process() as pid_t) {
        // SAFETY: the kernel has just read it, or it is null.
        make_room(resource, unsafe { limit.as_ref() });
    }
    result
}

/// The process has this limit now. A handler that interrupted the library gives nothing back, nor
/// does a child of `vfork`, whose limit it is and not its maker's.
fn make_room(resource: c_uint, limit: Option<&rlimit>) {
    let Some(limit) = limit.filter(|limit| limit.rlim_cur != libc::RLIM_INFINITY) else { return };
    let is_busy = current::get()
        .is_some_and(|own| own.is_critical() || own.has_child_on_it.load(Ordering::Relaxed));
    if resource != libc::RLIMIT_AS || is_busy || !runtime::is_initialized() {
        return;
    }
    let _critical = attach::current().critical();
    HEAP.shrink_reservation(limit.rlim_cur as usize / 2);
}

/// Defines libc's functions that limit address space. In a library that programs load before libc,
/// once.
#[doc(hidden)]
#[macro_export]
macro_rules! address_space {
    () => {
        use libc::{pid_t, rlimit};

        /// As libc's `setrlimit`.
        #[unsafe(no_mangle)]
        pub extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::address_space::setrlimit(resource, limit) }
        }

        /// As libc's `setrlimit64`.
        #[unsafe(no_mangle)]
        pub extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
            setrlimit(resource, limit)
        }

        /// As libc's `prlimit`.
        #[unsafe(no_mangle)]
        pub extern "C" fn prlimit(
            process: pid_t,
            resource: c_uint,
            limit: *const rlimit,
            old: *mut rlimit,
        ) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::address_space::prlimit(process, resource, limit, old) }
        }

        /// As libc's `prlimit64`.
        #[unsafe(no_mangle)]
        pub extern "C" fn prlimit64(
            process: pid_t,
            resource: c_uint,
            limit: *const rlimit,
            old: *mut rlimit,
        ) -> c_int {
            prlimit(process, resource, limit, old)
        }
    };
}
