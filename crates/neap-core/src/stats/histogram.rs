//! A histogram of durations: eight buckets to each doubling of nanoseconds, so that a percentile is
//! at most an eighth off.
//!
//! Invariant: counts only grow, but for [`Histogram::clear`]. Written by one thread at a time, read
//! by any; a reader may miss what is being added, and within [`Histogram::read`] misses all of it
//! or nothing.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};

use neap_record::live::{BUCKETS, bucket, percentile};

/// Durations in nanoseconds.
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    count: AtomicU64,
    total: AtomicU64,
    max: AtomicU64,
    /// Odd while something is being changed.
    version: AtomicU32,
}

/// A reader looks again so often at most while something is being changed: who changes it may have
/// lost its processor. Larger: fewer readings that do not fit together; smaller: shorter ones.
const MOST_LOOKS: usize = 1000;

impl Histogram {
    /// Nothing counted.
    pub const fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            count: AtomicU64::new(0),
            total: AtomicU64::new(0),
            max: AtomicU64::new(0),
            version: AtomicU32::new(0),
        }
    }

    /// Counts one duration.
    pub fn add(&self, ns: u64) {
        self.change(|| {
            self.counts[bucket(ns)].fetch_add(1, Relaxed);
            self.count.fetch_add(1, Relaxed);
            self.total.fetch_add(ns, Relaxed);
            self.max.fetch_max(ns, Relaxed);
        });
    }

    fn change(&self, change: impl FnOnce()) {
        let version = self.version.load(Relaxed) | 1;
        self.version.store(version, Relaxed);
        fence(Release);
        change();
        self.version.store(version.wrapping_add(1), Release);
    }

    /// What `figures` reads of it, which fits together unless changes never pause.
    pub fn read<R>(&self, figures: impl Fn(&Self) -> R) -> R {
        let mut looks = (0..MOST_LOOKS).map(|_| self.look(&figures));
        looks.find_map(|read| read).unwrap_or_else(|| figures(self))
    }

    /// The same; None if something was changed meanwhile.
    fn look<R>(&self, figures: impl Fn(&Self) -> R) -> Option<R> {
        let before = self.version.load(Acquire);
        let read = figures(self);
        fence(Acquire);
        (before.is_multiple_of(2) && self.version.load(Relaxed) == before).then_some(read)
    }

    /// Forgets everything: in a forked child, whose parent's durations are not its own. No other
    /// thread uses it.
    pub fn clear(&self) {
        self.change(|| {
            for count in self.counts.iter().filter(|count| count.load(Relaxed) != 0) {
                count.store(0, Relaxed);
            }
            for figure in [&self.count, &self.total, &self.max] {
                figure.store(0, Relaxed);
            }
        });
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Their sum.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The longest.
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// A duration that `part` (0 to 1) of all do not exceed, rounded up to its bucket's end but
    /// never beyond the longest.
    pub fn percentile(&self, part: f64) -> u64 {
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        percentile(counts, self.max(), part).unwrap_or_else(|| self.max())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_after_clearing() {
        let histogram = Histogram::new();
        histogram.add(5_000);
        histogram.clear();
        assert_eq!((histogram.count(), histogram.max(), histogram.total()), (0, 0, 0));
        assert_eq!(histogram.percentile(0.5), 0);
        histogram.add(7);
        assert_eq!((histogram.count(), histogram.max()), (1, 7));
    }

    #[test]
    fn what_is_read_together_fits_together() {
        let histogram = Histogram::new();
        let over = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                    histogram.clear();
                    histogram.add(5_000);
                }
                over.store(1, Relaxed);
            });
            let half = |its: &Histogram| its.percentile(0.5);
            let figures =
                |its: &Histogram| [its.count() * 5_000, its.total(), half(its), half(its)];
            while over.load(Relaxed) == 0 {
                if let Some([count, total, first, second]) = histogram.look(figures) {
                    assert_eq!((count, first), (total, second));
                }
            }
        });
        assert_eq!(histogram.read(Histogram::total), 5_000);
    }

    #[test]
    fn percentiles_are_an_eighth_off_at_most() {
        let histogram = Histogram::new();
        for ns in 1..=1000 {
            histogram.add(ns * 1000);
        }
        assert_eq!(
            (histogram.count(), histogram.max(), histogram.total()),
            (1000, 1_000_000, 500_500_000)
        );
        for (part, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = histogram.percentile(part) as f64;
            assert!(found >= exact && found <= exact * 1.125, "{part}: {found}");
        }
    }

    #[test]
    fn extremes_have_buckets() {
        let histogram = Histogram::new();
        assert_eq!(histogram.percentile(0.5), 0);
        histogram.add(0);
        histogram.add(u64::MAX / 4);
        assert_eq!(histogram.percentile(1.0), u64::MAX / 4);
    }
}
