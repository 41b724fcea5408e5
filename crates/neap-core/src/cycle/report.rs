//! What is known of cycles: counts, the histogram of stops, the line that `NEAP_LOG=cycles` prints.
//!
//! Written by the thread that drives a cycle, read from any thread.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::stats::histogram::Histogram;
use crate::sys::print;

/// Every stop of the world, from the first signal to the resume.
pub static PAUSES: Histogram = Histogram::new();
/// Full cycles completed.
pub static CYCLES: AtomicU64 = AtomicU64::new(0);
/// Time spent in cycles by the threads that drove them, nanoseconds.
pub static DRIVER_NS: AtomicU64 = AtomicU64::new(0);
/// Whether each cycle prints a line.
pub static LOG_CYCLES: AtomicBool = AtomicBool::new(false);

/// What one cycle did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CycleRecord {
    /// Its number, from 1.
    pub number: u64,
    /// Finishing the last sweep and clearing marks, world running.
    pub arm_ns: u64,
    /// From the first stop signal until every thread stood.
    pub stopping_ns: u64,
    /// Reading roots.
    pub roots_ns: u64,
    /// Following grey words.
    pub mark_ns: u64,
    /// Settling finalizers and links.
    pub settle_ns: u64,
    /// The whole stop.
    pub pause_ns: u64,
    /// Markers at work.
    pub markers: usize,
    /// Threads of the program.
    pub mutators: usize,
    /// Bytes handed out since the cycle before.
    pub allocated_bytes: usize,
    /// Bytes found live.
    pub live_bytes: usize,
    /// Bytes of the heap in use or kept for use.
    pub committed_bytes: usize,
    /// Bytes that may be allocated before the next cycle.
    pub next_bytes: usize,
}

impl CycleRecord {
    /// Counts the cycle, and prints its line if that was asked for. With the world running.
    pub fn publish(&self) {
        PAUSES.add(self.pause_ns);
        DRIVER_NS.fetch_add(self.arm_ns + self.pause_ns, Relaxed);
        CYCLES.store(self.number, Relaxed);
        if LOG_CYCLES.load(Relaxed) {
            let us = |ns: u64| ns / 1000;
            print::message(format_args!(
                "cycle={} kind=full pause_us={} stopping_us={} roots_us={} mark_us={} settle_us={} arm_us={} markers={} threads={} allocated_kib={} live_kib={} committed_kib={} next_kib={}",
                self.number,
                us(self.pause_ns),
                us(self.stopping_ns),
                us(self.roots_ns),
                us(self.mark_ns),
                us(self.settle_ns),
                us(self.arm_ns),
                self.markers,
                self.mutators,
                self.allocated_bytes >> 10,
                self.live_bytes >> 10,
                self.committed_bytes >> 10,
                self.next_bytes >> 10,
            ));
        }
    }
}
