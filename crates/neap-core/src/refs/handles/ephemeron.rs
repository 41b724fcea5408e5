//! Ephemerons: a key and a value, of which the value is kept alive only while the key is alive by
//! other ways than through the value.
//!
//! Invariant: a pair's key and its value are of one generation, so a value is never read with
//! another pair's key. A key that nothing but finalizers could reach is dead: the pair expires
//! before finalizers run, as a weak handle does. The pair is two neighbouring slots; the cycle
//! takes steps by [`follow`] until nothing changes, and then calls [`expire`].

use super::domain::Space;
use super::handle::{Handle, HandleError, replace};
use super::segment::{Class, Segment};
use super::slot::{Kind, Word};
use super::weak::{Batch, Expired};
use crate::refs::marking::Marking;
use crate::sync::atomic::Ordering::*;

/// Passes over all pairs that may give news before values are marked with their keys. Larger: no
/// table for longer chains; smaller: fewer looks at all marks before one.
const PASSES: usize = 3;

/// Marks the values of pairs whose keys are marked; whether it may have marked any that was not. To
/// be called again after draining until it says no, with how often it was. `begins` is called
/// before something is marked.
///
/// `[refs.inv.chains]`: a pass may find no more than one link of a chain, so after a few the values
/// are marked with their keys, which follows chains of any length and order to their ends. Another
/// pass finds what that missed, and pairs that the program has changed meanwhile. Where there is no
/// memory for it there are only passes.
pub(crate) fn follow<M: Marking>(
    space: &Space,
    marking: &mut M,
    object: &impl Fn(u64) -> usize,
    steps: usize,
    mut begins: impl FnMut(),
) -> bool {
    if steps % (PASSES + 1) == PASSES {
        begins();
        if marking.mark_by_keys(&mut all(space, object)) {
            return true;
        }
    }
    propagate(space, marking, object, begins)
}

/// Keys and values of all pairs.
fn all(space: &Space, object: &impl Fn(u64) -> usize) -> impl Iterator<Item = (usize, usize)> {
    space.buckets.of_class(Class::Pair).flat_map(move |segment| {
        segment.used().filter_map(move |index| {
            let key = Word(segment.slot(index).load(Acquire));
            let value = Word(segment.slot(index + 1).load(Acquire));
            let is_pair = key.kind() == Kind::Ephemeron && key.target() != 0;
            (is_pair && belongs(value, key)).then(|| (object(key.target()), object(value.target())))
        })
    })
}

/// Whether it is a value, of this key. A thread may have been stopped between the two stores of a
/// new pair.
fn belongs(value: Word, key: Word) -> bool {
    value.target() != 0 && value.generation() == key.generation()
}

/// One pass: see [`follow`].
fn propagate<M: Marking>(
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
            if marked && belongs(value, key) {
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
        follow_all(space, &mut marking);
        expire(space, &marking, &OBJECT);
        marking
    }

    fn follow_all(space: &Space, marking: &mut FakeMarking) {
        let mut steps = 0;
        while follow(space, marking, &OBJECT, steps, || {}) {
            marking.drain();
            steps += 1;
        }
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

    /// A chain of `links` pairs, the objects between them reached through others: what following it
    /// asks, by [refs.inv.chains] or by passes alone.
    fn asked_for_chain(links: u64, by_passes: bool) -> usize {
        let (space, cache) = (Space::new(), Cache::new());
        for link in 0..links {
            allocate(&space, &cache, 2 * link + 1, 2 * link + 2);
        }
        let edges: Vec<_> = (1..=links as usize).map(|link| (2 * link, 2 * link + 1)).collect();
        let mut marking = FakeMarking::new(&edges);
        marking.refuses_keys = by_passes;
        marking.mark(1);
        marking.drain();
        follow_all(&space, &mut marking);
        assert!((1..=2 * links as usize + 1).all(|object| marking.is_marked_now(object)));
        marking.asked.get()
    }

    #[test]
    fn a_chain_costs_a_few_looks_at_each_pair() {
        let asked = asked_for_chain(20_000, false);
        assert!(asked < 20_000 * 16, "[refs.inv.chains] asked {asked} times for 20,000 pairs");
    }

    #[test]
    fn without_memory_for_a_table_passes_follow_a_chain_to_its_end() {
        asked_for_chain(400, true);
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
