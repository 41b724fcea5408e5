//! What the ABI has and Neap has not. Each says so once, through the program's warning procedure,
//! when it is asked for.
//!
//! Invariant: a program that goes on regardless loses only what the message names. Called from any
//! thread, world running.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api::functions::AtomicFunction;
use crate::failure::warn;

/// The features, in the order of their messages.
#[derive(Clone, Copy)]
pub enum Feature {
    PagesExecutable,
    SuspendThread,
    ThreadEvents,
    StackBottomOfOthers,
    LogFile,
}

const MESSAGES: [&CStr; 5] = [
    c"Neap: GC_set_pages_executable: the heap is never executable; map memory for code with mmap\n",
    c"Neap: GC_suspend_thread: single threads are not suspended; use GC_stop_world_external\n",
    c"Neap: GC_set_on_thread_event: there are no events of single threads; GC_set_on_collection_event has those of the world\n",
    c"Neap: GC_set_stackbottom: another thread's stack bottom cannot be set; call it on that thread\n",
    c"Neap: GC_LOG_FILE is not read; NEAP_SUMMARY=FILE writes a summary at exit\n",
];
static SAID: [AtomicBool; 5] = [const { AtomicBool::new(false) }; 5];

/// Warns, the first time.
pub fn say_once(feature: Feature) {
    if !SAID[feature as usize].swap(true, Relaxed) {
        warn(MESSAGES[feature as usize].as_ptr(), 0);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_pages_executable(value: c_int) {
    if value != 0 {
        say_once(Feature::PagesExecutable);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_pages_executable() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_suspend_thread(_thread: *mut c_void) {
    say_once(Feature::SuspendThread);
}

/// Nothing is suspended, so there is nothing to resume.
#[unsafe(no_mangle)]
pub extern "C" fn GC_resume_thread(_thread: *mut c_void) {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_thread_suspended(_thread: *mut c_void) -> c_int {
    0
}

type ThreadEventFunction = extern "C" fn(c_int, *mut c_void);
static ON_THREAD_EVENT: AtomicFunction<ThreadEventFunction> = AtomicFunction::none();

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_on_thread_event(callback: Option<ThreadEventFunction>) {
    ON_THREAD_EVENT.set(callback);
    if callback.is_some() {
        say_once(Feature::ThreadEvents);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_on_thread_event() -> Option<ThreadEventFunction> {
    ON_THREAD_EVENT.get()
}
