//! The slots behind links and toggle references: those of handles, in a space of their own.
//!
//! Invariant: used under the lock of `refs` or with the world stopped, and processed in the stop:
//! the program may read a link's hidden pointer without a call, so a dead one has to be gone before
//! the world runs again. One cache serves all threads, for the lock makes them one.

use core::sync::atomic::Ordering::Relaxed;

use crate::refs::handles::domain::{DomainId, Space};
use crate::refs::handles::handle::{Cache, Handle};
use crate::refs::handles::segment::Class;
use crate::refs::handles::slot::{Kind, Word};
use crate::refs::handles::{retargeted, weak};
use crate::refs::{Marking, NoMemory};

/// A space and who allocates from it.
pub(crate) struct HeldSlots {
    space: Space,
    cache: Cache,
}

#[cfg(not(test))]
use crate::refs::handles::process::{object, target};

/// In unit tests objects are small numbers.
#[cfg(test)]
fn target(object: usize) -> Option<u64> {
    Some(object as u64)
}
#[cfg(test)]
fn object(target: u64) -> usize {
    target as usize
}

fn object_of(word: Word) -> usize {
    object(word.target())
}

impl HeldSlots {
    /// Without a slot.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { space: Space::new(), cache: Cache::new() }
    }

    /// Without a slot.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { space: Space::new(), cache: Cache::new() }
    }

    /// A handle of `kind` to an object.
    pub(crate) fn allocate(&self, kind: Kind, object: usize) -> Result<Handle, NoMemory> {
        let target = target(object).ok_or(NoMemory)?;
        let made = self.space.allocate(&self.cache, DomainId::DEFAULT, kind, target, 0);
        made.map_err(|_| NoMemory)
    }

    /// Its object; 0 if that died.
    pub(crate) fn object(&self, handle: Handle) -> usize {
        self.space.look_up(handle).map_or(0, |(_, _, word)| object(word.target()))
    }

    /// Makes it refer to another object.
    pub(crate) fn set(&self, handle: Handle, object: usize) {
        if let Some(target) = target(object) {
            // It is ours, so it is not stale.
            if let Ok(word) = self.space.set(handle, target) {
                retargeted::note([object_of(word)]);
            }
        }
    }

    /// Makes it one of another kind.
    pub(crate) fn change_kind(&self, handle: Handle, kind: Kind) {
        if let Ok((segment, index, word)) = self.space.look_up(handle) {
            let changed = Word::new(kind, word.target(), word.generation());
            segment.slot(index).store(changed.0, Relaxed);
        }
    }

    /// Frees it.
    pub(crate) fn free(&self, handle: Handle) {
        // As in `set`.
        if let Ok(freed) = self.space.free_handle(&self.cache, handle) {
            retargeted::note([object_of(freed.word)]);
        }
    }

    /// Marks the objects of strong ones.
    pub(crate) fn trace_strong<M: Marking>(&self, marking: &mut M) {
        for segment in self.space.buckets.of_class(Class::Strong) {
            for index in segment.used() {
                let word = Word(segment.slot(index).load(Relaxed));
                if word.kind().is_strong() {
                    marking.mark(object(word.target()));
                }
            }
        }
    }

    /// Makes those of `kind` null whose objects are not marked.
    pub(crate) fn expire<M: Marking>(&self, kind: Kind, marking: &M) {
        // A toggle reference that is weak now lies among the strong ones.
        for class in [Class::Weak, Class::Strong] {
            weak::expire(&self.space, class, kind, marking, &object);
        }
    }

    /// Whether a weak one refers to an object that is not marked.
    pub(crate) fn any_dies<M: Marking>(&self, marking: &M) -> bool {
        [Class::Weak, Class::Strong]
            .into_iter()
            .any(|class| weak::any_dies(&self.space, class, marking, &object))
    }
}
