//! How long a cycle with the world stopped would take: from what the last cycles measured.
//!
//! Pure. Owned by the collector; told of every cycle as it ends. A cycle that stops the world for a
//! moment costs the program less than one beside it, which protects pages, takes faults and scans
//! what was written again.

/// What is expected of a stop: a part that each has, and one for what is scanned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopTime {
    /// Stopping threads, processing references; nanoseconds.
    fixed_ns: f64,
    /// Reading roots and marking, nanoseconds for each byte that is scanned.
    rate: f64,
    /// How much of what cycles beside the program say is believed: less after each stop in a row
    /// that was longer than the user allows.
    belief: f64,
}

/// A cycle that just ended.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Time for what every stop has to do, however large the heap is.
    pub fixed_ns: u64,
    /// Marking.
    pub mark: Mark,
    /// Bytes that were scanned; in a stop with what the roots count for.
    pub scanned_bytes: usize,
}

/// How long marking took, in a stop with reading roots.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// With the world stopped.
    Stopped {
        /// Processor time of who drove it, so that what other programs take is left out.
        ns: u64,
        /// The stop was no longer than the user allows.
        is_short: bool,
    },
    /// Beside the program.
    Beside {
        /// What one marker would have taken of a processor for all of it, where that can be told.
        alone_ns: Option<u64>,
        /// Helpers that a stop would have.
        helpers: usize,
    },
}

/// The rate before one is measured: a heap of small objects on a slow processor. Larger: fewer
/// heaps are marked in a stop before anything is known; smaller: the first stop may be too long.
const FIRST_RATE: f64 = 0.8;
/// What every stop has to do besides, nanoseconds: before one is measured, and at least where only
/// cycles beside the program are. Larger: fewer first stops are too long; smaller: less processor
/// time.
const FIRST_FIXED_NS: f64 = 100_000.0;
/// Where less is scanned, what is measured is not the rate of scanning.
const LEAST_SCANNED: usize = 64 << 10;
/// What a stop that took less counts for beside those before. Larger: one that was quick by chance
/// has the next one planned too long; smaller: a heap that is marked faster now is stopped later.
const NEW_SHARE: f64 = 0.125;
/// How much of what a cycle beside the program says is believed, at most and at least. Larger: a
/// heap that takes longer is tried again sooner; smaller: a stop that was too long is repeated more
/// rarely.
const MOST_BELIEF: f64 = 0.5;
const LEAST_BELIEF: f64 = 1.0 / 64.0;
/// How much of a rate is forgotten by a cycle that says nothing about it.
const FORGOTTEN_SHARE: f64 = 1.0 / 32.0;
/// A stop is planned for this part of what it may take where several mark: the same marking takes a
/// third longer where the memory has left the cache. Larger: more stops are too long; smaller: more
/// processor time.
const PLANNED: f64 = 0.75;
/// The same where one marks alone, and ends at [`LATEST`] whatever is left. Larger: more marking is
/// in vain; smaller: more processor time.
const PLANNED_ALONE: f64 = 0.9;
/// Who marks alone ends it at this part of what the stop may take, less what comes after marking.
/// Larger: less marking is in vain; smaller: fewer stops are too long.
const LATEST: f64 = 0.95;
/// A stop that ended early is taken to have done this part of its marking at most.
const DONE_EARLY: f64 = 0.8;
/// What marking takes in a stop of what it takes beside a program that uses the same memory:
/// 0.45 to 0.9 of it where both were measured. Larger: fewer heaps are marked in stops; smaller:
/// more stops are too long.
const UNDISTURBED: f64 = 0.85;
/// The same for one marker alone, whose stop ends in time: if it is smaller, more marking is in
/// vain.
const UNDISTURBED_ALONE: f64 = 0.5;
/// What a helper adds to the speed of who drives, in a stop: with one it is 1.2 to 1.6 times as
/// fast where a millisecond of marking is to be done.
const HELP: f64 = 0.3;
/// So many helpers are counted on at most: more have to be woken first.
const MOST_HELPERS: usize = 3;

/// Less is marked sooner by one marker than by two, which wait for each other's mark bits: half a
/// millisecond to two. Larger: longer stops of heaps just below; smaller: more processor time.
const ALONE_BELOW: usize = 4 << 20;

/// Helpers that a stop is to have in which so many bytes are expected to be scanned.
pub fn helpers_in_stop(scanned_bytes: usize, markers: usize) -> usize {
    if scanned_bytes < ALONE_BELOW { 0 } else { markers - 1 }
}

impl StopTime {
    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self { fixed_ns: FIRST_FIXED_NS, rate: FIRST_RATE, belief: MOST_BELIEF }
    }

    /// Takes a cycle in. What took longer than expected counts in full: the next stop is not to be
    /// too long again. A cycle beside the program can only say that a stop takes less than was
    /// thought: of references most were looked at while it marked.
    pub fn note(&mut self, cycle: &Measured) {
        let fixed_ns = cycle.fixed_ns as f64;
        self.fixed_ns = match cycle.mark {
            Mark::Stopped { .. } => nearer(self.fixed_ns, fixed_ns, NEW_SHARE).max(fixed_ns),
            Mark::Beside { .. } => {
                let least = fixed_ns.max(FIRST_FIXED_NS);
                nearer(self.fixed_ns, least, self.belief / 2.0).min(self.fixed_ns)
            }
        };
        let rate = |ns: u64| ns as f64 / cycle.scanned_bytes as f64;
        self.rate = match cycle.mark {
            Mark::Stopped { .. } if cycle.scanned_bytes < LEAST_SCANNED => self.rate,
            Mark::Stopped { ns, is_short } => {
                self.belief = match is_short {
                    true => MOST_BELIEF,
                    false => (self.belief / 2.0).max(LEAST_BELIEF),
                };
                nearer(self.rate, rate(ns), NEW_SHARE).max(rate(ns))
            }
            Mark::Beside { alone_ns: Some(ns), helpers } => {
                let expected = rate(ns)
                    * match helpers.min(MOST_HELPERS) {
                        0 => UNDISTURBED_ALONE,
                        helpers => UNDISTURBED / (1.0 + HELP * helpers as f64),
                    };
                nearer(self.rate, expected, self.belief).min(self.rate)
            }
            Mark::Beside { alone_ns: None, .. } => nearer(self.rate, FIRST_RATE, FORGOTTEN_SHARE),
        };
    }

    /// Takes in a stop that ended before all was marked, which marked for so long by the time of
    /// its processor, where so many bytes were expected to be scanned.
    pub fn note_ended_early(&mut self, ns: u64, expected_bytes: usize) {
        let scanned_bytes = (expected_bytes as f64 * DONE_EARLY) as usize;
        let mark = Mark::Stopped { ns, is_short: false };
        self.note(&Measured { fixed_ns: self.fixed_ns as u64, mark, scanned_bytes });
    }

    /// So many bytes can be scanned in a stop that is to take no longer than this.
    pub fn scanned_within(&self, longest_ns: u64) -> usize {
        let planned =
            |part: f64| ((longest_ns as f64 * part - self.fixed_ns).max(0.0) / self.rate) as usize;
        let alone = planned(PLANNED_ALONE);
        if alone < ALONE_BELOW { alone } else { planned(PLANNED).max(ALONE_BELOW) }
    }

    /// Who marks alone in a stop that is to take no longer than this has that long for it, from the
    /// stop's beginning.
    pub fn marking_ends_ns(&self, longest_ns: u64) -> u64 {
        (longest_ns as f64 * LATEST - self.fixed_ns).max(0.0) as u64
    }
}

fn nearer(before: f64, now: f64, share: f64) -> f64 {
    before + (now - before) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(fixed_ns: u64, mark_ns: u64, scanned_bytes: usize) -> Measured {
        let is_short = fixed_ns + mark_ns <= 1_000_000;
        Measured { fixed_ns, mark: Mark::Stopped { ns: mark_ns, is_short }, scanned_bytes }
    }

    fn beside(alone_ns: Option<u64>, scanned_bytes: usize) -> Measured {
        Measured { fixed_ns: 30_000, mark: Mark::Beside { alone_ns, helpers: 1 }, scanned_bytes }
    }

    /// Bytes that one marker is expected to scan in a stop of a millisecond.
    fn within(time: &StopTime) -> usize {
        ((1_000_000.0 - time.fixed_ns).max(0.0) / time.rate) as usize
    }

    #[test]
    fn what_takes_longer_counts_at_once_and_what_takes_less_little_by_little() {
        let mut time = StopTime::new();
        assert!(within(&time).abs_diff(1_125_000) < 9);
        time.note(&stopped(0, 2_000_000, 2_000_000));
        assert!((900_000..920_000).contains(&within(&time)));
        time.note(&stopped(0, 400_000, 2_000_000));
        assert!((1_000_000..1_050_000).contains(&within(&time)));
        for _ in 0..100 {
            time.note(&stopped(20_000, 400_000, 2_000_000));
        }
        assert!((4_800_000..=4_900_000).contains(&within(&time)));
        time.note(&stopped(400_000, 400_000, 2_000_000));
        assert!((2_900_000..=3_000_000).contains(&within(&time)), "so does the fixed part");
        assert_eq!((time.scanned_within(400_000), time.marking_ends_ns(400_000)), (0, 0));
        let (planned, end) = (time.scanned_within(1_000_000), time.marking_ends_ns(1_000_000));
        assert!((2_400_000..=2_500_000).contains(&planned), "{planned}");
        assert_eq!(end, 550_000);
        assert_eq!(StopTime::new().scanned_within(4_000_000), ALONE_BELOW);
        assert_eq!(StopTime::new().scanned_within(8_000_000), 7_375_000, "several mark");
    }

    #[test]
    fn cycles_beside_the_program_do_not_hide_what_every_stop_takes() {
        let mut time = StopTime::new();
        let heap = 1_000_000;
        let mut too_long = 0;
        for _ in 0..400 {
            let is_stopped = time.scanned_within(1_000_000) > heap;
            time.note(&match is_stopped {
                true => stopped(600_000, 700_000, heap),
                false => beside(Some(700_000), heap),
            });
            too_long += is_stopped as u32;
        }
        assert!((1..=12).contains(&too_long), "{too_long}");
    }

    #[test]
    fn cycles_beside_the_program_find_out_what_a_stop_would_take() {
        let mut time = StopTime::new();
        let (heap, alone_ns) = (6_000_000, 1_000_000);
        let mut cycles = 0;
        while within(&time) < heap {
            time.note(&beside(Some(alone_ns), heap));
            cycles += 1;
        }
        assert!((2..10).contains(&cycles), "{cycles}");
        // One that was disturbed says nothing, and others do not help as much as is hoped, however
        // many there are.
        let rate = time.rate;
        time.note(&beside(Some(alone_ns * 5), heap));
        let crowd = Mark::Beside { alone_ns: Some(alone_ns * 10), helpers: 63 };
        time.note(&Measured { fixed_ns: 30_000, mark: crowd, scanned_bytes: heap });
        assert_eq!(time.rate, rate);
    }

    #[test]
    fn the_more_stops_were_too_long_the_later_the_next_is_tried() {
        let mut time = StopTime::new();
        let (heap, mut waited) = (6_000_000, 0);
        for _ in 0..20 {
            time.note(&stopped(30_000, 600_000, heap));
        }
        for _ in 0..4 {
            time.note(&stopped(30_000, 1_500_000, heap));
            let mut cycles = 0;
            while within(&time) < heap {
                time.note(&beside(Some(1_000_000), heap));
                cycles += 1;
            }
            assert!(cycles > waited, "{cycles} after {waited}");
            waited = cycles;
        }
        time.note(&stopped(30_000, 600_000, heap));
        time.note(&stopped(30_000, 1_500_000, heap));
        for _ in 0..waited / 4 {
            time.note(&beside(Some(1_000_000), heap));
        }
        assert!(within(&time) > heap, "a short one ends it");
    }

    #[test]
    fn one_stop_that_the_machine_held_up_is_forgotten_while_cycles_run_beside() {
        let mut time = StopTime::new();
        time.note(&stopped(0, 50_000_000, 1_000_000));
        assert!(within(&time) < 30_000);
        for _ in 0..300 {
            time.note(&beside(None, 1_000_000));
        }
        assert!(within(&time) > 1_000_000);
    }

    #[test]
    fn a_stop_that_ended_early_is_not_planned_again_at_once() {
        let mut time = StopTime::new();
        let heap = 2_000_000;
        (0..40).for_each(|_| time.note(&stopped(30_000, 600_000, heap)));
        assert!(time.scanned_within(1_000_000) > heap);
        let (mut cycles, mut waited) = (0, 0);
        for _ in 0..4 {
            time.note_ended_early(time.marking_ends_ns(1_000_000), heap);
            while time.scanned_within(1_000_000) <= heap {
                time.note(&beside(Some(700_000), heap));
                cycles += 1;
            }
            assert!(cycles > waited, "{cycles} after {waited}");
            (cycles, waited) = (0, cycles);
        }
    }

    #[test]
    fn next_to_nothing_scanned_says_nothing_of_the_rate() {
        let mut time = StopTime::new();
        let before = within(&time);
        time.note(&stopped(FIRST_FIXED_NS as u64, 1_000_000, 100));
        assert_eq!(within(&time), before);
    }
}
