//! The lock of one object as one thread sees it: its word, thin or leading to an inflated monitor,
//! and the steps between the two.
//!
//! Invariant: the word changes by compare-and-swap only, from what was looked at. Who sleeps for an
//! inflated monitor counts as its user from before the word is looked at for the last time, in one
//! critical section, so [`deflate`], for which nobody is in a critical section, finds it. Every
//! function here is called in a critical section but [`ObjectLock::spin`]; which monitors the
//! thread is in is noted by `monitor`. Model-checked in `tests/loom_monitors.rs`.

use super::inflated::Inflated;
use super::lock_word::{Lock, MOST_THIN};
use super::records::Records;
use crate::sync::modelled::{AtomicU32, Ordering::*};

/// Looks so often at a thin lock that another thread holds before it is inflated. As the inflated
/// one's.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

/// A thread and an object's lock word.
pub struct ObjectLock<'a> {
    /// The object's word.
    pub word: &'a AtomicU32,
    /// Where inflated monitors are.
    pub records: &'a Records,
    /// The thread's kernel id, at most 2^22.
    pub thread: u32,
    /// The object.
    pub object: usize,
}

/// What became of an attempt to enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The thread is in it, and was not before.
    Entered,
    /// It is in it once more.
    Again,
    /// Another thread is.
    Busy,
    /// There is no memory for an inflated monitor, or no larger count of how often it was entered.
    NoMemory,
}

/// What a thread that waits for a notification has to know.
pub struct Waiting<'a> {
    /// The monitor, of which the thread is counted as a user.
    pub monitor: &'a Inflated,
    /// How often it had entered.
    pub depth: u32,
    /// The monitor's sequence number before it left.
    pub sequence: u32,
}

impl<'a> ObjectLock<'a> {
    /// What the word says.
    #[inline(always)]
    pub fn lock(&self) -> Lock {
        Lock::from_word(self.word.load(Acquire))
    }

    #[inline(always)]
    fn change(&self, from: Lock, to: Lock) -> bool {
        self.word.compare_exchange(from.word(), to.word(), AcqRel, Relaxed).is_ok()
    }

    /// Enters if that needs no waiting.
    #[inline(always)]
    pub fn try_enter(&self) -> Tried {
        loop {
            match self.lock() {
                Lock::Free => {
                    if self.change(Lock::Free, Lock::Thin { thread: self.thread, depth: 1 }) {
                        return Tried::Entered;
                    }
                }
                Lock::Thin { thread, depth } if thread == self.thread => {
                    let again = Lock::Thin { thread, depth: depth + 1 };
                    if depth == MOST_THIN {
                        if self.inflate().is_none() {
                            return Tried::NoMemory;
                        }
                    } else if self.change(Lock::Thin { thread, depth }, again) {
                        return Tried::Again;
                    }
                }
                Lock::Thin { .. } => return Tried::Busy,
                Lock::Inflated(number) => {
                    let monitor = self.records.get(number);
                    if monitor.owner.load(Relaxed) == self.thread {
                        let Some(depth) = monitor.depth.load(Relaxed).checked_add(1) else {
                            return Tried::NoMemory;
                        };
                        monitor.depth.store(depth, Relaxed);
                        return Tried::Again;
                    }
                    if !monitor.try_lock() {
                        return Tried::Busy;
                    }
                    self.now_in(monitor, 1);
                    return Tried::Entered;
                }
            }
        }
    }

    /// The thread has locked an inflated monitor.
    #[inline(always)]
    pub fn now_in(&self, monitor: &Inflated, depth: u32) {
        monitor.owner.store(self.thread, Relaxed);
        monitor.depth.store(depth, Relaxed);
    }

    /// Frees the lock, which nobody is in, unless it changed; whether it did.
    #[cold]
    pub fn free_from(&self, lock: Lock) -> bool {
        self.change(lock, Lock::Free)
    }

    /// Looks a while whether a thin lock becomes free.
    pub fn spin(&self) {
        for _ in 0..SPINS {
            if !matches!(self.lock(), Lock::Thin { .. }) {
                break;
            }
            core::hint::spin_loop();
        }
    }

    /// Inflates the monitor, whoever is in it, unless that was done. None without memory.
    #[cold]
    pub fn inflate(&self) -> Option<&'a Inflated> {
        let mut spare = None;
        loop {
            let lock = self.lock();
            if let Lock::Inflated(number) = lock {
                spare.into_iter().for_each(|spare| self.records.give_back(spare));
                return Some(self.records.get(number));
            }
            let number = match spare {
                Some(number) => number,
                None => self.records.take(self.object)?,
            };
            let monitor = self.records.get(number);
            match lock {
                Lock::Thin { thread, depth } => monitor.adopt(thread, depth),
                _ => monitor.release_for_reuse(),
            }
            if self.change(lock, Lock::Inflated(number)) {
                return Some(monitor);
            }
            spare = Some(number);
        }
    }

    /// The inflated monitor, with the thread counted among its users: it is going to wait. None
    /// without memory.
    pub fn use_inflated(&self) -> Option<&'a Inflated> {
        let monitor = self.inflate()?;
        monitor.users.fetch_add(1, SeqCst);
        Some(monitor)
    }

    /// The inflated monitor, if the thread is in it.
    fn owned(&self, number: u32) -> Option<&'a Inflated> {
        let monitor = self.records.get(number);
        (monitor.owner.load(Relaxed) == self.thread).then_some(monitor)
    }

    /// Leaves once; whether the thread is out now. None if it was not in.
    #[inline(always)]
    pub fn exit(&self) -> Option<bool> {
        loop {
            let lock = self.lock();
            match lock {
                Lock::Thin { thread, depth } if thread == self.thread => {
                    let less = match depth {
                        1 => Lock::Free,
                        _ => Lock::Thin { thread, depth: depth - 1 },
                    };
                    if self.change(lock, less) {
                        return Some(depth == 1);
                    }
                }
                Lock::Inflated(number) => {
                    let monitor = self.owned(number)?;
                    let depth = monitor.depth.load(Relaxed);
                    monitor.depth.store(depth - 1, Relaxed);
                    if depth == 1 {
                        leave(monitor);
                    }
                    return Some(depth == 1);
                }
                _ => return None,
            }
        }
    }

    /// Whether the thread is in it.
    pub fn is_in(&self) -> bool {
        match self.lock() {
            Lock::Thin { thread, .. } => thread == self.thread,
            Lock::Inflated(number) => self.owned(number).is_some(),
            Lock::Free => false,
        }
    }

    /// Leaves the monitor, in which the thread is, to wait for a notification. None without memory;
    /// then it is still in.
    pub fn leave_to_wait(&self) -> Option<Waiting<'a>> {
        let monitor = self.use_inflated()?;
        let depth = monitor.depth.load(Relaxed);
        let sequence = monitor.sequence.load(SeqCst);
        leave(monitor);
        Some(Waiting { monitor, depth, sequence })
    }

    /// Lets one that waits go on, or all. The thread is in the monitor.
    pub fn notify(&self, all: bool) {
        // Who waits has inflated it.
        if let Lock::Inflated(number) = self.lock() {
            self.records.get(number).notify(all);
        }
    }
}

fn leave(monitor: &Inflated) {
    monitor.owner.store(0, Relaxed);
    monitor.unlock();
}

/// Gives up monitor number `number`: the word of its object no longer leads there. World stopped
/// and the monitor idle, or the object is dead.
pub fn deflate(records: &Records, word: Option<&AtomicU32>, number: u32) {
    // The word leads elsewhere if the object was freed by name and its cell is another's.
    if let Some(word) = word {
        let _ = word.compare_exchange(Lock::Inflated(number).word(), 0, AcqRel, Relaxed);
    }
    records.give_back(number);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_entered_as_often_as_is_counted_is_refused_once_more() {
        let (word, records) = (&AtomicU32::new(0), &Records::new());
        let lock = ObjectLock { word, records, thread: 1, object: 64 };
        assert_eq!(lock.try_enter(), Tried::Entered);
        let monitor = lock.inflate().unwrap();
        monitor.depth.store(u32::MAX, Relaxed);
        assert_eq!(lock.try_enter(), Tried::NoMemory);
        assert_eq!((lock.exit(), monitor.depth.load(Relaxed)), (Some(false), u32::MAX - 1));
        assert_eq!(lock.try_enter(), Tried::Again);
    }
}
