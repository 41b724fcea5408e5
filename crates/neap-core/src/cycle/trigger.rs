//! When to collect: after as much was allocated as the last cycle found live, times the growth factor, and at least a floor.
//!
//! Pure. Inputs are the heap's own byte counts.

/// What the user set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Bytes allocated per live byte before the next cycle. Larger: fewer cycles, more memory.
    pub growth: f64,
    /// Bytes allocated before a cycle at least. Larger: fewer cycles in small programs, more memory.
    pub min_trigger: usize,
    /// The hard limit on the heap, `usize::MAX` for none.
    pub max_bytes: usize,
}

impl Settings {
    /// How many bytes may be allocated after a cycle that found `live_bytes` live, before the next one begins. Near the hard limit it is half of what is
    /// left, so that several cycles try before the limit refuses.
    pub fn threshold(&self, live_bytes: usize) -> usize {
        let wanted = ((live_bytes as f64 * self.growth) as usize).max(self.min_trigger);
        let room = self.max_bytes.saturating_sub(live_bytes);
        wanted.min((room / 2).max(self.min_trigger.min(room)).max(64 << 10))
    }
}

/// What is left of a threshold for allocation after `born_marked` bytes were allocated during the cycle and kept unseen: most of them are garbage, and the heap is meant to hold the threshold above
/// what is live, not above what was kept. At least a quarter of it, so that cycles do not follow each other without a pause.
pub fn after_floating(threshold: usize, born_marked: usize) -> usize {
    threshold.saturating_sub(born_marked).max(threshold / 4)
}

/// How much may be allocated before a concurrent cycle begins, so that it ends about when the threshold is reached: what was allocated while the last one ran, and a quarter more, is kept free for this one, but
/// never more than three quarters of the threshold, nor less than an eighth.
pub fn concurrent_start(threshold: usize, allocated_during_last: usize) -> usize {
    let reserve = allocated_during_last.saturating_add(allocated_during_last / 4);
    threshold - reserve.clamp(threshold / 8, threshold / 4 * 3)
}

/// Beyond this much allocation a thread waits for the cycle that is under way: the heap does not grow without bound because marking is slow.
pub fn stall_at(threshold: usize) -> usize {
    threshold.saturating_add(threshold / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn thresholds_by_table() {
        let free = Settings { growth: 1.0, min_trigger: 4 * MIB, max_bytes: usize::MAX };
        let tight = Settings { max_bytes: 64 * MIB, ..free };
        let half = Settings { growth: 0.5, ..free };
        for (settings, live, threshold) in [
            (free, 0, 4 * MIB),
            (free, 100 * MIB, 100 * MIB),
            (half, 100 * MIB, 50 * MIB),
            (half, MIB, 4 * MIB),
            (tight, 20 * MIB, 20 * MIB),
            (tight, 50 * MIB, 7 * MIB),
            (tight, 62 * MIB, 2 * MIB),
            (tight, 80 * MIB, 64 << 10),
        ] {
            assert_eq!(settings.threshold(live), threshold, "{settings:?} {live}");
        }
    }

    #[test]
    fn a_concurrent_cycle_begins_as_early_as_the_last_one_needed() {
        for (threshold, during, start) in [
            (80 * MIB, 0, 70 * MIB),
            (80 * MIB, 16 * MIB, 60 * MIB),
            (80 * MIB, 500 * MIB, 20 * MIB),
            (80 * MIB, usize::MAX, 20 * MIB),
        ] {
            assert_eq!(concurrent_start(threshold, during), start);
        }
        assert_eq!(stall_at(80 * MIB), 100 * MIB);
        assert_eq!(
            [0, 30 * MIB, 500 * MIB].map(|kept| after_floating(80 * MIB, kept)),
            [80 * MIB, 50 * MIB, 20 * MIB]
        );
    }

    #[test]
    fn a_program_with_a_steady_live_size_keeps_to_its_growth() {
        let settings = Settings { growth: 1.0, min_trigger: 4 * MIB, max_bytes: usize::MAX };
        let (mut heap, live) = (0, 30 * MIB);
        for _ in 0..10 {
            heap = live + settings.threshold(live);
        }
        assert_eq!(heap, 60 * MIB);
    }
}
