//! What is borrowed from an object stays, also where it lies in memory that the object owns and
//! nothing in the program's code uses the `Gc` any more.

use std::cell::RefCell;
use std::hint::black_box;

use neap::{BTreeMap, Gc, HashMap, Trace, Vec, VecDeque};

const LENGTH: usize = 1000;

#[inline(never)]
fn owner() -> Gc<String> {
    Gc::new("x".repeat(LENGTH))
}

#[derive(Trace)]
struct Node {
    text: Gc<String>,
    more: RefCell<Vec<Gc<Node>>>,
}

#[inline(never)]
fn node() -> Gc<Node> {
    Gc::new(Node { text: owner(), more: RefCell::default() })
}

/// Nothing else is on the stack, and what was freed is something else.
#[inline(never)]
fn collected() {
    for _ in 0..3 {
        black_box([0_u64; 2000]);
        neap::collect();
        neap::run_finalizers();
        black_box(std::vec::Vec::from_iter((0..100).map(|_| "y".repeat(LENGTH))));
    }
}

#[inline(always)]
fn assert_stays(text: &str) {
    collected();
    assert!(text.len() == LENGTH && text.bytes().all(|byte| byte == b'x'));
}

/// Several times: a stale word may keep an object by chance.
fn often(borrow: fn()) {
    (0..10).for_each(|_| borrow());
}

#[test]
fn from_a_local_variable() {
    often(|| assert_stays(owner().as_str()));
    often(|| {
        let owner = owner();
        let text = &owner[..];
        assert_stays(text);
    });
}

#[test]
fn through_another_object() {
    often(|| {
        let node = node();
        let text = node.text.as_str();
        assert_stays(text);
    });
}

#[test]
fn from_a_box_that_was_leaked() {
    fn leaked(owner: Gc<String>) -> &'static String {
        Box::leak(Box::new(owner))
    }
    often(|| assert_stays(leaked(owner())));
}

#[test]
fn from_a_vector_and_a_queue() {
    often(|| {
        let vector: Vec<_> = [node()].into_iter().collect();
        let text = vector[0].text.as_str();
        assert_stays(text);
    });
    often(|| {
        let mut vector: Vec<_> = [node()].into_iter().collect();
        let text = vector.last_mut().unwrap().text.as_str();
        assert_stays(text);
    });
    often(|| {
        let queue: VecDeque<_> = [node()].into_iter().collect();
        let text = queue.front().unwrap().text.as_str();
        assert_stays(text);
    });
}

#[test]
fn from_a_map_and_a_table() {
    often(|| {
        let map: BTreeMap<_, _> = [(1, node())].into_iter().collect();
        let text = map.get(&1).unwrap().text.as_str();
        assert_stays(text);
    });
    often(|| {
        let table: HashMap<_, _> = [(1, owner())].into_iter().collect();
        let text = table.get(&1).unwrap().as_str();
        assert_stays(text);
    });
    often(|| {
        let table: HashMap<_, _> = [(1, owner())].into_iter().collect();
        let text = table.iter().next().unwrap().1.as_str();
        assert_stays(text);
    });
    often(|| {
        let mut table: HashMap<_, _> = [(1, owner())].into_iter().collect();
        let text = table.get_mut(&1).unwrap().as_str();
        assert_stays(text);
    });
}
