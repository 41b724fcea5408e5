//! How long a cycle with the world stopped would take: from what the last cycles measured.
//!
//! Pure. Owned by the collector; told of every cycle as it ends. A cycle that stops the world for a
//! moment costs the program less than one beside it, which protects pages, takes faults and scans
//! what was written again.

/// What is expected of a stop: a part that each has, and one for what is scanned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopTime {
    /// Stopping threads, reading roots, processing references; nanoseconds.
    fixed_ns: f64,
    /// Marking, nanoseconds for each byte that is scanned.
    rate: f64,
}

/// A cycle that just ended.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Time for what every stop has to do, however large the heap is.
    pub fixed_ns: u64,
    /// Processor time for marking with the world stopped, so that what other programs take is left
    /// out; None where the program ran meanwhile.
    pub mark_ns: Option<u64>,
    /// Bytes that were scanned.
    pub scanned_bytes: usize,
}

/// The rate before one is measured: a heap of small objects on a slow processor. Larger: fewer
/// heaps are marked in a stop before anything is known; smaller: the first stop may be too long.
const FIRST_RATE: f64 = 0.5;
/// Where less is scanned, what is measured is not the rate of scanning.
const LEAST_SCANNED: usize = 64 << 10;
/// What a new figure counts for beside those before. Larger: one odd cycle decides; smaller: it
/// takes more cycles until a change is seen.
const NEW_SHARE: f64 = 0.25;
/// How much of a measured rate a cycle beside the program forgets. Larger: a heap that takes longer
/// is tried again sooner; smaller: a stop that was too long once is repeated more rarely.
const FORGOTTEN_SHARE: f64 = 1.0 / 32.0;

impl StopTime {
    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self { fixed_ns: 0.0, rate: FIRST_RATE }
    }

    /// Takes a cycle in. A rate that is larger than expected counts in full: the next stop is not
    /// to be too long again. A cycle beside the program says nothing about it: what is known
    /// becomes uncertain, so that a rate that was large once is tried again some time.
    pub fn note(&mut self, cycle: &Measured) {
        self.fixed_ns = nearer(self.fixed_ns, cycle.fixed_ns as f64, NEW_SHARE);
        self.rate = match cycle.mark_ns {
            Some(_) if cycle.scanned_bytes < LEAST_SCANNED => self.rate,
            Some(mark_ns) => {
                let rate = mark_ns as f64 / cycle.scanned_bytes as f64;
                nearer(self.rate, rate, NEW_SHARE).max(rate)
            }
            None => nearer(self.rate, FIRST_RATE, FORGOTTEN_SHARE),
        };
    }

    /// So many bytes can be scanned in a stop that takes so long.
    pub fn scanned_within(&self, stop_ns: u64) -> usize {
        ((stop_ns as f64 - self.fixed_ns).max(0.0) / self.rate) as usize
    }
}

fn nearer(before: f64, now: f64, share: f64) -> f64 {
    before + (now - before) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(fixed_ns: u64, mark_ns: u64, scanned_bytes: usize) -> Measured {
        Measured { fixed_ns, mark_ns: Some(mark_ns), scanned_bytes }
    }

    #[test]
    fn a_larger_rate_counts_at_once_and_smaller_ones_little_by_little() {
        let mut time = StopTime::new();
        assert_eq!(time.scanned_within(1_000_000), 2_000_000);
        time.note(&stopped(0, 2_000_000, 2_000_000));
        assert_eq!(time.scanned_within(1_000_000), 1_000_000);
        time.note(&stopped(0, 400_000, 2_000_000));
        assert_eq!(time.scanned_within(1_000_000), 1_250_000);
        for _ in 0..60 {
            time.note(&stopped(20_000, 400_000, 2_000_000));
        }
        assert!((4_800_000..=4_900_000).contains(&time.scanned_within(1_000_000)));
        assert_eq!(time.scanned_within(20_000), 0);
    }

    #[test]
    fn one_stop_that_the_machine_held_up_is_forgotten_while_cycles_run_beside() {
        let mut time = StopTime::new();
        time.note(&stopped(0, 50_000_000, 1_000_000));
        assert!(time.scanned_within(1_000_000) < 30_000);
        for _ in 0..300 {
            time.note(&Measured { fixed_ns: 30_000, mark_ns: None, scanned_bytes: 1_000_000 });
        }
        assert!(time.scanned_within(1_000_000) > 1_800_000);
    }

    #[test]
    fn next_to_nothing_scanned_says_nothing_of_the_rate() {
        let mut time = StopTime::new();
        time.note(&stopped(10_000, 1_000_000, 100));
        assert_eq!(time.scanned_within(1_002_500), 2_000_000);
    }
}
