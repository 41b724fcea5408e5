//! Answers to a stop's signal: asking for them, counting them, waiting for those that are late.
//!
//! Invariant: nobody is waited for who cannot hear: a handler that the program took away is put
//! back, a thread that is gone is taken off, and who could not be sent a signal is sent another. By
//! who stops the world, which holds the registry, but for [`give`].

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::mutator::{Activity, Mutator};
use super::registry::Registry;
use super::stop_signal::{self, Asked};
use crate::sys::{clock, futex, print};

/// How many have answered in this stop; who stops the world sleeps on it.
static GIVEN: AtomicU32 = AtomicU32::new(0);
/// Who stops the world sleeps on [`GIVEN`], or is about to. Written by it.
static SLEEPS: AtomicBool = AtomicBool::new(false);

/// After so long without an answer it is looked whether the handler is still there. Larger: a stop
/// is longer after a program has set all handlers anew, past us; smaller: more looks.
const LATE_NS: u64 = 1_000_000;
/// After so long without an answer the request is repeated, since a signal can be lost to a thread
/// that is only just starting.
const REPEAT_NS: u64 = 100_000_000;
/// The same for a thread that could not be sent one.
const REPEAT_UNSENT_NS: u64 = 1_000_000;
/// After so long a thread that has not answered is named on standard error.
const WARN_AFTER_NS: u64 = 10_000_000_000;

/// A stop begins. Before its epoch is there.
pub(super) fn begin() {
    GIVEN.store(0, Relaxed);
}

/// Asks a mutator to stand still.
pub(super) fn ask(mutator: &Mutator, epoch: u32) -> Asked {
    mutator.asked.store(epoch, Release);
    stop_signal::send(mutator)
}

/// The calling mutator was asked, and stands. In its signal's handler, or instead of it.
pub(super) fn give() {
    GIVEN.fetch_add(1, SeqCst);
    if SLEEPS.load(SeqCst) {
        futex::wake(&GIVEN, 1);
    }
}

/// How many have.
pub(super) fn given() -> u32 {
    GIVEN.load(Acquire)
}

/// Sleeps until so many have answered, or one is so late that those are to be asked again who have
/// not.
pub(super) fn sleep_until(answers: u32) {
    SLEEPS.store(true, SeqCst);
    let mut longest_ns = LATE_NS;
    loop {
        let seen = GIVEN.load(SeqCst);
        if seen >= answers {
            break;
        }
        if !futex::wait(&GIVEN, seen, Some(longest_ns)) {
            if longest_ns == REPEAT_NS || stop_signal::mend_handler() {
                break;
            }
            longest_ns = REPEAT_NS;
        }
    }
    SLEEPS.store(false, Relaxed);
}

/// The slow way to the same end, once an answer is late: asks again whoever neither stands nor is
/// blocked, until there is nobody left. Numbers of answers say nothing any more, since a thread may
/// have blocked after it was asked.
#[cold]
pub(super) fn wait_one_by_one(
    registry: &mut Registry,
    wanted: impl Fn(&Mutator) -> bool,
    epoch: u32,
) {
    let began = clock::now_ns();
    let mut is_told = false;
    SLEEPS.store(true, SeqCst);
    loop {
        let seen = GIVEN.load(SeqCst);
        let mut missing = false;
        let mut repeat_ns = REPEAT_NS;
        let is_late = clock::now_ns().saturating_sub(began) >= WARN_AFTER_NS;
        for mutator in registry.iter() {
            let stands =
                mutator.obeyed.load(Acquire) == epoch || mutator.activity() == Activity::Blocked;
            if !wanted(mutator) || stands {
                continue;
            }
            match ask(mutator, epoch) {
                Asked::Sent => {}
                Asked::Gone => {
                    registry.remove(mutator);
                    continue;
                }
                Asked::Unsent => repeat_ns = REPEAT_UNSENT_NS,
            }
            missing = true;
            if is_late && stop_signal::is_refused() {
                // It waits for this thread, perhaps; and the stop cannot be given up.
                print::fatal(format_args!(
                    "thread {} cannot be stopped, and did not come by for {} s",
                    mutator.thread.load(Relaxed),
                    WARN_AFTER_NS / 1_000_000_000
                ));
            }
            if is_late && !is_told {
                print::message(format_args!(
                    "thread {} has not stopped for {} s; does it block signal {}? Leave that \
                     signal out of its mask, or choose another with NEAP_STOP_SIGNAL.",
                    mutator.thread.load(Relaxed),
                    WARN_AFTER_NS / 1_000_000_000,
                    stop_signal::number()
                ));
            }
        }
        if !missing {
            SLEEPS.store(false, Relaxed);
            return;
        }
        is_told |= is_late;
        if !futex::wait(&GIVEN, seen, Some(repeat_ns)) {
            stop_signal::mend_handler();
        }
    }
}
