//! Random graphs of objects on several threads, each beside a shadow that knows what must be alive:
//! numbers only, which lead to nothing.
//!
//! Invariant: the only pointers to a thread's nodes are those that its shadow lists: in places of
//! every kind (roots), and in other nodes. What the shadow can reach must be there, as it was made,
//! and not dropped; nothing is dropped twice; and most of what it cannot reach goes.
//!
//! `tests/rust-crate/run.sh` runs it under every watch. `TORTURE_STEPS` and `TORTURE_SEED` say how
//! long and what; a failure names the seed.

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering::*};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use neap::{Gc, HashMap, Trace, Weak, WeakMap};

const EDGES: usize = 3;
const THREADS: usize = 3;
const MOST_ROOTS: usize = 24;

/// What a node is made of besides its edges, so that sizes, layouts and destructors differ.
#[derive(Trace)]
enum Body {
    Plain,
    Text(Gc<str>),
    Words([u64; 20]),
    Large(Gc<[u64]>),
    Dropped(Dropped),
    Table(Mutex<HashMap<usize, Gc<Node>>>),
}

#[derive(Trace)]
struct Node {
    id: usize,
    check: usize,
    edges: Mutex<[Option<Gc<Node>>; EDGES]>,
    more: Mutex<neap::Vec<Gc<Node>>>,
    body: Body,
}

/// Counts the end of its node.
#[derive(Trace)]
#[trace(drop)]
struct Dropped {
    id: usize,
    counts: Arc<Vec<AtomicU8>>,
    text: String,
}

impl Drop for Dropped {
    fn drop(&mut self) {
        assert_eq!(self.text, format!("node {}", self.id));
        self.counts[self.id].fetch_add(1, SeqCst);
    }
}

const MIX: usize = 0x9e37_79b9_7f4a_7c15;

fn check_of(id: usize) -> usize {
    id.wrapping_mul(MIX).rotate_left(17)
}

impl Node {
    fn assert_whole(&self, id: usize) {
        assert_eq!((self.id, self.check), (id, check_of(id)));
        match &self.body {
            Body::Plain | Body::Table(_) => {}
            Body::Text(text) => assert_eq!(&**text, format!("node {id}")),
            Body::Words(words) => assert!(words.iter().all(|word| *word == id as u64)),
            Body::Large(words) => assert!(words.iter().all(|word| *word == id as u64)),
            Body::Dropped(dropped) => {
                assert_eq!(dropped.id, id);
                assert_eq!(dropped.counts[id].load(SeqCst), 0, "node {id} was dropped");
            }
        }
    }
}

/// A place for a pointer that is a root.
enum Place {
    Boxed(Box<(u8, Gc<Node>)>),
    Counted(Rc<RefCell<Vec<Gc<Node>>>>),
    Closure(Box<dyn Fn() -> Gc<Node>>),
    Local(usize),
    Static(usize),
    Object(Gc<Cell<Option<Gc<Node>>>>),
}

thread_local! {
    static LOCAL: RefCell<[Option<Gc<Node>>; MOST_ROOTS]> =
        const { RefCell::new([None; MOST_ROOTS]) };
}
static STATIC: [Mutex<[Option<Gc<Node>>; MOST_ROOTS]>; THREADS] =
    [const { Mutex::new([None; MOST_ROOTS]) }; THREADS];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// One thread's graph and what is known of it.
struct Shadow {
    thread: usize,
    random: Random,
    /// For each node that was made, where its edges lead.
    edges: Vec<[Option<usize>; EDGES]>,
    roots: Vec<Option<(usize, Place)>>,
    weak: Vec<Weak<Node>>,
    notes: WeakMap<Node, (Gc<Node>, usize)>,
    counts: Arc<Vec<AtomicU8>>,
}

impl Shadow {
    fn new(thread: usize, seed: u64, most: usize) -> Self {
        Self {
            thread,
            random: Random(seed),
            edges: Vec::new(),
            roots: (0..MOST_ROOTS).map(|_| None).collect(),
            weak: Vec::new(),
            notes: WeakMap::new(),
            counts: Arc::new((0..most).map(|_| AtomicU8::new(0)).collect()),
        }
    }

    #[inline(never)]
    fn put(&mut self, index: usize, id: usize, node: Gc<Node>) {
        self.take(index);
        let place = match self.random.below(6) {
            0 => Place::Boxed(Box::new((1, node))),
            1 => Place::Counted(Rc::new(RefCell::new(vec![node]))),
            2 => Place::Closure(Box::new(move || node)),
            3 => {
                LOCAL.with_borrow_mut(|all| all[index] = Some(node));
                Place::Local(index)
            }
            4 => {
                STATIC[self.thread].lock().unwrap()[index] = Some(node);
                Place::Static(index)
            }
            _ => Place::Object(Gc::new(Cell::new(Some(node)))),
        };
        self.roots[index] = Some((id, place));
    }

    fn take(&mut self, index: usize) {
        match self.roots[index].take() {
            Some((_, Place::Local(index))) => LOCAL.with_borrow_mut(|all| all[index] = None),
            Some((_, Place::Static(index))) => STATIC[self.thread].lock().unwrap()[index] = None,
            Some((_, Place::Object(object))) => object.set(None),
            _ => {}
        }
    }

    fn root(&self, index: usize) -> Option<(usize, Gc<Node>)> {
        let (id, place) = self.roots[index].as_ref()?;
        let node = match place {
            Place::Boxed(pair) => pair.1,
            Place::Counted(vector) => vector.borrow()[0],
            Place::Closure(function) => function(),
            Place::Local(index) => LOCAL.with_borrow(|all| all[*index].unwrap()),
            Place::Static(index) => STATIC[self.thread].lock().unwrap()[*index].unwrap(),
            Place::Object(object) => object.get().unwrap(),
        };
        Some((*id, node))
    }

    /// A node some steps from a root, if there is one there.
    #[inline(never)]
    fn some_node(&mut self) -> Option<(usize, Gc<Node>)> {
        let index = self.random.below(MOST_ROOTS);
        let (mut id, mut node) = self.root(index)?;
        for _ in 0..self.random.below(6) {
            node.assert_whole(id);
            let edge = self.random.below(EDGES);
            let Some(next) = self.edges[id][edge] else { break };
            let there = node.edges.lock().unwrap()[edge];
            node = there.expect("the shadow has an edge here");
            id = next;
        }
        node.assert_whole(id);
        Some((id, node))
    }

    #[inline(never)]
    fn make(&mut self) {
        let id = self.edges.len();
        let neighbours: [_; EDGES] = std::array::from_fn(|_| self.some_node());
        let text = format!("node {id}");
        let body = match self.random.below(8) {
            0 => Body::Text(text.as_str().into()),
            1 => Body::Words([id as u64; 20]),
            2 => Body::Large(Gc::from_fn(self.random.below(6000), |_| id as u64)),
            3 | 4 => Body::Dropped(Dropped { id, counts: self.counts.clone(), text }),
            5 => Body::Table(Mutex::default()),
            _ => Body::Plain,
        };
        let node = Gc::new(Node {
            id,
            check: check_of(id),
            edges: Mutex::new(neighbours.map(|one| one.map(|(_, node)| node))),
            more: Mutex::default(),
            body,
        });
        self.edges.push(neighbours.map(|one| one.map(|(id, _)| id)));
        self.weak.push(Gc::downgrade(node));
        if self.random.below(4) == 0 {
            self.notes.insert(node, Gc::new((node, id)));
        }
        let index = self.random.below(MOST_ROOTS);
        self.put(index, id, node);
    }

    /// Writes an edge, into the array and besides into what grows.
    #[inline(never)]
    fn link(&mut self) {
        let (Some((from, node)), target) = (self.some_node(), self.some_node()) else { return };
        let edge = self.random.below(EDGES);
        node.edges.lock().unwrap()[edge] = target.map(|(_, node)| node);
        self.edges[from][edge] = target.map(|(id, _)| id);
        let Some((_, target)) = target else { return };
        let mut more = node.more.lock().unwrap();
        // These lead to what the edges lead to as long as that is so: not counted by the shadow.
        if more.len() > 20 {
            more.clear();
        }
        if let Body::Table(table) = &node.body {
            let mut table = table.lock().unwrap();
            table.insert(target.id % 100, target);
            assert!(table.iter().all(|(key, node)| node.id % 100 == *key));
        } else {
            more.push(target);
        }
        more.iter().for_each(|node| node.assert_whole(node.id));
    }

    /// Every node that the shadow reaches is as it was made.
    #[inline(never)]
    fn verify(&self) -> usize {
        let mut seen = vec![false; self.edges.len()];
        let mut stack: Vec<_> = (0..MOST_ROOTS).filter_map(|index| self.root(index)).collect();
        let mut count = 0;
        while let Some((id, node)) = stack.pop() {
            node.assert_whole(id);
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            count += 1;
            assert!(Gc::ptr_eq(self.weak[id].upgrade().expect("it is alive"), node));
            if let Some(note) = self.notes.get(node) {
                assert!(Gc::ptr_eq(note.0, node) && note.1 == id);
            }
            let edges = *node.edges.lock().unwrap();
            for (edge, shadow) in edges.into_iter().zip(self.edges[id]) {
                assert_eq!(edge.is_some(), shadow.is_some());
                stack.extend(shadow.zip(edge));
            }
            node.more.lock().unwrap().iter().for_each(|node| node.assert_whole(node.id));
        }
        assert!(self.counts.iter().all(|count| count.load(SeqCst) <= 1));
        count
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..8 => self.make(),
            8..14 => self.link(),
            14 | 15 => {
                let index = self.random.below(MOST_ROOTS);
                self.take(index);
            }
            16 => {
                let (from, to) = (self.random.below(MOST_ROOTS), self.random.below(MOST_ROOTS));
                if let Some((id, node)) = self.root(from) {
                    self.put(to, id, node);
                }
            }
            _ => garbage(self.random.below(50)),
        }
    }
}

#[inline(never)]
fn garbage(count: usize) {
    for index in 0..count {
        black_box(Gc::new([usize::MAX; 9]));
        black_box(Gc::<[usize]>::from_fn(index, |_| usize::MAX));
        black_box(vec![usize::MAX; index]);
    }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A list that is whole, for another thread to look at.
#[derive(Trace)]
struct Parcel {
    value: usize,
    rest: Option<Gc<Parcel>>,
}

fn run(
    thread: usize,
    seed: u64,
    steps: usize,
    to: &Sender<Gc<Parcel>>,
    from: &Receiver<Gc<Parcel>>,
) -> End {
    let mut shadow = Shadow::new(thread, seed, steps);
    for step in 0..steps {
        shadow.step();
        if step % 500 == 0 {
            shadow.verify();
            let parcel = (0..100).fold(None, |rest, value| Some(Gc::new(Parcel { value, rest })));
            to.send(parcel.unwrap()).unwrap();
            for mut parcel in from.try_iter() {
                for value in (0..100).rev() {
                    assert_eq!(parcel.value, value);
                    parcel = parcel.rest.unwrap_or(parcel);
                }
            }
        }
        if step % 4000 == 1999 {
            neap::collect();
        }
    }
    let alive = shadow.verify();
    println!("# thread {thread}: {} nodes, {alive} reachable at the end", shadow.weak.len());
    (0..MOST_ROOTS).for_each(|index| shadow.take(index));
    // The rest ends with the thread, and with its stack.
    End { weak: std::mem::take(&mut shadow.weak), counts: shadow.counts }
}

/// What is known of a thread's nodes when it has ended.
struct End {
    weak: Vec<Weak<Node>>,
    counts: Arc<Vec<AtomicU8>>,
}

#[test]
fn graphs_are_as_their_shadows_have_them() {
    let (seed, steps) = (number("TORTURE_SEED", 10), number("TORTURE_STEPS", 6000));
    println!("# seed {seed}, {steps} steps, {THREADS} threads");
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(thread, from)| {
            let to = senders[(thread + 1) % THREADS].clone();
            let seed = (seed * THREADS + thread + 1).wrapping_mul(MIX) as u64 | 1;
            std::thread::spawn(move || {
                let end = run(thread, seed, steps, &to, &from);
                // Nobody's channel is closed before all are through.
                (end, to, from)
            })
        })
        .collect();
    let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    assert!(ends.iter().all(Result::is_ok), "seed {seed}");
    let ends: Vec<_> = ends.into_iter().flatten().map(|(end, ..)| end).collect();
    for _ in 0..4 {
        neap::collect();
        neap::run_finalizers();
    }
    let made: usize = ends.iter().map(|end| end.weak.len()).sum();
    let all = ends.iter().flat_map(|end| &end.weak);
    let left = all.filter(|one| one.upgrade().is_some()).count();
    println!("# {left} of {made} left without roots");
    assert!(left * 10 < made, "seed {seed}: {left} of {made} stay");
    for count in ends.iter().flat_map(|end| end.counts.iter()) {
        assert!(count.load(SeqCst) <= 1, "seed {seed}");
    }
}
