//! What the program wants done about a signal that a handler of ours is installed for: kept here,
//! and done where the signal is not ours.
//!
//! Invariant: an action that was kept stays where it is, so a handler reads it without a lock. Each
//! is kept once: a program that sets the same few again and again takes no more memory. Called by
//! the front ends' `sigaction`, from any thread, also in handlers; and by handlers of ours.
//!
//! # Safety
//! Pointers in the lists are null or lead to memory that was published after it was written and is
//! never unmapped. A handler of the program's is called as the kernel would call it.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use super::{map, signal};
use crate::sync::function::function_at;

/// One action, and those kept before it.
struct Kept {
    action: libc::sigaction,
    next: *mut Kept,
}

/// The program's action for one signal.
pub struct ProgramAction {
    now: AtomicPtr<Kept>,
    all: AtomicPtr<Kept>,
}

/// Signals, by bit, that the program's actions do not block while its handlers run.
static STAY_OPEN: AtomicU64 = AtomicU64::new(0);

/// No handler of the program's is to block this signal, whatever its action says.
pub fn keep_open(number: c_int) {
    STAY_OPEN.fetch_or(bit(number), Relaxed);
}

/// The bit of a signal in a mask.
pub const fn bit(number: c_int) -> u64 {
    1 << (number - 1)
}

/// The part of a mask that the kernel knows.
fn mask(action: &libc::sigaction) -> u64 {
    // SAFETY: a sigset_t begins with the kernel's 64 bits.
    unsafe { (&raw const action.sa_mask).cast::<u64>().read() }
}

fn are_equal(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    one.sa_sigaction == other.sa_sigaction
        && one.sa_flags == other.sa_flags
        && mask(one) == mask(other)
}

impl ProgramAction {
    /// Nothing was set yet.
    pub const fn new() -> Self {
        Self { now: AtomicPtr::new(null_mut()), all: AtomicPtr::new(null_mut()) }
    }

    /// What was set last.
    pub fn get(&self) -> Option<&'static libc::sigaction> {
        // SAFETY: null or kept, and what is kept stays.
        unsafe { self.now.load(Acquire).as_ref() }.map(|kept| &kept.action)
    }

    /// The function that was set last, if one was: neither the default action nor none.
    pub fn has_handler(&self) -> bool {
        self.get().is_some_and(|action| {
            action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
        })
    }

    /// Whether its own signal waits while the function runs.
    pub fn defers(&self) -> bool {
        self.get().is_some_and(|action| action.sa_flags & libc::SA_NODEFER == 0)
    }

    /// Sets one; false if there is no memory to keep it.
    pub fn set(&self, action: libc::sigaction) -> bool {
        let Some(kept) = self.find(&action).or_else(|| self.keep(action)) else { return false };
        self.now.store(kept, Release);
        true
    }

    fn find(&self, action: &libc::sigaction) -> Option<*mut Kept> {
        let mut next = self.all.load(Acquire);
        // SAFETY: null or kept, and what is kept stays.
        while let Some(kept) = unsafe { next.as_ref() } {
            if are_equal(&kept.action, action) {
                return Some(next);
            }
            next = kept.next;
        }
        None
    }

    fn keep(&self, action: libc::sigaction) -> Option<*mut Kept> {
        let memory = map::allocate(crate::addr::PAGE_BYTES).ok()?;
        let kept = memory.pointer::<Kept>();
        let mut next = self.all.load(Acquire);
        loop {
            // SAFETY: fresh memory, large enough, that nobody else knows yet.
            unsafe { kept.write(Kept { action, next }) };
            match self.all.compare_exchange(next, kept, AcqRel, Acquire) {
                Ok(_) => return Some(kept),
                Err(newer) => next = newer,
            }
        }
    }

    /// sigaction(2) as the program sees it; false if there is no memory.
    ///
    /// # Safety
    /// `new` and `old` are null or valid.
    pub unsafe fn exchange(&self, new: *const libc::sigaction, old: *mut libc::sigaction) -> bool {
        let before = self.get().copied();
        // SAFETY: the caller's promise.
        unsafe {
            if new.as_ref().is_some_and(|new| !self.set(*new)) {
                return false;
            }
            if let (Some(before), false) = (before, old.is_null()) {
                old.write(before);
            }
        }
        true
    }

    /// Calls the program's handler, with the mask that it asked for and `own`, which is its own
    /// signal or stands for that; but for what no thread may block. Every signal is blocked again
    /// when it returns. False if it has none.
    ///
    /// # Safety
    /// In a handler of ours, with its arguments.
    pub unsafe fn call(
        &self,
        number: c_int,
        info: *mut libc::siginfo_t,
        context: *mut c_void,
        own: u64,
    ) -> bool {
        let Some(action) = self.get().filter(|_| self.has_handler()) else { return false };
        let flags = action.sa_flags;
        if flags & libc::SA_RESETHAND != 0 {
            // SAFETY: a zeroed sigaction is the default action.
            self.set(unsafe { core::mem::zeroed() });
        }
        // SAFETY: the frame's mask is what the program had; the handler is the program's.
        unsafe {
            let mut wanted = (*context.cast::<libc::ucontext_t>()).uc_sigmask;
            let word = (&raw mut wanted).cast::<u64>();
            word.write(word.read() | mask(action) & !STAY_OPEN.load(Relaxed) | own);
            signal::raw_sigmask(libc::SIG_SETMASK, &wanted, null_mut());
            if flags & libc::SA_SIGINFO != 0 {
                function_at::<signal::Handler>(action.sa_sigaction)(number, info, context);
            } else {
                function_at::<extern "C" fn(c_int)>(action.sa_sigaction)(number);
            }
        }
        // What follows is ours; the kernel puts the program's mask back when the handler returns.
        signal::block_all();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(handler: usize) -> libc::sigaction {
        // SAFETY: a zeroed sigaction is a valid value to fill in.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = handler;
        action
    }

    #[test]
    fn what_was_set_last_is_given_back_and_each_action_is_kept_once() {
        let kept = ProgramAction::new();
        assert!(kept.get().is_none() && !kept.has_handler());
        let addresses = [libc::SIG_DFL, 77, libc::SIG_IGN, 77].map(|handler| {
            assert!(kept.set(action(handler)));
            assert_eq!(kept.has_handler(), handler == 77);
            core::ptr::from_ref(kept.get().unwrap())
        });
        assert_eq!(addresses[1], addresses[3]);
        let mut old = action(1);
        // SAFETY: structures of ours.
        assert!(unsafe { kept.exchange(&action(78), &mut old) });
        assert_eq!((old.sa_sigaction, kept.get().unwrap().sa_sigaction), (77, 78));
        // SAFETY: as above.
        assert!(unsafe { kept.exchange(core::ptr::null(), &mut old) });
        assert_eq!(old.sa_sigaction, 78);
    }
}
