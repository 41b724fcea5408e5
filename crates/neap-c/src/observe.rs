//! Statistics, warnings and the steps of cycles.
//!
//! Invariant: the struct only grows at its end, and no more of it is written than the caller has
//! room for, so old programs run on new libraries and the other way round. Statistics from any
//! thread with the world running; the event callback on the thread that drives the cycle.

use core::ffi::{CStr, c_char, c_int, c_void};

use neap_core::api::program_call::{self, Lost};
use neap_core::api::{self, CycleEvent};

use crate::misuse::line;
use crate::references::callback::Slot;
use crate::status::Status;

/// `neap_statistics`, as neap.h explains it.
#[repr(C)]
struct Statistics {
    cycles: u64,
    minor_cycles: u64,
    pause_count: u64,
    pause_max_ns: u64,
    pause_p99_ns: u64,
    pause_p50_ns: u64,
    pause_total_ns: u64,
    peak_bytes: u64,
    live_bytes: u64,
    committed_bytes: u64,
    free_bytes: u64,
    metadata_bytes: u64,
    allocated_bytes: u64,
    allocated_objects: u64,
    allocated_since_cycle: u64,
    freed_since_cycle: u64,
    assist_total_ns: u64,
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_statistics_read(statistics: *mut c_void, bytes: usize) -> usize {
    api::initialize();
    let now = api::statistics();
    let known = Statistics {
        cycles: now.cycles,
        minor_cycles: now.minor_cycles,
        pause_count: now.pause_count,
        pause_max_ns: now.pause_max_ns,
        pause_p99_ns: now.pause_p99_ns,
        pause_p50_ns: now.pause_p50_ns,
        pause_total_ns: now.pause_total_ns,
        peak_bytes: now.peak_bytes,
        live_bytes: now.live_bytes,
        committed_bytes: now.committed_bytes,
        free_bytes: now.free_bytes,
        metadata_bytes: now.metadata_bytes,
        allocated_bytes: now.allocated_bytes,
        allocated_objects: now.allocated_objects,
        allocated_since_cycle: now.allocated_since_cycle,
        freed_since_cycle: now.freed_since_cycle,
        assist_total_ns: now.assist_total_ns,
    };
    let copied = bytes.min(size_of::<Statistics>());
    if !statistics.is_null() {
        let to = statistics.cast::<u8>();
        // SAFETY: neap.h asks for room of so many bytes.
        unsafe {
            to.write_bytes(0, bytes);
            to.copy_from_nonoverlapping((&raw const known).cast(), copied);
        }
    }
    size_of::<Statistics>()
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_heap_snapshot(path: *const c_char) -> c_int {
    if path.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: neap.h asks for a string.
    match api::write_heap_snapshot(unsafe { CStr::from_ptr(path) }) {
        Ok(()) => 0,
        Err(number) => number,
    }
}

type EventCallback = unsafe extern "C" fn(c_int, *mut c_void);
static EVENT: Slot<EventCallback> = Slot::new();

unsafe extern "C" fn tell(event: CycleEvent) {
    if let Some((callback, environment)) = EVENT.get() {
        let words = [event as usize, environment as usize, 0, 0];
        // SAFETY: the program's, for this; neap.h says when it is called.
        unsafe { program_call::call("event callback", Lost::Nothing, callback as usize, words) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_event_callback(
    callback: Option<EventCallback>,
    environment: *mut c_void,
) -> Status {
    let status = EVENT.set(callback, environment);
    api::set_event_callback(Some(tell));
    status
}

type CycleGate = unsafe extern "C" fn(*mut c_void) -> c_int;
static GATE: Slot<CycleGate> = Slot::new();

unsafe extern "C" fn may_begin(_for_memory: bool) -> bool {
    GATE.get().is_none_or(|(gate, environment)| {
        let words = [environment as usize, 0, 0, 0];
        // SAFETY: the program's, for this.
        let answer =
            unsafe { program_call::call("cycle gate", Lost::Nothing, gate as usize, words) };
        answer.is_none_or(|answer| answer as c_int != 0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_cycle_gate(gate: Option<CycleGate>, environment: *mut c_void) -> Status {
    let status = GATE.set(gate, environment);
    api::set_cycle_gate(Some(may_begin));
    status
}

type WarningCallback = unsafe extern "C" fn(*const c_char, usize, *mut c_void);
static WARNING: Slot<WarningCallback> = Slot::new();

/// At load: warnings come here.
pub fn on_load() {
    api::set_warning_callback(Some(warn));
}

unsafe extern "C" fn warn(text: *const c_char, number: usize) {
    match WARNING.get() {
        Some((callback, environment)) => {
            let words = [text as usize, number, environment as usize, 0];
            let function = callback as usize;
            // SAFETY: the program's, for this; the text lives for ever.
            unsafe { program_call::call("warning callback", Lost::Nothing, function, words) };
        }
        None => {
            // SAFETY: the core hands over a C string.
            let text = unsafe { CStr::from_ptr(text) };
            line(format_args!("{} ({number})", text.to_str().unwrap_or("warning")));
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_set_warning_callback(
    callback: Option<WarningCallback>,
    environment: *mut c_void,
) -> Status {
    WARNING.set(callback, environment)
}
