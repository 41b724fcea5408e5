//! binary-trees on the crate gc-arena: the tree that stays is an arena's root, and collections of
//! the others are steps between them.

use gc_arena::{Arena, Collect, Gc, Mutation, Rootable};
use std::time::Instant;

use neap_bench_rust::Outcome;
use neap_bench_rust::trees::{arguments, shared};

#[derive(Collect)]
#[collect(no_drop)]
struct Node<'gc>(Option<(Gc<'gc, Node<'gc>>, Gc<'gc, Node<'gc>>)>);

#[derive(Collect)]
#[collect(no_drop)]
struct Root<'gc> {
    long_lived: Gc<'gc, Node<'gc>>,
}

fn build<'gc>(arena: &Mutation<'gc>, depth: u32) -> Gc<'gc, Node<'gc>> {
    let node = match depth {
        0 => None,
        _ => Some((build(arena, depth - 1), build(arena, depth - 1))),
    };
    Gc::new(arena, Node(node))
}

fn count(tree: Gc<'_, Node<'_>>) -> u64 {
    match tree.0 {
        None => 1,
        Some((left, right)) => 1 + count(left) + count(right),
    }
}

type Trees = Arena<Rootable![Root<'_>]>;

fn arena(depth: u32) -> Trees {
    Arena::new(|arena| Root { long_lived: build(arena, depth) })
}

fn main() {
    let (depth, threads) = arguments();
    let began = Instant::now();
    let long_lived = arena(depth);
    // Threads share no arena: each has one for the trees that it builds at a depth.
    let mut check = shared(depth, threads, |depth, times| {
        let mut arena = arena(0);
        (0..times)
            .map(|_| {
                let nodes = arena.mutate(|arena, _| count(build(arena, depth)));
                arena.collect_debt();
                nodes
            })
            .sum()
    });
    check += long_lived.mutate(|_, root| count(root.long_lived));
    Outcome { check, time: began.elapsed(), longest: None }.print(None);
}
