//! Models of monitors, every interleaving of which loom tries: one thread at a time is in a monitor
//! and sees what the last one did, thin, inflated or while it changes from one to the other; nobody
//! sleeps on a free monitor or misses a notification; a monitor that is deflated in a stop is
//! nobody's.
//!
//! Invariant: the models use the very files that the core is built of, with loom's atomics, few
//! spins, and a futex made of loom's condition variables, which wakes nobody without a reason. What
//! is done inside a monitor is an access to a cell of loom's, which finds any other at the same
//! time. A thread that sleeps for ever fails a model. Run by `make loom` with `--cfg loom`;
//! without it there is nothing here.

#![cfg(loom)]

mod sync {
    //! What the files under test import as `crate::sync`.
    pub mod modelled {
        pub use loom::sync::atomic::*;
    }
}

mod sys {
    //! What they import as `crate::sys`.
    pub mod futex {
        //! Sleeping on words.
        use loom::sync::atomic::{AtomicU32, Ordering::SeqCst};
        use loom::sync::{Arc, Condvar, Mutex};

        /// One that sleeps: on which word, how it is woken, and whether its time can be over.
        type Sleeper = (usize, Arc<Condvar>, bool);

        loom::lazy_static! {
            static ref SLEEPERS: Mutex<Vec<Sleeper>> = Mutex::new(Vec::new());
        }

        fn sleep(word: &AtomicU32, expected: u32, has_time: bool) {
            let mut all = SLEEPERS.lock().unwrap();
            if word.load(SeqCst) == expected {
                let woken = Arc::new(Condvar::new());
                all.push((std::ptr::from_ref(word) as usize, woken.clone(), has_time));
                drop(woken.wait(all).unwrap());
            }
        }

        /// Sleeps while the word is `expected`.
        pub fn wait(word: &AtomicU32, expected: u32) {
            sleep(word, expected, false);
        }

        /// The same, or until [`expire`].
        pub fn wait_timed(word: &AtomicU32, expected: u32) {
            sleep(word, expected, true);
        }

        fn wake_if(mut count: u32, chosen: impl Fn(&Sleeper) -> bool) {
            SLEEPERS.lock().unwrap().retain(|sleeper| {
                let wakes = count > 0 && chosen(sleeper);
                if wakes {
                    count -= 1;
                    sleeper.1.notify_one();
                }
                !wakes
            });
        }

        /// Wakes so many.
        pub fn wake(word: &AtomicU32, count: u32) {
            let address = std::ptr::from_ref(word) as usize;
            wake_if(count, |sleeper| sleeper.0 == address);
        }

        /// The time is over for all that have some.
        pub fn expire() {
            wake_if(u32::MAX, |sleeper| sleeper.2);
        }
    }
}

#[path = "../src/monitors/inflated.rs"]
#[allow(dead_code)]
mod inflated;
#[path = "../src/monitors/lock_word.rs"]
#[allow(dead_code)]
mod lock_word;
#[path = "../src/monitors/object_lock.rs"]
#[allow(dead_code)]
mod object_lock;

mod records {
    //! Two records. Those of the core lie in buckets and are found free by a stack, as in
    //! `domain.rs`, which has models of its own.
    use super::inflated::Inflated;
    use loom::sync::Mutex;
    use loom::sync::atomic::Ordering::Relaxed;

    pub struct Records {
        all: [Inflated; 2],
        free: Mutex<Vec<u32>>,
    }

    impl Records {
        pub fn new() -> Self {
            Self { all: [Inflated::new(), Inflated::new()], free: Mutex::new(vec![0, 1]) }
        }

        pub fn get(&self, number: u32) -> &Inflated {
            &self.all[number as usize]
        }

        pub fn take(&self, object: usize) -> Option<u32> {
            let number = self.free.lock().unwrap().pop()?;
            self.get(number).object.store(object, Relaxed);
            Some(number)
        }

        pub fn give_back(&self, number: u32) {
            self.get(number).object.store(0, Relaxed);
            self.get(number).release_for_reuse();
            self.free.lock().unwrap().push(number);
        }

        /// Those that have an object.
        pub fn in_use(&self) -> Vec<u32> {
            let free = self.free.lock().unwrap();
            (0..2).filter(|number| !free.contains(number)).collect()
        }
    }
}

use lock_word::Lock;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use loom::sync::{Arc, RwLock};
use loom::thread;
use object_lock::{ObjectLock, Tried, deflate};
use records::Records;

const OBJECT: usize = 4096;

/// One object and its monitor.
struct World {
    word: AtomicU32,
    records: Records,
    /// Changed by who is in the monitor.
    inside: UnsafeCell<u32>,
    /// Critical sections read it, a stop writes it; for models with stops. It orders more than the
    /// core's signals do, so models without stops do without it.
    stop: Option<RwLock<()>>,
}

// SAFETY: the cell is loom's, which fails the model where two threads use it at the same time.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

fn sleep(word: &AtomicU32, expected: u32, _: u64) {
    sys::futex::wait(word, expected);
}

impl World {
    fn new(stops: bool) -> Arc<Self> {
        Arc::new(Self {
            word: AtomicU32::new(0),
            records: Records::new(),
            inside: UnsafeCell::new(0),
            stop: stops.then(|| RwLock::new(())),
        })
    }

    fn lock(&self, thread: u32) -> ObjectLock<'_> {
        ObjectLock { word: &self.word, records: &self.records, thread, object: OBJECT }
    }

    fn critical<R>(&self, f: impl FnOnce() -> R) -> R {
        let _unstopped = self.stop.as_ref().map(|stop| stop.read().unwrap());
        f()
    }

    /// As `Place::wait_for` in `monitor.rs`.
    fn wait_for(&self, thread: u32, monitor: &inflated::Inflated, depth: u32) {
        assert!(monitor.lock(|| Some(1), sleep));
        self.critical(|| {
            monitor.users.fetch_sub(1, SeqCst);
            self.lock(thread).now_in(monitor, depth);
        });
    }

    /// As `enter` there.
    fn enter(&self, thread: u32) {
        let lock = self.lock(thread);
        let enters = || match lock.try_enter() {
            Tried::Entered => true,
            Tried::Busy => false,
            other => panic!("{other:?}"),
        };
        if self.critical(enters) {
            return;
        }
        lock.spin();
        let monitor = self.critical(|| if enters() { None } else { lock.use_inflated() });
        if let Some(monitor) = monitor {
            self.wait_for(thread, monitor, 1);
        }
    }

    fn exit(&self, thread: u32) {
        assert_eq!(self.critical(|| self.lock(thread).exit()), Some(true));
    }

    /// As `wait` there.
    fn wait(&self, thread: u32) {
        let waiting = self.critical(|| self.lock(thread).leave_to_wait().unwrap());
        let sequence = &waiting.monitor.sequence;
        while sequence.load(SeqCst) == waiting.sequence {
            sys::futex::wait(sequence, waiting.sequence);
        }
        self.wait_for(thread, waiting.monitor, waiting.depth);
    }

    fn notify(&self, thread: u32, all: bool) {
        self.critical(|| self.lock(thread).notify(all));
    }

    /// As `deflate_idle` there.
    fn deflate_idle(&self) {
        let _stopped = self.stop.as_ref().unwrap().write().unwrap();
        for number in self.records.in_use() {
            if self.records.get(number).is_idle() {
                deflate(&self.records, Some(&self.word), number);
            }
        }
    }

    fn count(&self) {
        // SAFETY: loom tells if another thread is here.
        self.inside.with_mut(|count| unsafe { *count += 1 });
    }

    fn counted(&self) -> u32 {
        // SAFETY: as above.
        self.inside.with(|count| unsafe { *count })
    }
}

/// Runs `f` on a thread of the model.
fn spawn(world: &Arc<World>, f: impl FnOnce(&World) + Send + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || f(&world))
}

#[test]
fn one_at_a_time_is_inside_while_it_is_inflated() {
    loom::model(|| {
        let world = World::new(false);
        let turn = |thread: u32| {
            move |world: &World| {
                world.enter(thread);
                world.count();
                world.exit(thread);
            }
        };
        let others = [spawn(&world, turn(1)), spawn(&world, turn(2))];
        others.into_iter().for_each(|other| other.join().unwrap());
        world.enter(3);
        assert_eq!(world.counted(), 2);
        assert!(world.lock(3).is_in() && !world.lock(1).is_in());
        world.exit(3);
    });
}

#[test]
fn entering_again_and_leaving_while_another_inflates_it() {
    loom::model(|| {
        let world = World::new(false);
        let other = spawn(&world, |world| {
            world.enter(1);
            world.count();
            world.exit(1);
        });
        world.enter(2);
        assert_eq!(world.lock(2).try_enter(), Tried::Again);
        world.count();
        assert_eq!(world.lock(2).exit(), Some(false));
        world.count();
        world.exit(2);
        other.join().unwrap();
        assert_eq!(world.counted(), 3);
    });
}

#[test]
fn a_notification_is_not_missed() {
    loom::model(|| {
        let world = World::new(false);
        let waits = spawn(&world, |world| {
            world.enter(1);
            while world.counted() == 0 {
                world.wait(1);
            }
            world.exit(1);
        });
        world.enter(2);
        world.count();
        world.notify(2, false);
        world.exit(2);
        waits.join().unwrap();
    });
}

#[test]
fn all_that_wait_are_notified() {
    let mut builder = loom::model::Builder::new();
    // Three threads with sleeps: more preemptions take hours.
    builder.preemption_bound = Some(1);
    builder.check(|| {
        let world = World::new(false);
        let waits = |thread: u32| {
            move |world: &World| {
                world.enter(thread);
                while world.counted() == 0 {
                    world.wait(thread);
                }
                world.exit(thread);
            }
        };
        let others = [spawn(&world, waits(1)), spawn(&world, waits(2))];
        world.enter(3);
        world.count();
        world.notify(3, true);
        world.exit(3);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_monitor_is_deflated_when_nobody_uses_it() {
    loom::model(|| {
        let world = World::new(true);
        let other = spawn(&world, |world| {
            world.enter(1);
            world.count();
            world.exit(1);
        });
        let stops = spawn(&world, World::deflate_idle);
        world.enter(2);
        world.count();
        world.exit(2);
        other.join().unwrap();
        stops.join().unwrap();
        world.deflate_idle();
        assert_eq!(world.lock(2).lock(), Lock::Free);
        assert!(world.records.in_use().is_empty());
        world.enter(1);
        assert_eq!(world.counted(), 2);
    });
}

#[test]
fn who_waits_for_a_notification_keeps_the_monitor_inflated() {
    loom::model(|| {
        let world = World::new(true);
        let waits = spawn(&world, |world| {
            world.enter(1);
            while world.counted() == 0 {
                world.wait(1);
            }
            world.exit(1);
        });
        world.deflate_idle();
        world.enter(2);
        world.count();
        world.notify(2, false);
        world.exit(2);
        waits.join().unwrap();
        world.deflate_idle();
        assert_eq!(world.lock(1).lock(), Lock::Free);
    });
}

#[test]
fn who_gives_up_waiting_hands_its_wake_up_on() {
    loom::model(|| {
        let world = World::new(false);
        world.enter(3);
        world.critical(|| world.lock(3).inflate().map(|_| ())).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let impatient = {
            let over = over.clone();
            spawn(&world, move |world| {
                let monitor = world.lock(1).use_inflated().unwrap();
                let left = || (!over.load(SeqCst)).then_some(1);
                let sleep = |word: &AtomicU32, expected: u32, _: u64| {
                    sys::futex::wait_timed(word, expected);
                };
                if monitor.lock(left, sleep) {
                    monitor.unlock();
                }
                monitor.users.fetch_sub(1, SeqCst);
            })
        };
        let patient = spawn(&world, |world| {
            world.enter(2);
            world.count();
            world.exit(2);
        });
        over.store(true, SeqCst);
        sys::futex::expire();
        world.exit(3);
        impatient.join().unwrap();
        patient.join().unwrap();
        assert_eq!(world.counted(), 1);
    });
}
