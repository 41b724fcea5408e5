//! What a simulated run came to.
//!
//! Invariant: times of threads are added up over all of them, so a share of them is a share of
//! `wall_ns` times the threads.

/// What threads spent their time on, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// The program's own work.
    pub program_ns: f64,
    /// First writes to protected pages, and interruptions.
    pub faults_ns: f64,
    /// With the heap's lock.
    pub held_ns: f64,
    /// Waiting for it.
    pub lock_waits_ns: f64,
    /// Words that all write.
    pub words_ns: f64,
    /// Standing.
    pub stopped_ns: f64,
    /// Marking.
    pub assists_ns: f64,
    /// Waiting for a cycle.
    pub stalls_ns: f64,
}

impl Shares {
    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.program_ns += other.program_ns;
        self.faults_ns += other.faults_ns;
        self.held_ns += other.held_ns;
        self.lock_waits_ns += other.lock_waits_ns;
        self.words_ns += other.words_ns;
        self.stopped_ns += other.stopped_ns;
        self.assists_ns += other.assists_ns;
        self.stalls_ns += other.stalls_ns;
    }

    /// What one thread at a time can do.
    pub fn serial_ns(&self) -> f64 {
        self.held_ns + self.lock_waits_ns + self.words_ns + self.stopped_ns
    }
}

/// One stop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stop {
    /// Until all stood.
    pub stopping_ns: f64,
    /// What was done then.
    pub work_ns: f64,
    /// Until the last ran again.
    pub waking_ns: f64,
    /// Signals that were sent.
    pub signals: usize,
}

impl Stop {
    /// All of it.
    pub fn length_ns(&self) -> f64 {
        self.stopping_ns + self.work_ns + self.waking_ns
    }
}

/// What the steps of cycles took, all cycles together, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steps {
    /// Protecting pages and reading roots, one thread at a time.
    pub begin_ns: f64,
    /// Marking.
    pub mark_ns: f64,
    /// Rounds over what was written.
    pub rounds_ns: f64,
    /// Passes in short stops.
    pub passes_ns: f64,
    /// The last stop.
    pub last_ns: f64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Threads of the program.
    pub threads: usize,
    /// When what is measured began.
    pub began_ns: f64,
    /// How long it took.
    pub wall_ns: f64,
    /// What the threads did meanwhile.
    pub shares: Shares,
    /// What cycles took.
    pub steps: Steps,
    /// Cycles that ended.
    pub cycles: usize,
    /// Of those, with the world stopped.
    pub stopped_cycles: usize,
    /// Cycles that gave up catching up.
    pub given_up: usize,
    /// All stops of all threads.
    pub stops: Vec<Stop>,
    /// Most bytes of objects and garbage at once.
    pub peak: f64,
    /// The longest that a thread waited or marked at one refill.
    pub longest_payment_ns: f64,
    /// What each cycle decided: bytes before the next one begins, and ends.
    pub decided: Vec<(usize, usize)>,
}

impl Figures {
    /// The longest stop.
    pub fn longest(&self) -> Stop {
        let longer = |a: &&Stop, b: &&Stop| a.length_ns().total_cmp(&b.length_ns());
        self.stops.iter().max_by(longer).copied().unwrap_or_default()
    }

    /// The stop than which half are shorter.
    pub fn median_stop_ns(&self) -> f64 {
        let mut lengths: Vec<f64> = self.stops.iter().map(Stop::length_ns).collect();
        lengths.sort_by(f64::total_cmp);
        lengths.get(lengths.len() / 2).copied().unwrap_or_default()
    }

    /// So much of the threads' time.
    pub fn part(&self, ns: f64) -> f64 {
        ns / (self.wall_ns * self.threads as f64).max(1.0)
    }

    /// What the program did of what it would have done on as many processors without a collector.
    pub fn efficiency(&self) -> f64 {
        self.part(self.shares.program_ns)
    }
}
