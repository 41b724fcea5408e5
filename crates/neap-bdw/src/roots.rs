//! Roots: ranges, exclusions, what loaded objects contribute, and the program's own root procedure.
//!
//! Invariant: `GC_push_other_roots` is read in every cycle, because programs assign to the
//! variable. `run_root_callback` runs world stopped and takes no lock; the rest is called from any
//! thread.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::fn_addr_eq;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::core_api::program_call::{self, Lost};
use crate::core_api::{self as api, Tracer, functions::AtomicFunction};
use crate::kinds::mark_procs;
use crate::settings::variables::{GC_no_dls, callback_accessors, variables};

#[unsafe(no_mangle)]
pub extern "C" fn GC_add_roots(low: *mut c_void, high: *mut c_void) {
    if low < high {
        api::add_roots(low as usize..high as usize);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_remove_roots(low: *mut c_void, high: *mut c_void) {
    if low < high {
        api::remove_whole_roots(low as usize..high as usize);
    }
}

/// Forgets added roots. Data segments stay roots unless `GC_no_dls` is set too, as in Boehm's
/// collector on this system.
#[unsafe(no_mangle)]
pub extern "C" fn GC_clear_roots() {
    api::clear_roots();
}

/// Also of what is added, before or later, as in Boehm's collector.
#[unsafe(no_mangle)]
pub extern "C" fn GC_exclude_static_roots(low: *mut c_void, high: *mut c_void) {
    if low < high {
        api::bar_roots(low as usize..high as usize);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_clear_exclusion_table() {
    api::clear_bars();
}

/// Nothing is registered as a temporary root here: data segments are looked up anew in each cycle.
#[unsafe(no_mangle)]
pub extern "C" fn GC_is_tmp_root(pointer: *mut c_void) -> c_int {
    (GC_no_dls.load(Relaxed) == 0 && segment_of(pointer as usize).is_some()).into()
}

/// The last value of `GC_no_dls` that the core knows.
static NO_DLS_APPLIED: AtomicI32 = AtomicI32::new(0);

/// Tells the core whether data segments are roots, if that changed.
pub fn apply_no_dls() {
    let now = GC_no_dls.load(Relaxed);
    if NO_DLS_APPLIED.swap(now, Relaxed) != now {
        api::set_static_roots(now == 0);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_no_dls(value: c_int) {
    GC_no_dls.store(value, Relaxed);
    // It may come before `GC_init`, and does not start the collector.
    if api::is_initialized() {
        apply_no_dls();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_no_dls() -> c_int {
    GC_no_dls.load(Relaxed)
}

type PushRoots = extern "C" fn();

variables! {
    GC_push_other_roots: AtomicFunction<PushRoots> = AtomicFunction::new(push_no_other_roots);
}

callback_accessors! {
    GC_set_push_other_roots, GC_get_push_other_roots: PushRoots => GC_push_other_roots;
}

/// What `GC_push_other_roots` is at first: there are none.
pub extern "C" fn push_no_other_roots() {}
const NO_OTHER_ROOTS: PushRoots = push_no_other_roots;

/// The core's root callback.
pub unsafe extern "C" fn run_root_callback(tracer: &mut Tracer<'_>) {
    if let Some(procedure) = GC_push_other_roots.get() {
        mark_procs::with_root_tracer(tracer, || {
            // SAFETY: a function without arguments.
            unsafe {
                program_call::call("GC_push_other_roots", Lost::Roots, procedure as usize, [0; 4])
            };
        });
    }
}

/// Whether the program has a function that names roots, or one that chooses among the static ones,
/// or has just said whether there are static ones.
pub fn has_callbacks() -> bool {
    let is_the_programs = |procedure: PushRoots| !fn_addr_eq(procedure, NO_OTHER_ROOTS);
    HAS_STATIC_ROOTS.is_set()
        || GC_no_dls.load(Relaxed) != NO_DLS_APPLIED.load(Relaxed)
        || GC_push_other_roots.get().is_some_and(is_the_programs)
}

/// Opens a library. Loaded while a collection runs is as good as any other time: segments are
/// looked up anew in each.
#[unsafe(no_mangle)]
pub extern "C" fn GC_dlopen(path: *const c_char, mode: c_int) -> *mut c_void {
    // SAFETY: as dlopen(3).
    unsafe { libc::dlopen(path, mode) }
}

type HasStaticRoots = unsafe extern "C" fn(*const c_char, *mut c_void, usize) -> c_int;
/// The program's say on each loaded object's data.
static HAS_STATIC_ROOTS: AtomicFunction<HasStaticRoots> = AtomicFunction::none();

/// Asks the program about each loaded object's writable segments before each collection; null: no
/// more, and all of them are roots.
#[unsafe(no_mangle)]
pub extern "C" fn GC_register_has_static_roots_callback(callback: Option<HasStaticRoots>) {
    HAS_STATIC_ROOTS.set(callback);
    if callback.is_none() && api::is_initialized() {
        api::Answers::new().give();
    }
}

/// Excludes the segments that the program does not want scanned in this collection. World running,
/// before it.
pub fn apply_static_roots_callback() {
    let Some(callback) = HAS_STATIC_ROOTS.get() else { return };
    let mut answers = api::Answers::new();
    each_writable_segment(&mut |segment| {
        let range = &segment.range;
        let words = [segment.name as usize, range.start, range.len(), 0];
        let what = "callback for static roots";
        // SAFETY: the program's function; name and range are the loaded object's.
        let wanted = unsafe { program_call::call(what, Lost::Nothing, callback as usize, words) };
        if wanted.is_some_and(|wanted| wanted as c_int == 0) {
            answers.refuse(range, segment.loads);
        }
        true
    });
    answers.give();
    if !HAS_STATIC_ROOTS.is_set() {
        // Taken back meanwhile.
        api::Answers::new().give();
    }
}

/// The writable segment of a loaded object that an address lies in.
fn segment_of(address: usize) -> Option<core::ops::Range<usize>> {
    let mut found = None;
    each_writable_segment(&mut |segment| {
        if segment.range.contains(&address) {
            found = Some(segment.range);
        }
        found.is_none()
    });
    found
}

/// A writable segment of a loaded object.
struct Segment {
    /// The object's.
    name: *const c_char,
    range: core::ops::Range<usize>,
    /// How many objects were ever loaded.
    loads: u64,
}

type Visit<'a> = &'a mut dyn FnMut(Segment) -> bool;

/// Calls `visit` with each loaded object's writable segments until it answers false.
fn each_writable_segment(mut visit: Visit<'_>) {
    unsafe extern "C" fn step(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        visit: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr gives a valid description, and `visit` is what was passed below.
        let (info, visit) = unsafe { (&*info, &mut *visit.cast::<Visit<'_>>()) };
        for index in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: there are dlpi_phnum headers.
            let header = unsafe { &*info.dlpi_phdr.add(index) };
            if header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W != 0 {
                let start = (info.dlpi_addr + header.p_vaddr) as usize;
                let range = start..start + header.p_memsz as usize;
                if !visit(Segment { name: info.dlpi_name, range, loads: info.dlpi_adds }) {
                    return 1;
                }
            }
        }
        0
    }
    // SAFETY: the callback matches, and its argument lives through the call.
    unsafe { libc::dl_iterate_phdr(Some(step), (&raw mut visit).cast()) };
}
