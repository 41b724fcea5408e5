//! A machine on which a program runs beside the collector: discrete events, the core's policies,
//! measured costs.
//!
//! Invariant: events come in the order of time; an event of a thread counts only while nothing has
//! changed when it is due. What shares processors is slowed down evenly: threads are not taken off
//! their processors one by one, so what a stop waits for where there are more threads than
//! processors is not shown.

mod collector;
mod figures;
mod refill;
mod stop;

pub use figures::{Figures, Shares, Steps, Stop};

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::costs::Costs;
use crate::policy::trigger::Settings;
use crate::program::{Place, Program};
use crate::schedule::Schedule;
use crate::serial::Serial;
use collector::Cycle;

/// A machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its processors.
    pub processors: usize,
    /// What things cost on it.
    pub costs: Costs,
}

/// How the collector goes about what grows with the number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ways {
    /// Many threads are all asked to stop before the first signal is sent: who comes by needs none.
    pub asks_first: bool,
    /// Who is interrupted sends signals to others itself.
    pub signals_by_tree: bool,
    /// Who stands spins for longer before it sleeps where there are more to be woken.
    pub spins_by_threads: bool,
    /// Who finds a cycle due does not wake the collector's thread where another just has.
    pub wakes_once: bool,
    /// Threads of the program that mark at the same time, at most.
    pub most_assists: usize,
    /// Helpers ask the last question about a large heap too.
    pub helpers_ask: bool,
    /// Markers, at most.
    pub most_markers: usize,
    /// Blocks that a refill takes at once.
    pub blocks: usize,
}

impl Ways {
    /// The same with changes, by their names.
    pub fn with(mut self, changes: &[String]) -> Result<Self, String> {
        for change in changes {
            let (name, value) = change.split_once('=').unwrap_or((change, ""));
            let number = || value.parse().map_err(|_| format!("{change}: want a number"));
            match name {
                "asks-late" => self.asks_first = false,
                "tree" => self.signals_by_tree = true,
                "spins" => self.spins_by_threads = true,
                "one-asks" => self.helpers_ask = false,
                "wakes-once" => self.wakes_once = true,
                "assists" => self.most_assists = number()?,
                "markers" => self.most_markers = number()?,
                "blocks" => self.blocks = number()?.max(1),
                _ => return Err(format!("{change}: there is no such way")),
            }
        }
        Ok(self)
    }

    /// Those of the core.
    pub const CORE: Self = Self {
        asks_first: true,
        signals_by_tree: false,
        spins_by_threads: false,
        wakes_once: false,
        most_assists: 4,
        helpers_ask: true,
        most_markers: 16,
        blocks: crate::costs::HOLD_BLOCKS,
    };
}

/// What a thread does until its next event.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Activity {
    /// The program.
    Runs,
    /// Marks a piece, and goes on, or pays on, which it has done since then.
    Marks { since: Option<f64> },
    /// Waits for the cycle, and pays on.
    Waits { since: f64 },
    /// It has done its work.
    Ended,
}

#[derive(Clone, Debug)]
struct Thread {
    activity: Activity,
    since: f64,
    due: f64,
    /// Counts its events: only the last one counts.
    turn: u32,
    /// When it came to its last refill.
    came: f64,
    /// Until then it cannot stand.
    critical_until: f64,
    blocks_left: usize,
    unreported: f64,
    /// Time that interruptions took and that it has not paid yet.
    interrupted_ns: f64,
    shares: Shares,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread, and which of its events.
    Thread(usize, u32),
    Collector,
}

/// A run.
pub struct Simulation<'p> {
    machine: Machine,
    ways: Ways,
    program: &'p Program,
    place: Option<Place>,
    schedule: Schedule,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    threads: Vec<Thread>,
    heap_lock: Serial,
    allocated_word: Serial,
    assists_word: Serial,
    /// Bytes reported since the last cycle.
    grown: f64,
    cycle: Option<Cycle>,
    /// The collector's thread was woken, and has not begun.
    requested: bool,
    assisting: usize,
    is_measured: bool,
    figures: Figures,
}

impl<'p> Simulation<'p> {
    /// Runs a program to its end.
    pub fn run(machine: Machine, ways: Ways, settings: Settings, program: &'p Program) -> Figures {
        let thread = Thread {
            activity: Activity::Runs,
            since: 0.0,
            due: 0.0,
            turn: 0,
            came: 0.0,
            critical_until: 0.0,
            blocks_left: 0,
            unreported: 0.0,
            interrupted_ns: 0.0,
            shares: Shares::default(),
        };
        let mut simulation = Self {
            machine,
            ways,
            program,
            place: Some(program.start()),
            schedule: Schedule::new(settings, machine.processors, program.threads),
            events: BinaryHeap::new(),
            threads: vec![thread; program.threads],
            heap_lock: Serial::new(),
            allocated_word: Serial::new(),
            assists_word: Serial::new(),
            grown: 0.0,
            cycle: None,
            requested: false,
            assisting: 0,
            is_measured: false,
            figures: Figures::default(),
        };
        // Not all at the same moment.
        for thread in 0..program.threads {
            simulation.wake_thread(thread, Activity::Runs, 0.0, thread as f64 * 997.0);
        }
        simulation.go();
        simulation.conclude()
    }

    fn go(&mut self) {
        while let Some(Reverse((at, event))) = self.events.pop() {
            let now = at as f64;
            match event {
                Event::Collector => self.collect(now),
                Event::Thread(thread, turn) if self.threads[thread].turn == turn => {
                    self.figures.wall_ns = now;
                    self.thread_is_due(thread, now);
                }
                Event::Thread(..) => {}
            }
            if self.threads.iter().all(|thread| thread.activity == Activity::Ended) {
                return;
            }
        }
    }

    /// From `now` on the thread does this, until `due`.
    fn wake_thread(&mut self, thread: usize, activity: Activity, now: f64, due: f64) {
        let its = &mut self.threads[thread];
        (its.activity, its.since, its.due) = (activity, now, due);
        its.turn += 1;
        self.events.push(Reverse((due.ceil() as u64, Event::Thread(thread, its.turn))));
    }

    fn collector_at(&mut self, at: f64) {
        self.events.push(Reverse((at.ceil() as u64, Event::Collector)));
    }

    /// By how much everything is slower than on a processor of its own.
    fn slowness(&self) -> f64 {
        let wants =
            |thread: &&Thread| matches!(thread.activity, Activity::Runs | Activity::Marks { .. });
        let collectors = self.cycle.as_ref().map_or(0, Cycle::workers);
        let wanting = self.threads.iter().filter(wants).count() + collectors;
        (wanting as f64 / self.machine.processors as f64).max(1.0)
    }

    /// What came before is not measured.
    fn begin_measuring(&mut self, now: f64) {
        self.figures = Figures { began_ns: now, ..Figures::default() };
        self.threads.iter_mut().for_each(|thread| thread.shares = Shares::default());
        self.is_measured = true;
    }

    fn conclude(mut self) -> Figures {
        for thread in &self.threads {
            self.figures.shares.add(&thread.shares);
        }
        self.figures.threads = self.threads.len();
        self.figures.wall_ns -= self.figures.began_ns;
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Load;

    const LOAD: Load = Load { rate: 20.0, live: 200e6, pages_per_ms: 0.0, rounds: 4.0 };

    fn run(threads: usize, ways: Ways) -> Figures {
        LOAD.run(Costs::HERE, ways, threads)
    }

    #[test]
    fn every_nanosecond_of_a_thread_is_somewhere() {
        for threads in [2, 16] {
            let figures = Load { rate: 200.0, ..LOAD }.run(Costs::HERE, Ways::CORE, threads);
            let shares = figures.shares;
            let sum = shares.program_ns + shares.faults_ns + shares.serial_ns();
            let sum = sum + shares.assists_ns + shares.stalls_ns;
            // Less what processors that are shared take.
            let part = figures.part(sum);
            assert!((0.7..1.05).contains(&part), "{threads}: {part}");
            assert!(figures.cycles >= 3, "{}", figures.cycles);
        }
    }

    #[test]
    fn signals_one_after_another_make_stops_as_long_as_there_are_threads() {
        let late = Ways { asks_first: false, ..Ways::CORE };
        let [few, many] = [16, 64].map(|threads| run(threads, late).longest());
        assert!(many.stopping_ns > few.stopping_ns * 3.0, "{few:?} {many:?}");
        assert_eq!((few.signals, many.signals), (16, 64));
        let tree = run(64, Ways { signals_by_tree: true, ..Ways::CORE }).longest();
        assert!(tree.stopping_ns < many.stopping_ns / 3.0, "{tree:?} {many:?}");
        let first = run(64, Ways::CORE).longest();
        assert!(first.signals < 64 && first.stopping_ns < many.stopping_ns, "{first:?}");
    }

    #[test]
    fn the_heaps_lock_is_no_bottleneck_until_lines_are_far() {
        let load = Load { rate: 100.0, pages_per_ms: 0.0, ..LOAD };
        let near = load.run(Costs::HERE, Ways::CORE, 64);
        let far = load.run(Costs { line_ns: 400.0, ..Costs::HERE }, Ways::CORE, 64);
        let locked =
            |figures: &Figures| figures.part(figures.shares.held_ns + figures.shares.lock_waits_ns);
        assert!(locked(&near) < 0.02, "{}", locked(&near));
        assert!(locked(&far) > locked(&near) * 3.0, "{} {}", locked(&near), locked(&far));
    }

    #[test]
    fn changes_have_names() {
        let ways = Ways::CORE.with(&["tree".to_string(), "assists=8".to_string()]).unwrap();
        assert_eq!((ways.signals_by_tree, ways.most_assists), (true, 8));
        for wrong in ["trees", "assists", "assists=x"] {
            assert!(Ways::CORE.with(&[wrong.to_string()]).is_err(), "{wrong}");
        }
    }
}
