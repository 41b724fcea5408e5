//! A stop: who is asked in which way, when all stand, and when the last runs again.
//!
//! Invariant: as `world/stop.rs`. A thread that stands goes on afterwards with what it had left to
//! do. One that waits for the cycle is in a blocked region, and is neither asked nor woken.

use super::figures::Stop;
use super::{Activity, Simulation};
use crate::serial::Serial;

/// To look at a thread in the list, cold, each time a stop goes through it.
const LOOK_NS: f64 = 150.0;
const LOOKS: f64 = 3.0;
/// Who stands spins so long before it sleeps.
const SPIN_NS: f64 = 40_000.0;
/// More threads than this are all asked before the first signal.
const MANY_THREADS: usize = 8;
/// With more threads than this who stands may spin for longer.
const FEW_THREADS: f64 = 8.0;

impl Simulation<'_> {
    /// Stops all threads, from `now` on, for as long as `work_ns` says once they stand; gives when
    /// who stopped them goes on.
    pub(super) fn stop(&mut self, now: f64, work_ns: f64) -> f64 {
        let runs: Vec<usize> = (0..self.threads.len())
            .filter(|thread| {
                matches!(self.threads[*thread].activity, Activity::Runs | Activity::Marks { .. })
            })
            .collect();
        let began = now + self.threads.len() as f64 * LOOK_NS * LOOKS;
        let mut signals = 0;
        let mut stands = match self.ways.signals_by_tree {
            true => self.ask_by_tree(&runs, began, &mut signals),
            false => self.ask_one_by_one(&runs, began, &mut signals),
        };
        // Each adds to one word.
        let (costs, mut answers) = (self.machine.costs, Serial::new());
        stands.sort_by(|one, other| one.1.total_cmp(&other.1));
        let all_stand = stands
            .iter()
            .map(|(thread, at)| answers.add(&costs, *thread, *at).ends)
            .fold(began, f64::max);
        let over = all_stand + work_ns;
        let last = self.resume(&stands, over);
        let stop = Stop { stopping_ns: all_stand - now, work_ns, waking_ns: last - over, signals };
        self.figures.stops.push(stop);
        last
    }

    /// When a thread stands that is interrupted, or comes by, at these times.
    fn stands_at(&self, thread: usize, interrupted: f64, comes_by: f64) -> f64 {
        interrupted.min(comes_by).max(self.threads[thread].critical_until)
    }

    fn ask_one_by_one(&self, runs: &[usize], began: f64, signals: &mut usize) -> Vec<(usize, f64)> {
        let costs = self.machine.costs;
        let asks_first = self.ways.asks_first && runs.len() > MANY_THREADS;
        let mut now = began;
        let mut stands = Vec::new();
        for thread in runs.iter().copied() {
            let due = self.threads[thread].due.max(began);
            if asks_first && due <= now {
                stands.push((thread, self.stands_at(thread, due, due)));
                continue;
            }
            let asked = if asks_first { began } else { now };
            now += costs.signal_ns;
            *signals += 1;
            let interrupted = now + costs.answer_ns - costs.signal_ns;
            stands.push((thread, self.stands_at(thread, interrupted, due.max(asked))));
        }
        stands
    }

    /// Whoever has been interrupted asks others, as long as there are any.
    fn ask_by_tree(&self, runs: &[usize], began: f64, signals: &mut usize) -> Vec<(usize, f64)> {
        let costs = self.machine.costs;
        // Who asks, and from when on it can ask the next.
        let mut askers = vec![(usize::MAX, began)];
        let mut stands: Vec<(usize, f64)> = Vec::new();
        for thread in runs.iter().copied() {
            let earlier = |a: &&mut (usize, f64), b: &&mut (usize, f64)| a.1.total_cmp(&b.1);
            let Some(asker) = askers.iter_mut().min_by(earlier) else { break };
            let sent = asker.1 + costs.signal_ns;
            asker.1 = sent;
            let (who, busy_until) = *asker;
            if let Some(its) = stands.iter_mut().find(|(thread, _)| *thread == who) {
                its.1 = its.1.max(busy_until);
            }
            *signals += 1;
            let interrupted = sent + costs.answer_ns - costs.signal_ns;
            let due = self.threads[thread].due.max(began);
            stands.push((thread, self.stands_at(thread, interrupted, due)));
            askers.push((thread, interrupted));
        }
        stands
    }

    /// Lets them run; gives when the last does, and who resumed them goes on.
    fn resume(&mut self, stands: &[(usize, f64)], over: f64) -> f64 {
        let costs = self.machine.costs;
        let is_crowded = stands.len() > self.machine.processors;
        let spins = match self.ways.spins_by_threads {
            true => SPIN_NS * (stands.len() as f64 / FEW_THREADS).max(1.0),
            false => SPIN_NS,
        };
        let mut woken = over;
        let mut last = over;
        for (thread, stood) in stands.iter().copied() {
            let sleeps = is_crowded || over - stood > spins;
            let runs = match sleeps {
                true => {
                    woken += costs.wake_ns;
                    woken + costs.woken_ns - costs.wake_ns
                }
                false => over + costs.line_ns,
            };
            last = last.max(runs);
            let its = &mut self.threads[thread];
            its.shares.stopped_ns += runs - stood;
            let left = (its.due - stood).max(0.0);
            let (activity, since) = (its.activity, its.since + runs - stood);
            self.wake_thread(thread, activity, since, runs + left);
        }
        last
    }
}
