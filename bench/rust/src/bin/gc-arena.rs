//! binary-trees on the crate gc-arena: the trees are the arena's root, and collections are steps
//! between them.

use gc_arena::{Arena, Collect, Gc, Mutation, Rootable};
use std::time::Instant;

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

fn main() {
    let depth = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(16);
    let began = Instant::now();
    let mut arena =
        Arena::<Rootable![Root<'_>]>::new(|arena| Root { long_lived: build(arena, depth) });
    let mut nodes = 0;
    for depth_now in (4..=depth).step_by(4) {
        for _ in 0..1 << (depth - depth_now + 4) {
            nodes += arena.mutate(|arena, _| count(build(arena, depth_now)));
            arena.collect_debt();
        }
    }
    nodes += arena.mutate(|_, root| count(root.long_lived));
    println!("{nodes} {:.3}", began.elapsed().as_secs_f64());
}
