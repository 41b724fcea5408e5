//! Functions by which libc makes threads of its own for the program, for front ends to export in
//! libc's stead: queues that tell by a thread, asynchronous requests. (Timers that tell by a thread
//! need none of it: since 2.32 glibc makes theirs as `sys/own_thread.rs` makes ours.)
//!
//! libc blocks every signal while it makes such a thread, and waits so for locks that a stopped
//! thread may hold. Invariant: it does that while the caller holds collections off, so no stop is
//! under way or begins; who holds such a lock runs, and gives it back. What waits for its requests
//! too (`LIO_WAIT`, `GAI_WAIT`) would hold collections off for as long, and is passed on as it is.
//! Called by program threads, outside stops.
//!
//! # Safety
//! Each asks what libc's function of its name asks, and hands it on.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::{aiocb, mqd_t, sigevent};

use crate::cycle::driver::holding;
use crate::runtime::is_initialized;
use crate::sys::libc_function::LibcFunction;
use crate::world::current;

/// Calls with collections held off. A thread that is no mutator keeps no stop waiting.
fn unstopped(call: impl FnOnce() -> c_int) -> c_int {
    if !is_initialized() || current::get().is_none() {
        return call();
    }
    holding::hold();
    let result = call();
    holding::release();
    result
}

/// Whether a thread is to tell of an event.
///
/// # Safety
/// `event` is null or valid.
unsafe fn is_by_thread(event: *const sigevent) -> bool {
    // SAFETY: the caller's promise.
    unsafe { event.as_ref() }.is_some_and(|event| event.sigev_notify == libc::SIGEV_THREAD)
}

/// Calls a macro with those functions, with when each makes a thread.
#[doc(hidden)]
#[macro_export]
macro_rules! each_helper {
    ($($then:tt)*) => { $($then)*! {
        mq_notify(queue: mqd_t, event: *const sigevent) if is_by_thread(event);
        aio_read(request: *mut aiocb) if true;
        aio_read64(request: *mut aiocb) if true;
        aio_write(request: *mut aiocb) if true;
        aio_write64(request: *mut aiocb) if true;
        aio_fsync(how: c_int, request: *mut aiocb) if true;
        aio_fsync64(how: c_int, request: *mut aiocb) if true;
        lio_listio(
            mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent
        ) if mode == libc::LIO_NOWAIT;
        lio_listio64(
            mode: c_int, requests: *const *mut aiocb, count: c_int, event: *mut sigevent
        ) if mode == libc::LIO_NOWAIT;
        getaddrinfo_a(
            mode: c_int, requests: *mut *mut c_void, count: c_int, event: *mut sigevent
        ) if mode == GAI_NOWAIT;
    } };
}

/// Of `getaddrinfo_a`.
const GAI_NOWAIT: c_int = 1;

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) if $makes_a_thread:expr;)*) => {
        #[allow(non_upper_case_globals)]
        mod found {
            use super::*;

            $(pub static $name: LibcFunction<unsafe extern "C" fn($($type),*) -> c_int> =
                // SAFETY: libc's function of this name has this type.
                unsafe { LibcFunction::named(concat!(stringify!($name), "\0")) };)*
        }

        /// Looks libc's functions up, when the library is loaded.
        pub fn find() {
            $(found::$name.find();)*
        }

        $(
            #[doc = concat!("As libc's `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As libc's.
            pub unsafe fn $name($($argument: $type),*) -> c_int {
                let real = found::$name.get();
                // SAFETY: it is called as the caller was.
                unsafe {
                    match $makes_a_thread {
                        true => unstopped(|| real($($argument),*)),
                        false => real($($argument),*),
                    }
                }
            }
        )*
    };
}
crate::each_helper!(functions);

#[doc(hidden)]
#[macro_export]
macro_rules! export_helpers {
    ($($name:ident($($argument:ident: $type:ty),*) if $makes_a_thread:expr;)*) => {$(
        #[doc = concat!("As libc's `", stringify!($name), "`.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::helpers::$name($($argument),*) }
        }
    )*};
}

/// Defines libc's functions that make threads for the program. In a library that programs load
/// before libc, once.
#[macro_export]
macro_rules! helpers {
    () => {
        use core::ffi::{c_int, c_void};
        use libc::{aiocb, mqd_t, sigevent};

        $crate::each_helper!($crate::export_helpers);
    };
}
