//! For how long cycles that mark a snapshot stop the program: a cycle with the world stopped may
//! take some times as long. The copy of a process that `fork` makes takes milliseconds, and a
//! snapshot may be marked in vain.
//!
//! Pure. Owned by the collector; told of each cycle that marks a snapshot or stops the world.

/// What the last snapshots took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SnapshotStops {
    /// For how long the last two cycles that marked one stopped the program, nanoseconds; the most
    /// if they marked in vain, 0 for none.
    last_ns: [u64; 2],
    /// After so many stopped cycles snapshots are tried again.
    until_tried: u32,
    /// The same after the last that marked in vain.
    bar: u32,
}

/// A stop for a whole cycle may take so many times as long as those of one that marks a snapshot:
/// that one's copy costs the program a fault for each page that it writes, and what is allocated
/// meanwhile stays until the next. Larger: less processor time, longer stops.
const TIMES: u64 = 3;
/// Snapshots that cost more than a stop are tried again after so many stopped cycles; where they
/// mark in vain, twice as many each time, up to that. More: what changed is found out later; fewer:
/// more cycles that cost more than a stop.
const LONGEST_BAR: u32 = 64;
const FIRST_BAR: u32 = 4;

impl SnapshotStops {
    /// None seen yet.
    pub const fn new() -> Self {
        Self { last_ns: [0; 2], until_tried: 0, bar: FIRST_BAR }
    }

    /// Takes in a cycle that marked a snapshot: for how long it stopped the program in all, and
    /// whether it had to mark everything anew in a stop. After two of these a third says enough.
    pub fn note(&mut self, stopped_ns: u64, was_in_vain: bool) {
        let ns = if was_in_vain { u64::MAX } else { stopped_ns };
        let was_barred = was_in_vain && self.bar > FIRST_BAR;
        self.last_ns = if was_barred { [ns; 2] } else { [self.last_ns[1], ns] };
        (self.until_tried, self.bar) = match was_in_vain {
            true => (self.bar, (self.bar * 2).min(LONGEST_BAR)),
            false => (LONGEST_BAR, FIRST_BAR),
        };
    }

    /// Takes in a cycle with the world stopped.
    pub fn note_stopped_cycle(&mut self) {
        self.until_tried = self.until_tried.saturating_sub(1);
        if self.until_tried == 0 {
            self.last_ns = [0; 2];
        }
    }

    /// How long a stop for a whole cycle may take where the user allows so long for one: [`TIMES`]
    /// as long as one that marks a snapshot would stop the program too. The shorter of two counts,
    /// since one may have lost its processor. With 0 all cycles run beside the program.
    pub fn longest_ns(&self, max_pause_ns: u64) -> u64 {
        match max_pause_ns {
            0 => 0,
            _ => max_pause_ns.max(self.last_ns[0].min(self.last_ns[1]).saturating_mul(TIMES)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_may_take_some_times_as_long_as_a_snapshots_that_was_not_slow_by_chance() {
        let mut stops = SnapshotStops::new();
        assert_eq!(stops.longest_ns(1_000_000), 1_000_000);
        stops.note(40_000_000, false);
        assert_eq!(stops.longest_ns(1_000_000), 1_000_000, "one says little");
        stops.note(3_000_000, false);
        assert_eq!(stops.longest_ns(1_000_000), 3_000_000 * TIMES);
        assert_eq!(stops.longest_ns(50_000_000), 50_000_000);
        assert_eq!(stops.longest_ns(0), 0, "no stop is wanted at all");
        stops.note(300_000, false);
        assert_eq!(stops.longest_ns(1_000_000), 1_000_000);
    }

    #[test]
    fn snapshots_in_vain_are_tried_more_and_more_rarely() {
        let mut stops = SnapshotStops::new();
        let mut tried = Vec::new();
        for cycle in 0..200 {
            if stops.longest_ns(1_000_000) > 15_000_000 {
                stops.note_stopped_cycle();
            } else {
                stops.note(18_000_000, true);
                tried.push(cycle);
            }
        }
        assert_eq!(tried, [0, 1, 10, 27, 60, 125, 190]);
        stops.note(2_000_000, false);
        stops.note(18_000_000, true);
        assert_eq!(
            stops.longest_ns(1_000_000),
            2_000_000 * TIMES,
            "one that marked everything ends it"
        );
    }
}
