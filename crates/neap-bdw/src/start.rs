//! Start-up: what happens when the library is loaded, and what in `GC_init`.
//!
//! Invariant: callbacks are installed and `GC_*` variables read before any code of the program
//! runs, so that a program which never calls `GC_init` finds everything in place at its first
//! allocation. Loading does not initialise the heap.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::*};

use crate::collections::pacing::GC_expand_hp;
use crate::collections::{collect, events, incremental, memory};
use crate::core_api as api;
use crate::debugging::{output, regular};
#[cfg(not(test))]
use crate::interposed::kernel_writes;
use crate::references::finalize;
use crate::settings::variables::{GC_dont_gc, GC_stackbottom, publish_heap_range};
use crate::settings::{apply_environment, carry_over, environment, interior_pointers};
use crate::{alloc, failure, roots, threads};

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array.00000")]
static ON_LOAD: extern "C" fn() = on_load;

/// Called by the dynamic loader, before the program's own constructors.
#[cfg_attr(test, allow(dead_code))]
extern "C" fn on_load() {
    api::on_load();
    output::install();
    #[cfg(not(test))]
    kernel_writes::find();
    api::process_memory::find();
    // As with libgc, whose programs store into small objects through larger, more aligned types
    // (ECL's union of all objects).
    api::align_all_objects();
    environment::begin_past_end();
    api::set_out_of_memory_callback(Some(alloc::out_of_memory));
    api::set_root_callback(Some(roots::run_root_callback));
    api::set_event_callback(Some(events::on_cycle_event));
    api::set_after_cycle(Some(finalize::run_left));
    api::set_warning_callback(Some(warn_from_core));
    api::set_takes_part(events::program_takes_part);
    api::set_before_roots(events::before_roots);
    api::set_cycle_gate(Some(events::may_collect));
    api::embedding::disabled_while(&GC_dont_gc);
    api::set_heap_resize_callback(Some(events::on_heap_resize));
    api::held_for_ever::want();
    api::embedding::set_refusal_callback(Some(memory::tell_refused));
    api::set_main_stack_base_source(&GC_stackbottom);
    api::embedding::set_in_child(in_child);
    api::embedding::set_at_start(apply_environment::override_variables);
    apply_environment::apply();
}

fn in_child() {
    threads::in_child();
}

unsafe extern "C" fn warn_from_core(message: *const core::ffi::c_char, number: usize) {
    // SAFETY: the core's, which ends with a NUL.
    failure::warn_with_number(unsafe { core::ffi::CStr::from_ptr(message) }, number);
}

static DONE: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
pub extern "C" fn GC_init() {
    if !DONE.load(Acquire) {
        // A program may have assigned to the variable.
        interior_pointers::heed_environment();
        // What it sets after the start stands, also where an allocation started the collector.
        if !api::is_initialized() {
            apply_environment::override_program();
        }
    }
    api::initialize();
    carry_over::carry_over();
    if DONE.swap(true, AcqRel) {
        return;
    }
    threads::publish_stackbottom();
    publish_heap_range();
    regular::at_start();
    collect::find_leaks_at_exit();
    let wanted = apply_environment::initial_heap();
    if wanted != 0 && GC_expand_hp(wanted) == 0 {
        failure::warn(c"neap: GC_INITIAL_HEAP_SIZE: no memory for 0x%lx bytes\n".as_ptr(), wanted);
    }
}

/// Initialises, as gc.h says it does. A program that asks for it has mark procedures that go with
/// it: libgc calls them again only for objects on written pages.
#[unsafe(no_mangle)]
pub extern "C" fn GC_enable_incremental() {
    GC_init();
    incremental::enable();
    if incremental::GC_is_incremental_mode() != 0 {
        api::layouts::note_local_functions();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_is_init_called() -> c_int {
    api::is_initialized().into()
}

/// The heap lives as long as the process; objects stay valid for code that runs at exit.
#[unsafe(no_mangle)]
pub extern "C" fn GC_deinit() {}
