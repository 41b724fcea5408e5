//! The graph on the crate gc-arena: what keeps the nodes is the arena's root, in pieces, of which
//! only those are looked at again that were written. Collections are steps between operations.

use gc_arena::lock::{Lock, RefLock};
use gc_arena::{Arena, Collect, Gc, Mutation, Rootable};
use neap_bench_rust::graph::{Graph, SIDES, Torus, run};

#[derive(Clone, Copy, Collect)]
#[collect(no_drop)]
struct Node<'gc> {
    number: u64,
    sides: [Option<Pointer<'gc>>; SIDES],
}

#[derive(Clone, Copy, Collect)]
#[collect(no_drop)]
struct Pointer<'gc>(Gc<'gc, Lock<Node<'gc>>>);

impl<'gc> Pointer<'gc> {
    fn new(arena: &Mutation<'gc>, number: u64) -> Self {
        Self(Gc::new(arena, Lock::new(Node { number, sides: [None; SIDES] })))
    }

    fn link(self, arena: &Mutation<'gc>, side: usize, to: Self) {
        let mut node = self.0.get();
        node.sides[side] = Some(to);
        self.0.set(arena, node);
    }

    fn neighbour(self, side: usize) -> Node<'gc> {
        self.0.get().sides[side].expect("it was linked").0.get()
    }
}

const PIECE: usize = 512;

#[derive(Collect)]
#[collect(no_drop)]
struct Root<'gc>(Vec<Gc<'gc, RefLock<Vec<Pointer<'gc>>>>>);

impl<'gc> Root<'gc> {
    fn get(&self, index: usize) -> Pointer<'gc> {
        self.0[index / PIECE].borrow()[index % PIECE]
    }

    fn set(&self, arena: &Mutation<'gc>, index: usize, node: Pointer<'gc>) {
        self.0[index / PIECE].borrow_mut(arena)[index % PIECE] = node;
    }
}

struct Own(Arena<Rootable![Root<'_>]>);

impl Graph for Own {
    fn build(torus: Torus) -> Self {
        Self(Arena::new(|arena| {
            let all: Vec<usize> = (0..torus.nodes()).collect();
            let pieces = all.chunks(PIECE).map(|piece| {
                let nodes = piece.iter().map(|index| Pointer::new(arena, *index as u64));
                Gc::new(arena, RefLock::new(nodes.collect()))
            });
            let root = Root(pieces.collect());
            for index in 0..torus.nodes() {
                for side in 0..SIDES {
                    root.get(index).link(arena, side, root.get(torus.neighbour(index, side)));
                }
            }
            root
        }))
    }

    fn replace(&mut self, torus: Torus, places: [usize; 2], numbers: [u64; 2]) {
        self.0.mutate(|arena, root| {
            let new = numbers.map(|number| Pointer::new(arena, number));
            for (index, node) in places.into_iter().zip(new) {
                for side in 0..SIDES {
                    let other = torus.neighbour(index, side);
                    match places.iter().position(|place| *place == other) {
                        Some(place) => node.link(arena, side, new[place]),
                        None => {
                            node.link(arena, side, root.get(other));
                            root.get(other).link(arena, side ^ 1, node);
                        }
                    }
                }
            }
            for (index, node) in places.into_iter().zip(new) {
                root.set(arena, index, node);
            }
        });
        self.0.collect_debt();
    }

    fn check(&mut self, torus: Torus) -> u64 {
        self.0.mutate(|_, root| {
            let mut sum = 0_u64;
            for index in 0..torus.nodes() {
                let node = root.get(index);
                let number = node.0.get().number;
                sum = sum.wrapping_add(number.wrapping_mul(index as u64));
                for side in 0..SIDES {
                    let there = node.neighbour(side);
                    let back = there.sides[side ^ 1].expect("it was linked").0.get().number;
                    let expected = root.get(torus.neighbour(index, side)).0.get().number;
                    assert_eq!([there.number, back], [expected, number]);
                }
            }
            sum
        })
    }
}

fn main() {
    run::<Own>().print(None);
}
