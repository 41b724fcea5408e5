//! What the contestants share: the works, and the line that each prints.
//!
//! Invariant: every contestant does the same work, and its check says so. Depends on no contestant,
//! so each program has its own allocator. Called by the programs in `bin`.

pub mod graph;
pub mod map;
pub mod trees;

use std::time::{Duration, Instant};

/// What a program has to say when it has done its work.
pub struct Outcome {
    /// The same for all contestants that did the same.
    pub check: u64,
    /// From beginning to end.
    pub time: Duration,
    /// The longest operation, where they were timed one by one.
    pub longest: Option<Duration>,
}

impl Outcome {
    /// Prints check, seconds, the longest operation in milliseconds, and so the longest stop of all
    /// threads, where the contestant knows it.
    pub fn print(self, stop: Option<Duration>) {
        let milliseconds = |time: Option<Duration>| {
            time.map_or("-".into(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
        };
        let (longest, stop) = (milliseconds(self.longest), milliseconds(stop));
        println!("{} {:.3} {longest} {stop}", self.check, self.time.as_secs_f64());
    }
}

/// Argument number `index` of the program, or what is usual.
pub fn argument(index: usize, usual: usize) -> usize {
    std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Runs the work on a stack of 8 GiB, for those who trace or drop by recursion, and ends the
/// process: nobody's time is that of taking everything apart.
pub fn on_a_large_stack(work: fn()) -> ! {
    let work = std::thread::Builder::new().stack_size(8 << 30).spawn(move || {
        work();
        std::process::exit(0)
    });
    work.expect("memory for a stack").join().expect("the work does not panic")
}

/// Numbers that look random, and are the same for each contestant.
pub struct Random(u64);

impl Random {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

/// The longest of operations that follow each other.
pub struct Longest {
    before: Instant,
    longest: Duration,
}

impl Longest {
    /// The first operation begins.
    pub fn begin() -> Self {
        Self { before: Instant::now(), longest: Duration::ZERO }
    }

    /// One ends, and the next begins.
    pub fn end_of_one(&mut self) {
        let now = Instant::now();
        self.longest = self.longest.max(now - self.before);
        self.before = now;
    }

    /// What went by since the last ended was none: a wait, for instance.
    pub fn leave_out(&mut self) {
        self.before = Instant::now();
    }

    /// The longest so far.
    pub fn get(&self) -> Duration {
        self.longest
    }
}
