//! The collector's thread: a cycle beside the program, step by step, or one in a stop.
//!
//! Invariant: as `cycle/modes/incremental_update.rs` and `rescanning.rs`: protect, roots one thread
//! at a time, mark, rounds over what was written, passes in short stops where those do not catch
//! up, the last stop. Pages are written anywhere in the live heap, so each is as likely to be
//! written as any other.

use super::figures::{Steps, Stop};
use super::{Activity, Simulation};
use crate::policy::catching_up::{CatchingUp, Next};
use crate::policy::stop_time::helpers_in_stop;
use crate::schedule::Ended;

const PAGE_BYTES: f64 = 4096.0;
/// For each so many pages a helper asks the last question too.
const MUCH_TO_ASK: f64 = 65536.0;
/// Pages in a row that one question is about: a chunk.
const ROW_PAGES: f64 = 512.0;
/// Marking is looked at so often.
const TICK_NS: f64 = 20_000.0;
/// What the core has in `cycle/modes/rescanning.rs` and `cycle/phases/written_pages.rs`.
const FEW_PAGES: f64 = 64.0;
const MOST_ROUNDS: usize = 12;
const MOST_IN_VAIN: usize = 1;
const SLOW_STOP_NS: f64 = 500_000.0;
const MANY_PAGES: f64 = 1024.0;
const ARMING_NS: f64 = 400_000.0;
const SCANNING_NS: f64 = 300_000.0;
/// An interruption of a thread for a page that it has to forget, or for its roots.
const INTERRUPTED_NS: f64 = 2_000.0;
/// References, links and what else each last stop has to do.
const FIXED_NS: f64 = 10_000.0;

#[derive(Clone, Copy, Debug)]
enum Step {
    Roots,
    Mark,
    Round,
    Rescan,
    Passes(CatchingUp),
    Last,
}

/// A cycle under way.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    step: Step,
    began: f64,
    /// When the collector's thread came to its last step.
    came: f64,
    began_at: f64,
    black_from: Option<f64>,
    /// Pages of the live heap.
    pub(super) pages: f64,
    /// Of those, written since they were protected.
    pub(super) dirty: f64,
    pub(super) is_protected: bool,
    /// Bytes left to scan, and when it was looked at last.
    left: f64,
    looked: f64,
    helpers: usize,
    live: f64,
    rounds: usize,
    least: f64,
    in_vain: usize,
    found: f64,
    is_slow: bool,
    stopped_ns: f64,
}

impl Cycle {
    /// The collector's thread and its helpers, as far as they are at work.
    pub(super) fn workers(&self) -> usize {
        1 + if self.has_work() { self.helpers } else { 0 }
    }

    /// Whether there is marking that others can share.
    pub(super) fn has_work(&self) -> bool {
        self.left > 0.0 && matches!(self.step, Step::Mark | Step::Rescan)
    }
}

/// Where the time of a step is counted.
fn step_ns(steps: &mut Steps, step: Step) -> &mut f64 {
    match step {
        Step::Roots => &mut steps.begin_ns,
        Step::Mark => &mut steps.mark_ns,
        Step::Round | Step::Rescan => &mut steps.rounds_ns,
        Step::Passes(_) | Step::Last => &mut steps.passes_ns,
    }
}

impl Simulation<'_> {
    /// The collector's thread has come to an end of what it was at.
    pub(super) fn collect(&mut self, now: f64) {
        let Some(cycle) = &mut self.cycle else { return self.begin(now) };
        let took = now - core::mem::replace(&mut cycle.came, now);
        *step_ns(&mut self.figures.steps, cycle.step) += took;
        match cycle.step {
            Step::Roots => self.roots_read(now),
            Step::Mark | Step::Rescan => self.mark(now),
            Step::Round => self.round(now),
            Step::Passes(passes) => self.pass(now, passes),
            Step::Last => self.last_stop(now),
        }
    }

    fn cycle(&mut self) -> &mut Cycle {
        self.cycle.as_mut().expect("a cycle is under way")
    }

    fn live_now(&self) -> f64 {
        self.place.map_or(0.0, |place| self.program.live(place))
    }

    fn mark_byte_ns(&self) -> f64 {
        self.place.map_or(self.machine.costs.mark_byte_ns, |place| {
            self.program.stretch(place).mark_byte_ns
        })
    }

    fn begin(&mut self, now: f64) {
        self.requested = false;
        if !self.schedule.is_due(self.grown) {
            return;
        }
        let live = self.live_now();
        if !self.schedule.runs_beside(self.grown) {
            return self.stopped_cycle(now, live);
        }
        let pages = ((self.schedule.live as f64).max(live) / PAGE_BYTES).max(1.0);
        let markers = self.machine.processors.min(self.ways.most_markers);
        self.cycle = Some(Cycle {
            step: Step::Roots,
            began: now,
            came: now,
            began_at: self.grown,
            black_from: None,
            pages,
            dirty: 0.0,
            is_protected: true,
            left: 0.0,
            looked: now,
            helpers: (markers / 2).saturating_sub(1),
            live,
            rounds: 0,
            least: f64::MAX,
            in_vain: 0,
            found: f64::MAX,
            is_slow: false,
            stopped_ns: 0.0,
        });
        let protecting = self.protect_beside(pages);
        let reading = self.read_roots();
        let slowness = self.slowness();
        self.collector_at(now + (protecting + reading) * slowness);
    }

    /// All of it in one stop.
    fn stopped_cycle(&mut self, now: f64, live: f64) {
        let threads = self.threads.len() as f64;
        let most = self.machine.processors.min(self.ways.most_markers);
        let markers = (1 + helpers_in_stop(live as usize, most)) as f64;
        let roots = threads * self.machine.costs.thread_roots_ns + FIXED_NS;
        let marking = live * self.mark_byte_ns();
        let over = self.stop(now, roots + marking / markers);
        self.figures.stopped_cycles += 1;
        self.finish(&Ended {
            beside: false,
            now_ns: over,
            marked: live,
            born: 0.0,
            allocated: self.grown,
            during: 0.0,
            stopped_ns: over - now,
            running_ns: 0.0,
            fixed_ns: over - now - marking / markers,
            alone_mark_ns: marking,
            markers: markers as usize,
            workers: 1,
        });
    }

    /// Protects all pages while the threads run; what that takes.
    fn protect_beside(&mut self, pages: f64) -> f64 {
        let (costs, rows) = (self.machine.costs, (pages / ROW_PAGES).ceil());
        let others = self.threads.len().min(self.machine.processors - 1) as f64;
        let more = (others - 1.0).max(0.0) * costs.shoot_down_more_ns;
        let shoots = if others > 0.0 { costs.shoot_down_ns + more } else { 0.0 };
        self.interrupt(rows * INTERRUPTED_NS);
        rows * (costs.question_ns + shoots) + pages * costs.ask_page_ns
    }

    fn interrupt(&mut self, ns: f64) {
        self.threads.iter_mut().for_each(|thread| thread.interrupted_ns += ns);
    }

    /// One thread after the other is stopped for its roots; what that takes.
    fn read_roots(&mut self) -> f64 {
        let costs = self.machine.costs;
        self.interrupt(INTERRUPTED_NS);
        let runs = |activity| matches!(activity, Activity::Runs | Activity::Marks { .. });
        let running = self.threads.iter().filter(|thread| runs(thread.activity)).count() as f64;
        running * costs.answer_ns + self.threads.len() as f64 * costs.thread_roots_ns
    }

    fn roots_read(&mut self, now: f64) {
        let cycle = self.cycle();
        (cycle.step, cycle.left, cycle.looked) = (Step::Mark, cycle.live, now);
        self.collector_at(now + TICK_NS);
    }

    fn mark(&mut self, now: f64) {
        let (mark_byte_ns, slowness) = (self.mark_byte_ns(), self.slowness());
        let assisting = self.assisting;
        let cycle = self.cycle();
        let markers = (cycle.workers() + assisting) as f64 / slowness;
        cycle.left -= (now - cycle.looked) * markers / mark_byte_ns;
        cycle.looked = now;
        if cycle.left > 0.0 {
            return self.collector_at(now + TICK_NS);
        }
        cycle.left = 0.0;
        match cycle.step {
            Step::Mark => {
                cycle.step = Step::Round;
                self.collector_at(now);
            }
            _ => self.after_round(now),
        }
    }

    /// Asks for what was written and has it scanned.
    fn round(&mut self, now: f64) {
        let first = self.cycle().rounds == 0;
        let pages = self.cycle().pages;
        let mut now = now;
        if first {
            let took = self.protect_beside(pages) + self.read_roots();
            now += took * self.slowness();
        } else {
            let mut left = self.questions_stopped();
            while left > 0.0 {
                let began = now;
                now = self.stop(now, left.min(ARMING_NS));
                left -= ARMING_NS;
                let cycle = self.cycle();
                cycle.is_slow |= now - began - ARMING_NS.min(left + ARMING_NS) > SLOW_STOP_NS;
                cycle.stopped_ns += now - began;
            }
        }
        let (scan, grown) = (self.page_scan_ns(), self.grown);
        let byte_ns = self.mark_byte_ns();
        let cycle = self.cycle();
        cycle.rounds += 1;
        cycle.found = core::mem::take(&mut cycle.dirty);
        if cycle.found > FEW_PAGES {
            cycle.black_from.get_or_insert(grown);
        }
        cycle.left = (cycle.found * scan / byte_ns).max(1.0);
        (cycle.step, cycle.looked) = (Step::Rescan, now);
        self.collector_at(now + TICK_NS);
    }

    /// To ask about all pages while the world stands.
    fn questions_stopped(&mut self) -> f64 {
        let costs = self.machine.costs;
        let cycle = self.cycle();
        (cycle.pages / ROW_PAGES).ceil() * costs.question_ns
            + cycle.pages * costs.ask_page_ns
            + cycle.dirty * costs.protect_page_ns
    }

    /// To scan what is marked on a page: half of it.
    fn page_scan_ns(&self) -> f64 {
        PAGE_BYTES / 2.0 * self.mark_byte_ns()
    }

    fn after_round(&mut self, now: f64) {
        let cycle = self.cycle();
        let found = cycle.found;
        cycle.in_vain += (found > cycle.least * 7.0 / 8.0) as usize;
        let ends = found <= FEW_PAGES
            || cycle.in_vain > MOST_IN_VAIN
            || cycle.is_slow
            || cycle.rounds == MOST_ROUNDS;
        cycle.least = cycle.least.min(found);
        if !ends {
            cycle.step = Step::Round;
        } else if found > FEW_PAGES && (!cycle.is_slow || found > MANY_PAGES) {
            cycle.step = Step::Passes(CatchingUp::new());
        } else {
            cycle.step = Step::Last;
        }
        self.collector_at(now);
    }

    /// All that was written is scanned in short stops, between which the program runs.
    fn pass(&mut self, now: f64, mut catching_up: CatchingUp) {
        let (scan, costs) = (self.page_scan_ns(), self.machine.costs);
        let found = core::mem::take(&mut self.cycle().dirty);
        let mut left = found * (scan + costs.protect_page_ns) + self.questions_stopped();
        let few = found <= FEW_PAGES || left <= SCANNING_NS;
        let (began, mut at) = (now, now);
        while left > 0.0 {
            at = self.stop(at, left.min(SCANNING_NS));
            let stop = self.figures.stops.last().map_or(0.0, Stop::length_ns);
            left -= SCANNING_NS;
            at += stop * catching_up.percent() as f64 / 100.0;
        }
        // What is written between the stops of a pass is found by the next.
        let ran =
            (at - began) * catching_up.percent() as f64 / (100.0 + catching_up.percent() as f64);
        let (grown, per_ms) = (self.grown, self.program.pages_per_ms * self.threads.len() as f64);
        let cycle = self.cycle();
        cycle.black_from.get_or_insert(grown);
        cycle.stopped_ns += at - began - ran;
        let written = cycle.pages * (1.0 - (-per_ms * ran / 1e6 / cycle.pages).exp());
        cycle.dirty = cycle.dirty.max(written);
        let next = catching_up.after(found as usize, few);
        if next == Next::GivenUp {
            self.figures.given_up += 1;
        }
        let cycle = self.cycle();
        cycle.step = match next {
            Next::Again => Step::Passes(catching_up),
            Next::CaughtUp | Next::GivenUp => Step::Last,
        };
        self.collector_at(at);
    }

    fn last_stop(&mut self, now: f64) {
        let costs = self.machine.costs;
        let roots = self.threads.len() as f64 * costs.thread_roots_ns;
        let scan = self.page_scan_ns();
        let markers = self.machine.processors.min(self.ways.most_markers) as f64;
        let (pages, dirty) = (self.cycle().pages, self.cycle().dirty);
        let shared = if dirty > FEW_PAGES { markers } else { 1.0 };
        let helpers = match self.ways.helpers_ask {
            true => (pages / MUCH_TO_ASK).floor().min(markers - 1.0),
            false => 0.0,
        };
        let asking = pages * costs.ask_page_ns + dirty * costs.protect_page_ns;
        let asking = helpers * costs.wake_ns + asking / (1.0 + helpers);
        let over = self.stop(now, roots + asking + dirty * scan / shared + FIXED_NS);
        self.figures.steps.last_ns += over - now;
        let (grown, program_at) = (self.grown, self.live_now());
        let Some(cycle) = self.cycle.take() else { return };
        let born = cycle.black_from.map_or(0.0, |from| grown - from);
        // What was allocated before objects were born marked is found if it lives.
        let marked = cycle.live.max(program_at - born).max(0.0);
        self.finish(&Ended {
            beside: true,
            now_ns: over,
            marked,
            born,
            allocated: grown,
            during: grown - cycle.began_at,
            stopped_ns: cycle.stopped_ns + over - now,
            running_ns: now - cycle.began - cycle.stopped_ns,
            fixed_ns: roots + FIXED_NS,
            alone_mark_ns: marked * self.mark_byte_ns(),
            markers: markers as usize,
            workers: 1 + cycle.helpers,
        });
        self.wake_waiting(over);
    }

    fn finish(&mut self, ended: &Ended) {
        self.schedule.finish(ended);
        self.grown = 0.0;
        self.figures.cycles += 1;
        self.figures.decided.push((self.schedule.due_at, self.schedule.room));
    }

    /// Who waits for the cycle goes on, one woken after the other.
    fn wake_waiting(&mut self, now: f64) {
        let costs = self.machine.costs;
        let mut woken = now;
        for thread in 0..self.threads.len() {
            if let activity @ Activity::Waits { .. } = self.threads[thread].activity {
                woken += costs.wake_ns;
                let since = self.threads[thread].since;
                self.wake_thread(thread, activity, since, woken);
            }
        }
    }
}
