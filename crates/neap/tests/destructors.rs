//! Destructors of collected objects: once each, when nothing leads to the object, on whatever
//! thread, with everything still there that they may look at.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};

use neap::{AtomicGc, Gc, Trace, Weak, WeakMap};

/// How often each number was dropped.
type Counts = Arc<Vec<AtomicUsize>>;

fn counts(numbers: usize) -> Counts {
    Arc::new((0..numbers).map(|_| AtomicUsize::new(0)).collect())
}

fn sum(counts: &Counts) -> usize {
    assert!(counts.iter().all(|times| times.load(SeqCst) <= 1));
    counts.iter().map(|times| times.load(SeqCst)).sum()
}

#[derive(Trace)]
#[trace(drop)]
struct Counted {
    number: usize,
    text: String,
    own: Weak<Counted>,
    counts: Counts,
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.own.upgrade().is_none(), "it must not be got at any more");
        assert_eq!(self.text, self.number.to_string());
        self.counts[self.number].fetch_add(1, SeqCst);
    }
}

fn plain(number: usize, counts: &Counts) -> Counted {
    Counted { number, text: number.to_string(), own: Weak::new(), counts: counts.clone() }
}

fn counted(number: usize, counts: &Counts) -> Gc<Counted> {
    Gc::new_cyclic(|own| {
        let mut counted = plain(number, counts);
        counted.own = own.clone();
        counted
    })
}

#[inline(never)]
fn apart<R>(f: impl FnOnce() -> R) -> R {
    black_box(f)()
}

fn settle() {
    for _ in 0..3 {
        apart(|| black_box([0_u64; 2000]));
        neap::collect();
        neap::run_finalizers();
    }
}

#[test]
fn every_dead_value_is_dropped_once_and_no_live_one() {
    const COUNT: usize = 2000;
    let counts = counts(COUNT);
    let made = || (0..COUNT).map(|number| counted(number, &counts));
    let kept: Vec<_> = apart(|| made().filter(|one| one.number % 4 == 0).collect());
    settle();
    let is_whole = |one: &Gc<Counted>| counts[one.number].load(SeqCst) == 0;
    assert!(kept.iter().all(|one| is_whole(one) && one.own.upgrade().is_some()));
    assert!(sum(&counts) > COUNT * 7 / 10, "of three quarters");
    drop(kept);
    settle();
    assert!(sum(&counts) > COUNT * 9 / 10);
}

#[test]
fn slices_drop_all_elements() {
    let counts = counts(1000);
    apart(|| {
        for first in (0..1000).step_by(10) {
            black_box(Gc::<[Counted]>::from_fn(10, |index| plain(first + index, &counts)));
        }
    });
    settle();
    let is_whole =
        |ten: &[AtomicUsize]| ten.iter().all(|times| times.load(SeqCst) == ten[0].load(SeqCst));
    assert!(counts.chunks(10).all(is_whole));
    assert!(sum(&counts) > 900);
}

/// An object on a cycle with other things to drop: the cycle does not hold them.
#[test]
fn values_on_cycles_are_dropped() {
    #[derive(Trace)]
    struct Node {
        own: std::cell::Cell<Option<Gc<Node>>>,
        counted: Counted,
    }
    let counts = counts(500);
    apart(|| {
        for number in 0..500 {
            let counted = plain(number, &counts);
            let node = Gc::new(Node { own: std::cell::Cell::new(None), counted });
            node.own.set(Some(node));
            assert_eq!(node.counted.number, number);
        }
    });
    settle();
    assert!(sum(&counts) > 450);
}

#[test]
fn a_destructor_that_panics_holds_no_other_up() {
    static GOOD: AtomicUsize = AtomicUsize::new(0);
    #[derive(Trace)]
    #[trace(drop)]
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            if self.0 {
                // Without the message, which the hook would print.
                std::panic::resume_unwind(Box::new("no"));
            }
            GOOD.fetch_add(1, Relaxed);
        }
    }
    apart(|| {
        for index in 0..400 {
            black_box(Gc::new(Panics(index % 2 == 0)));
        }
    });
    settle();
    assert!(GOOD.load(Relaxed) > 150, "{}", GOOD.load(Relaxed));
}

/// They run by themselves too, beside a program that goes on allocating.
#[test]
fn nobody_has_to_ask() {
    static GONE: AtomicUsize = AtomicUsize::new(0);
    #[derive(Trace)]
    #[trace(drop)]
    struct Noted([u64; 12]);
    impl Drop for Noted {
        fn drop(&mut self) {
            GONE.fetch_add(self.0[0] as usize, Relaxed);
        }
    }
    let mut turns = 0;
    while GONE.load(Relaxed) <= 1000 && turns < 2_000_000 {
        turns += 1;
        black_box(Gc::new(Noted([1; 12])));
    }
    assert!(GONE.load(Relaxed) > 1000, "{} were dropped", GONE.load(Relaxed));
}

/// What leads to an object that is being dropped is not to be got at by a `Weak` either.
#[test]
fn no_way_leads_to_what_is_dropped() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    static REACHED: AtomicUsize = AtomicUsize::new(0);
    #[derive(Trace)]
    #[trace(drop)]
    struct Both(Weak<First>, Weak<Second>);
    impl Drop for Both {
        fn drop(&mut self) {
            REACHED.fetch_add(usize::from(self.0.upgrade().is_some()), SeqCst);
            REACHED.fetch_add(usize::from(self.1.upgrade().is_some()), SeqCst);
            DROPPED.fetch_add(1, SeqCst);
        }
    }
    #[derive(Trace)]
    struct First {
        both: Mutex<Option<Both>>,
        second: AtomicGc<Second>,
    }
    #[derive(Trace)]
    struct Second(Gc<First>);
    apart(|| {
        for _ in 0..1000 {
            let first = Gc::new(First { both: Mutex::new(None), second: AtomicGc::none() });
            let second = Gc::new(Second(first));
            first.second.store(Some(second), SeqCst);
            let both = Both(Gc::downgrade(first), Gc::downgrade(second));
            *second.0.both.lock().unwrap() = Some(both);
        }
    });
    settle();
    assert!(DROPPED.load(SeqCst) > 900, "{}", DROPPED.load(SeqCst));
    assert_eq!(REACHED.load(SeqCst), 0);
}

/// A destructor may do what any code may: its thread is known, with its stack and its thread-local
/// values.
#[test]
fn destructors_make_objects_collect_and_keep() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    static WRONG: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static KEPT: RefCell<Vec<Gc<[u64; 3]>>> = const { RefCell::new(Vec::new()) });
    #[derive(Trace)]
    #[trace(drop)]
    struct Busy(WeakMap<u64, u64>);
    impl Drop for Busy {
        fn drop(&mut self) {
            let own = Gc::new([7; 3]);
            KEPT.with(|kept| kept.borrow_mut().push(own));
            let key = Gc::new(1);
            self.0.insert(key, Gc::new(2));
            neap::collect();
            neap::run_finalizers();
            apart(|| {
                for _ in 0..500 {
                    black_box(Gc::new([!0_u64; 3]));
                }
            });
            let whole = KEPT.with(|kept| kept.borrow().iter().all(|one| **one == [7; 3]));
            let value = self.0.get(key).map(|value| *value);
            WRONG.fetch_add(usize::from(!whole || *own != [7; 3] || value != Some(2)), SeqCst);
            DROPPED.fetch_add(1, SeqCst);
        }
    }
    apart(|| {
        for _ in 0..100 {
            black_box(Gc::new(Busy(WeakMap::new())));
        }
    });
    settle();
    assert!(DROPPED.load(SeqCst) > 80, "{}", DROPPED.load(SeqCst));
    assert_eq!(WRONG.load(SeqCst), 0);
}

/// Of any alignment, and of no bytes.
#[test]
fn objects_of_every_shape_are_dropped() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    macro_rules! made {
        ($align:literal, $($value:expr)?) => {{
            #[derive(Trace)]
            #[trace(drop)]
            #[repr(align($align))]
            struct Shaped($([u64; $value])?);
            impl Drop for Shaped {
                fn drop(&mut self) {
                    assert!((&raw const *self).addr().is_multiple_of($align));
                    $(assert_eq!(self.0, [$align; $value]);)?
                    DROPPED.fetch_add(1, SeqCst);
                }
            }
            apart(|| {
                for _ in 0..100 {
                    black_box(Gc::new(Shaped($([$align; $value])?)));
                    black_box(Gc::<[Shaped]>::from_fn(2, |_| Shaped($([$align; $value])?)));
                }
            });
        }};
    }
    made!(1,);
    made!(8, 1);
    made!(16, 3);
    made!(64, 8);
    made!(1024, 1);
    made!(4096, 1);
    settle();
    assert!(DROPPED.load(SeqCst) > 6 * 280, "{}", DROPPED.load(SeqCst));
}
