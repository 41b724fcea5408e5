//! A thread at a refill: what it looks at, what it pays, the lock, and the program until the next.
//!
//! Invariant: as `runtime/allocation.rs`, `cycle/driver/collect.rs` and `alloc/refill.rs`: a block
//! at a time, several of them in one hold of the heap's lock, and what was handed out reported to a
//! word that all write.

use std::time::Duration;

use super::{Activity, Simulation};
use crate::policy::stall::{PIECE_NS, Stall};

/// A refill hands out this much: a block of free cells.
pub const BLOCK_BYTES: f64 = 16384.0;
/// What a thread hands out is reported in such pieces.
const REPORTED_BYTES: f64 = 65536.0;
/// Who waits for a cycle looks again so often.
const LOOK_NS: f64 = 1e6;
/// Lines of metadata of a block that another processor wrote last: its marks, its header, its
/// neighbour in the list.
const BLOCK_LINES: f64 = 3.0;

impl Simulation<'_> {
    /// The thread has done what it was at.
    pub(super) fn thread_is_due(&mut self, thread: usize, now: f64) {
        let activity = self.threads[thread].activity;
        let took = now - self.threads[thread].since;
        match activity {
            Activity::Ended => {}
            Activity::Runs => self.slow_path(thread, now),
            Activity::Marks { since } => {
                self.assisting -= 1;
                self.threads[thread].shares.assists_ns += took;
                match since {
                    Some(since) => self.pay_on(thread, now, since),
                    None => self.refill(thread, now),
                }
            }
            Activity::Waits { since } => {
                self.threads[thread].shares.stalls_ns += took;
                self.pay_on(thread, now, since);
            }
        }
    }

    fn slow_path(&mut self, thread: usize, now: f64) {
        let mut now = now;
        self.threads[thread].came = now;
        if self.schedule.is_due(self.grown) {
            let costs = self.machine.costs;
            let done = self.assists_word.add(&costs, thread, now);
            self.threads[thread].shares.words_ns += done.ends - now;
            now = done.ends;
            if self.cycle.is_none() && !(self.requested && self.ways.wakes_once) {
                now += costs.wake_ns;
                if !self.requested {
                    self.requested = true;
                    self.collector_at(now + costs.woken_ns - costs.wake_ns);
                }
            }
            match self.schedule.stall(self.grown) {
                Stall::Nothing => {}
                Stall::Assists if self.can_assist() => {
                    return self.mark_a_piece(thread, now, None);
                }
                Stall::Assists => {}
                Stall::Waits(_) | Stall::UntilOver => return self.pay(thread, now, now),
            }
        }
        self.refill(thread, now);
    }

    fn can_assist(&self) -> bool {
        let is_open = self.cycle.as_ref().is_some_and(|cycle| cycle.has_work());
        is_open && self.assisting < self.ways.most_assists
    }

    fn mark_a_piece(&mut self, thread: usize, now: f64, since: Option<f64>) {
        self.assisting += 1;
        let ends = now + PIECE_NS as f64;
        self.threads[thread].critical_until = ends;
        self.wake_thread(thread, Activity::Marks { since }, now, ends);
    }

    /// Marks if there is any to do, else waits.
    fn pay(&mut self, thread: usize, now: f64, since: f64) {
        if self.can_assist() {
            return self.mark_a_piece(thread, now, Some(since));
        }
        self.wake_thread(thread, Activity::Waits { since }, now, now + LOOK_NS);
    }

    /// Goes on paying, or refills.
    fn pay_on(&mut self, thread: usize, now: f64, since: f64) {
        let waited = Duration::from_nanos((now - since) as u64);
        let enough = self.schedule.stall(self.grown).is_over(waited);
        match enough || !self.schedule.is_due(self.grown) {
            true => self.refill(thread, now),
            false => self.pay(thread, now, since),
        }
    }

    fn refill(&mut self, thread: usize, now: f64) {
        let paid = now - self.threads[thread].came;
        self.figures.longest_payment_ns = self.figures.longest_payment_ns.max(paid);
        let costs = self.machine.costs;
        let mut now = now;
        if self.threads[thread].blocks_left == 0 {
            let blocks = self.ways.blocks as f64;
            let holds = costs.hold_ns + blocks * costs.hold_block_ns;
            // Marks come from the markers' processors, whoever had the lock before.
            let foreign = (self.machine.processors > 1) as usize as f64;
            let holds = holds + foreign * blocks * BLOCK_LINES * costs.line_ns;
            let used = self.heap_lock.lock(&costs, thread, now, holds, costs.handover_ns);
            let its = &mut self.threads[thread];
            its.shares.lock_waits_ns += used.begins - now;
            its.shares.held_ns += used.ends - used.begins;
            its.blocks_left = self.ways.blocks;
            its.critical_until = used.ends;
            now = used.ends;
        }
        self.threads[thread].blocks_left -= 1;
        self.threads[thread].unreported += BLOCK_BYTES;
        if self.threads[thread].unreported >= REPORTED_BYTES {
            let done = self.allocated_word.add(&costs, thread, now);
            let its = &mut self.threads[thread];
            its.shares.words_ns += done.ends - now;
            self.grown += its.unreported;
            its.unreported = 0.0;
            now = done.ends;
            let held = self.schedule.live as f64 + self.grown;
            self.figures.peak = self.figures.peak.max(held);
        }
        self.run_program(thread, now);
    }

    fn run_program(&mut self, thread: usize, now: f64) {
        let Some(next) = self.place.and_then(|place| self.program.advance(place, BLOCK_BYTES))
        else {
            self.place = None;
            self.threads[thread].activity = Activity::Ended;
            return;
        };
        let stretch = self.program.stretch(next);
        let own_ns = BLOCK_BYTES * stretch.program_ns / stretch.bytes;
        self.place = Some(next);
        if !self.is_measured && self.program.is_measured(next) {
            self.begin_measuring(now);
        }
        let faults = self.faults(own_ns) * self.machine.costs.fault_ns;
        let slowness = self.slowness();
        let its = &mut self.threads[thread];
        let beside = faults + core::mem::take(&mut its.interrupted_ns);
        its.shares.program_ns += own_ns;
        its.shares.faults_ns += beside;
        self.wake_thread(thread, Activity::Runs, now, now + (own_ns + beside) * slowness);
    }

    /// Pages that the thread writes in so long for the first time since they were protected.
    fn faults(&mut self, own_ns: f64) -> f64 {
        let Some(cycle) = &mut self.cycle else { return 0.0 };
        let clean = (1.0 - cycle.dirty / cycle.pages.max(1.0)).max(0.0);
        let faults = match cycle.is_protected {
            true => self.program.pages_per_ms * own_ns / 1e6 * clean,
            false => 0.0,
        };
        cycle.dirty += faults;
        faults
    }
}
