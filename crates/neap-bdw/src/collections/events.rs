//! A collection as the program sees it: what is carried over before it, the callbacks during it,
//! and what follows it.
//!
//! Invariant: between stop and resume only the program's callbacks run, and these may not allocate.
//! What comes before a stop and `CycleEnd` come with the world running, the latter with nothing
//! locked, on the thread that caused the collection.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::{collect, freed, memory, pacing, world_stopped};
use crate::core_api::program_call::{self, Lost};
use crate::core_api::{self as api, CycleEvent, functions::AtomicFunction, toggle};
use crate::debugging::{freed_later, header, regular, smashed};
use crate::kinds::{disclaim, mark_pushes};
use crate::references::toggle as togglerefs;
use crate::references::{finalize, many};
use crate::roots;
use crate::settings::carry_over::carry_over;
use crate::settings::variables::{
    GC_find_leak, GC_gc_no, GC_on_heap_resize, callback_accessors, publish_heap_range,
};
use crate::{suspension, threads};

/// Collections at the last one's end.
static CYCLES: AtomicUsize = AtomicUsize::new(0);

type EventFunction = extern "C" fn(c_int);
type StartFunction = extern "C" fn();
static EVENT_CALLBACK: AtomicFunction<EventFunction> = AtomicFunction::none();
static START_CALLBACK: AtomicFunction<StartFunction> = AtomicFunction::none();

callback_accessors! {
    GC_set_on_collection_event, GC_get_on_collection_event: EventFunction => EVENT_CALLBACK;
    GC_set_start_callback, GC_get_start_callback: StartFunction => START_CALLBACK;
}

/// Events of `gc.h`, by their values there.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Event {
    Start = 0,
    MarkStart,
    MarkEnd,
    ReclaimStart,
    ReclaimEnd,
    End,
    PreStopWorld,
    PostStopWorld,
    PreStartWorld,
    PostStartWorld,
}

fn tell(event: Event) {
    if let Some(callback) = EVENT_CALLBACK.get() {
        let words = [event as usize, 0, 0, 0];
        // SAFETY: the program's, for this.
        unsafe { program_call::call("event callback", Lost::Nothing, callback as usize, words) };
    }
}

/// The core's event callback.
pub unsafe extern "C" fn on_cycle_event(event: CycleEvent) {
    match event {
        CycleEvent::CycleStart => tell(Event::Start),
        CycleEvent::BeforeStop => tell(Event::PreStopWorld),
        CycleEvent::Stopped => {
            world_stopped::set(true);
            tell(Event::PostStopWorld);
        }
        CycleEvent::MarkStart => {
            publish_heap_range();
            tell(Event::MarkStart);
        }
        CycleEvent::MarkEnd => {
            header::look_for_leaks();
            smashed::look();
            freed_later::look();
            tell(Event::MarkEnd);
        }
        CycleEvent::BeforeResume => {
            tell(Event::PreStartWorld);
            world_stopped::set(false);
        }
        CycleEvent::Resumed => tell(Event::PostStartWorld),
        CycleEvent::CycleEnd => after_collection(),
    }
}

/// The core is about to have the world stopped for roots, for the first time in its cycle or not:
/// what is true of roots by then counts. What the program does before it names some of its own, as
/// to take a lock that it lets go there, it does each time.
pub fn before_roots(is_first: bool) {
    roots::apply_no_dls();
    roots::apply_static_roots_callback();
    toggle::ask();
    if (is_first || roots::has_callbacks())
        && let Some(callback) = START_CALLBACK.get()
    {
        let what = "callback for a collection's start";
        // SAFETY: the program's, for this.
        unsafe { program_call::call(what, Lost::Nothing, callback as usize, [0; 4]) };
    }
}

fn after_collection() {
    carry_over();
    let cycles = api::cycles() as usize;
    let is_new = CYCLES.swap(cycles, AcqRel) != cycles;
    GC_gc_no.store(cycles, Relaxed);
    // Memory is reclaimed as it is asked for again; for the program it is done now.
    tell(Event::ReclaimStart);
    tell(Event::ReclaimEnd);
    tell(Event::End);
    // What was given up collected nothing.
    if !is_new {
        return;
    }
    if header::report_leaks() | smashed::report() | freed_later::report() {
        smashed::abort_if_wanted();
    }
    freed::after_collection();
    pacing::after_collection();
    regular::after_collection();
    disclaim::ask_for_all();
    finalize::after_collection();
}

/// The core asks before an automatic collection: the program's stop function may object, or it
/// wants collections to come later. Where memory was refused neither counts, as gc.h says. Asked on
/// the collector's own thread too, which hands over nothing: the program's do.
pub extern "C" fn may_collect(for_memory: bool) -> bool {
    if api::is_thread_attached() {
        carry_over();
    }
    for_memory || !(collect::default_stop_function_objects() || pacing::puts_off())
}

/// Whether a function that the program set is called before, in or about a collection: then no
/// collection runs on a thread that is not the program's. Functions that mark objects are the
/// core's to know.
pub fn program_takes_part() -> bool {
    EVENT_CALLBACK.is_set()
        || START_CALLBACK.is_set()
        || collect::has_stop_function()
        || roots::has_callbacks()
        || togglerefs::has_callback()
        || mark_pushes::has_callback()
        || threads::has_sp_corrector()
        || suspension::has_callback()
        || GC_find_leak.load(Relaxed) != 0
        || header::is_used()
}

/// The heap has grown to so many bytes.
pub extern "C" fn on_heap_resize(bytes: usize) {
    publish_heap_range();
    memory::tell_obtained(bytes);
    many::heap_has_grown();
    if let Some(callback) = GC_on_heap_resize.get() {
        callback(bytes);
    }
}
