//! What cycles cost the program, and what follows from it: how rarely they may come when memory is
//! short, and when it is time to say that there is none.
//!
//! Invariant `[cycle.rule.half]`: however short memory is, the threshold that
//! [`Pacer::least_bytes`] allows keeps the collector to about half of the processors' time. Pure:
//! time comes in as nanoseconds that have passed. Owned by the collector; told of every cycle as it
//! ends.

/// A cycle that just ended, and the time since the one before.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    /// From the end of the cycle before to the end of this one.
    pub elapsed_ns: u64,
    /// Of that, with the world stopped.
    pub stopped_ns: u64,
    /// Of that, with a cycle under way and the world running.
    pub running_ns: u64,
    /// Threads that worked on the cycle while the world ran.
    pub workers: usize,
    /// Processors that the process may use.
    pub processors: usize,
    /// Bytes handed out since the cycle before.
    pub allocated_bytes: usize,
    /// Bytes live now.
    pub live_bytes: usize,
    /// The hard limit, `usize::MAX` for none.
    pub limit_bytes: usize,
}

impl Cycle {
    /// The cycle's part of all processors' time, as time of all of them.
    fn cost_ns(&self) -> f64 {
        let part = self.workers as f64 / self.processors.max(1) as f64;
        self.stopped_ns as f64 + self.running_ns as f64 * part.min(1.0)
    }

    /// Whether the heap is next to full, and the program does next to nothing but wait for cycles,
    /// or waits much and still keeps more from cycle to cycle.
    fn is_strained(&self, live_before: usize) -> bool {
        let busy_ns = self.stopped_ns.saturating_add(self.running_ns);
        let room = self.limit_bytes.saturating_sub(self.live_bytes);
        self.limit_bytes != usize::MAX
            && room < self.limit_bytes / STRAINED_ROOM
            && busy_ns as f64
                >= self.elapsed_ns as f64
                    * if self.live_bytes > live_before { LEAKING_SHARE } else { STRAINED_SHARE }
    }
}

/// A heap with less than this part of its limit left is next to full.
const STRAINED_ROOM: usize = 16;
/// A program that gets no more than the rest of this share of the time does next to nothing.
const STRAINED_SHARE: f64 = 0.9;
/// The same for a program that keeps more from cycle to cycle: it will not come out of it.
const LEAKING_SHARE: f64 = 0.4;
/// It may go on like that for so long. Longer: programs that come out of it by themselves are
/// spared; shorter: the others end sooner.
const STRAINED_NS: u64 = 500_000_000;
/// And for at least so many cycles.
const STRAINED_CYCLES: u32 = 4;

/// A cycle counts for no more than so many times what those before cost: one that lost its
/// processor is no reason for a larger heap. Larger: cycles that cost more come more rarely sooner.
const MOST_DEARER: f64 = 2.0;

/// What is remembered of the cycles so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Bytes that the program allocates between two cycles, the mean of the last time and those
    /// before.
    allocated_bytes: f64,
    /// What it has of all processors' time for that; the mean again.
    program_ns: f64,
    /// What a cycle costs, as time of all processors; the mean again.
    cost_ns: f64,
    /// What the last cycle found live.
    live_bytes: usize,
    /// For how long, without a break, the program has been strained.
    strained_ns: u64,
    /// For how many cycles.
    strained_cycles: u32,
}

impl Pacer {
    /// Nothing known yet.
    pub const fn new() -> Self {
        Self {
            allocated_bytes: 0.0,
            program_ns: 0.0,
            cost_ns: 0.0,
            live_bytes: 0,
            strained_ns: 0,
            strained_cycles: 0,
        }
    }

    /// Takes a cycle in; true if it is time to refuse memory, since the program only waits for
    /// cycles that find hardly any.
    pub fn note(&mut self, cycle: &Cycle) -> bool {
        let cost_ns = cycle.cost_ns();
        let program_ns = (cycle.elapsed_ns as f64 - cost_ns).max(0.0);
        let first = self.cost_ns == 0.0;
        let mean = |before: f64, now: f64| if first { now } else { (before + now) / 2.0 };
        self.allocated_bytes = mean(self.allocated_bytes, cycle.allocated_bytes as f64);
        self.program_ns = mean(self.program_ns, program_ns);
        let most_ns = if first { f64::INFINITY } else { self.cost_ns * MOST_DEARER };
        self.cost_ns = mean(self.cost_ns, cost_ns.min(most_ns));
        if cycle.is_strained(self.live_bytes) {
            self.strained_ns += cycle.elapsed_ns;
            self.strained_cycles += 1;
        } else {
            self.forget_strain();
        }
        self.live_bytes = cycle.live_bytes;
        let refuse = self.strained_ns >= STRAINED_NS && self.strained_cycles >= STRAINED_CYCLES;
        if refuse {
            self.forget_strain();
        }
        refuse
    }

    /// The program asked for a cycle itself: that it waits for them says nothing.
    pub fn forget_strain(&mut self) {
        (self.strained_ns, self.strained_cycles) = (0, 0);
    }

    /// So much is to be allocated between two cycles at least: it takes the program as long as a
    /// cycle costs.
    pub fn least_bytes(&self) -> usize {
        // Where cycles follow each other at once the program's time is next to nothing, and says
        // nothing of its rate.
        let program_ns = self.program_ns.max(self.cost_ns / 16.0).max(1.0);
        (self.allocated_bytes / program_ns * self.cost_ns) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::trigger::{FAIR_SHARE, Live, Settings};
    use super::*;

    const MIB: usize = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    /// A program on simulated time: allocates at a rate, keeps some of it; marking takes time by
    /// what is live.
    struct Simulation {
        settings: Settings,
        pacer: Pacer,
        /// Bytes in a second while it runs.
        rate: f64,
        /// Nanoseconds for each live byte.
        mark_ns: f64,
        live: f64,
        /// The part of what is allocated that stays for good.
        leaked: f64,
        /// Workers while the world runs; 0 for cycles that stop it.
        workers: usize,
        processors: usize,
        now_ns: f64,
        cost_ns: f64,
        peak: f64,
        refused: bool,
    }

    impl Simulation {
        fn new(settings: Settings, live: usize) -> Self {
            Self {
                settings,
                pacer: Pacer::new(),
                rate: 500e6,
                mark_ns: 1.0,
                live: live as f64,
                leaked: 0.0,
                workers: 0,
                processors: 2,
                now_ns: 0.0,
                cost_ns: 0.0,
                peak: 0.0,
                refused: false,
            }
        }

        fn cycle(&mut self) {
            let least = self.pacer.least_bytes();
            let live = Live::new(self.live as usize, self.live as usize);
            let threshold = self.settings.threshold(live, FAIR_SHARE, None, 1, least) as f64;
            let allocated = threshold.min((self.settings.max_bytes as f64 - self.live).max(0.0));
            let marking = self.live * self.mark_ns;
            let program = allocated / self.rate * 1e9;
            let stopped = if self.workers == 0 { marking } else { 0.0 };
            let cycle = Cycle {
                elapsed_ns: (program.max(marking - stopped) + stopped) as u64,
                stopped_ns: stopped as u64,
                running_ns: (marking - stopped) as u64,
                workers: self.workers,
                processors: self.processors,
                allocated_bytes: allocated as usize,
                live_bytes: self.live as usize,
                limit_bytes: self.settings.max_bytes,
            };
            self.now_ns += cycle.elapsed_ns as f64;
            self.cost_ns += cycle.cost_ns();
            self.peak = self.peak.max(self.live + allocated);
            self.live += allocated * self.leaked;
            self.refused |= self.pacer.note(&cycle);
        }

        fn share(&self) -> f64 {
            self.cost_ns / self.now_ns
        }
    }

    const FREE: Settings = Settings {
        growth: 1.0,
        min_trigger: 4 * MIB,
        busy_trigger: 0,
        max_bytes: usize::MAX,
        soft_bytes: usize::MAX,
    };

    #[test]
    fn below_the_soft_limit_memory_is_kept_to_it_and_above_it_half_of_the_time() {
        for (live, soft, peak, share) in [
            // Room enough for the growth asked for: the limit changes nothing.
            (30, 100, 60, 0.4),
            // Less room, and cheap enough.
            (60, 100, 100, 0.48),
            // Hardly any room: half of the time, and as much memory as that takes.
            (95, 100, 145, 0.53),
            // Above it altogether.
            (200, 100, 310, 0.53),
        ] {
            let settings = Settings { soft_bytes: soft * MIB, ..FREE };
            let mut program = Simulation::new(settings, live * MIB);
            (0..100).for_each(|_| program.cycle());
            let held = program.peak / MIB as f64;
            assert!(held <= peak as f64 + 1.0, "{live} of {soft} MiB live: {held} MiB held");
            assert!(program.share() <= share, "{live} of {soft}: {}", program.share());
        }
    }

    #[test]
    fn a_worker_beside_the_program_costs_its_share_of_the_processors() {
        let cycle = Cycle {
            elapsed_ns: 100,
            stopped_ns: 10,
            running_ns: 40,
            workers: 1,
            processors: 4,
            allocated_bytes: 800,
            live_bytes: 0,
            limit_bytes: usize::MAX,
        };
        assert_eq!(cycle.cost_ns(), 20.0);
        let mut pacer = Pacer::new();
        assert!(!pacer.note(&cycle));
        assert_eq!(pacer.least_bytes(), 200);
        let slow = Cycle { allocated_bytes: 0, ..cycle };
        (0..20).for_each(|_| assert!(!pacer.note(&slow)));
        assert!(
            pacer.least_bytes() < 10,
            "a program that rests may be collected as often as one likes"
        );
    }

    #[test]
    fn a_cycle_that_lost_its_processor_counts_for_little_and_many_that_cost_more_for_all() {
        let cycle = |stopped_ns| Cycle {
            elapsed_ns: 1_000_000 + stopped_ns,
            stopped_ns,
            running_ns: 0,
            workers: 0,
            processors: 2,
            allocated_bytes: MIB,
            live_bytes: MIB,
            limit_bytes: usize::MAX,
        };
        let mut pacer = Pacer::new();
        (0..8).for_each(|_| assert!(!pacer.note(&cycle(20_000))));
        let before = pacer.least_bytes();
        pacer.note(&cycle(10_000_000));
        assert!(pacer.least_bytes() <= before * 8 / 5, "{} {before}", pacer.least_bytes());
        (0..20).for_each(|_| assert!(!pacer.note(&cycle(10_000_000))));
        assert!(pacer.least_bytes() > before * 400);
    }

    #[test]
    fn a_leak_beside_garbage_is_refused_within_three_seconds_of_a_full_heap() {
        for leaked in [0.5, 0.1, 0.01, 0.001] {
            for workers in [0, 1] {
                let settings = Settings { max_bytes: 64 * MIB, ..FREE };
                let mut program = Simulation::new(settings, 50 * MIB);
                (program.leaked, program.workers) = (leaked, workers);
                let full = 64.0 * MIB as f64 * (1.0 - 1.0 / STRAINED_ROOM as f64);
                let mut full_at = None;
                while program.live < 64.0 * MIB as f64 - 4096.0 && !program.refused {
                    program.cycle();
                    if program.live > full && full_at.is_none() {
                        full_at = Some(program.now_ns);
                    }
                    assert!(program.now_ns < 1000e9, "{leaked} {workers}: never");
                }
                let waited = program.now_ns - full_at.unwrap_or(program.now_ns);
                assert!(waited < 3.0 * SECOND as f64, "{leaked} {workers}: {waited}");
            }
        }
    }

    #[test]
    fn who_asks_for_cycles_or_has_room_is_not_refused() {
        let strained = Cycle {
            elapsed_ns: SECOND,
            stopped_ns: SECOND,
            running_ns: 0,
            workers: 0,
            processors: 1,
            allocated_bytes: 1,
            live_bytes: 63 * MIB,
            limit_bytes: 64 * MIB,
        };
        let mut pacer = Pacer::new();
        let mut turns = [strained; 20].into_iter().map(|cycle| pacer.note(&cycle));
        assert_eq!(turns.position(|refused| refused), Some(3));
        for cycle in [
            Cycle { live_bytes: 59 * MIB, ..strained },
            Cycle { stopped_ns: SECOND / 4 * 3, ..strained },
            Cycle { limit_bytes: usize::MAX, ..strained },
        ] {
            assert!(![cycle; 20].iter().any(|cycle| pacer.note(cycle)), "{cycle:?}");
        }
        let mut leaking = Cycle { stopped_ns: SECOND / 2, ..strained };
        let turn = (0..20).position(|_| {
            leaking.live_bytes += 1;
            pacer.note(&leaking)
        });
        assert_eq!(turn, Some(3), "what grows is refused sooner");
        for _ in 0..20 {
            assert!(!pacer.note(&strained));
            pacer.forget_strain();
        }
    }
}
