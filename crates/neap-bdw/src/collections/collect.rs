//! Asking for collections, forbidding them, and the size of the heap.
//!
//! Invariant: `GC_dont_gc` counts `GC_disable` calls that `GC_enable` has not undone; while it is
//! not 0 nothing collects, however it got that value, and the core counts no calls itself. Called
//! from any thread.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering::*};

use crate::collections::memory;
use crate::core_api::{self as api, functions::AtomicFunction};
use crate::settings::carry_over::carry_over;
use crate::settings::environment::{self, Number};
use crate::settings::variables::{GC_dont_gc, GC_find_leak, accessors};

type StopFunction = extern "C" fn() -> c_int;

extern "C" fn never_stop() -> c_int {
    0
}

/// The default stop function; none: nothing stops a collection.
static STOP_FUNCTION: AtomicFunction<StopFunction> = AtomicFunction::none();

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_stop_func(function: Option<StopFunction>) {
    STOP_FUNCTION.set(function);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_stop_func() -> StopFunction {
    STOP_FUNCTION.get().unwrap_or(never_stop)
}

fn objects(function: Option<StopFunction>) -> bool {
    function.is_some_and(|function| function() != 0)
}

/// Whether the program has set a stop function.
pub fn has_stop_function() -> bool {
    STOP_FUNCTION.is_set()
}

/// Whether the default stop function says no.
pub fn default_stop_function_objects() -> bool {
    objects(STOP_FUNCTION.get())
}

/// Starts the collector, and hands over what the program has written.
fn begin() {
    api::initialize();
    carry_over();
}

/// One answer of the stop function, before the collection, decides: a collection that began is
/// finished, as pauses are short. Starts the collector whether or not it may collect.
#[unsafe(no_mangle)]
pub extern "C" fn GC_try_to_collect(stop_function: Option<StopFunction>) -> c_int {
    begin();
    if GC_dont_gc.load(Relaxed) != 0 || objects(stop_function) {
        return 0;
    }
    api::collect().into()
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_gcollect() {
    begin();
    if FORCE_UNMAP.load(Relaxed) != 0 && !memory::keeps_all() {
        if GC_dont_gc.load(Relaxed) == 0 && !default_stop_function_objects() {
            api::collect_and_release();
        }
    } else {
        GC_try_to_collect(STOP_FUNCTION.get());
    }
}

/// Ignores the stop function, as gc.h says.
#[unsafe(no_mangle)]
pub extern "C" fn GC_gcollect_and_unmap() {
    begin();
    if GC_dont_gc.load(Relaxed) != 0 {
        return;
    }
    if memory::keeps_all() {
        api::collect();
    } else {
        api::collect_and_release();
    }
}

/// Collects if a collection is due. A collection is one piece of work here, so there is never more
/// to do: 0.
#[unsafe(no_mangle)]
pub extern "C" fn GC_collect_a_little() -> c_int {
    api::initialize();
    if GC_dont_gc.load(Relaxed) == 0 {
        api::collect_if_due();
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_disable() {
    GC_dont_gc.fetch_add(1, SeqCst);
    api::embedding::settle_disabled();
}

/// As `GC_disable`, and the collection under way, if there is one, has ended on return.
#[unsafe(no_mangle)]
pub extern "C" fn GC_finish_and_disable() {
    api::embedding::finish_and_disable();
    GC_dont_gc.fetch_add(1, SeqCst);
    api::enable();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_enable() {
    GC_dont_gc.fetch_sub(1, SeqCst);
    api::embedding::tell_enabled();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_disabled() -> c_int {
    (GC_dont_gc.load(Relaxed) != 0).into()
}

/// 0: unlimited. A limit that the user set with `NEAP_MAX_HEAP` stands.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_max_heap_size(bytes: usize) {
    if !environment::user_has_set(c"NEAP_MAX_HEAP") {
        api::set_max_heap(Number::MaximumHeapSize.overriding().unwrap_or(bytes));
    }
}

static FORCE_UNMAP: AtomicI32 = AtomicI32::new(0);
static AUTOMATIC_OFF: AtomicI32 = AtomicI32::new(0);

accessors! {
    GC_set_force_unmap_on_gcollect, GC_get_force_unmap_on_gcollect: c_int => FORCE_UNMAP;
    GC_set_find_leak, GC_get_find_leak: c_int => GC_find_leak;
}

/// Non-zero: only `GC_gcollect` and the like collect.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_disable_automatic_collection(value: c_int) {
    AUTOMATIC_OFF.store(value, Relaxed);
    api::set_automatic(value == 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_disable_automatic_collection() -> c_int {
    AUTOMATIC_OFF.load(Relaxed)
}

/// In leak-finding mode: looks once more at the program's end, as gc.h says.
pub fn find_leaks_at_exit() {
    extern "C" fn look() {
        if GC_find_leak.load(Relaxed) != 0 {
            GC_gcollect();
        }
    }
    if GC_find_leak.load(Relaxed) != 0 {
        // SAFETY: a function of the right type that stays loaded.
        unsafe { libc::atexit(look) };
    }
}
