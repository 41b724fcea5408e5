//! Faults of the program's own within its handler of faults, where it has that signal blocked and
//! we do not: pages that we protected are written there too.
//!
//! Invariant: while a thread is in such a handler [`STANDS_FOR`] is blocked in its place, and a
//! place here is the thread's, until it returns, is left by a jump that puts the mask back, or lets
//! the signal through. With more such threads than places the handler is called for its own faults,
//! until the stack ends. Called in our handler of faults, every signal blocked, and by who changes
//! its thread's mask.
//!
//! # Safety
//! Reads the mask in what the kernel gave the handler.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::sys::program_action::bit;
use crate::sys::{signal, thread};

/// A signal that hardly a program knows, and none misses for a while.
const STANDS_FOR: c_int = libc::SIGSTKFLT;

/// A thread that is in the program's handler.
struct Place {
    /// Its control block; 0 for none.
    thread: AtomicUsize,
    /// The signal was sent to it meanwhile.
    sent: AtomicBool,
}

static PLACES: [Place; 16] =
    [const { Place { thread: AtomicUsize::new(0), sent: AtomicBool::new(false) } }; 16];

fn place_of(thread: usize) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.thread.load(Relaxed) == thread)
}

/// What the interrupted code had blocked.
///
/// # Safety
/// `context` is what the kernel gave the handler.
unsafe fn blocked(context: *const c_void) -> u64 {
    // SAFETY: the caller's promise; a sigset_t begins with the kernel's 64 bits.
    unsafe { (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>().read() }
}

/// Where the interrupted code is the program's handler of faults, which has the signal blocked as
/// it believes.
///
/// # Safety
/// `context` is what the kernel gave the handler.
pub unsafe fn within(context: *const c_void) -> Option<Within> {
    // SAFETY: the caller's promise.
    let is_marked = unsafe { blocked(context) } & bit(STANDS_FOR) != 0;
    place_of(thread::control_block()).filter(|_| is_marked).map(Within)
}

/// See [`within`].
pub struct Within(&'static Place);

impl Within {
    /// The signal was sent, and comes when the handler has returned.
    pub fn hold(&self) {
        self.0.sent.store(true, Relaxed);
    }
}

/// The program's handler is going to be called: what is to be blocked.
///
/// # Safety
/// `context` is what the kernel gave the handler.
pub unsafe fn enter(context: *const c_void) -> u64 {
    let own = thread::control_block();
    // SAFETY: the caller's promise.
    if unsafe { blocked(context) } & bit(STANDS_FOR) != 0 {
        // Blocked by the program itself, it says nothing.
        return 0;
    }
    let take = |place: &Place| place.thread.compare_exchange(0, own, Relaxed, Relaxed).is_ok();
    let is_taken = place_of(own).is_some() || PLACES.iter().any(take);
    if is_taken { bit(STANDS_FOR) } else { 0 }
}

/// It has returned, or is left: whether the signal was sent to it meanwhile. None if the thread was
/// in none.
pub fn leave() -> Option<bool> {
    place_of(thread::control_block()).map(|place| {
        let sent = place.sent.swap(false, Relaxed);
        place.thread.store(0, Relaxed);
        sent
    })
}

/// The program puts this mask in force: one that it has read in its handler has the signal that
/// stands for the other, any other mask leaves the handler.
pub fn is_left_by(mask: &libc::sigset_t) -> bool {
    // SAFETY: a set of the program's.
    unsafe {
        libc::sigismember(mask, STANDS_FOR) == 0 && libc::sigismember(mask, libc::SIGSEGV) == 0
    }
}

/// The signal that stood for the other comes again.
pub fn open() {
    signal::unblock(STANDS_FOR);
}
