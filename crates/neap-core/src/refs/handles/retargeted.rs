//! Objects that weak references led to until they were freed or led elsewhere, while a snapshot is
//! marked: somebody may have been given such an object before.
//!
//! Invariant `[refs.inv.retargeted]`: an object that was unreachable in the snapshot and that
//! somebody got by a weak reference since is, at the last stop, the object of a weak reference or
//! in here. Who reads says so before it makes sure that the reference still leads there, who
//! changes it looks afterwards whether somebody said so, both with a locked instruction between:
//! one of them sees the other. Noting happens in the critical section of the change; the rest by
//! the cycle.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::heap::HEAP;
use crate::refs::marking::Marking;

/// So many are remembered; where there are more, one of them may have been brought back. Larger:
/// fewer snapshots in vain.
const MOST: usize = 1024;

/// Complements of their addresses: static data of a program that the library is linked into is read
/// as roots.
static HIDDEN: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
/// How many there were, of which the first [`MOST`] are remembered.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A weak reference does not lead to these objects any more (0: none).
#[inline]
pub(crate) fn note(objects: impl IntoIterator<Item = usize>) {
    if HEAP.state.was_revealed() {
        objects.into_iter().filter(|object| *object != 0).for_each(remember);
    }
}

#[cold]
fn remember(object: usize) {
    if let Some(place) = HIDDEN.get(COUNT.fetch_add(1, Relaxed)) {
        place.store(!object, Relaxed);
    }
}

/// Whether one of them may be an object that is not marked. After marking, world stopped.
pub(crate) fn any_dies<M: Marking>(marking: &M) -> bool {
    let count = COUNT.load(Relaxed);
    let is_dead = |place: &AtomicUsize| !marking.is_marked(!place.load(Relaxed));
    HIDDEN.get(..count).is_none_or(|objects| objects.iter().any(is_dead))
}

/// Before a snapshot is taken, world stopped.
pub(crate) fn forget() {
    COUNT.store(0, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_no_pointer() {
        let object = 0x7000_0000_1230;
        remember(object);
        assert_eq!(COUNT.load(Relaxed), 1);
        assert!(HIDDEN.iter().all(|place| place.load(Relaxed) != object));
        assert_eq!(!HIDDEN[0].load(Relaxed), object);
    }
}
