//! What a recording says of cycles: what the rings of `stats/events.rs` hold goes to its file.
//!
//! Invariant `[stats.inv.once]`: each entry of a ring is written once, or counted as lost where it
//! was overwritten before. What the file refuses stays in the ring. Under the recorder's lock.

use neap_record::{Cycle, Span};

use super::output::Output;
use crate::stats::events::{self, Place, Ring, SPAN_SLOTS};

/// Entries that one chunk holds at most.
const BATCH: usize = 64;

/// How much of the rings was written.
pub struct RecordedCycles {
    cycles: Place,
    steps: Place,
    stops: Place,
    spans: Place,
}

impl RecordedCycles {
    /// Nothing yet.
    pub const fn new() -> Self {
        let start = Place::START;
        Self { cycles: start, steps: start, stops: start, spans: start }
    }

    /// Everything so far: it is not ours to tell.
    pub fn end() -> Self {
        Self {
            cycles: events::CYCLES.end(),
            steps: events::STEPS.end(),
            stops: events::STOPS.end(),
            spans: events::SPANS.end(),
        }
    }

    /// Entries that were overwritten before they could be written.
    pub fn lost(&self) -> u64 {
        [self.cycles, self.steps, self.stops, self.spans].iter().map(|place| place.lost).sum()
    }

    /// Writes what is new; times count from `began_ns`.
    pub fn write(&mut self, out: &mut Output, began_ns: u64) {
        let since = |at_ns: u64| at_ns.saturating_sub(began_ns);
        // Stops first: a recording that is cut has those of the cycles that it has.
        for (ring, place) in [(&events::STOPS, &mut self.stops), (&events::SPANS, &mut self.spans)]
        {
            write_spans(out, ring, place, since);
        }
        write_steps(out, &mut self.steps, since);
        let mut cycles = self.cycles;
        while let Some(values) = events::CYCLES.take(&mut cycles) {
            let mut cycle = Cycle::from_values(&values);
            cycle.began_ns = since(cycle.began_ns);
            cycle.ended_ns = since(cycle.ended_ns);
            if !out.encode(|out| out.cycle(&cycle)) {
                return;
            }
            self.cycles = cycles;
        }
    }
}

fn write_spans(
    out: &mut Output,
    ring: &Ring<{ Span::COUNT }, SPAN_SLOTS>,
    place: &mut Place,
    since: impl Fn(u64) -> u64,
) {
    let mut batch = [[0; Span::COUNT]; BATCH];
    loop {
        let (mut next, mut count) = (*place, 0);
        while count < BATCH
            && let Some(mut values) = ring.take(&mut next)
        {
            values[Span::BEGAN] = since(values[Span::BEGAN]);
            batch[count] = values;
            count += 1;
        }
        if count == 0 || !out.encode(|out| out.spans(batch[..count].iter().copied())) {
            return;
        }
        *place = next;
    }
}

fn write_steps(out: &mut Output, place: &mut Place, since: impl Fn(u64) -> u64) {
    let mut batch = [(0, 0); BATCH];
    loop {
        let (mut next, mut count) = (*place, 0);
        while count < BATCH
            && let Some([step, at_ns]) = events::STEPS.take(&mut next)
        {
            batch[count] = (step, since(at_ns));
            count += 1;
        }
        if count == 0 || !out.encode(|out| out.steps(batch[..count].iter().copied())) {
            return;
        }
        *place = next;
    }
}
