//! Numbers about the heap.
//!
//! Invariant: each is one reading of the core's counters, and only of those that it needs: programs
//! ask for some at every operation (Guile for the number of collections, at each of a weak table).
//! Called from any thread, in callbacks too.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::Ordering::Relaxed;

use super::freed;
use super::pacing::Size;
use crate::core_api::{self as api, Statistics};
use crate::settings::variables::{GC_gc_no, GC_non_gc_bytes, GC_parallel};

/// Total of the heap: what is in use and what is free, not what was given back to the system.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_heap_size() -> usize {
    Size::now().heap
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_free_bytes() -> usize {
    Size::now().free
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_unmapped_bytes() -> usize {
    Size::now().unmapped
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_bytes_since_gc() -> usize {
    api::allocated_since_cycle() as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_expl_freed_bytes_since_gc() -> usize {
    freed::since_collection()
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_total_bytes() -> usize {
    api::allocated().1 as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_obtained_from_os_bytes() -> usize {
    let now = api::statistics();
    (now.committed_bytes + now.unmapped_bytes + now.metadata_bytes) as usize
}

/// Bytes of blocks that hold objects.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_memory_use() -> usize {
    let now = api::memory();
    now.committed.saturating_sub(now.free) as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_gc_no() -> usize {
    api::cycles() as usize
}

/// Marking threads beside the one that collects.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_parallel() -> c_int {
    GC_parallel.load(Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_heap_usage_safe(
    heap: *mut usize,
    free: *mut usize,
    unmapped: *mut usize,
    since_collection: *mut usize,
    total: *mut usize,
) {
    let size = Size::now();
    for (variable, value) in [
        (heap, size.heap),
        (free, size.free),
        (unmapped, size.unmapped),
        (since_collection, api::allocated_since_cycle() as usize),
        (total, api::allocated().1 as usize),
    ] {
        // SAFETY: null or a variable of the caller, says gc.h.
        if let Some(variable) = unsafe { variable.as_mut() } {
            *variable = value;
        }
    }
}

/// `struct GC_prof_stats_s`, as words in its order.
fn profile(now: &Statistics) -> [usize; 12] {
    let since = now.allocated_since_cycle;
    let reclaimed = now.allocated_bytes.saturating_sub(now.live_bytes).saturating_sub(since);
    [
        now.committed_bytes + now.unmapped_bytes,
        now.free_bytes + now.unmapped_bytes,
        Size::now().unmapped as u64,
        since,
        now.allocated_bytes.saturating_sub(since),
        GC_non_gc_bytes.load(Relaxed) as u64,
        GC_gc_no.load(Relaxed) as u64,
        u64::from(GC_parallel.load(Relaxed).unsigned_abs()),
        freed::since_collection() as u64,
        reclaimed,
        freed::since_collection() as u64,
        now.committed_bytes + now.unmapped_bytes + now.metadata_bytes,
    ]
    .map(|value| value as usize)
}

/// Fills what fits into `bytes`; fields that this version does not know become all ones. Gives the
/// bytes of known fields that were filled.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_prof_stats(result: *mut u8, bytes: usize) -> usize {
    let values = profile(&api::statistics());
    let known = bytes.min(size_of_val(&values));
    // SAFETY: the caller's structure is `bytes` long, says gc.h.
    unsafe {
        core::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), result, known);
        result.add(known).write_bytes(0xFF, bytes - known);
    }
    known
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_prof_stats_unsafe(result: *mut u8, bytes: usize) -> usize {
    GC_get_prof_stats(result, bytes)
}

/// Times are always taken.
#[unsafe(no_mangle)]
pub extern "C" fn GC_start_performance_measurement() {}

/// Milliseconds that the world was stopped, in all.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_full_gc_total_time() -> c_ulong {
    api::statistics().pause_total_ns / 1_000_000
}

/// The nanoseconds that `GC_get_full_gc_total_time` leaves out.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_full_gc_total_ns_frac() -> c_ulong {
    api::statistics().pause_total_ns % 1_000_000
}

/// Milliseconds that the world was stopped: the same, since all of that is marking and what belongs
/// to it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_stopped_mark_total_time() -> c_ulong {
    GC_get_full_gc_total_time()
}

/// The average stop, in nanoseconds; 0 before the first.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_avg_stopped_mark_time_ns() -> c_ulong {
    let now = api::statistics();
    now.pause_total_ns.checked_div(now.pause_count).unwrap_or(0)
}

/// For programs that hand out memory themselves: counts towards the next collection, and in the
/// figures, as if it had been allocated.
#[unsafe(no_mangle)]
pub extern "C" fn GC_incr_bytes_allocd(bytes: usize) {
    api::embedding::note_allocated(bytes);
}

/// The same for memory that they took back.
#[unsafe(no_mangle)]
pub extern "C" fn GC_incr_bytes_freed(bytes: usize) {
    freed::note_taken_back(bytes);
    api::embedding::note_freed(bytes);
}
