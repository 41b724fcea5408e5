//! A `Gc` in every place where safe code can put one, and nowhere else: its object lives, and dies
//! when the place is given up.
//!
//! Invariant: each test makes its objects in frames that it has left, so that the only pointer lies
//! in the place that it is about. A test is a process of its own.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use std::sync::{Mutex, mpsc};
use std::task::{Context, Poll, Waker};

use neap::{Gc, Trace, Weak};

const PATTERN: u64 = 0x0123_4567_89ab_cdef;
/// Enough that a stale word, which may keep one, does not decide.
const COUNT: usize = 200;

#[derive(Trace)]
struct Probe {
    pattern: u64,
    index: usize,
    next: Cell<Option<Gc<Probe>>>,
}

fn probe(index: usize) -> Gc<Probe> {
    Gc::new(Probe { pattern: PATTERN, index, next: Cell::new(None) })
}

/// Calls deep enough that frames of before are overwritten.
#[inline(never)]
fn scrub() {
    black_box([0_u64; 2000]);
}

#[inline(never)]
fn apart<R>(f: impl FnOnce() -> R) -> R {
    black_box(f)()
}

/// Makes probes, hands them to `hide`, and tells that all are alive while what it gave is there,
/// and nearly none afterwards.
fn hidden<P>(hide: impl FnOnce(Vec<Gc<Probe>>) -> P) {
    let weak: RefCell<Vec<Weak<Probe>>> = RefCell::default();
    let place = apart(|| {
        let probes: Vec<_> = (0..COUNT).map(probe).collect();
        *weak.borrow_mut() = probes.iter().map(|one| Gc::downgrade(*one)).collect();
        hide(probes)
    });
    for _ in 0..3 {
        scrub();
        fill();
        assert!(neap::collect());
        for (index, one) in weak.borrow().iter().enumerate() {
            let one = one.upgrade().expect("it is still there");
            assert_eq!((one.pattern, one.index), (PATTERN, index));
        }
    }
    drop(place);
    assert_gone(&weak.borrow());
}

fn assert_gone(weak: &[Weak<Probe>]) {
    for _ in 0..3 {
        scrub();
        neap::collect();
    }
    let left = apart(|| weak.iter().filter(|one| one.upgrade().is_some()).count());
    assert!(left * 20 <= weak.len(), "{left} of {} stay", weak.len());
}

fn keep<T>(object: Gc<T>) {
    black_box(object);
}

/// Garbage of the same size, so that a cell that was freed by mistake is another object soon.
fn fill() {
    apart(|| (0..2000).for_each(|_| keep(Gc::new([!0_u64; 3]))));
}

#[test]
fn boxes_and_vectors() {
    hidden(Box::new);
    hidden(|probes| probes.into_iter().map(|one| Box::new((1_u8, one))).collect::<Vec<_>>());
    hidden(|probes| probes.into_boxed_slice());
}

#[test]
fn maps_and_queues() {
    hidden(|probes| probes.into_iter().enumerate().collect::<HashMap<_, _>>());
    hidden(|probes| probes.into_iter().enumerate().collect::<BTreeMap<_, _>>());
    hidden(|probes| probes.into_iter().collect::<VecDeque<_>>());
}

#[test]
fn reference_counts_and_locks() {
    hidden(|probes| Rc::new(RefCell::new(probes)));
    hidden(|probes| Box::new(Mutex::new(Some(probes))));
}

#[test]
fn enums_with_niches_and_values_that_may_be_none() {
    enum Place {
        #[allow(dead_code)]
        Many(Box<[Gc<Probe>]>),
        #[allow(dead_code)]
        One(Option<Gc<Probe>>, u8),
    }
    hidden(|probes| {
        let mut places = vec![Place::Many(probes[..9].into())];
        places.extend(probes[9..].iter().map(|one| Place::One(Some(*one), 1)));
        places
    });
    hidden(|probes| probes.into_iter().map(MaybeUninit::new).collect::<Vec<_>>());
}

#[test]
fn unions_and_forgotten_values() {
    #[allow(dead_code)]
    #[derive(Clone, Copy)]
    union Either {
        number: u64,
        probe: Gc<Probe>,
    }
    hidden(|probes| probes.into_iter().map(|probe| Either { probe }).collect::<Vec<_>>());
    // What is forgotten is never freed: no test of its end.
    let weak: Vec<_> = apart(|| {
        let probes: Vec<_> = (0..COUNT).map(probe).collect();
        let weak = probes.iter().map(|one| Gc::downgrade(*one)).collect();
        std::mem::forget(probes);
        weak
    });
    scrub();
    neap::collect();
    assert!(weak.iter().all(|one| one.upgrade().is_some()));
}

#[test]
fn closures_and_trait_objects() {
    hidden(|probes| -> Box<dyn Fn() -> usize> { Box::new(move || probes.len()) });
    hidden(|probes| -> Vec<Box<dyn Fn() -> usize>> {
        probes
            .into_iter()
            .map(|one| Box::new(move || one.index) as Box<dyn Fn() -> usize>)
            .collect()
    });
}

#[test]
fn pinned_futures() {
    struct Once(bool);
    impl Future for Once {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
        }
    }
    hidden(|probes| {
        let mut future = Box::pin(async move {
            let array: [Gc<Probe>; COUNT] = probes.try_into().ok().unwrap();
            Once(false).await;
            black_box(array.len())
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        future
    });
}

thread_local! {
    static LOCAL: Cell<Option<Gc<Probe>>> = const { Cell::new(None) };
    static LOCAL_WITH_DROP: RefCell<Vec<Gc<Probe>>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn thread_locals() {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            LOCAL.set(None);
            LOCAL_WITH_DROP.take();
        }
    }
    hidden(|probes| {
        probes.windows(2).for_each(|pair| pair[0].next.set(Some(pair[1])));
        LOCAL.set(Some(probes[0]));
        Clear
    });
    hidden(|probes| {
        LOCAL_WITH_DROP.set(probes);
        Clear
    });
}

/// The destructors of thread-local values run when the thread's own function is over.
#[test]
fn thread_locals_of_threads_that_end() {
    struct Last(Cell<Option<Gc<Probe>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            for _ in 0..3 {
                neap::collect();
                fill();
            }
            let all = std::iter::successors(self.0.get(), |one| one.next.get());
            if all.map(|one| (one.pattern, one.index)).eq((0..COUNT).map(|at| (PATTERN, at))) {
                WHOLE.fetch_add(1, SeqCst);
            }
        }
    }
    static WHOLE: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static LAST: Last = const { Last(Cell::new(None)) });
    for _ in 0..10 {
        let thread = std::thread::spawn(|| {
            let first = (0..COUNT).rev().fold(None, |next, index| {
                let one = probe(index);
                one.next.set(next);
                Some(one)
            });
            LAST.with(|last| last.0.set(first));
        });
        thread.join().unwrap();
    }
    assert_eq!(WHOLE.load(SeqCst), 10);
}

/// A reference to any part of an object keeps the whole.
#[test]
fn references_into_objects() {
    fn all<const WORDS: usize>() {
        let inner: Vec<Box<&u64>> = apart(|| {
            (0..COUNT)
                .map(|at| {
                    let object = Gc::new([PATTERN; WORDS]);
                    // SAFETY: the collector sees the reference in its box.
                    Box::new(unsafe { &(*Gc::as_ptr(object))[at * 7 % WORDS] })
                })
                .collect()
        });
        for _ in 0..3 {
            scrub();
            neap::collect();
            apart(|| (0..COUNT).for_each(|_| keep(Gc::new([!0_u64; WORDS]))));
        }
        assert!(inner.iter().all(|one| ***one == PATTERN));
    }
    all::<2>();
    all::<30>();
    all::<600>();
    all::<5000>();
}

#[test]
fn statics() {
    #[derive(Trace)]
    struct Shared {
        pattern: AtomicUsize,
    }
    static PLACE: Mutex<Option<Gc<Shared>>> = Mutex::new(None);
    assert!(neap::set_option("Static-Roots", "0").is_err());
    let weak = apart(|| {
        let shared = Gc::new(Shared { pattern: AtomicUsize::new(77) });
        *PLACE.lock().unwrap() = Some(shared);
        Gc::downgrade(shared)
    });
    scrub();
    fill();
    neap::collect();
    assert_eq!(weak.upgrade().unwrap().pattern.load(Relaxed), 77);
}

#[test]
fn channels_and_threads() {
    #[derive(Trace)]
    struct Message(AtomicUsize);
    let (sender, receiver) = mpsc::channel();
    apart(|| (0..500).for_each(|n| sender.send(Gc::new(Message(AtomicUsize::new(n)))).unwrap()));
    drop(sender);
    scrub();
    neap::collect();
    let threads: Vec<_> = apart(|| {
        receiver
            .iter()
            .map(|one| {
                std::thread::spawn(move || {
                    std::thread::yield_now();
                    Gc::new((one, 0_usize))
                })
            })
            .collect()
    });
    neap::collect();
    for (index, thread) in threads.into_iter().enumerate() {
        fill();
        if index % 50 == 0 {
            neap::collect();
        }
        assert_eq!(thread.join().unwrap().0.0.load(Relaxed), index);
    }
}

/// A thread that neither allocates nor frees reads an object from a static, and holds the only
/// pointer while others collect.
#[test]
fn a_thread_that_never_allocates_is_known() {
    static PLACE: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());
    static STEP: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn hold(_: *mut std::ffi::c_void) -> *mut std::ffi::c_void {
        // SAFETY: the static held it until now.
        let object = unsafe { Gc::from_ptr(PLACE.swap(std::ptr::null_mut(), SeqCst)) };
        STEP.store(1, SeqCst);
        while STEP.load(SeqCst) == 1 {
            std::hint::spin_loop();
        }
        STEP.store(if *object == PATTERN { 3 } else { 4 }, SeqCst);
        std::ptr::null_mut()
    }
    apart(|| PLACE.store(Gc::as_ptr(Gc::new(PATTERN)).cast_mut(), SeqCst));
    let mut thread = 0;
    // SAFETY: as pthread_create(3): a thread past Rust's library, which would allocate.
    unsafe {
        libc::pthread_create(&mut thread, std::ptr::null(), hold, std::ptr::null_mut());
    }
    while STEP.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    for _ in 0..3 {
        scrub();
        neap::collect();
        apart(|| (0..5000).for_each(|_| keep(Gc::new(!0_u64))));
    }
    STEP.store(2, SeqCst);
    // SAFETY: joined once.
    unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
    assert_eq!(STEP.load(SeqCst), 3);
}

#[test]
fn panics_carry_objects_out() {
    let caught = std::panic::catch_unwind(|| {
        let payload = apart(|| (0..100_usize).map(Gc::new).collect::<Gc<[Gc<usize>]>>());
        std::panic::resume_unwind(Box::new(payload));
    });
    scrub();
    fill();
    neap::collect();
    let payload = caught.unwrap_err().downcast::<Gc<[Gc<usize>]>>().unwrap();
    assert!(payload.iter().enumerate().all(|(index, one)| **one == index));
}

#[test]
fn the_child_of_a_fork_goes_on_with_its_own() {
    let kept: Vec<_> = (0..COUNT).map(probe).collect();
    // SAFETY: the child runs code of this thread only, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        fill();
        let whole = neap::collect()
            && kept.iter().enumerate().all(|(index, one)| one.index == index)
            && *apart(|| Gc::new(PATTERN)) == PATTERN;
        // SAFETY: ends the process.
        unsafe { libc::_exit(if whole { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the child's status.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    assert!(kept.iter().all(|one| one.pattern == PATTERN));
}

#[test]
fn cycles_are_no_leak() {
    let weak: Vec<_> = apart(|| {
        (0..COUNT)
            .map(|index| {
                let (first, second) = (probe(index), probe(index));
                first.next.set(Some(second));
                second.next.set(Some(first));
                Gc::downgrade(first)
            })
            .collect()
    });
    assert_gone(&weak);
}
