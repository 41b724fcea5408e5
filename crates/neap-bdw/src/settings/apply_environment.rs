//! What the `GC_*` environment variables ask for, handed to who does it.
//!
//! Invariant: an option that the user set by its `NEAP_*` name is never overridden. Applied when
//! the library is loaded; what the program can set too once more by `GC_init`, and by whatever
//! else starts the collector what it can assign to. `docs/boehm.md` has the table.

use core::ffi::{CStr, c_int, c_ulong};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::collections::collect::GC_set_force_unmap_on_gcollect;
use crate::collections::pacing::GC_set_free_space_divisor;
use crate::collections::{incremental, memory};
use crate::debugging::freed_later;
use crate::debugging::output;
use crate::debugging::regular::{self, Regular};
use crate::debugging::smashed;
use crate::failure;
use crate::settings::environment::{
    Number, bytes_of, set, set_markers, set_number, text_of, user_has_set, user_has_switched_on,
};
use crate::settings::variables::{
    GC_dont_gc, GC_find_leak, GC_free_space_divisor, GC_full_freq, GC_time_limit,
    GC_use_entire_heap,
};
use crate::unsupported::{self, Feature};

/// Bytes that the heap has at first, for `GC_init`.
static INITIAL_HEAP: AtomicUsize = AtomicUsize::new(0);

pub fn initial_heap() -> usize {
    INITIAL_HEAP.load(Relaxed)
}

/// The limit that was set last, so that one which the core refuses is told of once.
static MAXIMUM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Those that the program can set too, by a call or in a variable: what it set before the start
/// gives way, as in libgc, whose start reads them.
pub fn override_program() {
    if let Some(size) = Number::MaximumHeapSize.of_environment()
        && !user_has_set(c"NEAP_MAX_HEAP")
        && MAXIMUM.swap(size, Relaxed) != size
    {
        set_number(b"max_heap", size);
    }
    if let Some(divisor) = Number::FreeSpaceDivisor.of_environment() {
        GC_set_free_space_divisor(divisor);
    }
    if let Some(milliseconds) = Number::PauseTimeTarget.of_environment() {
        incremental::GC_set_time_limit(milliseconds as c_ulong);
    }
    if let Some(frequency) = Number::FullFrequency.of_environment() {
        incremental::GC_set_full_freq(frequency as c_int);
    }
    override_variables();
}

/// The same for what the program can assign to. Called as the collector starts, whoever starts it:
/// allocates nothing and sets no options, which the setters have done.
pub fn override_variables() {
    for (what, variable) in [
        (Number::FreeSpaceDivisor, &GC_free_space_divisor),
        (Number::PauseTimeTarget, &GC_time_limit),
    ] {
        if let Some(number) = what.of_environment() {
            variable.store(number, Relaxed);
        }
    }
    if let Some(frequency) = Number::FullFrequency.of_environment() {
        GC_full_freq.store(frequency as c_int, Relaxed);
    }
    if user_has_set(c"GC_DONT_GC") {
        GC_dont_gc.store(1, Relaxed);
    }
    if user_has_set(c"GC_FIND_LEAK") {
        GC_find_leak.store(1, Relaxed);
    }
    for (name, set) in SWITCHES {
        if user_has_set(name) {
            set(user_has_switched_on(name).into());
        }
    }
}

/// Those of which 0 means off.
const SWITCHES: [(&CStr, extern "C" fn(c_int)); 2] = [
    (c"GC_FORCE_UNMAP_ON_GCOLLECT", GC_set_force_unmap_on_gcollect),
    (c"GC_USE_ENTIRE_HEAP", use_entire_heap),
];

extern "C" fn use_entire_heap(value: c_int) {
    GC_use_entire_heap.store(value, Relaxed);
}

/// Reads all of them.
pub fn apply() {
    for number in Number::ALL {
        // Complains about what is no number, once.
        bytes_of(number.name());
    }
    override_program();
    if let Some(size) = bytes_of(c"GC_INITIAL_HEAP_SIZE") {
        INITIAL_HEAP.store(size, Relaxed);
    }
    for name in [c"GC_MARKERS", c"GC_NPROCS"] {
        if let Some(count) = bytes_of(name).filter(|&count| count > 0) {
            if !user_has_set(c"NEAP_MARKERS") {
                set_markers(count);
            }
            break;
        }
    }
    if user_has_set(c"GC_FINDLEAK_DELAY_FREE") {
        freed_later::delay();
    }
    if user_has_set(c"GC_DUMP_REGULARLY") {
        regular::ask(Regular::Dump);
    }
    if user_has_set(c"GC_PRINT_ADDRESS_MAP") {
        regular::ask(Regular::AddressMap);
    }
    if user_has_set(c"GC_PRINT_BACK_HEIGHT") {
        regular::ask(Regular::BackHeight);
    }
    match bytes_of(c"GC_UNMAP_THRESHOLD") {
        Some(0) => memory::keep_all(),
        Some(cycles) if !user_has_set(c"NEAP_DECAY") && !user_has_set(c"NEAP_DECAY_CYCLES") => {
            set_number(b"decay_cycles", cycles.min(memory::MOST_CYCLES));
        }
        _ => {}
    }
    if text_of(c"GC_TRACE").is_some() {
        unsupported::say_once(Feature::Trace);
    }
    let wants_statistics =
        user_has_set(c"GC_PRINT_STATS") || user_has_set(c"GC_PRINT_VERBOSE_STATS");
    if wants_statistics && !user_has_set(c"NEAP_LOG") && !user_has_set(c"GC_LOG_FILE") {
        set(b"log", b"cycles");
    }
    if user_has_set(c"GC_ABORT_ON_LEAK") {
        smashed::ABORT.store(true, Relaxed);
    }
    if let Some(file) = text_of(c"GC_LOG_FILE") {
        output::log_to(file, user_has_set(c"GC_ONLY_LOG_TO_FILE"));
        // The core's own lines go to standard error.
        if wants_statistics {
            regular::ask(Regular::Log);
        }
    }
    if user_has_set(c"GC_LOOP_ON_ABORT") {
        failure::loop_on_abort();
    }
    apply_incremental();
}

fn apply_incremental() {
    if user_has_set(c"GC_DISABLE_INCREMENTAL") {
        incremental::FORBIDDEN.store(true, Relaxed);
    }
    if user_has_set(c"GC_ENABLE_INCREMENTAL") {
        incremental::enable();
    }
}
