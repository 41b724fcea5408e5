//! Which finalizers become ready: the rules of order, over any marker.
//!
//! Invariant: an object is queued only if nothing but finalizable objects that are allowed to reach
//! it does; and once it is queued, it and all that it reaches are marked. Called by
//! [`crate::refs::Refs::process_references`] on the cycle's thread; mutators may register
//! meanwhile, for objects that are marked.

use core::sync::atomic::Ordering::*;

use super::finalizer::{Finalizers, Order, Processing, call_of};
use super::registrations::{Verdict, kind_of, object_of, void};
use super::slab::Entry;
use crate::refs::Marking;

/// Objects between the one that is marked from and the one whose marks are fetched. Larger: hides
/// longer latencies; smaller: what was fetched is still there.
const AHEAD: usize = 4;

/// Moves dead finalizable objects to batches, marks what they keep, and hands the batches over. Of
/// each round all that is ready is decided before any of it is marked: `[refs.rule.decide-first]`.
pub(crate) fn process_references<M: Marking>(
    finalizers: &Finalizers,
    processing: &mut Processing,
    marking: &mut M,
) {
    let complete = if finalizers.ordered.load(SeqCst) {
        process_in_order(finalizers, processing, marking)
    } else {
        process_unordered(finalizers, processing, marking)
    };
    processing.filling.mark(marking);
    if !complete {
        keep_all(finalizers, marking);
    }
    processing.filling.publish();
}

/// There was no memory to queue something: all that is still registered waits for the next cycle.
#[cold]
fn keep_all<M: Marking>(finalizers: &Finalizers, marking: &mut M) {
    finalizers.registry.for_each(|entry| {
        marking.mark(object_of(entry.object.load(Acquire)));
        marking.drain();
    });
}

/// Queues the call of an entry that is taken out, or made void afterwards; false without memory.
/// Its object is dead, so nobody can be taking the registration back meanwhile.
fn queue(processing: &mut Processing, entry: &Entry) -> bool {
    if processing.filling.reserve().is_err() {
        return false;
    }
    processing.filling.push(call_of(entry, entry.object.load(Acquire)));
    true
}

/// Where nothing waits for anything else all that is dead is ready.
fn process_unordered<M: Marking>(
    finalizers: &Finalizers,
    processing: &mut Processing,
    marking: &M,
) -> bool {
    let mut complete = true;
    for piece in 0..finalizers.registry.pieces() {
        finalizers.registry.walk(piece, |entry| {
            if marking.is_marked(object_of(entry.object.load(Acquire))) {
                return Verdict::Keep;
            }
            if queue(processing, entry) {
                return Verdict::Drop;
            }
            complete = false;
            Verdict::Keep
        });
    }
    complete
}

/// A dead entry's object.
fn object(address: usize) -> usize {
    object_of(entry(address).object.load(Relaxed))
}

fn order(address: usize) -> Order {
    Order::of_kind(kind_of(entry(address).object.load(Relaxed)))
}

fn entry(address: usize) -> &'static Entry {
    super::registrations::entry(address)
}

fn process_in_order<M: Marking>(
    finalizers: &Finalizers,
    processing: &mut Processing,
    marking: &mut M,
) -> bool {
    let mut dead = core::mem::take(&mut processing.dead);
    let mut complete = true;
    dead.clear();
    for piece in 0..finalizers.registry.pieces() {
        finalizers.registry.walk(piece, |entry| {
            if !marking.is_marked(object_of(entry.object.load(Acquire))) {
                complete &= dead.try_push(core::ptr::from_ref(entry) as usize).is_ok();
            }
            Verdict::Keep
        });
    }
    // What ordered ones reach has to wait for them. An object that marks itself so lies on a cycle,
    // and waits for ever: which do is seen by marking from one after the other.
    let looks = processing.held_for_ever.begin();
    for (position, &address) in dead.iter().enumerate() {
        if looks {
            prefetch(&dead, position, marking);
        }
        let waits_already = looks && marking.is_marked(object(address));
        match order(address) {
            Order::Topological | Order::Unreachable => marking.mark_contents(object(address)),
            Order::IgnoreSelf => marking.mark_contents_except_self(object(address)),
            Order::NoOrder => continue,
        }
        if looks {
            marking.drain();
            if !waits_already && marking.is_marked(object(address)) {
                processing.held_for_ever.note(object(address));
            }
        }
    }
    marking.drain();
    retain(&mut dead, |address| !marking.is_marked(object(address)));
    // All that is queued is decided before any of it is marked: unordered objects do not hold each
    // other back, only those that ask to be run last.
    for &address in dead.iter() {
        if order(address) != Order::Unreachable {
            marking.mark(object(address));
        }
    }
    marking.drain();
    retain(&mut dead, |address| {
        order(address) != Order::Unreachable || !marking.is_marked(object(address))
    });
    for &address in dead.iter() {
        if queue(processing, entry(address)) {
            // The next cycle takes it out of its list.
            void(entry(address), entry(address).object.load(Acquire));
        } else {
            complete = false;
        }
    }
    processing.dead = dead;
    complete
}

/// Has what is asked soon about dead objects fetched.
fn prefetch<M: Marking>(dead: &[usize], position: usize, marking: &M) {
    if let Some(&ahead) = dead.get(position + 2 * AHEAD) {
        marking.prefetch_header(object(ahead));
    }
    if let Some(&ahead) = dead.get(position + AHEAD) {
        marking.prefetch_marks(object(ahead));
    }
}

fn retain(list: &mut crate::sys::meta_vec::MetaVec<usize>, mut keep: impl FnMut(usize) -> bool) {
    let mut kept = 0;
    for position in 0..list.len() {
        let address = list[position];
        if keep(address) {
            list[kept] = address;
            kept += 1;
        }
    }
    list.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::Order::{self, *};
    use crate::refs::Refs;
    use crate::refs::fake_marking::{FakeMarking, finalizer};

    /// Registers `orders`, processes them, and gives the ready objects.
    fn ready(
        orders: &[(usize, Order)],
        edges: &[(usize, usize)],
        roots: &[usize],
    ) -> (Vec<usize>, FakeMarking) {
        let refs = Refs::new();
        for &(object, order) in orders {
            refs.finalizers.set(object, Some(finalizer(order, 0))).unwrap();
        }
        let mut marking = FakeMarking::new(edges);
        marking.run(&refs, roots);
        (refs.ready_objects(), marking)
    }

    #[test]
    fn live_objects_are_not_queued() {
        assert_eq!(ready(&[(1, Topological), (2, NoOrder)], &[(1, 2)], &[1]).0, []);
    }

    #[test]
    fn topological_runs_the_outermost_only() {
        let orders = [(1, Topological), (2, Topological), (3, Topological)];
        let (queued, marking) = ready(&orders, &[(1, 2), (2, 3), (3, 4)], &[]);
        assert_eq!(queued, [1]);
        assert!((1..=4).all(|object| marking.is_marked_now(object)));
    }

    #[test]
    fn topological_waits_behind_objects_without_finalizers() {
        assert_eq!(ready(&[(1, Topological), (3, Topological)], &[(1, 2), (2, 3)], &[]).0, [1]);
    }

    #[test]
    fn cycles_are_never_queued() {
        let (queued, marking) =
            ready(&[(1, Topological), (2, Topological)], &[(1, 2), (2, 1)], &[]);
        assert_eq!(queued, []);
        assert!(marking.is_marked_now(1) && marking.is_marked_now(2));
        assert_eq!(ready(&[(1, Topological)], &[(1, 1)], &[]).0, []);
    }

    #[test]
    fn one_of_each_cycle_is_said_to_be_held_for_ever() {
        let held = |orders: &[(usize, Order)], edges: &[(usize, usize)]| {
            let refs = Refs::new();
            for &(object, order) in orders {
                refs.finalizers.set(object, Some(finalizer(order, 0))).unwrap();
            }
            FakeMarking::new(edges).run(&refs, &[]);
            let list = &mut refs.found.lock().processing.held_for_ever;
            let mut held: Vec<usize> = std::iter::repeat_with(|| list.take() >> 32)
                .take_while(|object| *object != 0)
                .collect();
            held.sort_unstable();
            held
        };
        let both = |order| [(1, order), (2, order)];
        assert_eq!(held(&both(Topological), &[(1, 2), (2, 1)]), []);
        crate::refs::finalizers::held_for_ever::want();
        assert_eq!(held(&both(Topological), &[(1, 2), (2, 1)]).len(), 1);
        assert_eq!(held(&both(Topological), &[(1, 1), (2, 2)]), [1, 2]);
        assert_eq!(held(&[(1, Topological)], &[(1, 3), (3, 1)]), [1]);
        assert_eq!(held(&both(Topological), &[(1, 2), (2, 3)]), []);
        assert_eq!(held(&both(NoOrder), &[(1, 2), (2, 1), (1, 1)]), []);
        assert_eq!(held(&both(IgnoreSelf), &[(1, 1), (1, 2)]), []);
        assert_eq!(held(&both(IgnoreSelf), &[(1, 2), (2, 1)]).len(), 1);
        assert_eq!(held(&both(Unreachable), &[(1, 1), (1, 2)]), [1]);
    }

    #[test]
    fn ignore_self_ignores_only_direct_pointers_to_itself() {
        assert_eq!(ready(&[(1, IgnoreSelf)], &[(1, 1), (1, 2)], &[]).0, [1]);
        assert_eq!(ready(&[(1, IgnoreSelf)], &[(1, 2), (2, 1)], &[]).0, []);
        assert_eq!(ready(&[(1, IgnoreSelf), (2, IgnoreSelf)], &[(1, 1), (1, 2)], &[]).0, [1]);
    }

    #[test]
    fn no_order_queues_all_at_once() {
        let (queued, marking) =
            ready(&[(1, NoOrder), (2, NoOrder)], &[(1, 2), (2, 1), (2, 3)], &[]);
        assert_eq!(queued, [1, 2]);
        assert!(marking.is_marked_now(3));
    }

    #[test]
    fn no_order_is_held_back_by_ordered_ones() {
        assert_eq!(ready(&[(1, Topological), (2, NoOrder)], &[(1, 2)], &[]).0, [1]);
        assert_eq!(ready(&[(1, NoOrder), (2, Topological)], &[(1, 2)], &[]).0, [1, 2]);
    }

    #[test]
    fn unreachable_waits_for_unordered_ones_too() {
        assert_eq!(ready(&[(1, NoOrder), (2, Unreachable)], &[(1, 2)], &[]).0, [1]);
        assert_eq!(ready(&[(2, Unreachable)], &[(2, 3)], &[]).0, [2]);
        assert_eq!(ready(&[(1, Unreachable), (2, Unreachable)], &[(1, 2)], &[]).0, [1]);
    }

    #[test]
    fn a_held_back_one_comes_in_a_later_cycle() {
        let refs = Refs::new();
        for object in [1, 2, 3] {
            refs.finalizers.set(object, Some(finalizer(Topological, 0))).unwrap();
        }
        for expected in [1, 2, 3] {
            let mut marking = FakeMarking::new(&[(1, 2), (2, 3)]);
            marking.run(&refs, &[]);
            assert_eq!(refs.take_ready().map(|(object, _)| object), Some(expected));
            assert!(refs.take_ready().is_none());
        }
        assert_eq!(refs.finalizers.count(), 0);
    }

    #[test]
    fn what_is_ready_stays_alive_until_it_ran() {
        let refs = Refs::new();
        refs.finalizers.set(1, Some(finalizer(NoOrder, 7))).unwrap();
        let edges = [(1, 2), (7, 8)];
        FakeMarking::new(&edges).run(&refs, &[]);
        let mut later = FakeMarking::new(&edges);
        later.run(&refs, &[]);
        assert!([1, 2, 7, 8].iter().all(|&object| later.is_marked_now(object)));
        refs.take_ready().unwrap();
        let mut last = FakeMarking::new(&edges);
        last.run(&refs, &[]);
        assert!([1, 2, 7, 8].iter().all(|&object| !last.is_marked_now(object)));
    }

    /// Another thread has registered one, and the older one is still there.
    #[test]
    fn who_takes_finalizers_back_takes_back_all() {
        let refs = Refs::new();
        refs.finalizers.set(1, Some(finalizer(NoOrder, 7))).unwrap();
        let (object, newer) = (1 << 32, finalizer(NoOrder, 8));
        let own = crate::refs::fake_marking::own();
        let registry = &refs.finalizers.registry;
        registry.add(own, object, NoOrder.kind(), newer.function as usize, 8).unwrap();
        assert_eq!(refs.finalizers.set(1, None).unwrap().unwrap().data as usize, 8);
        assert!(refs.finalizers.get(object).is_none());
    }

    #[test]
    fn data_of_a_registered_finalizer_is_a_root() {
        let refs = Refs::new();
        refs.finalizers.set(1, Some(finalizer(Topological, 7))).unwrap();
        let mut marking = FakeMarking::new(&[(7, 8)]);
        marking.run(&refs, &[1]);
        assert!(marking.is_marked_now(7) && marking.is_marked_now(8));
    }

    #[test]
    fn ten_thousand_of_which_every_third_lives() {
        let refs = Refs::new();
        for object in 1..=10_000 {
            refs.finalizers.set(object, Some(finalizer(NoOrder, 0))).unwrap();
        }
        let roots: Vec<usize> = (1..=10_000).filter(|object| object % 3 == 0).collect();
        FakeMarking::new(&[]).run(&refs, &roots);
        let dead: Vec<usize> = (1..=10_000).filter(|object| object % 3 != 0).collect();
        assert_eq!(refs.ready_objects(), dead);
        assert!(roots.iter().all(|&object| refs.finalizers.get(object << 32).is_some()));
    }

    #[test]
    fn replacing_and_removing_give_the_former_finalizer() {
        let refs = Refs::new();
        assert!(refs.finalizers.set(1, None).unwrap().is_none());
        assert!(refs.finalizers.set(1, Some(finalizer(NoOrder, 7))).unwrap().is_none());
        let old = refs.finalizers.set(1, Some(finalizer(Topological, 8))).unwrap().unwrap();
        assert_eq!((old.order, old.data as usize), (NoOrder, 7));
        let old = refs.finalizers.set(1, None).unwrap().unwrap();
        assert_eq!((old.order, old.data as usize), (Topological, 8));
        FakeMarking::new(&[]).run(&refs, &[]);
        assert_eq!(refs.ready_objects(), []);
    }
}
