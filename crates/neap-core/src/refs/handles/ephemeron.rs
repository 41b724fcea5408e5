//! Ephemerons: a key and a value, of which the value is kept alive only while the key is alive by
//! other ways than through the value.
//!
//! Invariant: a pair's key and its value are of one generation, so a value is never read with
//! another pair's key. A key that nothing but finalizers could reach is dead: the pair expires
//! before finalizers run, as a weak handle does. The pair is two neighbouring slots; the cycle
//! calls [`propagate`] until nothing changes, and then [`expire`].

use super::domain::Space;
use super::handle::{Handle, HandleError, replace};
use super::segment::{Class, Segment};
use super::slot::{Kind, Word};
use super::weak::{Batch, Expired};
use crate::refs::marking::Marking;
use crate::sync::atomic::Ordering::*;

/// Marks the values of pairs whose keys are marked; whether it marked any that was not. To be
/// called again after draining until it says no. `begins` is called before something is marked.
pub(crate) fn propagate<M: Marking>(
    space: &Space,
    marking: &mut M,
    object: &impl Fn(u64) -> usize,
    mut begins: impl FnMut(),
) -> bool {
    let mut changed = false;
    if !space.buckets.has_class(Class::Pair) {
        return changed;
    }
    let mut batch = Batch::new();
    let mut values = Batch::new();
    for segment in space.buckets.of_class(Class::Pair) {
        batch.fill(segment, Kind::Ephemeron);
        values.clear();
        batch.with_marks(marking, object, |index, key, marked| {
            let value = Word(segment.slot(index + 1).load(Acquire));
            // A thread may have been stopped between the two stores of a new pair.
            if marked && value.target() != 0 && value.generation() == key.generation() {
                values.push(index + 1, value);
            }
        });
        let mut news = Batch::new();
        values.with_marks(marking, object, |index, value, marked| {
            if !marked {
                news.push(index, value);
            }
        });
        if news.len() > 0 {
            begins();
        }
        for (_, value) in news.iter() {
            marking.mark(object(value.target()));
        }
        if news.len() > 0 {
            // What was reached now may be a key of a pair that comes later.
            marking.drain();
            // A value that was freed is not marked, however often it is tried.
            changed |= news.iter().any(|(_, value)| marking.is_marked(object(value.target())));
        }
    }
    changed
}

/// Ends the pairs whose keys are not marked.
pub(crate) fn expire<M: Marking>(
    space: &Space,
    marking: &M,
    object: &impl Fn(u64) -> usize,
) -> Expired {
    let mut sum = Expired::default();
    if !space.buckets.has_class(Class::Pair) {
        return sum;
    }
    let mut batch = Batch::new();
    for segment in space.buckets.of_class(Class::Pair) {
        batch.fill(segment, Kind::Ephemeron);
        sum.seen += batch.len();
        batch.with_marks(marking, object, |index, word, marked| {
            if !marked && replace(segment, index, word, word.with_target(0)) {
                forget_value(segment, index, word.generation());
                sum.expired += 1;
            }
        });
    }
    sum
}

/// Empties the value of an expired pair, unless the pair was freed meanwhile.
fn forget_value(segment: &Segment, index: u32, generation: u32) {
    let mut value = Word(segment.slot(index + 1).load(Relaxed));
    while value.generation() == generation && value.target() != 0 {
        if replace(segment, index + 1, value, value.with_target(0)) {
            return;
        }
        value = Word(segment.slot(index + 1).load(Relaxed));
    }
}

/// A pair that belongs together.
pub(crate) struct Pair<'s> {
    pub(crate) segment: &'s Segment,
    pub(crate) index: u32,
    pub(crate) key: Word,
    pub(crate) value: Word,
}

impl Pair<'_> {
    /// Whether the slots still hold what was read. What was decoded before is an object then, if it
    /// was in a register.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.segment.slot(self.index).load(Acquire) == self.key.0
            && self.segment.slot(self.index + 1).load(Acquire) == self.value.0
    }
}

/// Reads a pair, which may be changed meanwhile: see [`Pair::is_unchanged`].
pub(crate) fn look_up(space: &Space, handle: Handle) -> Result<Pair<'_>, HandleError> {
    let (segment, index, key) = space.look_up(handle)?;
    if key.kind() != Kind::Ephemeron {
        return Err(HandleError::WrongKind);
    }
    let value = Word(segment.slot(index + 1).load(Acquire));
    Ok(Pair { segment, index, key, value })
}

/// Changes the value, if it is `expected` where that is given; gives the former one. None if the
/// key is dead.
pub(crate) fn set(
    space: &Space,
    handle: Handle,
    expected: Option<u64>,
    value: u64,
) -> Result<Option<u64>, HandleError> {
    loop {
        let pair = look_up(space, handle)?;
        if pair.key.target() == 0 {
            return Ok(None);
        }
        if pair.value.generation() != pair.key.generation() {
            continue;
        }
        let held = pair.value.target();
        if expected.is_some_and(|expected| expected != held)
            || replace(pair.segment, pair.index + 1, pair.value, pair.value.with_target(value))
        {
            return Ok(Some(held));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::domain::DomainId;
    use super::super::handle::Cache;
    use super::*;
    use crate::refs::fake_marking::FakeMarking;

    const OBJECT: fn(u64) -> usize = |target| target as usize;

    fn allocate(space: &Space, cache: &Cache, key: u64, value: u64) -> Handle {
        space.allocate(cache, DomainId::DEFAULT, Kind::Ephemeron, key, value).unwrap()
    }

    /// Marks from roots, then as the cycle does.
    fn run(space: &Space, edges: &[(usize, usize)], roots: &[usize]) -> FakeMarking {
        let mut marking = FakeMarking::new(edges);
        for &root in roots {
            marking.mark(root);
        }
        marking.drain();
        while propagate(space, &mut marking, &OBJECT, || {}) {
            marking.drain();
        }
        expire(space, &marking, &OBJECT);
        marking
    }

    fn pair(space: &Space, handle: Handle) -> (u64, u64) {
        let pair = look_up(space, handle).unwrap();
        (pair.key.target(), pair.value.target())
    }

    #[test]
    fn a_value_lives_with_its_key_and_no_longer() {
        let (space, cache) = (Space::new(), Cache::new());
        let (live, dead) = (allocate(&space, &cache, 1, 10), allocate(&space, &cache, 2, 20));
        let marking = run(&space, &[(10, 11)], &[1]);
        assert!(marking.is_marked_now(10) && marking.is_marked_now(11));
        assert!(!marking.is_marked_now(20));
        assert_eq!((pair(&space, live), pair(&space, dead)), ((1, 10), (0, 0)));
        assert_eq!(set(&space, dead, None, 5), Ok(None));
        space.free_handle(&cache, dead).unwrap();
        assert!(look_up(&space, dead).is_err());
    }

    #[test]
    fn a_value_that_reaches_its_key_does_not_keep_it() {
        let (space, cache) = (Space::new(), Cache::new());
        let handle = allocate(&space, &cache, 1, 10);
        assert!(!run(&space, &[(10, 1)], &[]).is_marked_now(1));
        assert_eq!(pair(&space, handle), (0, 0));
    }

    #[test]
    fn following_ends_where_a_value_was_freed_or_is_of_another_pair() {
        let (space, cache) = (Space::new(), Cache::new());
        let handle = allocate(&space, &cache, 1, 10);
        let mut marking = FakeMarking::new(&[]);
        marking.free(10);
        marking.mark(1);
        marking.drain();
        assert!(!propagate(&space, &mut marking, &OBJECT, || {}));
        let Pair { segment, index, value, .. } = look_up(&space, handle).unwrap();
        let stale = Word::new(value.kind(), 20, value.generation() + 1);
        segment.slot(index + 1).store(stale.0, Relaxed);
        assert!(!propagate(&space, &mut marking, &OBJECT, || {}));
        assert!(!marking.is_marked_now(20));
    }

    #[test]
    fn chains_through_pairs_in_any_order_are_followed_to_the_end() {
        let (space, cache) = (Space::new(), Cache::new());
        // 7 is coprime to 2000: the pairs are allocated in an order that has nothing to do with the
        // chain's.
        let handles: Vec<_> = (0..2000_u64)
            .map(|number| {
                let key = number * 7 % 2000 + 1;
                allocate(&space, &cache, key, key + 1)
            })
            .collect();
        let marking = run(&space, &[], &[1000]);
        assert!((1000..=2001).all(|object| marking.is_marked_now(object)));
        assert!((1..1000).all(|object| !marking.is_marked_now(object)));
        let live = handles.iter().filter(|handle| pair(&space, **handle).0 != 0).count();
        assert_eq!(live, 1001);
    }

    #[test]
    fn setting_and_comparing_values() {
        let (space, cache) = (Space::new(), Cache::new());
        let handle = allocate(&space, &cache, 1, 10);
        assert_eq!(set(&space, handle, None, 11), Ok(Some(10)));
        assert_eq!(set(&space, handle, Some(10), 12), Ok(Some(11)));
        assert_eq!(pair(&space, handle), (1, 11));
        assert_eq!(set(&space, handle, Some(11), 12), Ok(Some(11)));
        assert_eq!(pair(&space, handle), (1, 12));
        let weak = space.allocate(&cache, DomainId::DEFAULT, Kind::Weak, 1, 0).unwrap();
        assert_eq!(set(&space, weak, None, 1), Err(HandleError::WrongKind));
        assert_eq!(space.set(handle, 3), Err(HandleError::WrongKind));
    }
}
