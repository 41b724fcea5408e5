//! Telling the program when the heap gets memory from the system, and when it does not; whether it
//! can be executed, and whether it goes back.
//!
//! Invariant: every range is told once, in pieces as large as they came, after the heap has it; the
//! callback has the allocation lock, and no other is held. On the thread whose request it was.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};

use crate::core_api::{self as api, functions::AtomicFunction};
use crate::lock;
use crate::settings::environment;
use crate::settings::variables::callback_accessors;
use crate::unsupported::{self, Feature};

/// `GC_UNMAP_THRESHOLD` is 0: what the heap has it keeps.
static KEEPS_ALL: AtomicBool = AtomicBool::new(false);

/// The largest value of the core's option that says after how many cycles memory goes back.
pub const MOST_CYCLES: usize = 1_000_000;

/// Empty memory does not go back to the system, as far as the user has not said when it does.
pub fn keep_all() {
    /// The longest there is.
    const A_DAY: usize = 86_400_000;
    KEEPS_ALL.store(true, Relaxed);
    if !environment::user_has_set(c"NEAP_DECAY") {
        environment::set_number(b"decay", A_DAY);
    }
    if !environment::user_has_set(c"NEAP_IDLE") {
        environment::set_number(b"idle", 0);
    }
}

/// Whether that is so.
pub fn keeps_all() -> bool {
    KEEPS_ALL.load(Relaxed)
}

type MemoryFunction = extern "C" fn(*mut c_void, usize);
static ON_MEMORY: AtomicFunction<MemoryFunction> = AtomicFunction::none();

callback_accessors! {
    GC_set_on_os_get_mem, GC_get_on_os_get_mem: MemoryFunction => ON_MEMORY;
}

/// Bytes of the heap that were told of, or that nobody wanted to know of.
static TOLD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The heap has `bytes` bytes now.
pub fn tell_obtained(bytes: usize) {
    let told = TOLD_BYTES.fetch_max(bytes, Relaxed);
    if bytes > told
        && let Some(callback) = ON_MEMORY.get()
    {
        let start = api::heap_range().start + told;
        lock::with_alloc_lock(|| callback(start as *mut c_void, bytes - told));
    }
}

/// The core's refusal callback: the system gave no memory for a request of `bytes` bytes.
pub unsafe extern "C" fn tell_refused(bytes: usize) {
    if let Some(callback) = ON_MEMORY.get() {
        lock::with_alloc_lock(|| callback(null_mut(), bytes));
    }
}

static EXECUTABLE: AtomicI32 = AtomicI32::new(0);

/// Memory that the heap gets from now on is executable, or not: before `GC_INIT` all of it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_pages_executable(value: c_int) {
    if api::embedding::set_executable(value != 0) {
        EXECUTABLE.store(c_int::from(value != 0), Relaxed);
    } else {
        unsupported::say_once(Feature::ExecutableMemory);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_pages_executable() -> c_int {
    EXECUTABLE.load(Relaxed)
}
