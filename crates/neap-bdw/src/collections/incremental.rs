//! Incremental collection: there is no such mode to switch on, so the functions answer as Boehm's
//! collector does where it has none.
//!
//! Invariant: `GC_is_incremental_mode` is 0 and nothing is ever write-protected. Called from any
//! thread.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::settings::variables::GC_time_limit;
use crate::start::GC_init;

/// Initialises, as gc.h says it does.
#[unsafe(no_mangle)]
pub extern "C" fn GC_enable_incremental() {
    GC_init();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_incremental_mode() -> c_int {
    0
}

/// `GC_VDB_NONE`: no way of tracking writes makes collections incremental.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_supported_vdbs() -> u32 {
    0
}

/// `GC_VDB_NONE`, as `GC_is_incremental_mode` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_actual_vdb() -> u32 {
    0
}

/// `GC_PROTECTS_NONE`.
#[unsafe(no_mangle)]
pub extern "C" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// Nothing, unless the mode is on.
#[unsafe(no_mangle)]
pub extern "C" fn GC_start_incremental_collection() {}

/// A time limit with its fraction of a millisecond.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GC_timeval_s {
    milliseconds: c_ulong,
    nanoseconds: c_ulong,
}

static TIME_LIMIT_NANOSECONDS: AtomicUsize = AtomicUsize::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_time_limit_tv(limit: GC_timeval_s) {
    GC_time_limit.store(limit.milliseconds as usize, Relaxed);
    TIME_LIMIT_NANOSECONDS.store(limit.nanoseconds as usize, Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_time_limit_tv() -> GC_timeval_s {
    GC_timeval_s {
        milliseconds: GC_time_limit.load(Relaxed) as c_ulong,
        nanoseconds: TIME_LIMIT_NANOSECONDS.load(Relaxed) as c_ulong,
    }
}
