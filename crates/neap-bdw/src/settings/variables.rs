//! Exported data symbols that programs read and write directly, and their setters and getters.
//!
//! Invariant: the variable is the only copy of a setting, because programs assign to it without
//! calling anything; whoever needs it reads it at the moment of use. Those that configure the core
//! are handed over where collections are decided about (`carry_over.rs`). Written by any thread,
//! unsynchronised, as `gc.h` allows.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

use crate::core_api::{self as api, functions::AtomicFunction};

pub type Notifier = extern "C" fn();
pub type HeapResizeFunction = extern "C" fn(usize);

/// Exported variables. Those whose first value is a function stand beside that function.
macro_rules! variables {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$meta])* #[unsafe(no_mangle)] pub static $name: $type = $value;)*
    };
}

variables! {
    /// Number of collections so far.
    GC_gc_no: AtomicUsize = AtomicUsize::new(0);
    /// Marking threads beside the one that collects.
    GC_parallel: AtomicI32 = AtomicI32::new(0);
    GC_on_heap_resize: AtomicFunction<HeapResizeFunction> = AtomicFunction::none();
    GC_find_leak: AtomicI32 = AtomicI32::new(0);
    /// Interior pointers always count, whatever the value; zero saves the byte past the end.
    GC_all_interior_pointers: AtomicI32 = AtomicI32::new(1);
    GC_finalize_on_demand: AtomicI32 = AtomicI32::new(0);
    /// Unordered finalizers work whatever the value.
    GC_java_finalization: AtomicI32 = AtomicI32::new(1);
    GC_finalizer_notifier: AtomicFunction<Notifier> = AtomicFunction::none();
    /// Non-zero: collections are disabled.
    GC_dont_gc: AtomicI32 = AtomicI32::new(0);
    GC_dont_expand: AtomicI32 = AtomicI32::new(0);
    GC_use_entire_heap: AtomicI32 = AtomicI32::new(0);
    GC_full_freq: AtomicI32 = AtomicI32::new(19);
    GC_non_gc_bytes: AtomicUsize = AtomicUsize::new(0);
    /// Non-zero: the data segments of loaded objects are no roots.
    GC_no_dls: AtomicI32 = AtomicI32::new(0);
    GC_free_space_divisor: AtomicUsize = AtomicUsize::new(3);
    GC_max_retries: AtomicUsize = AtomicUsize::new(0);
    /// Highest address of the main thread's stack; a program that switches stacks writes it, and
    /// the core reads it at each stop.
    GC_stackbottom: AtomicUsize = AtomicUsize::new(0);
    GC_dont_precollect: AtomicI32 = AtomicI32::new(0);
    GC_time_limit: AtomicUsize = AtomicUsize::new(999_999);
    /// Bounds that every object's address lies in. As wide as can be until the heap's range is
    /// known.
    GC_least_plausible_heap_addr: AtomicUsize = AtomicUsize::new(1);
    GC_greatest_plausible_heap_addr: AtomicUsize = AtomicUsize::new(usize::MAX);
    /// Kind numbers of `gc_gcj.h`; 0 until `GC_init_gcj_malloc`.
    GC_gcj_kind: AtomicI32 = AtomicI32::new(0);
    GC_gcj_debug_kind: AtomicI32 = AtomicI32::new(0);
}

/// A setter and a getter over one of the variables above, or over a private one.
macro_rules! accessors {
    ($($setter:ident, $getter:ident: $type:ty => $variable:path;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $setter(value: $type) {
                $variable.store(value as _, core::sync::atomic::Ordering::Relaxed);
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn $getter() -> $type {
                $variable.load(core::sync::atomic::Ordering::Relaxed) as $type
            }
        )*
    };
}

/// As `accessors`, for callbacks; null for none.
macro_rules! callback_accessors {
    ($($setter:ident, $getter:ident: $type:ty => $variable:path;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $setter(callback: Option<$type>) {
                $variable.set(callback);
            }
            #[unsafe(no_mangle)]
            pub extern "C" fn $getter() -> Option<$type> {
                $variable.get()
            }
        )*
    };
}
pub(crate) use {accessors, callback_accessors, variables};

accessors! {
    GC_set_java_finalization, GC_get_java_finalization: c_int => GC_java_finalization;
    GC_set_non_gc_bytes, GC_get_non_gc_bytes: usize => GC_non_gc_bytes;
    GC_set_dont_precollect, GC_get_dont_precollect: c_int => GC_dont_precollect;
}

/// More collections than one before an allocation is refused.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_max_retries(retries: usize) {
    GC_max_retries.store(retries, Relaxed);
    carry_over();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_max_retries() -> usize {
    GC_max_retries.load(Relaxed)
}

/// Hands to the core how often to try, which the program may have written.
pub fn carry_over() {
    api::embedding::set_retries(GC_max_retries.load(Relaxed));
}

callback_accessors! {
    GC_set_on_heap_resize, GC_get_on_heap_resize: HeapResizeFunction => GC_on_heap_resize;
    GC_set_finalizer_notifier, GC_get_finalizer_notifier: Notifier => GC_finalizer_notifier;
}

/// Narrows the bounds that `GC_MARK_AND_PUSH` compares with. Also called world stopped, before
/// marking.
pub fn publish_heap_range() {
    let range = api::heap_range();
    if !range.is_empty() {
        GC_least_plausible_heap_addr.store(range.start, Relaxed);
        GC_greatest_plausible_heap_addr.store(range.end, Relaxed);
    }
}
