//! The signal that asks a mutator to stop: which one, how it is sent where the system refuses, and
//! what is the program's of it.
//!
//! Invariant `[world.rule.gone]`: a signal that cannot be sent says nothing about its thread. Only
//! where the kernel knows no such thread is the mutator taken off; any other is asked again, and
//! stands when it comes by. Sent by who stops the world; received by the mutators; the program's
//! action is set from any thread.
//!
//! # Safety
//! Handlers of the program's are called with the arguments of ours.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use rustix::io::Errno;

use super::mutator::Mutator;
use crate::sync::function::AtomicFunction;
use crate::sys::print;
use crate::sys::process::copies;
use crate::sys::program_action::{self, ProgramAction};
use crate::sys::signal::{self, DEFAULT_STOP_SIGNAL, Handler, Sent};

/// A signal whose handler is ours, and what the program wants done about it.
struct Taken {
    number: AtomicI32,
    program: ProgramAction,
}

impl Taken {
    const fn new() -> Self {
        Self { number: AtomicI32::new(0), program: ProgramAction::new() }
    }

    /// Puts `handler` before the program's, if it is not there.
    fn take(&self, number: c_int, handler: Handler) -> bool {
        if let Ok(action) = signal::in_force(number) {
            if action.sa_sigaction == handler as *const () as usize {
                return true;
            }
            self.program.set(action);
        }
        self.number.store(number, Release);
        signal::install(number, handler)
    }
}

/// The one in use.
static CHOSEN: Taken = Taken::new();
/// The one that does not queue, for where the chosen one does and the queue is full; as long as it
/// was not needed, it is the program's alone.
static SECOND: Taken = Taken::new();
/// What [`install`] was given.
static HANDLER: AtomicFunction<Handler> = AtomicFunction::none();
/// The process that they were installed in; 0 before.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The program was seen to send the signal to its own threads itself, as Go's runtime does.
static IS_SHARED: AtomicBool = AtomicBool::new(false);
/// The system refuses to send signals, and the program was told.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Has no collection begin any more.
static ON_REFUSAL: AtomicFunction<fn()> = AtomicFunction::none();

/// The number in use; 0 before [`install`].
pub fn number() -> c_int {
    CHOSEN.number.load(Relaxed)
}

/// The number that no mask has.
pub fn masked() -> c_int {
    match number() {
        0 => DEFAULT_STOP_SIGNAL,
        number => number,
    }
}

/// Installs the handler for `number` (0: the default). False if the kernel refuses.
pub(super) fn install(number: c_int, handler: Handler) -> bool {
    HANDLER.set(Some(handler));
    after_fork();
    program_action::keep_open(if number == 0 { DEFAULT_STOP_SIGNAL } else { number });
    let is_installed = CHOSEN.take(if number == 0 { DEFAULT_STOP_SIGNAL } else { number }, handler);
    // Mostly there is no handler, and the loaded objects need not be looked through.
    let handler = CHOSEN.program.get().filter(|_| CHOSEN.program.has_handler());
    if handler.is_some_and(|action| copies::hold(action.sa_sigaction)) {
        print::fatal(format_args!(
            "another copy of the collector is at work in this process (libneap beside the drop-in \
             for libgc, say): each would stop the other's threads. Have all of the program use one \
             of them"
        ));
    }
    is_installed
}

/// At the start, and in the child of any `fork`.
pub fn after_fork() {
    PROCESS.store(process(), Relaxed);
}

fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Has `hook` called, once, if the system refuses to send signals. Called at start-up.
pub fn set_refusal_hook(hook: fn()) {
    ON_REFUSAL.set(Some(hook));
}

/// What came of asking a mutator by signal.
pub(super) enum Asked {
    /// It will obey in its handler.
    Sent,
    /// Its thread is no more.
    Gone,
    /// It was not sent: the mutator stands when it comes by, or when it is asked again.
    Unsent,
}

/// Sends the signal.
pub(super) fn send(mutator: &Mutator) -> Asked {
    let thread = mutator.thread.load(Relaxed) as i32;
    mutator.expect_signal(number() >= libc::SIGRTMIN());
    let mut sent = signal::send(thread, number());
    if sent == Sent::QueueFull && install_second() {
        sent = signal::send(thread, DEFAULT_STOP_SIGNAL);
    }
    if sent != Sent::Yes {
        mutator.take_signal();
    }
    match sent {
        Sent::Yes => Asked::Sent,
        Sent::NoSuchThread => Asked::Gone,
        Sent::QueueFull => Asked::Unsent,
        Sent::Refused(error) => {
            refuse(error);
            Asked::Unsent
        }
    }
}

/// A second thread begins: finds out whether it could be sent a signal, before one has to be.
pub(super) fn try_out(mutator: &Mutator) {
    if let Sent::Refused(error) = signal::send(mutator.thread.load(Relaxed) as i32, 0) {
        refuse(error);
    }
}

/// Whether the system refuses to send any signal to a thread.
pub(super) fn is_refused() -> bool {
    REFUSED.load(Relaxed)
}

#[cold]
fn refuse(error: Errno) {
    if REFUSED.swap(true, SeqCst) {
        return;
    }
    if let Some(hook) = ON_REFUSAL.get() {
        hook();
    }
    print::message(format_args!(
        "the system refuses to send signals to threads (tgkill: {error}), so they cannot be \
         stopped: from now on nothing is collected and the heap only grows. Allow tgkill(2) in the \
         program's system call filter"
    ));
}

#[cold]
fn install_second() -> bool {
    HANDLER.get().is_some_and(|handler| SECOND.take(DEFAULT_STOP_SIGNAL, handler))
}

/// An answer is late: a handler that the program set past us may have taken the place of ours,
/// which is put back then. Says whether it was.
#[cold]
pub(super) fn mend_handler() -> bool {
    let Some(handler) = HANDLER.get() else { return false };
    let is_there = signal::in_force(number())
        .is_ok_and(|action| action.sa_sigaction == handler as *const () as usize);
    !is_there && CHOSEN.take(number(), handler)
}

/// Whether the caller is the child of a `vfork`, whose handlers are its own while its memory is
/// not.
pub fn is_in_child_of_vfork() -> bool {
    let installed = PROCESS.load(Relaxed);
    installed != 0 && process() != installed
}

/// sigaction(2) as the program sees it; None if the handler of this signal is not ours.
///
/// # Safety
/// `new` and `old` are null or valid.
pub unsafe fn set_program_action(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> Option<c_int> {
    let taken = taken(signal)?;
    // SAFETY: the caller's promise.
    unsafe { taken.program.exchange(new, old) }.then_some(0)
}

fn taken(signal: c_int) -> Option<&'static Taken> {
    [&CHOSEN, &SECOND].into_iter().find(|taken| taken.number.load(Acquire) == signal && signal != 0)
}

/// In the handler, before the stop is obeyed: whether the program has to hear of this signal.
/// `is_asked`: the thread is being asked to stop.
///
/// # Safety
/// `info` is what the kernel gave the handler.
pub(super) unsafe fn is_for_program(
    mutator: Option<&Mutator>,
    is_asked: bool,
    signal: c_int,
    info: *const libc::siginfo_t,
) -> bool {
    if !taken(signal).is_some_and(|taken| taken.program.has_handler()) {
        mutator.map(Mutator::take_signal);
        return false;
    }
    // SAFETY: the caller's promise.
    let (code, sender) = unsafe { ((*info).si_code, (*info).si_pid()) };
    // A full queue loses who sent a signal that does not queue: it looks as if nobody had.
    let from_here =
        (code == libc::SI_TKILL && sender == process()) || (code == libc::SI_USER && sender == 0);
    if !from_here {
        return true;
    }
    if !mutator.is_some_and(Mutator::take_signal) && !is_asked {
        IS_SHARED.store(true, Relaxed);
    }
    // Of two that were sent to a thread the kernel delivers one. To a program that sends this
    // signal itself one too many is said rather than one too few.
    IS_SHARED.load(Relaxed)
}

/// In the handler: calls the program's, if it has one.
///
/// # Safety
/// With the handler's arguments.
pub(super) unsafe fn pass_on(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> bool {
    taken(signal).is_some_and(|taken| {
        let own = if taken.program.defers() { program_action::bit(signal) } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { taken.program.call(signal, info, context, own) }
    })
}

/// Lets the signal through in the calling thread, whoever blocked it.
pub(super) fn unblock() {
    signal::unblock(number());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread;
    use core::sync::atomic::AtomicU32;

    static OURS: AtomicU32 = AtomicU32::new(0);
    static THEIRS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn ours(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        OURS.fetch_add(1, SeqCst);
        // SAFETY: the handler's arguments.
        unsafe {
            if is_for_program(None, false, signal, info) {
                pass_on(signal, info, context);
            }
        }
    }

    extern "C" fn theirs(_: c_int) {
        THEIRS.fetch_add(1, SeqCst);
    }

    #[test]
    fn the_programs_handler_hears_what_is_not_ours() {
        assert!(install(0, ours));
        assert!(masked() == DEFAULT_STOP_SIGNAL && masked() == number());
        let send = || assert_eq!(signal::send(thread::current(), number()), Sent::Yes);
        send();
        assert_eq!((OURS.load(SeqCst), THEIRS.load(SeqCst)), (1, 0));
        // SAFETY: structures of ours; a zeroed one is the default action.
        unsafe {
            let mut new: libc::sigaction = core::mem::zeroed();
            new.sa_sigaction = theirs as *const () as usize;
            assert_eq!(set_program_action(number(), &new, core::ptr::null_mut()), Some(0));
            assert_eq!(set_program_action(libc::SIGUSR1, &new, core::ptr::null_mut()), None);
        }
        send();
        assert_eq!((OURS.load(SeqCst), THEIRS.load(SeqCst)), (2, 1));
        // Set past us: found, and put behind ours.
        // SAFETY: the default action.
        unsafe {
            let ignored: libc::sigaction = core::mem::zeroed();
            signal::real_sigaction()(number(), &ignored, core::ptr::null_mut());
        }
        send();
        assert_eq!(OURS.load(SeqCst), 2);
        mend_handler();
        send();
        assert_eq!((OURS.load(SeqCst), THEIRS.load(SeqCst)), (3, 1));
    }
}
