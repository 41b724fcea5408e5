//! Finalizers of the ABI: registration in the four orders, and when they run.
//!
//! Invariant: finalizers run on a thread of the program, with no lock held: after a collection on
//! the thread that caused it, unless `GC_finalize_on_demand` is set, in `GC_invoke_finalizers`
//! otherwise. Automatic runs do not nest on a thread.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use crate::core_api::{
    self as api,
    finalizer::{self, Finalizer, Order},
    functions::AtomicFunction,
    held_for_ever,
};
use crate::failure::{die, warn};
use crate::references::{many, running};
use crate::settings::variables::{
    GC_finalize_on_demand, GC_finalizer_notifier, GC_find_leak, GC_gc_no, accessors,
};

pub type GC_finalization_proc = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// Registers (or with a null function removes) for the object that starts at `object`; stores the
/// former function and data where asked to. False where there was no memory for it, or in the
/// leak-finding mode, which has no finalizers: nothing has changed then, the caller's variables
/// included.
pub fn register(
    object: *mut c_void,
    function: Option<GC_finalization_proc>,
    data: *mut c_void,
    old_function: *mut Option<GC_finalization_proc>,
    old_data: *mut *mut c_void,
    order: Order,
) -> bool {
    if GC_find_leak.load(Relaxed) != 0 {
        return false;
    }
    // What is not collected is never finalized: gc.h has such calls do nothing.
    let former = match api::object_at(object as usize) {
        None => None,
        Some(info) => {
            let new = function.map(|function| Finalizer { function, data, order });
            match finalizer::set(info.start.as_ptr() as usize, new) {
                Ok(former) => {
                    many::count(isize::from(function.is_some()) - isize::from(former.is_some()));
                    former
                }
                Err(_) => {
                    warn(
                        c"neap: no memory to register a finalizer for 0x%lx\n".as_ptr(),
                        object as usize,
                    );
                    return false;
                }
            }
        }
    };
    // SAFETY: variables of the caller where they are not null, says gc.h.
    unsafe {
        if let Some(variable) = old_function.as_mut() {
            *variable = former.map(|former| former.function);
        }
        if let Some(variable) = old_data.as_mut() {
            *variable = former.map_or(core::ptr::null_mut(), |former| former.data);
        }
    }
    true
}

macro_rules! registrations {
    ($($(#[$meta:meta])* $name:ident: $order:expr;)*) => {
        $(
            $(#[$meta])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                object: *mut c_void,
                function: Option<GC_finalization_proc>,
                data: *mut c_void,
                old_function: *mut Option<GC_finalization_proc>,
                old_data: *mut *mut c_void,
            ) {
                register(object, function, data, old_function, old_data, $order);
            }
        )*
    };
}

registrations! {
    /// Not while another finalizable object reaches it.
    GC_register_finalizer: Order::Topological;
    /// As above; pointers from the object to itself do not count.
    GC_register_finalizer_ignore_self: Order::IgnoreSelf;
    /// As soon as it is unreachable, cycles or not.
    GC_register_finalizer_no_order: Order::NoOrder;
    /// Not while any other finalizable object reaches it, unordered ones included.
    GC_register_finalizer_unreachable: Order::Unreachable;
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_should_invoke_finalizers() -> c_int {
    (finalizer::ready() != 0).into()
}

/// Finalizers that run at once at most; 0: all.
static AT_ONCE: AtomicU32 = AtomicU32::new(0);
accessors! {
    GC_set_interrupt_finalizers, GC_get_interrupt_finalizers: u32 => AT_ONCE;
}

/// Runs what is ready on this thread, as far as the program wants it at once; gives how many ran.
#[unsafe(no_mangle)]
pub extern "C" fn GC_invoke_finalizers() -> c_int {
    let ran = match AT_ONCE.load(Relaxed) {
        0 => finalizer::run_ready(),
        most => finalizer::run_ready_at_most(most as usize),
    };
    ran as c_int
}

/// Runs all finalizers, those of live objects too: for the end of a program. From here on all run
/// at once, says gc.h.
#[unsafe(no_mangle)]
pub extern "C" fn GC_finalize_all() {
    AT_ONCE.store(0, Relaxed);
    while api::make_all_finalizers_ready() + finalizer::ready() > 0 {
        finalizer::run_ready();
    }
}

/// The collection that the notifier was last called for.
static NOTIFIED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Warns, in libgc's words, of objects that the order of their finalizers keeps for ever.
fn warn_of_cycles() {
    loop {
        match held_for_ever::take() {
            0 => break,
            object => warn(c"GC Warning: Finalization cycle involving %p\n".as_ptr(), object),
        }
    }
}

/// After a collection, on the thread that caused it: warns, and runs what is ready, or tells the
/// program that it should.
pub fn after_collection() {
    if held_for_ever::are_any() {
        running::unless_within(warn_of_cycles);
    }
    let ready = finalizer::ready();
    many::after_collection(ready != 0);
    if ready == 0 {
        return;
    }
    if GC_finalize_on_demand.load(Relaxed) == 0 {
        run_automatically();
        return;
    }
    running::unless_within(finalizer::tell_ready);
    let collection = GC_gc_no.load(Relaxed);
    if let Some(notifier) = GC_finalizer_notifier.get()
        && NOTIFIED.swap(collection, Relaxed) != collection
    {
        notifier();
    }
}

/// Runs what is ready, each when it was told of.
fn run_automatically() {
    running::unless_within(|| _ = GC_invoke_finalizers());
}

/// Something was ready when the program said that it wants to run nothing itself any more.
static IS_LEFT: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_finalize_on_demand(on_demand: c_int) {
    GC_finalize_on_demand.store(on_demand, Relaxed);
    if on_demand == 0 && finalizer::ready() != 0 {
        // An allocation runs it, as in libgc, and not only the next collection.
        IS_LEFT.store(true, Release);
        api::embedding::call_after_cycle_later();
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_finalize_on_demand() -> c_int {
    GC_finalize_on_demand.load(Relaxed)
}

/// The core's callback behind a cycle's end: runs what the program has left.
pub unsafe extern "C" fn run_left() {
    if IS_LEFT.load(Relaxed)
        && IS_LEFT.swap(false, Acquire)
        && GC_finalize_on_demand.load(Relaxed) == 0
    {
        run_automatically();
    }
}

static AWAIT_PROCEDURE: AtomicFunction<finalizer::ReadyObserver> = AtomicFunction::none();

/// Told of each object that is queued for finalization, after the collection and before the
/// finalizer runs: on the thread that caused the collection, or one that runs finalizers sooner.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_await_finalize_proc(procedure: Option<finalizer::ReadyObserver>) {
    AWAIT_PROCEDURE.set(procedure);
    finalizer::set_ready_observer(procedure);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_await_finalize_proc() -> Option<finalizer::ReadyObserver> {
    AWAIT_PROCEDURE.get()
}

/// Ends the program where it names an object that is none.
pub fn object_start(function: &str, pointer: *const c_void) -> usize {
    match api::object_at(pointer as usize) {
        Some(info) => info.start.as_ptr() as usize,
        None => die(format_args!(
            "{function}({pointer:p}): no object of this collector; pass a pointer into one"
        )),
    }
}
