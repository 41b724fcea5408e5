//! The cycle that a recording ends in: what is known of one that did not end.
//!
//! Invariant: stops that no row of a cycle counts are this cycle's, so that sums over rows are
//! those over stops. Only what was recorded is known: its number, when it began, and its stops up
//! to the recording's end; that is where traces end it. Pure.

use crate::summary;
use neap_record::{CycleEvent, Recording, Span, SpanKind};
use serde_json::{Value, json};

/// A cycle that did not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Its number.
    pub number: u64,
    /// When it began, since the recording did.
    pub began_ns: u64,
    /// Where the recording ends.
    pub until_ns: u64,
    /// Its stops until then.
    pub stops: u64,
    /// All of them together.
    pub stops_ns: u64,
    /// The longest of them.
    pub longest_stop_ns: u64,
}

impl Unfinished {
    /// Of a recording; None where no cycle was under way at its end.
    pub fn of(recording: &Recording) -> Option<Self> {
        let last = recording.cycles.iter().map(|cycle| (cycle.number, cycle.ended_ns)).max();
        let (number, ended_ns) = last.unwrap_or_default();
        let is_later = |span: &&Span| span.cycle > number;
        let stops = recording.stops.iter().filter(is_later);
        // What threads of the program and helpers do may be over after the cycle.
        let phases = recording.spans.iter().filter(|span| span.kind < SpanKind::Stands);
        let parts = stops.clone().chain(phases.filter(is_later));
        let start = |(step, at_ns): &(CycleEvent, u64)| {
            (*step == CycleEvent::CycleStart && *at_ns > ended_ns).then_some(*at_ns)
        };
        let started = recording.steps.iter().filter_map(start);
        // Its first parts may lie before the step that tells of it.
        let began_ns = parts.clone().map(|span| span.began_ns).chain(started).min()?;
        let until_ns = parts.map(Span::ended_ns).chain([summary::length(recording)]).max();
        let mut cycle = Self {
            number: number.saturating_add(1),
            began_ns,
            until_ns: until_ns.unwrap_or(began_ns),
            ..Self::default()
        };
        for stop in stops {
            cycle.stops += 1;
            cycle.stops_ns = cycle.stops_ns.saturating_add(stop.length_ns);
            cycle.longest_stop_ns = cycle.longest_stop_ns.max(stop.length_ns);
        }
        Some(cycle)
    }

    /// The figures that are known, by the names that those of cycles have.
    pub fn figures(&self) -> [(&'static str, u64); 5] {
        [
            ("number", self.number),
            ("began_ns", self.began_ns),
            ("stops", self.stops),
            ("stops_ns", self.stops_ns),
            ("longest_stop_ns", self.longest_stop_ns),
        ]
    }

    /// As a row among cycles: what is not known is not there.
    pub fn json(&self) -> Value {
        let mut row = json!({ "unfinished": true });
        self.figures().into_iter().for_each(|(name, value)| row[name] = value.into());
        row
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::summary::tests::sample;

    /// A recording that ends in cycle 3, which began at 950 ms and stopped the world twice.
    pub fn ends_in_a_cycle() -> Recording {
        let mut recording = sample();
        for (kind, began_ns, length_ns) in [
            (SpanKind::FirstStop, 950_001_000, 300),
            (SpanKind::ShortStop, 950_005_000, 700),
            (SpanKind::Mark, 950_002_000, 2_000),
        ] {
            let span = Span { kind, thread: 9, cycle: 3, began_ns, length_ns };
            let list = if kind.is_stop() { &mut recording.stops } else { &mut recording.spans };
            list.push(span);
        }
        recording.steps.push((CycleEvent::CycleStart, 950_000_000));
        recording
    }

    #[test]
    fn what_no_row_counts_is_the_last_cycles() {
        assert_eq!(Unfinished::of(&sample()), None);
        let known = Unfinished {
            number: 3,
            began_ns: 950_000_000,
            until_ns: 1_000_000_000,
            stops: 2,
            stops_ns: 1_000,
            longest_stop_ns: 700,
        };
        assert_eq!(Unfinished::of(&ends_in_a_cycle()), Some(known));
        let row = known.json();
        assert_eq!((&row["unfinished"], &row["stops_ns"]), (&json!(true), &json!(1000)));
        assert!(row.get("live_bytes").is_none());
    }

    /// The step that tells of it is lost, or nothing but that step is there.
    #[test]
    fn it_is_known_by_any_of_its_parts() {
        let mut recording = ends_in_a_cycle();
        recording.steps.clear();
        assert_eq!(Unfinished::of(&recording).unwrap().began_ns, 950_001_000);
        let mut recording = sample();
        recording.steps.push((CycleEvent::CycleStart, 400_000_000));
        assert_eq!(Unfinished::of(&recording), None);
        recording.steps.push((CycleEvent::CycleStart, 950_000_000));
        let cycle = Unfinished::of(&recording).unwrap();
        assert_eq!((cycle.number, cycle.stops, cycle.began_ns), (3, 0, 950_000_000));
    }
}
