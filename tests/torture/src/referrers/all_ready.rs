//! All finalizers and cleaners made ready at once, those of objects that can be reached too, in the
//! midst of everything (`--all-ready`). What they keep counts as reached again from then on.
//!
//! Invariant: until the first time nothing ran whose object can be reached. Called by workers.

use core::sync::atomic::{AtomicBool, Ordering::*};
use core::time::Duration;

use super::cleaners;
use neap_core::api::{self, finalizer};

/// So many waits for a cycle at most.
const MOST_WAITS: u32 = 100;

static WERE: AtomicBool = AtomicBool::new(false);

/// Whether they were made ready, in this run.
pub fn were() -> bool {
    WERE.load(Acquire)
}

/// Makes them ready, if it can while a cycle is under way; they run when somebody asks for what is
/// ready.
pub fn make() {
    WERE.store(true, Release);
    for _ in 0..MOST_WAITS {
        if !api::hold_collections_if_idle() {
            break;
        }
        api::release_collections();
        std::thread::sleep(Duration::from_micros(50));
    }
    api::make_all_finalizers_ready();
}

/// Runs what is ready until something of it is done, which another thread may be at; false if that
/// one does not come to it, as in the child of a `fork`, which has no other threads.
pub fn wait(is_done: impl Fn() -> bool) -> bool {
    (0..100).any(|_| {
        finalizer::run_ready();
        cleaners::poll();
        is_done() || {
            std::thread::sleep(Duration::from_millis(1));
            is_done()
        }
    })
}
