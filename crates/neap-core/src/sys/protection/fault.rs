//! SIGSEGV: a handler of ours before the program's, for writes to pages that we protected.
//!
//! Invariant: a fault that is not ours ends where it would have without us: in the action that the
//! program set last, with its mask and flags, or in the process's end. The program's actions are
//! kept here, since ours stays installed; `sigaction` and `signal` of the front ends come to
//! [`set_program_action`]. An action that the program sets past them takes ours away until
//! [`install`] is called again. The handler runs on the faulting thread, every signal blocked, on
//! its alternate stack if it has one. Assumes x86-64: the error code's bit 1 says that the access
//! was a write, bit 4 that it was a fetch of an instruction.
//!
//! # Safety
//!
//! A handler of signals: it reads what the kernel hands it, and ends in the program's own action by
//! the type that `sa_flags` names. Actions that are kept stay mapped, since a handler may be
//! reading one.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::faults_within;
use crate::addr::PAGE_BYTES;
use crate::rank::Rank;
use crate::sync::function::AtomicFunction;
use crate::sync::{ForkLock, Lock};
use crate::sys::program_action::{self, ProgramAction};
use crate::sys::refusal::Refusal;
use crate::sys::signal;
use rustix::io::Errno;

/// A write that faulted.
pub struct Fault {
    /// Where it went; None where the kernel could not put the frame of a signal onto the stack that
    /// the thread stood on. That signal is lost.
    pub address: Option<usize>,
    /// Where the thread's stack was.
    pub stack_pointer: usize,
}

/// Asked about each write that faulted; true if the page is ours and writable now. In the handler:
/// no lock that a thread may hold with signals open, no malloc.
pub type OnWrite = fn(&Fault) -> bool;

/// None before [`install`].
static ON_WRITE: AtomicFunction<OnWrite> = AtomicFunction::none();
/// What the program wants done.
static PROGRAM: ProgramAction = ProgramAction::new();
/// Who installs the handler does so alone.
static SETTING: Lock<()> = Lock::new(Rank::Fault, ());

const WRITE: i64 = 1 << 1;
const FETCH: i64 = 1 << 4;

/// Puts our handler before the program's, if it is not there. A handler that took its place and
/// calls the one before it, which is ours, for a fault that neither knows never returns: the
/// process ends by SIGSEGV when the stack does, as it would have.
pub fn install(on_write: OnWrite) -> Result<(), Refusal> {
    let _setting = SETTING.lock();
    program_action::keep_open(libc::SIGSEGV);
    let refused = |error| Refusal::new("sigaction", error);
    let action = signal::in_force(libc::SIGSEGV).map_err(refused)?;
    if action.sa_sigaction != handler as *const () as usize {
        PROGRAM.set(action);
        // The handler may be called as soon as it is there.
        let before = ON_WRITE.set(Some(on_write));
        if !signal::install_on_alternate_stack(libc::SIGSEGV, handler) {
            ON_WRITE.set(before);
            return Err(refused(Errno::INVAL));
        }
    }
    Ok(())
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &SETTING
}

/// Whether a thread may write to an address: the kernel does so, in place of what faulted, and
/// changes nothing. True where it does not say.
pub fn can_write(address: usize) -> bool {
    // `*address |= 0`, and nobody to wake but who waits for a word that it cannot be.
    const OR_NOTHING: u32 = 2 << 28 | 0x7ff;
    let own = AtomicU32::new(0);
    // SAFETY: the kernel looks at both words itself, and leaves them as they are.
    let called = unsafe {
        let wake = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, own.as_ptr(), wake, 0, 0_usize, address & !3, OR_NOTHING)
    };
    called >= 0 || (Errno::from_raw_os_error(errno()) != Errno::FAULT && can_populate(address))
}

/// The same where a filter refuses that call: the kernel makes the page ready to be written to.
#[cold]
fn can_populate(address: usize) -> bool {
    /// Linux 5.14.
    const MADV_POPULATE_WRITE: c_int = 23;
    let page = |address: usize| address & !(PAGE_BYTES - 1);
    // SAFETY: changes no contents.
    let populate = |address: usize| unsafe {
        libc::syscall(libc::SYS_madvise, page(address), PAGE_BYTES, MADV_POPULATE_WRITE) == 0
    };
    let own = AtomicU32::new(0);
    populate(address) || !populate(own.as_ptr() as usize)
}

fn errno() -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// Whether our handler is there.
fn is_installed() -> bool {
    ON_WRITE.is_set()
}

/// Whether it is there or will be: then no thread may block the signal, since the kernel ends the
/// process where a fault meets one that does.
pub fn is_wanted() -> bool {
    is_installed() || EXPECTED.load(Relaxed)
}

/// The handler will be installed. At start-up, before the first thread is attached.
pub fn expect() {
    program_action::keep_open(libc::SIGSEGV);
    EXPECTED.store(true, Relaxed);
}

static EXPECTED: AtomicBool = AtomicBool::new(false);

/// sigaction(2) for SIGSEGV as the program sees it. None if our handler is not there: then the
/// caller asks libc.
///
/// # Safety
/// `new` and `old` are null or valid.
pub unsafe fn set_program_action(
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> Option<c_int> {
    if !is_installed() {
        return None;
    }
    // Without the lock, also in handlers.
    // SAFETY: the caller's promise.
    unsafe { PROGRAM.exchange(new, old) }.then_some(0)
}

/// The program lets the signal through in the calling thread, as it does in its handler before it
/// leaves that by a jump.
pub fn let_through() {
    let Some(sent) = faults_within::leave() else { return };
    faults_within::open();
    if sent {
        signal::send(crate::sys::thread::current(), libc::SIGSEGV);
    }
}

/// The same where it puts this mask in force, if that lets the signal through.
pub fn let_through_by(mask: &libc::sigset_t) {
    if faults_within::is_left_by(mask) {
        let_through();
    }
}

extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is this thread's; the kernel's frame is valid while the handler runs.
    let (errno, code, address, registers) = unsafe {
        let frame = &*context.cast::<libc::ucontext_t>();
        let address = (*info).si_addr() as usize;
        (*libc::__errno_location(), (*info).si_code, address, &frame.uc_mcontext.gregs)
    };
    let is_write = registers[libc::REG_ERR as usize] & (WRITE | FETCH) == WRITE;
    let fault = Fault {
        // Of its own failure the kernel says no address.
        address: (code != libc::SI_KERNEL).then_some(address),
        stack_pointer: registers[libc::REG_RSP as usize] as usize,
    };
    let ours = code > 0
        && (is_write || fault.address.is_none())
        && ON_WRITE.get().is_some_and(|on_write| on_write(&fault));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if !ours {
        // SAFETY: the kernel's own arguments.
        unsafe { pass_on(number, info, context) };
    }
}

/// Does what the program wants done.
///
/// # Safety
/// In the handler, with its arguments.
unsafe fn pass_on(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own arguments.
    let by_the_kernel = unsafe { (*info).si_code } > 0;
    // SAFETY: as above.
    if let Some(within) = unsafe { faults_within::within(context) } {
        // As the kernel does where the signal is blocked.
        match by_the_kernel {
            true => signal::set_default(number),
            false => within.hold(),
        }
        return;
    }
    // SAFETY: as above.
    let own = if PROGRAM.defers() { unsafe { faults_within::enter(context) } } else { 0 };
    // SAFETY: as above.
    let called = unsafe { PROGRAM.call(number, info, context, own) };
    if own != 0 && faults_within::leave() == Some(true) {
        signal::send(crate::sys::thread::current(), number);
    }
    if called {
        return;
    }
    let wanted = PROGRAM.get().map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    // A fault cannot be ignored: the instruction faults again, and then there is nobody to handle
    // it. One that was sent is gone, if that is what was wanted.
    if by_the_kernel || wanted == libc::SIG_DFL {
        signal::set_default(number);
        if !by_the_kernel {
            signal::send(crate::sys::thread::current(), number);
        }
    }
}
