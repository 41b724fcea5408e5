//! The threads that run finalizers because a collection of theirs found some, so that those runs
//! seldom nest: what a finalizer's own allocations find is left to the run around it, but for the
//! second such collection, and within that run the fourth, and so on, as in libgc.
//!
//! Invariant: a thread has one place at most. A run that was left by a jump or an exception looks
//! like one under way, unless the stack is above it, which is why runs nest at all; one that ended
//! its thread gives its place up with it. Called outside collections, on the thread that runs
//! finalizers.

use core::ffi::c_void;
use core::ptr::null;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// A thread's runs.
struct Place {
    /// The thread's number; 0: free. All else is read and written by that thread.
    thread: AtomicUsize,
    /// Where its stack was when the innermost run began.
    frame: AtomicUsize,
    /// How many are under way, as far as is known.
    level: AtomicU32,
    /// Collections since then that left it to that run.
    left_to_it: AtomicU32,
}

/// More threads at once leave it to the others.
static PLACES: [Place; 8] = [const {
    Place {
        thread: AtomicUsize::new(0),
        frame: AtomicUsize::new(0),
        level: AtomicU32::new(0),
        left_to_it: AtomicU32::new(0),
    }
}; 8];

/// Runs this deep leave 2^16 collections to themselves, and deeper ones no more.
const DEEPEST: u32 = 16;

/// The key by which a thread that ends gives its place up, and 1; 0 until the first run.
static KEY: AtomicU32 = AtomicU32::new(0);

extern "C" fn ended(place: *mut c_void) {
    // SAFETY: the key's values are places.
    unsafe { &*place.cast::<Place>() }.thread.store(0, Release);
}

fn note(place: *const Place) {
    let mut key = KEY.load(Acquire);
    if key == 0 {
        let mut made = 0;
        // SAFETY: writes the key, which is freed where another thread was first.
        unsafe {
            if libc::pthread_key_create(&mut made, Some(ended)) != 0 {
                return;
            }
            match KEY.compare_exchange(0, made + 1, AcqRel, Acquire) {
                Ok(_) => key = made + 1,
                Err(first) => {
                    libc::pthread_key_delete(made);
                    key = first;
                }
            }
        }
    }
    // SAFETY: a key that exists.
    unsafe { libc::pthread_setspecific(key - 1, place.cast()) };
}

fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// A run that may begin.
pub struct Run {
    place: &'static Place,
    /// What the place said of the run around it.
    frame: usize,
    level: u32,
}

/// A run of this thread, unless it is to be left to the one around it, or to other threads.
#[inline(never)]
pub fn begin() -> Option<Run> {
    let (thread, local) = (this_thread(), 0_u8);
    let here = core::hint::black_box(&raw const local) as usize;
    let own = PLACES.iter().find(|place| place.thread.load(Relaxed) == thread);
    let is_free =
        |place: &&Place| place.thread.compare_exchange(0, thread, AcqRel, Relaxed).is_ok();
    let (place, level) = match own {
        // We may be called from an allocation inside a finalizer, whose frames lie below.
        Some(own) if here < own.frame.load(Relaxed) => {
            let left = own.left_to_it.load(Relaxed) + 1;
            own.left_to_it.store(left, Relaxed);
            let level = own.level.load(Relaxed);
            (left >= 1 << level.min(DEEPEST)).then_some((own, level))?
        }
        Some(left) => (left, 0),
        None => (PLACES.iter().find(is_free)?, 0),
    };
    let frame = place.frame.swap(here, Relaxed);
    place.level.store(level + 1, Relaxed);
    place.left_to_it.store(0, Relaxed);
    note(place);
    Some(Run { place, frame, level })
}

impl Run {
    /// It is over.
    pub fn end(self) {
        self.place.level.store(self.level, Relaxed);
        self.place.frame.store(self.frame, Relaxed);
        if self.level == 0 {
            note(null());
            self.place.thread.store(0, Release);
        }
    }
}

/// The child of a fork has one thread; what the others were doing is over.
pub fn forget_other_threads() {
    let thread = this_thread();
    let others = PLACES.iter().filter(|place| place.thread.load(Relaxed) != thread);
    others.for_each(|place| place.thread.store(0, Relaxed));
}
