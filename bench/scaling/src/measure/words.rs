//! What it costs to add to a word that no other thread uses, and how long a line of the cache takes
//! from one processor to another.
//!
//! Called by the measurement.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::Instant;

use super::{TURNS, median};

const ADDS: usize = 1_000_000;

/// How long an addition takes, in nanoseconds.
pub fn add() -> f64 {
    let word = AtomicU64::new(0);
    let once = || {
        let began = Instant::now();
        (0..ADDS).for_each(|_| {
            word.fetch_add(1, Relaxed);
        });
        began.elapsed().as_nanos() as f64 / ADDS as f64
    };
    median((0..TURNS).map(|_| once()).collect())
}

const TURNS_OF_LINE: usize = 200_000;

/// How long it takes until a processor sees what another has written, in nanoseconds: two threads
/// answer each other.
pub fn line() -> f64 {
    median((0..TURNS).map(|_| there_and_back()).collect())
}

fn there_and_back() -> f64 {
    let word = AtomicUsize::new(0);
    let play = |first: usize| {
        let began = Instant::now();
        for turn in (first..2 * TURNS_OF_LINE).step_by(2) {
            while word.load(Acquire) != turn {
                std::hint::spin_loop();
            }
            word.store(turn + 1, Release);
        }
        began.elapsed().as_nanos() as f64
    };
    let took = std::thread::scope(|scope| {
        let other = scope.spawn(|| play(1));
        play(0).max(other.join().unwrap_or_default())
    });
    took / (2 * TURNS_OF_LINE) as f64
}
