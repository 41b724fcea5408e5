//! How a cycle catches up with a program that writes faster than rounds beside it can scan: by
//! passes over the heap in short stops, between which the program runs for as long as it stood, or
//! less where that is not enough.
//!
//! Invariant: pure. There is an end to it: a pass that finds hardly less than the best one before
//! leaves the program less time, and a few such passes at the least are the last. Called by the
//! cycle's driver.

/// The program's time between two stops, in percent of how long it stood; the next one where that
/// was too much. With the last it has what it takes to let it go and to stop it again.
const PERCENTS: [u64; 4] = [100, 40, 12, 0];
/// Passes that find hardly less although the program has the least time, until that is given up.
const MOST_IN_VAIN: usize = 6;

/// What to do after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// What is left is what the program writes in a moment.
    CaughtUp,
    /// Another pass.
    Again,
    /// The last stop has the rest to do.
    GivenUp,
}

/// Passes so far.
#[derive(Clone, Copy, Debug)]
pub struct CatchingUp {
    least: usize,
    /// Which of [`PERCENTS`].
    step: usize,
    in_vain: usize,
}

impl CatchingUp {
    /// None yet.
    pub const fn new() -> Self {
        Self { least: usize::MAX, step: 0, in_vain: 0 }
    }

    /// How long the program has between two stops, in percent of how long it stood.
    pub fn percent(&self) -> u64 {
        PERCENTS[self.step]
    }

    /// A pass found so many pages, written or marked; `few`: they fit into one stop.
    pub fn after(&mut self, found: usize, few: bool) -> Next {
        if few {
            return Next::CaughtUp;
        }
        if found > self.least / 4 * 3 {
            self.in_vain += (self.step == PERCENTS.len() - 1) as usize;
            if self.in_vain == MOST_IN_VAIN {
                return Next::GivenUp;
            }
            self.step = (self.step + 1).min(PERCENTS.len() - 1);
        }
        self.least = self.least.min(found);
        Next::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that writes so many pages in the time that one is scanned, of `heap` pages, all of
    /// which were written. Gives what became of it, the passes, and the percentage at the end.
    fn simulate(heap: f64, writes: f64) -> (Next, usize, u64) {
        const PAGES_IN_A_STOP: f64 = 300.0;
        /// The program runs while it is let go and stopped, in parts of a stop.
        const BETWEEN: f64 = 0.05;
        let (mut catching_up, mut written, mut passes) = (CatchingUp::new(), heap, 0);
        loop {
            // What is written anywhere while the pass goes on; of it, pages that are.
            let (found, few) = (written, written <= PAGES_IN_A_STOP);
            let time = found * (BETWEEN + catching_up.percent() as f64 / 100.0);
            written = heap * (1.0 - (-time * writes / heap).exp());
            passes += 1;
            match catching_up.after(found as usize, few) {
                Next::Again => {}
                end => return (end, passes, catching_up.percent()),
            }
        }
    }

    #[test]
    fn a_program_that_writes_slower_than_is_scanned_keeps_half_of_the_time() {
        for heap in [15_000.0, 51_200.0, 230_000.0] {
            for writes in [0.1, 0.3, 0.6] {
                let (end, passes, percent) = simulate(heap, writes);
                assert_eq!((end, percent), (Next::CaughtUp, PERCENTS[0]));
                assert!(passes <= 16, "{passes} passes of {heap} pages at {writes}");
            }
        }
    }

    #[test]
    fn a_faster_one_has_less_and_is_caught_up_with_too() {
        for writes in [1.5, 4.0, 10.0] {
            let (end, passes, percent) = simulate(51_200.0, writes);
            assert_eq!(end, Next::CaughtUp);
            assert!(percent < PERCENTS[0] && passes <= 16, "{passes} passes at {writes}");
        }
    }

    #[test]
    fn there_is_an_end_where_it_cannot_be() {
        let (end, passes, percent) = simulate(51_200.0, 1000.0);
        assert_eq!((end, percent), (Next::GivenUp, 0));
        assert!(passes <= 12, "{passes} passes");
    }
}
