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
    fn a_program_with_a_steady_live_size_keeps_to_its_growth() {
        let settings = Settings { growth: 1.0, min_trigger: 4 * MIB, max_bytes: usize::MAX };
        let (mut heap, live) = (0, 30 * MIB);
        for _ in 0..10 {
            heap = live + settings.threshold(live);
        }
        assert_eq!(heap, 60 * MIB);
    }
}
