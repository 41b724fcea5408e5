//! Objects that the program's own functions trace: those that wait for a stop, and those that the
//! last cycle traced, which a minor one traces again.
//!
//! Invariant `[mark.inv.traced]`: a function may follow pointers that lie where no watch sees them
//! written, unless the program says that its functions are local. So a minor cycle is begun only
//! where [`Aside::are_traced_known`], and puts all of these aside anew. Objects that a finalizer
//! keeps are none of them: it may free what their function reads, so nobody calls that again unless
//! the program has brought the object back, which a full cycle finds out. Any marker puts objects
//! aside; the driver does the rest.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::rank::Rank;
use crate::sync::Lock;
use crate::sys::meta_vec::{MetaVec, NoMemory};

/// With more such objects every cycle is a full one. Larger: minor cycles in more programs;
/// smaller: the functions take less of the last stop.
const MOST_TRACED: usize = 1024;

/// What is known of the objects that a cycle traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// All that are reached go to the list.
    Kept,
    /// All that were reached are in it; what is traced from now on is kept by finalizers.
    Complete,
    /// Some are not in it.
    Lacking,
}

struct Lists {
    waiting: MetaVec<usize>,
    traced: MetaVec<usize>,
    record: Record,
}

/// Both lists.
pub struct Aside {
    lists: Lock<Lists>,
    /// Objects that wait, read without the lock.
    count: AtomicUsize,
}

impl Aside {
    /// None.
    pub fn new() -> Self {
        let lists =
            Lists { waiting: MetaVec::new(), traced: MetaVec::new(), record: Record::Complete };
        Self { lists: Lock::new(Rank::Aside, lists), count: AtomicUsize::new(0) }
    }

    /// Whether any object waits.
    pub fn has_some(&self) -> bool {
        self.len() > 0
    }

    /// How many objects wait.
    pub fn len(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Keeps an object for the driver.
    pub fn put(&self, object: usize) -> Result<(), NoMemory> {
        let mut lists = self.lists.lock();
        lists.waiting.try_push(object)?;
        self.count.fetch_add(1, SeqCst);
        Ok(())
    }

    /// One of those that wait.
    pub fn take(&self) -> Option<usize> {
        let object = self.lists.lock().waiting.pop();
        if object.is_some() {
            self.count.fetch_sub(1, SeqCst);
        }
        object
    }

    /// Keeps each of those that wait once, if there are no more than `most`: an object that is
    /// written again and again is found, and put aside, in every round.
    pub fn forget_repeated(&self, most: usize) {
        let mut lists = self.lists.lock();
        let waiting = &mut lists.waiting;
        if waiting.len() > most {
            return;
        }
        waiting.sort_unstable();
        let mut kept = 0;
        for index in 0..waiting.len() {
            if kept == 0 || waiting[kept - 1] != waiting[index] {
                waiting[kept] = waiting[index];
                kept += 1;
            }
        }
        waiting.truncate(kept);
        self.count.store(kept, SeqCst);
    }

    /// One of those that wait, which stays.
    pub fn at(&self, index: usize) -> Option<usize> {
        self.lists.lock().waiting.get(index).copied()
    }

    /// Nothing waits any more, and what was traced is not known: the cycle is given up.
    pub fn forget(&self) {
        let mut lists = self.lists.lock();
        lists.waiting.clear();
        lists.record = Record::Lacking;
        self.count.store(0, SeqCst);
    }

    /// All that is traced from here on is to be remembered: the stop begins in which everything is.
    pub fn begin_tracing(&self) {
        let mut lists = self.lists.lock();
        lists.traced.clear();
        lists.record = Record::Kept;
    }

    /// Everything reachable is traced: references are processed from here on.
    pub fn end_tracing(&self) {
        let mut lists = self.lists.lock();
        if lists.record == Record::Kept {
            lists.record = Record::Complete;
        }
    }

    /// The function of an object is called.
    pub fn note_traced(&self, object: usize) {
        let mut lists = self.lists.lock();
        let kept = lists.record == Record::Kept
            && lists.traced.len() < MOST_TRACED
            && lists.traced.try_push(object).is_ok();
        if !kept {
            lists.record = Record::Lacking;
        }
    }

    /// Whether the next cycle can trace again what the last one did.
    pub fn are_traced_known(&self) -> bool {
        self.lists.lock().record == Record::Complete
    }

    /// Puts those aside that the last cycle traced and that are still `marked`: the program may
    /// have freed others. False without memory for it.
    pub fn put_traced(&self, marked: impl Fn(usize) -> bool) -> bool {
        let mut lists = self.lists.lock();
        let Lists { waiting, traced, .. } = &mut *lists;
        let mut put = traced.iter().filter(|object| marked(**object));
        let complete = put.all(|object| waiting.try_push(*object).is_ok());
        self.count.store(waiting.len(), SeqCst);
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(aside: &Aside) -> Vec<usize> {
        let mut objects: Vec<usize> = core::iter::from_fn(|| aside.take()).collect();
        objects.sort_unstable();
        objects
    }

    #[test]
    fn the_next_cycle_gets_what_the_last_one_traced_and_the_program_did_not_free() {
        let aside = Aside::new();
        assert!(aside.are_traced_known(), "there is none");
        aside.put(1).unwrap();
        aside.begin_tracing();
        assert!(aside.has_some() && waiting(&aside) == [1] && !aside.has_some());
        [1, 2, 3].into_iter().for_each(|object| aside.note_traced(object));
        assert!(!aside.are_traced_known(), "more may come");
        aside.end_tracing();
        assert!(aside.are_traced_known() && aside.put_traced(|object| object != 2));
        assert!(aside.has_some());
        assert_eq!(waiting(&aside), [1, 3]);
        aside.begin_tracing();
        aside.end_tracing();
        assert!(aside.put_traced(|_| true) && !aside.has_some());
    }

    #[test]
    fn what_is_put_aside_again_waits_once() {
        let aside = Aside::new();
        [3, 1, 3, 2, 1, 3].into_iter().for_each(|object| aside.put(object).unwrap());
        aside.forget_repeated(5);
        assert!(aside.at(5).is_some(), "there are more");
        aside.forget_repeated(6);
        assert!(aside.at(2).is_some() && aside.at(3).is_none());
        assert_eq!(waiting(&aside), [1, 2, 3]);
        aside.forget_repeated(6);
        assert!(!aside.has_some());
    }

    #[test]
    fn what_finalizers_keep_and_what_is_too_much_makes_the_next_cycle_a_full_one() {
        let aside = Aside::new();
        aside.begin_tracing();
        aside.end_tracing();
        aside.note_traced(1);
        assert!(!aside.are_traced_known());
        aside.begin_tracing();
        (0..=MOST_TRACED).for_each(|object| aside.note_traced(object));
        aside.end_tracing();
        assert!(!aside.are_traced_known());
        aside.begin_tracing();
        aside.end_tracing();
        assert!(aside.are_traced_known());
        aside.put(1).unwrap();
        aside.forget();
        assert!(!aside.has_some() && !aside.are_traced_known());
    }
}
