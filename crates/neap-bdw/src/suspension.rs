//! Single threads: suspending them, and telling the program which stand for a collection.
//!
//! Invariant: a thread is suspended only while no other holds the allocation lock, so never with
//! it. The callback for events runs while the world is stopped and may not allocate. Called from
//! any thread, world running.

use core::ffi::{c_int, c_void};

use crate::core_api::program_call::{self, Lost};
use crate::core_api::{embedding, functions::AtomicFunction};
use crate::lock;

/// The thread stands on return, unless it is in `GC_do_blocking`: then it stands when it comes out.
/// Threads that are not registered go on. Suspending twice is suspending once.
#[unsafe(no_mangle)]
pub extern "C" fn GC_suspend_thread(thread: libc::pthread_t) {
    // SAFETY: no preconditions.
    if thread == unsafe { libc::pthread_self() } {
        // Not with the lock: others are to go on.
        return embedding::suspend_thread(thread as usize);
    }
    lock::with_alloc_lock(|| embedding::suspend_thread(thread as usize));
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_resume_thread(thread: libc::pthread_t) {
    embedding::resume_thread(thread as usize);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_thread_suspended(thread: libc::pthread_t) -> c_int {
    embedding::is_thread_suspended(thread as usize).into()
}

type ThreadEventFunction = extern "C" fn(c_int, *mut c_void);
static ON_THREAD_EVENT: AtomicFunction<ThreadEventFunction> = AtomicFunction::none();

/// `GC_EVENT_THREAD_SUSPENDED` and `GC_EVENT_THREAD_UNSUSPENDED`.
const SUSPENDED: c_int = 10;
const UNSUSPENDED: c_int = 11;

unsafe extern "C" fn tell(thread: *mut c_void, stands: bool) {
    if let Some(callback) = ON_THREAD_EVENT.get() {
        let event = if stands { SUSPENDED } else { UNSUSPENDED };
        let words = [event as usize, thread as usize, 0, 0];
        // SAFETY: the program's, for this.
        unsafe { program_call::call("thread callback", Lost::Nothing, callback as usize, words) };
    }
}

/// The function is told of each thread that a collection stops, and again before it goes on.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_on_thread_event(callback: Option<ThreadEventFunction>) {
    ON_THREAD_EVENT.set(callback);
    embedding::set_thread_callback(callback.map(|_| tell as embedding::ThreadCallback));
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_on_thread_event() -> Option<ThreadEventFunction> {
    ON_THREAD_EVENT.get()
}

/// Whether threads' events are asked for.
pub fn has_callback() -> bool {
    ON_THREAD_EVENT.is_set()
}
