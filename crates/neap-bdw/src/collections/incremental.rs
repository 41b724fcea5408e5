//! Incremental collection: the mode is on when the program or the environment has asked for it and
//! collections mark beside the program, which they do with or without it wherever the system lets
//! them (`NEAP_WATCH`). What the mode adds are the program's wishes about it: how long a stop may
//! take and how many collections of young objects lie between two full ones.
//!
//! Invariant: what the user set by a `NEAP_` name stands. Memory of the program's is never
//! protected behind its back: buffers of system calls are looked after where pages are. Called from
//! any thread.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};

use crate::core_api as api;
use crate::core_api::embedding::{self, Watching};
use crate::settings::environment::{self, Number};
use crate::settings::handed_over::HandedOver;
use crate::settings::variables::{
    GC_dont_gc, GC_find_leak, GC_full_freq, GC_time_limit, accessors,
};

/// The mode was asked for.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// `GC_DISABLE_INCREMENTAL`: nobody gets it.
pub static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Asks for the mode. Ignored while collections are disabled and where leaks are looked for. Does
/// not initialise.
pub fn enable() {
    let refused =
        FORBIDDEN.load(Relaxed) || GC_dont_gc.load(Relaxed) != 0 || GC_find_leak.load(Relaxed) != 0;
    if !refused && !ENABLED.swap(true, Relaxed) {
        carry_over();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_incremental_mode() -> c_int {
    (ENABLED.load(Relaxed) && watching() != Watching::None).into()
}

/// `Watching::None` until the collector is initialised.
fn watching() -> Watching {
    if api::is_initialized() { embedding::watching() } else { Watching::None }
}

static TIME_LIMIT: HandedOver = HandedOver::new(UNLIMITED);
static FULL_FREQUENCY: HandedOver = HandedOver::new(DEFAULT_FREQUENCY);

fn time_limit() -> usize {
    GC_time_limit.load(Relaxed)
}

fn full_frequency() -> usize {
    GC_full_freq.load(Relaxed) as usize
}

/// Hands to the core what the program may have written, or set before the mode was on; while that
/// is off nothing.
pub fn carry_over() {
    if ENABLED.load(Relaxed) {
        TIME_LIMIT.hand_over_if_changed(time_limit, limit_stops);
        FULL_FREQUENCY.hand_over_if_changed(full_frequency, choose_generations);
    }
}

fn limit_stops(milliseconds: usize) {
    if milliseconds != UNLIMITED && !environment::user_has_set(c"NEAP_MAX_PAUSE") {
        environment::set_number(b"max_pause", milliseconds.min(LONGEST));
    }
}

fn choose_generations(frequency: usize) {
    if !environment::user_has_set(c"NEAP_MINOR_CYCLES") {
        environment::set(b"minor_cycles", if frequency == 0 { b"never" } else { b"auto" });
    }
}

/// `GC_TIME_UNLIMITED`: the program says nothing about it.
const UNLIMITED: usize = 999_999;
/// `GC_full_freq` as it is at first.
const DEFAULT_FREQUENCY: usize = 19;
/// What the option takes.
const LONGEST: usize = 3_600_000;

/// The stop that a collection may take; where it is expected to take less it stops the program for
/// all of marking, which is cheaper.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_time_limit(milliseconds: c_ulong) {
    let settled = Number::PauseTimeTarget.overriding();
    GC_time_limit.store(settled.unwrap_or(milliseconds as usize), Relaxed);
    if ENABLED.load(Relaxed) {
        TIME_LIMIT.hand_over(time_limit, limit_stops);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_time_limit() -> c_ulong {
    GC_time_limit.load(Relaxed) as c_ulong
}

/// A time limit with its fraction of a millisecond.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GC_timeval_s {
    milliseconds: c_ulong,
    nanoseconds: c_ulong,
}

static TIME_LIMIT_NANOSECONDS: AtomicUsize = AtomicUsize::new(0);

/// The fraction is kept and changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_time_limit_tv(limit: GC_timeval_s) {
    TIME_LIMIT_NANOSECONDS.store(limit.nanoseconds as usize, Relaxed);
    GC_set_time_limit(limit.milliseconds);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_time_limit_tv() -> GC_timeval_s {
    GC_timeval_s {
        milliseconds: GC_get_time_limit(),
        nanoseconds: TIME_LIMIT_NANOSECONDS.load(Relaxed) as c_ulong,
    }
}

/// 0: each collection is a full one. Other numbers leave it to what the collections find.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_full_freq(frequency: c_int) {
    let settled = Number::FullFrequency.overriding();
    GC_full_freq.store(settled.map_or(frequency, |settled| settled as c_int), Relaxed);
    if ENABLED.load(Relaxed) {
        FULL_FREQUENCY.hand_over(full_frequency, choose_generations);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_full_freq() -> c_int {
    GC_full_freq.load(Relaxed)
}

/// How writes are tracked, by the values of `gc.h`: a child that marks a snapshot, and pages that
/// are copied before they are written, are `GC_VDB_DEFAULT`.
fn vdb() -> u32 {
    match watching() {
        Watching::None => 0,
        Watching::Mprotect => 0x1,
        Watching::Fork | Watching::Snapshot => 0x4,
        Watching::Pagemap => 0x40,
    }
}

/// What the mode would use: one way, the one that was chosen at start-up.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_supported_vdbs() -> u32 {
    if FORBIDDEN.load(Relaxed) { 0 } else { vdb() }
}

/// `GC_VDB_NONE` unless the mode is on.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_actual_vdb() -> u32 {
    if GC_is_incremental_mode() != 0 { vdb() } else { 0 }
}

/// `GC_PROTECTS_NONE`, as far as a program can see.
#[unsafe(no_mangle)]
pub extern "C" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// With the mode on a collection begins if there is anything to collect; it may end later.
#[unsafe(no_mangle)]
pub extern "C" fn GC_start_incremental_collection() {
    if GC_is_incremental_mode() != 0 && GC_dont_gc.load(Relaxed) == 0 {
        carry_over();
        embedding::begin_cycle();
    }
}

static RATE: AtomicI32 = AtomicI32::new(10);
static MAX_PRIOR_ATTEMPTS: AtomicI32 = AtomicI32::new(1);
static MANUAL_VDB_ALLOWED: AtomicI32 = AtomicI32::new(0);
static MPROTECT_VDB_ALLOWED: AtomicI32 = AtomicI32::new(1);

// Kept, so that a program reads back what it wrote: a collection is not done in pieces on the
// program's threads, marking is given up for no stop, and the user chooses the way of watching.
accessors! {
    GC_set_rate, GC_get_rate: c_int => RATE;
    GC_set_max_prior_attempts, GC_get_max_prior_attempts: c_int => MAX_PRIOR_ATTEMPTS;
    GC_set_manual_vdb_allowed, GC_get_manual_vdb_allowed: c_int => MANUAL_VDB_ALLOWED;
    GC_set_mprotect_vdb_allowed, GC_get_mprotect_vdb_allowed: c_int => MPROTECT_VDB_ALLOWED;
}
