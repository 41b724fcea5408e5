//! Which finalizers become ready: the rules of order, over any marker.
//!
//! Invariant: an object is queued only if nothing but finalizable objects that are allowed to reach it does; and once it is queued, it and all
//! that it reaches are marked. World stopped, called by [`super::Refs::settle`]; allocates nothing.

use super::Marking;
use super::finalizer::{Finalizers, Order};

/// Moves dead finalizable objects to the ready queue and marks what they keep.
pub(crate) fn settle<M: Marking>(finalizers: &mut Finalizers, marking: &mut M) {
    // Room was reserved at registration.
    let mut dead = core::mem::take(&mut finalizers.scratch);
    dead.clear();
    for (index, entry) in finalizers.table.entries().iter().enumerate() {
        if !marking.is_marked(entry.object) {
            dead.push(index as u32);
        }
    }

    // What ordered ones reach has to wait for them. An object that marks itself so lies on a cycle, and waits for ever.
    for &index in dead.iter() {
        let entry = &finalizers.table.entries()[index as usize];
        match entry.order {
            Order::Topological | Order::Unreachable => marking.mark_contents(entry.object),
            Order::IgnoreSelf => marking.mark_contents_except_self(entry.object),
            Order::NoOrder => {}
        }
    }
    marking.drain();
    let object =
        |finalizers: &Finalizers, index: u32| finalizers.table.entries()[index as usize].object;
    let order =
        |finalizers: &Finalizers, index: u32| finalizers.table.entries()[index as usize].order;
    retain(&mut dead, |index| !marking.is_marked(object(finalizers, index)));

    // All that is queued is decided before any of it is marked: unordered objects do not hold each other back,
    // only those that ask to be run last.
    for &index in dead.iter() {
        if order(finalizers, index) != Order::Unreachable {
            marking.mark(object(finalizers, index));
        }
    }
    marking.drain();
    retain(&mut dead, |index| {
        order(finalizers, index) != Order::Unreachable
            || !marking.is_marked(object(finalizers, index))
    });
    for &index in dead.iter() {
        if order(finalizers, index) == Order::Unreachable {
            marking.mark(object(finalizers, index));
        }
    }
    marking.drain();

    // From the highest index down: the entry that fills the hole has been decided about already.
    for &index in dead.iter().rev() {
        finalizers.queue(index as usize);
    }
    finalizers.scratch = dead;
}

fn retain(list: &mut crate::sys::meta_vec::MetaVec<u32>, mut keep: impl FnMut(u32) -> bool) {
    let mut kept = 0;
    for position in 0..list.len() {
        let index = list[position];
        if keep(index) {
            list[kept] = index;
            kept += 1;
        }
    }
    list.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::super::Refs;
    use super::super::fake_marking::{FakeMarking, finalizer};
    use super::Order::{self, *};

    /// Registers `orders`, settles, and gives the ready objects.
    fn ready(
        orders: &[(usize, Order)],
        edges: &[(usize, usize)],
        roots: &[usize],
    ) -> (Vec<usize>, FakeMarking) {
        let mut refs = Refs::new();
        for &(object, order) in orders {
            refs.finalizers.set(object, Some(finalizer(order, 0))).unwrap();
        }
        let mut marking = FakeMarking::new(edges);
        marking.run(&mut refs, roots);
        (refs.finalizers.ready_objects(), marking)
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
        let mut refs = Refs::new();
        for object in [1, 2, 3] {
            refs.finalizers.set(object, Some(finalizer(Topological, 0))).unwrap();
        }
        for expected in [1, 2, 3] {
            let mut marking = FakeMarking::new(&[(1, 2), (2, 3)]);
            marking.run(&mut refs, &[]);
            assert_eq!(refs.finalizers.take_ready().map(|(object, _)| object), Some(expected));
            assert!(refs.finalizers.take_ready().is_none());
        }
        assert_eq!(refs.finalizers.table.len(), 0);
    }

    #[test]
    fn what_is_ready_stays_alive_until_it_ran() {
        let mut refs = Refs::new();
        refs.finalizers.set(1, Some(finalizer(NoOrder, 7))).unwrap();
        let edges = [(1, 2), (7, 8)];
        FakeMarking::new(&edges).run(&mut refs, &[]);
        let mut later = FakeMarking::new(&edges);
        later.run(&mut refs, &[]);
        assert!([1, 2, 7, 8].iter().all(|&object| later.is_marked_now(object)));
        refs.finalizers.take_ready().unwrap();
        let mut last = FakeMarking::new(&edges);
        last.run(&mut refs, &[]);
        assert!([1, 2, 7, 8].iter().all(|&object| !last.is_marked_now(object)));
    }

    #[test]
    fn data_of_a_registered_finalizer_is_a_root() {
        let mut refs = Refs::new();
        refs.finalizers.set(1, Some(finalizer(Topological, 7))).unwrap();
        let mut marking = FakeMarking::new(&[(7, 8)]);
        marking.run(&mut refs, &[1]);
        assert!(marking.is_marked_now(7) && marking.is_marked_now(8));
    }

    #[test]
    fn ten_thousand_of_which_every_third_lives() {
        let mut refs = Refs::new();
        for object in 1..=10_000 {
            refs.finalizers.set(object, Some(finalizer(NoOrder, 0))).unwrap();
        }
        let roots: Vec<usize> = (1..=10_000).filter(|object| object % 3 == 0).collect();
        FakeMarking::new(&[]).run(&mut refs, &roots);
        let dead: Vec<usize> = (1..=10_000).filter(|object| object % 3 != 0).collect();
        assert_eq!(refs.finalizers.ready_objects(), dead);
        assert!(roots.iter().all(|&object| refs.finalizers.table.get(object).is_some()));
    }

    #[test]
    fn replacing_and_removing_give_the_former_finalizer() {
        let mut refs = Refs::new();
        assert!(refs.finalizers.set(1, None).unwrap().is_none());
        assert!(refs.finalizers.set(1, Some(finalizer(NoOrder, 7))).unwrap().is_none());
        let old = refs.finalizers.set(1, Some(finalizer(Topological, 8))).unwrap().unwrap();
        assert_eq!((old.order, old.data as usize), (NoOrder, 7));
        let old = refs.finalizers.set(1, None).unwrap().unwrap();
        assert_eq!((old.order, old.data as usize), (Topological, 8));
        FakeMarking::new(&[]).run(&mut refs, &[]);
        assert_eq!(refs.finalizers.ready_objects(), []);
    }
}
