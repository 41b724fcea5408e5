//! Threads: creation, registration, blocked regions, where stacks begin; and the pthread functions
//! that this library stands before.
//!
//! Invariant: a thread that the core knows is stopped in every collection unless it is in a blocked
//! region. `pthread_create`, `pthread_sigmask` and `sigprocmask` are exported so that every thread
//! is known from its start and none can block the stop signal.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::collections::world_stopped;
use crate::core_api::embedding::{self, StackCorrector};
use crate::core_api::{self as api, Kind, functions::AtomicFunction};
use crate::settings::environment;
use crate::settings::variables::{GC_parallel, GC_stackbottom};

type ThreadStart = extern "C" fn(*mut c_void) -> *mut c_void;

const SUCCESS: c_int = 0;
const DUPLICATE: c_int = 1;

/// `struct GC_stack_base`.
#[repr(C)]
pub struct GC_stack_base {
    base: *mut c_void,
}

/// What a thread is to run, in an object of its own until it has begun.
struct Begin {
    start: ThreadStart,
    argument: *mut c_void,
}

/// The beginning of a thread that is registered from the start.
extern "C" fn neap_registered_thread_start(begin: *mut c_void) -> *mut c_void {
    // SAFETY: made by `GC_pthread_create` for this thread alone.
    let Begin { start, argument } = unsafe { begin.cast::<Begin>().read() };
    free(begin);
    embedding::announce(true);
    start(argument)
}

/// The thread counts as registered from the start.
#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: ThreadStart,
    argument: *mut c_void,
) -> c_int {
    let object = api::allocate_beside_cycles(size_of::<Begin>(), Kind::Uncollectable);
    let object: *mut c_void = object.cast();
    if object.is_null() {
        return libc::EAGAIN;
    }
    embedding::leave_out_of_stacks(neap_registered_thread_start);
    // SAFETY: as large as it has to be.
    unsafe { object.cast::<Begin>().write(Begin { start, argument }) };
    // SAFETY: as pthread_create(3).
    let made =
        unsafe { api::pthread_create(thread, attributes, neap_registered_thread_start, object) };
    if made != 0 {
        free(object);
    }
    GC_start_mark_threads();
    made
}

fn free(object: *mut c_void) {
    // SAFETY: made by `GC_pthread_create`, and nobody uses it any more.
    let freed = unsafe { api::free(object.cast()) };
    debug_assert!(freed.is_ok());
}

/// Threads that do not know of the collector are known to it all the same, but they do not count
/// as registered: one may register itself, and is to hear that it succeeded.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: ThreadStart,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as pthread_create(3).
    unsafe { api::pthread_create(thread, attributes, start, argument) }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_cancel(thread: libc::pthread_t) -> c_int {
    // SAFETY: as pthread_cancel(3).
    unsafe { libc::pthread_cancel(thread) }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    // SAFETY: as pthread_join(3).
    unsafe { api::thread_results::pthread_join(thread, result) }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_detach(thread: libc::pthread_t) -> c_int {
    // SAFETY: as pthread_detach(3).
    unsafe { api::thread_results::pthread_detach(thread) }
}

neap_core::api::exit_function!(GC_pthread_exit);

#[unsafe(no_mangle)]
pub extern "C" fn GC_pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: as pthread_sigmask(3).
    unsafe { api::pthread_sigmask(how, set, old) }
}

#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    GC_pthread_sigmask(how, set, old)
}

/// sigprocmask(2): as pthread_sigmask(3), but errors come in errno.
#[cfg(not(test))]
#[unsafe(no_mangle)]
pub extern "C" fn sigprocmask(
    how: c_int,
    set: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    match GC_pthread_sigmask(how, set, old) {
        0 => 0,
        error => {
            // SAFETY: the address of this thread's errno.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}

/// Threads may always register.
#[unsafe(no_mangle)]
pub extern "C" fn GC_allow_register_threads() {
    GC_start_mark_threads();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_register_my_thread(base: *const GC_stack_base) -> c_int {
    // SAFETY: a structure of the caller, says gc.h.
    let base = unsafe { (*base).base } as usize;
    // One that is attached already, as it was made or has allocated, keeps the stack that it has.
    api::attach_thread(Some(base));
    announce_first_thread();
    if embedding::announce(true) { SUCCESS } else { DUPLICATE }
}

/// A thread that was not registered is left as it is.
#[unsafe(no_mangle)]
pub extern "C" fn GC_unregister_my_thread() -> c_int {
    announce_first_thread();
    if embedding::announce(false) {
        api::detach_thread();
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_thread_is_registered() -> c_int {
    announce_first_thread();
    embedding::is_announced().into()
}

/// The program's first thread counts as registered from the start, whoever initialised, until it
/// unregisters itself. Whether the calling thread is that one.
fn announce_first_thread() -> bool {
    static DONE: AtomicBool = AtomicBool::new(false);
    let is_main = embedding::is_first_thread();
    if is_main && api::is_thread_attached() && !DONE.swap(true, Relaxed) {
        embedding::announce(true);
    }
    is_main
}

type BaseFunction = unsafe extern "C" fn(*mut GC_stack_base, *mut c_void) -> *mut c_void;

/// Calls the function with the current place on the stack as a base: frames of callers are not
/// scanned if the thread registers with it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn GC_call_with_stack_base(
    function: BaseFunction,
    data: *mut c_void,
) -> *mut c_void {
    let mut base = GC_stack_base { base: core::ptr::null_mut() };
    base.base = (&raw mut base).cast();
    // SAFETY: the program's function with the program's argument. Not a tail call: `base` lives in
    // this frame.
    let result = unsafe { function(&mut base, data) };
    core::hint::black_box(&base);
    result
}

/// Where the thread's own stack begins, whatever it runs on. `GC_UNIMPLEMENTED` where the system
/// does not say.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_stack_base(result: *mut GC_stack_base) -> c_int {
    const UNIMPLEMENTED: c_int = 3;
    let said_last = || api::is_thread_attached().then(api::stack_base);
    let Some(base) = base_from_the_system().or_else(said_last) else { return UNIMPLEMENTED };
    // SAFETY: a structure of the caller, says gc.h.
    unsafe { (*result).base = base as *mut c_void };
    SUCCESS
}

/// The highest address of this thread's stack. Threads that are not registered stay so.
fn base_from_the_system() -> Option<usize> {
    let mut attributes = core::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut bytes) = (core::ptr::null_mut(), 0);
    // SAFETY: pthread_getattr_np fills the attributes unless it fails, and they are destroyed once.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut bytes) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        known.then(|| low as usize + bytes)
    }
}

/// Where the stack begins that the current thread runs on, as the program said last, and a handle
/// for `GC_set_stackbottom`.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_my_stackbottom(result: *mut GC_stack_base) -> *mut c_void {
    let said = if embedding::is_first_thread() { GC_stackbottom.load(Relaxed) } else { 0 };
    let base = if said != 0 { said } else { api::stack_base() };
    // SAFETY: a structure of the caller, says gc.h.
    unsafe { (*result).base = base as *mut c_void };
    this_thread() as *mut c_void
}

fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// Where the stack begins that a thread runs on now, the current one if the handle is null. With
/// the allocation lock, or in a root procedure. Nothing happens to a thread that has ended.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_stackbottom(handle: *mut c_void, base: *const GC_stack_base) {
    // SAFETY: a structure of the caller, says gc.h.
    let base = unsafe { (*base).base } as usize;
    let handle = handle as usize;
    // Before the start there is the variable only.
    let is_main = if !api::is_initialized() {
        embedding::is_first_thread()
    } else if handle != 0 && handle != this_thread() {
        embedding::set_stack_base_of(handle, base) == Some(true)
    } else {
        api::set_stack_base(base);
        embedding::is_first_thread()
    };
    if is_main {
        GC_stackbottom.store(base, Relaxed);
    }
}

/// Shows programs where the main thread's stack begins. On the thread that initialises, which is
/// registered by that.
pub fn publish_stackbottom() {
    let is_main = announce_first_thread();
    embedding::announce(true);
    if is_main && GC_stackbottom.load(Relaxed) == 0 {
        GC_stackbottom.store(api::stack_base(), Relaxed);
    }
}

type ThreadFunction = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// Collections do not wait for the function, and it must not touch the heap.
#[unsafe(no_mangle)]
pub extern "C" fn GC_do_blocking(function: ThreadFunction, data: *mut c_void) -> *mut c_void {
    // SAFETY: the program's function with the program's argument.
    api::blocked(|| unsafe { function(data) })
}

/// Inside `GC_do_blocking`: the function may touch the heap again.
#[unsafe(no_mangle)]
pub extern "C" fn GC_call_with_gc_active(
    function: ThreadFunction,
    data: *mut c_void,
) -> *mut c_void {
    // SAFETY: the program's function with the program's argument.
    api::unblocked(|| unsafe { function(data) })
}

/// Marking threads are started by the core when they are worth it; from here on the program is told
/// how many there may be. It is when it makes its first thread, too, and in the child of a fork
/// anew.
#[unsafe(no_mangle)]
pub extern "C" fn GC_start_mark_threads() {
    if api::is_initialized() && !MARKERS_TOLD.swap(true, Relaxed) {
        GC_parallel.store(embedding::markers() as c_int - 1, Relaxed);
    }
}

static MARKERS_TOLD: AtomicBool = AtomicBool::new(false);

/// In the child of a fork, as `gc.h` has it: no markers until they are asked for.
pub fn in_child() {
    MARKERS_TOLD.store(false, Relaxed);
    GC_parallel.store(0, Relaxed);
    // The stack of the parent's first thread is nobody's.
    if api::is_thread_attached() && !embedding::is_first_thread() {
        GC_stackbottom.store(api::stack_base(), Relaxed);
    }
}

/// All marking threads, the collecting one included. What the user set with `NEAP_MARKERS` stands.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_markers_count(count: u32) {
    if !environment::user_has_set(c"NEAP_MARKERS") && !environment::user_has_set(c"GC_MARKERS") {
        environment::set_markers(count as usize);
    }
}

/// A real-time signal is taken over; others are refused, as programs and libraries use them. Before
/// initialisation.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_suspend_signal(signal: c_int) {
    let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
    if !api::is_initialized() && real_time.contains(&signal) {
        environment::set_number(b"stop_signal", signal as usize);
    }
}

/// Threads wait for their resumption without a signal.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_thr_restart_signal(_signal: c_int) {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_suspend_signal() -> c_int {
    api::stop_signal()
}

/// The one signal that the collector uses, so that a program which keeps its hands off "both" keeps
/// them off it.
#[unsafe(no_mangle)]
pub extern "C" fn GC_get_thr_restart_signal() -> c_int {
    api::stop_signal()
}

/// Handlers that the program sets by libc's functions are found on theirs without it. The ordinary
/// stack is known.
#[unsafe(no_mangle)]
pub extern "C" fn GC_register_altstack(
    _stack: *mut c_void,
    _stack_bytes: usize,
    alternate: *mut c_void,
    alternate_bytes: usize,
) {
    let low = alternate as usize;
    embedding::set_handler_stack(low..low.saturating_add(alternate_bytes));
}

static SP_CORRECTOR: AtomicFunction<StackCorrector> = AtomicFunction::none();

/// The function is asked in every collection, world stopped, for each thread.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_sp_corrector(corrector: Option<StackCorrector>) {
    SP_CORRECTOR.set(corrector);
    embedding::set_stack_corrector(corrector);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_sp_corrector() -> Option<StackCorrector> {
    SP_CORRECTOR.get()
}

/// Whether there is one.
pub fn has_sp_corrector() -> bool {
    SP_CORRECTOR.is_set()
}

/// Every fork is handled, whatever the value.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_handle_fork(_value: c_int) {}

/// For programs that call these around fork(2): the core does what is needed itself.
#[unsafe(no_mangle)]
pub extern "C" fn GC_atfork_prepare() {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_atfork_parent() {}

#[unsafe(no_mangle)]
pub extern "C" fn GC_atfork_child() {}

/// Stops all other threads of the program until `GC_start_world_external`. One that marks for a
/// collection under way goes on.
#[unsafe(no_mangle)]
pub extern "C" fn GC_stop_world_external() {
    api::stop_world();
    world_stopped::set_by_program(true);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_start_world_external() {
    world_stopped::set_by_program(false);
    api::resume_world();
}
