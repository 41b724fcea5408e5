//! Which allocations are sampled: as if every byte that is handed out were a sample with the same
//! small chance, so an object is one with a chance of 1 - exp(-bytes / mean), whatever came before
//! it.
//!
//! Invariant `[stats.inv.sampling]`: the decision is made where a buffer is handed out, which ends
//! before the next sampled cell: so a cell that is sampled is the first of its buffer, and taking
//! any other cell costs what it costs without sampling. A buffer that ended so owes the sample to
//! the next one of its space: if whichever space is asked next had it, those that are seldom asked
//! would lose theirs. A [`Sampler`] is its thread's own; the mean is set once, at start-up.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::KEPT;

/// Mean bytes from one sample to the next; 0: nothing is sampled.
static MEAN: AtomicU64 = AtomicU64::new(0);

/// Changed by each thread that begins, so that no two have the same random numbers.
static BEGUN: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

/// Sets the mean distance. Called at start-up.
pub fn set_mean(bytes: u64) {
    MEAN.store(bytes, Relaxed);
}

/// The mean distance of samples in bytes; 0 for none.
#[inline(always)]
pub fn mean() -> u64 {
    if KEPT { MEAN.load(Relaxed) } else { 0 }
}

/// One thread's place between two samples. Zero is a valid start.
#[derive(Default)]
pub struct Sampler {
    /// Bytes that are handed out before the next sample.
    until: Cell<u64>,
    /// State of the random numbers; 0 before the first.
    random: Cell<u64>,
    /// The first cell of the buffer handed out last is a sample.
    due: Cell<bool>,
}

impl Sampler {
    /// Of `cells` cells of a space that could be handed out, how many are, and whether its next
    /// ones begin with a sample; `owes` is what it said of these ones. Whether the first of them is
    /// a sample is what [`Self::take_due`] says.
    pub fn clip(&self, mean: u64, cells: u32, cell_bytes: usize, owes: bool) -> (u32, bool) {
        self.begin(mean);
        let cell = cell_bytes as u64;
        let first = owes || self.until.get() < cell;
        if first {
            self.due.set(true);
        }
        if first && !owes {
            self.until.set(self.draw(mean));
        }
        let ahead = self.until.get() / cell + u64::from(first);
        if ahead < u64::from(cells) {
            // What comes between is another space's, and has a draw of its own.
            self.until.set(self.draw(mean));
            return (ahead as u32, true);
        }
        self.until.set(self.until.get() - (u64::from(cells) - u64::from(first)) * cell);
        (cells, false)
    }

    /// An object of its own pages is handed out.
    pub fn pass(&self, mean: u64, bytes: u64) {
        self.begin(mean);
        match self.until.get().checked_sub(bytes) {
            Some(until) => self.until.set(until),
            None => {
                self.due.set(true);
                self.until.set(self.draw(mean));
            }
        }
    }

    /// Whether the object about to be taken is a sample; no longer afterwards.
    #[inline(always)]
    pub fn take_due(&self) -> bool {
        self.due.get() && self.due.replace(false)
    }

    fn begin(&self, mean: u64) {
        if self.random.get() == 0 {
            // A thread that begins where another one has ended has its place in memory.
            self.random.set(BEGUN.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed) | 1);
            for _ in 0..8 {
                self.next();
            }
            self.until.set(self.draw(mean));
        }
    }

    /// Marsaglia's xorshift64*.
    fn next(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// An exponentially distributed distance.
    fn draw(&self, mean: u64) -> u64 {
        (minus_logarithm(self.next()) * mean as f64) as u64
    }
}

/// -ln of a number in (0, 1], given as 64 bits behind the point; exact to a millionth. No library
/// of functions is needed for it.
fn minus_logarithm(bits: u64) -> f64 {
    let bits = bits | 1;
    let halvings = bits.leading_zeros() + 1;
    let above = ((bits << (halvings - 1)) >> 11) as f64 / (1_u64 << 52) as f64;
    let part = (above - 1.0) / (above + 1.0);
    let square = part * part;
    let series = [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0];
    let sum = series.iter().fold(0.0, |sum, divisor| sum * square + 1.0 / divisor);
    f64::from(halvings) * core::f64::consts::LN_2 - 2.0 * part * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_one_after_the_other_are_sampled_as_one_is() {
        let mut sampled = 0;
        let mut place = Box::new(Sampler::default());
        for _ in 0..2000 {
            // Each has memory that was another's, as of new.
            *place = Sampler::default();
            // Too little for most to be a sample.
            sampled += u64::from((0..10).any(|_| {
                place.clip(1 << 16, 1, 1000, false);
                place.take_due()
            }));
        }
        // 2,000 times 1 - exp(-10,000 / 65,536).
        assert!((200..370).contains(&sampled), "{sampled}");
    }

    #[test]
    fn the_logarithm_is_one() {
        for bits in [1, 3, 1 << 20, 1 << 63, u64::MAX, 0x1234_5678_9abc_def1, 0xb504_f333_f9de_6485]
        {
            let wanted = -(bits as f64 / 2_f64.powi(64)).ln();
            assert!((minus_logarithm(bits) - wanted).abs() < 1e-6 * (1.0 + wanted), "{bits:x}");
        }
    }

    /// Cells of 8 to 30,000 bytes in runs of many lengths: each class has as many samples as its
    /// bytes should have.
    #[test]
    #[cfg_attr(miri, ignore = "only arithmetic, and too much of it")]
    fn samples_are_as_frequent_as_their_bytes() {
        const MEAN: u64 = 4096;
        let sampler = Sampler::default();
        for cell in [8_usize, 64, 1000, 4096, 30_000] {
            let (mut samples, mut handed_out, mut wish) = (0, 0_u64, 1);
            let mut owes = false;
            while handed_out < 400_000 {
                let given;
                (given, owes) = sampler.clip(MEAN, wish, cell, owes);
                assert!(
                    (1..=wish).contains(&given),
                    "[stats.inv.sampling] no run is empty or passes its end"
                );
                samples += u64::from(sampler.take_due());
                handed_out += u64::from(given);
                wish = wish % 300 + 7;
            }
            let wanted = handed_out as f64 * -(-(cell as f64) / MEAN as f64).exp_m1();
            let deviation = wanted.sqrt() * 5.0;
            assert!((samples as f64 - wanted).abs() < deviation, "{cell}: {samples}, not {wanted}");
        }
        // One that is asked for now and then among those that are asked for always.
        let (mut left, mut owed, mut samples) = ([0; 2], [false; 2], [0; 2]);
        for turn in 0..2_000_000 {
            let (space, cell) = if turn % 20 == 0 { (1, 48) } else { (0, 64) };
            if left[space] == 0 {
                (left[space], owed[space]) = sampler.clip(MEAN, 64, cell, owed[space]);
                samples[space] += u64::from(sampler.take_due());
            }
            left[space] -= 1;
        }
        for (samples, objects, cell) in [(samples[0], 1_900_000.0, 64.0), (samples[1], 1e5, 48.0)] {
            let wanted = objects * -f64::exp_m1(-cell / MEAN as f64);
            let deviation = wanted.sqrt() * 5.0;
            assert!((samples as f64 - wanted).abs() < deviation, "{cell}: {samples}, not {wanted}");
        }
        let large = (0..100_000).filter(|_| {
            sampler.pass(MEAN, 2048);
            sampler.take_due()
        });
        let wanted = 100_000.0 * -(-0.5_f64).exp_m1();
        assert!((large.count() as f64 - wanted).abs() < 1000.0);
    }
}
