//! A mutator: one thread of the program as the collector knows it.
//!
//! Invariant: lives from attach to detach; the stack position and registers are valid while it is
//! stopped or blocked. Fields say who writes them.
//!
//! # Safety
//!
//! Reads a word through an address that is 0 or that of a word which stays mapped while the mutator
//! is there.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, compiler_fence,
};

use crate::alloc::buffer::Local;
use crate::sync::function::AtomicFunction;

/// What a mutator is doing, as far as stopping it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Activity {
    /// Runs the program: has to be stopped by a signal.
    Running = 0,
    /// Is in a region where it touches no heap: counts as stopped.
    Blocked = 1,
}

/// Who asks a thread to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Asker {
    /// The signal of this library.
    Signal = 1,
    /// The world's host, by a signal of its own.
    Host = 2,
}

/// One attached thread. Its memory is zeroed when made; zero is a valid start for every field.
#[repr(C)]
pub struct Mutator {
    /// What it allocates from; at offset 0, where `neap_inline.h` looks.
    pub local: Local,
    /// The kernel's id; written once.
    pub thread: AtomicU32,
    /// The thread control block, written once.
    pub control_block: AtomicUsize,
    /// One past the highest address of its stack; written by itself.
    pub stack_base: AtomicUsize,
    /// Lowest address of its stack, 0 if not known; written by itself.
    pub stack_low: AtomicUsize,
    /// It is the thread that the program began with, on the stack that the system made for it.
    /// Written once: a fork changes nothing about that.
    pub is_first: AtomicBool,
    /// Where it stood on its own stack when it left it for another; 0 if it never did. Written by
    /// itself.
    pub own_position: AtomicUsize,
    /// Callee-saved registers at that moment.
    pub own_registers: [AtomicUsize; 6],
    /// The stack that it runs on if that is not its own; address of a `stacks::Stack`. Written by
    /// itself.
    pub stack: AtomicUsize,
    /// Where it stands while stopped or blocked; everything live lies above. Written by itself.
    pub position: AtomicUsize,
    /// The number of the last reading of roots beside the program in which its stack was read in a
    /// stop of all. Of the collector's thread.
    pub read_in: AtomicU32,
    /// Callee-saved registers of who began a blocked region that another call ends; 0 outside.
    /// Written by itself.
    pub blocked_registers: [AtomicUsize; 6],
    /// The stop it was last asked to obey. Written by who stops the world.
    pub asked: AtomicU32,
    /// The stop it has obeyed last. Written by itself.
    pub obeyed: AtomicU32,
    /// Stop signals that were sent to it and that its handler has not told from the program's.
    /// Added to by who stops the world, taken from by itself.
    signalled: AtomicU32,
    activity: AtomicU32,
    /// Critical sections it is in. Written by itself, in and outside the stop signal's handler.
    critical: AtomicU32,
    /// Who asked for a stop in a critical section: bits of [`Asker`]. As above.
    stop_pending: AtomicU8,
    /// How often the stop signal interrupted it while none of the program's signals was there to be
    /// handled too. Written by itself, in that signal's handler.
    pub interruptions: AtomicU32,
    /// Address of the alternate signal stack that it was given; 0 for none. Written by itself.
    pub alternate_stack: AtomicUsize,
    /// Lowest address and end of the alternate signal stack that a handler of the program ran on
    /// last, or that it declared; 0 for none. Written by itself.
    handler_stack: [AtomicUsize; 2],
    /// Where what that handler interrupted stands on another stack, its red zone included; 0 before
    /// the first one. What it tells is over when the handler is. As above.
    pub interrupted_position: AtomicUsize,
    /// The program declared it, and takes that back before it uses the memory otherwise. As above.
    pub declared_handler_stack: AtomicBool,
    /// It came by the slow path of an allocation since the last cycle. Set by itself, cleared by
    /// the cycle.
    pub allocates: AtomicBool,
    /// Links of the registry, protected by its lock.
    pub next: AtomicUsize,
    /// As above.
    pub previous: AtomicUsize,
    /// Address of what counts its requests (`observe::tally`); 0 if nothing does. Written by
    /// itself.
    pub tally: AtomicUsize,
    /// Depth of collections that this thread holds off. Written by itself.
    pub holds: AtomicU32,
    /// What handles and monitors keep for the thread, an address; 0 until it is made. Written by
    /// itself.
    pub references: AtomicUsize,
    /// The first frame, plus one, of a large block that it has taken and not made an object yet;
    /// 0 for none. Written by itself under the heap's lock; read in a child of `fork` where it does
    /// not exist.
    pub unpublished: AtomicU32,
    /// Address of a word that says that this thread uses what the word belongs to, or 0: the word
    /// becomes 0 when the thread ends. Written by itself.
    pub claim: AtomicUsize,
    /// Bytes of the objects that it freed for the program. Written by itself.
    pub freed_bytes: AtomicU64,
    /// Another thread, or itself, suspended it: 1 until it is resumed, and waited for as long.
    pub suspended: AtomicU32,
    /// It forks in a handler that interrupted a critical section. Written by itself.
    pub forks_inside: AtomicBool,
    /// The child of a `vfork` runs on its stack, while it waits. Written by both.
    pub has_child_on_it: AtomicBool,
    /// A front end told the program that this thread is registered. Written by itself.
    pub announced: AtomicBool,
    /// What a front end keeps for this thread. Written by itself.
    pub front_end: [AtomicUsize; 2],
    /// The program was told that this thread stands. Written by who stops the world.
    pub told_to_stand: AtomicBool,
}

impl Mutator {
    /// What it is doing.
    pub fn activity(&self) -> Activity {
        match self.activity.load(SeqCst) {
            0 => Activity::Running,
            _ => Activity::Blocked,
        }
    }

    /// Says what it is doing; ordered before and after everything else.
    pub fn set_activity(&self, activity: Activity) {
        self.activity.store(activity as u32, SeqCst);
    }

    /// Whether it takes no steps of cycles and waits for none: it holds collections off, or its
    /// code runs in a child of `vfork`. That has the memory of its parent and none of its threads,
    /// so it would find them gone; and its own stands until the child is over.
    pub fn keeps_off(&self) -> bool {
        self.holds.load(Relaxed) > 0 || self.has_child_on_it.load(Relaxed)
    }

    /// From here on a stop waits until the guard is dropped. Called by its own thread; nests.
    #[inline]
    pub fn critical(&self) -> Critical<'_> {
        self.critical.store(self.critical.load(Relaxed) + 1, Relaxed);
        // The handler runs on this thread, so the compiler is all that must be kept from
        // reordering.
        compiler_fence(SeqCst);
        Critical(self)
    }

    /// A stop signal is about to be sent to it. One that `queues` comes as often as it is sent;
    /// of others, one comes for all that were sent meanwhile.
    pub fn expect_signal(&self, queues: bool) {
        match queues {
            true => _ = self.signalled.fetch_add(1, SeqCst),
            false => self.signalled.store(1, SeqCst),
        }
    }

    /// It came, or was not sent after all. False if none was to come.
    pub fn take_signal(&self) -> bool {
        self.signalled.fetch_update(SeqCst, SeqCst, |expected| expected.checked_sub(1)).is_ok()
    }

    /// In the child of a `fork`, which has none of its parent's pending signals.
    pub fn forget_signals(&self) {
        self.signalled.store(0, SeqCst);
    }

    /// Whether it is in the program's code: in no critical section, and not holding collections
    /// off. Asked by its own thread.
    pub fn is_at_ease(&self) -> bool {
        self.critical.load(Relaxed) == 0 && self.holds.load(Relaxed) == 0
    }

    /// Whether it is to stand until it is resumed.
    pub fn is_suspended(&self) -> bool {
        self.suspended.load(SeqCst) != 0
    }

    /// In a stop signal's handler, outside critical sections: stands if it is suspended.
    pub fn stand_if_suspended(&self) {
        if self.is_suspended()
            && let Some(obey) = OBEY_LATE.get()
        {
            obey(self, 0);
        }
    }

    /// Notes its alternate signal stack; an empty range for none. By its own thread.
    pub fn note_handler_stack(&self, stack: &Range<usize>) {
        if self.handler_stack() != *stack {
            let _critical = self.critical();
            self.declared_handler_stack.store(false, Relaxed);
            self.handler_stack[0].store(stack.start, Relaxed);
            self.handler_stack[1].store(stack.end, Relaxed);
        }
    }

    /// The alternate signal stack that was noted last. It may be in use no longer.
    pub fn handler_stack(&self) -> Range<usize> {
        self.handler_stack[0].load(Relaxed)..self.handler_stack[1].load(Relaxed)
    }

    /// Not 0 while a stop waits for the end of its critical section.
    pub fn stop_pending(&self) -> &AtomicU8 {
        &self.stop_pending
    }

    /// Whether it is in a critical section. Asked by its own thread.
    pub fn is_critical(&self) -> bool {
        self.critical.load(Relaxed) > 0
    }

    /// Whether a stop may come where it is. Asked by its own thread.
    #[cfg(debug_assertions)]
    pub fn may_be_stopped(&self) -> bool {
        !self.is_critical() && self.activity() == Activity::Running
    }

    /// Gives up what it claims. When its thread has ended.
    pub fn give_up_claim(&self) {
        let claim = self.claim.swap(0, Relaxed) as *const AtomicU32;
        // SAFETY: 0 or a word that stays mapped.
        if let Some(word) = unsafe { claim.as_ref() } {
            word.store(0, Release);
        }
    }

    /// In a stop signal's handler: whether the stop must wait; if so it is remembered who asked.
    pub fn defers_stop(&self, asker: Asker) -> bool {
        let defers = self.critical.load(Relaxed) > 0;
        if defers {
            self.stop_pending.fetch_or(asker as u8, Relaxed);
        }
        defers
    }
}

/// What obeys a stop that was put off; it stands above this file.
static OBEY_LATE: AtomicFunction<fn(&Mutator, u8)> = AtomicFunction::none();

/// Says what obeys a stop that was put off: it is given who asked, bits of [`Asker`]. Once, at
/// start-up.
pub fn set_late(obey: fn(&Mutator, u8)) {
    OBEY_LATE.set(Some(obey));
}

/// A critical section of a mutator; see [`Mutator::critical`].
pub struct Critical<'m>(&'m Mutator);

impl Drop for Critical<'_> {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        let depth = self.0.critical.load(Relaxed) - 1;
        self.0.critical.store(depth, Relaxed);
        compiler_fence(SeqCst);
        if depth == 0 && self.0.stop_pending.load(Relaxed) != 0 {
            let askers = self.0.stop_pending.swap(0, Relaxed);
            if let Some(obey) = OBEY_LATE.get() {
                obey(self.0, askers);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer is late: the signal was sent once more.
    #[test]
    fn each_signal_that_queues_is_known_for_ours() {
        // SAFETY: zeroed memory is a mutator.
        let mutator = unsafe { Box::<Mutator>::new_zeroed().assume_init() };
        for (queues, comes) in [(true, 2), (false, 1)] {
            mutator.expect_signal(queues);
            mutator.expect_signal(queues);
            assert!((0..comes).all(|_| mutator.take_signal()));
            assert!(!mutator.take_signal(), "the program's");
        }
        mutator.expect_signal(true);
        mutator.forget_signals();
        assert!(!mutator.take_signal());
    }
}
