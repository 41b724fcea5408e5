//! A recording as a trace in Chrome's JSON format, which Perfetto reads too: cycles, their steps
//! and stops on tracks of their own, the heap's size as counters.
//!
//! Invariant: events on a track nest or follow each other; times are microseconds since the
//! recording began. Names of steps and figures are those of docs/events.md. Pure.

use neap_record::{Cycle, CycleEvent, Figure, Recording};
use serde_json::{Map, Value, json};

/// The tracks: a cycle as a whole, what happens within it, stops of the world.
const TRACKS: [(u64, &str); 3] = [(1, "cycles"), (2, "marking"), (3, "stops")];

/// Spans between two steps: where they are drawn, and what they are called.
const SPANS: [(CycleEvent, CycleEvent, u64, &str); 2] = [
    (CycleEvent::MarkStart, CycleEvent::MarkEnd, 2, "mark"),
    (CycleEvent::BeforeStop, CycleEvent::Resumed, 3, "stop"),
];

/// The trace as text.
pub fn text(recording: &Recording) -> String {
    let process = recording.process.id;
    let mut events = vec![
        json!({"ph": "M", "name": "process_name", "pid": process, "args": {"name": recording.process.command.join(" ")}}),
    ];
    for (track, name) in TRACKS {
        events.push(json!({"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name}}));
    }
    for (from, to, track, name) in SPANS {
        for (begin, end) in pairs(&recording.steps, from, to) {
            events.push(span(process, track, name.to_owned(), begin, end, Map::new()));
        }
    }
    let starts: Vec<u64> = times(&recording.steps, CycleEvent::CycleStart).collect();
    let mut before = 0;
    for cycle in &recording.cycles {
        let begin = began(cycle, &starts, before);
        let name = format!("cycle {}", cycle.number);
        events.push(span(process, 1, name, begin, cycle.ended_ns, figures(cycle)));
        before = cycle.ended_ns;
        events.push(counter(process, "live_bytes", cycle.ended_ns, cycle.live_bytes));
        events.push(counter(process, "committed_bytes", cycle.ended_ns, cycle.committed_bytes));
    }
    for moment in &recording.moments {
        events.push(counter(process, "requested_bytes", moment.at_ns, moment.bytes));
    }
    let mut text = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (index, event) in events.iter().enumerate() {
        text += if index == 0 { "" } else { ",\n" };
        text += &event.to_string();
    }
    text + "\n]}\n"
}

/// When a cycle began: its first step if that was recorded, else as long before its end as its
/// parts took, but not before the last one's end.
fn began(cycle: &Cycle, starts: &[u64], before: u64) -> u64 {
    let told = starts.iter().copied().rfind(|start| *start <= cycle.ended_ns);
    let parts = cycle.protect_ns + cycle.first_ns + cycle.mark_ns + cycle.pause_ns;
    told.filter(|start| *start >= before)
        .unwrap_or_else(|| cycle.ended_ns.saturating_sub(parts).max(before))
}

fn times(steps: &[(CycleEvent, u64)], wanted: CycleEvent) -> impl Iterator<Item = u64> {
    steps.iter().filter(move |(step, _)| *step == wanted).map(|(_, at)| *at)
}

/// Beginnings and ends that belong together: a beginning whose end was lost, or the other way
/// round, is left out.
fn pairs(steps: &[(CycleEvent, u64)], from: CycleEvent, to: CycleEvent) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    let mut begun = None;
    for (step, at) in steps {
        if *step == from {
            begun = Some(*at);
        } else if *step == to
            && let Some(begin) = begun.take()
        {
            pairs.push((begin, *at));
        }
    }
    pairs
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn span(
    process: u64,
    track: u64,
    name: String,
    begin: u64,
    end: u64,
    args: Map<String, Value>,
) -> Value {
    json!({
        "ph": "X", "name": name, "pid": process, "tid": track, "cat": "neap",
        "ts": microseconds(begin), "dur": microseconds(end.saturating_sub(begin)), "args": args,
    })
}

fn counter(process: u64, name: &str, at: u64, value: u64) -> Value {
    json!({"ph": "C", "name": name, "pid": process, "ts": microseconds(at), "args": {name: value}})
}

fn figures(cycle: &Cycle) -> Map<String, Value> {
    let named = |(figure, value): (&Figure, u64)| (figure.name.to_owned(), json!(value));
    Cycle::FIGURES.iter().zip(cycle.values()).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use CycleEvent::*;

    fn recording() -> Recording {
        let cycle = |number, ended_ns| Cycle {
            number,
            ended_ns,
            mark_ns: 200,
            pause_ns: 300,
            live_bytes: 1000 * number,
            ..Cycle::default()
        };
        let steps = vec![
            (MarkEnd, 50),
            (CycleStart, 1_000),
            (BeforeStop, 2_000),
            (MarkStart, 2_500),
            (MarkEnd, 4_000),
            (Resumed, 5_000),
            (BeforeStop, 9_000),
        ];
        Recording { steps, cycles: vec![cycle(1, 6_000), cycle(2, 9_500)], ..Recording::default() }
    }

    #[test]
    fn spans_are_where_the_steps_were() {
        let trace: Value = serde_json::from_str(&text(&recording())).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| {
                let at = |name: &str| event[name].as_f64().unwrap();
                (event["name"].as_str().unwrap(), at("ts"), at("dur"))
            })
            .collect();
        // The second cycle's first step is not there: its parts say how long it was.
        let wanted =
            [("mark", 2.5, 1.5), ("stop", 2.0, 3.0), ("cycle 1", 1.0, 5.0), ("cycle 2", 9.0, 0.5)];
        assert_eq!(spans, wanted);
        let first = events.iter().find(|event| event["name"] == "cycle 1").unwrap();
        assert_eq!(first["args"]["mark_ns"], 200);
        assert!(
            events.iter().any(|event| event["ph"] == "C" && event["args"]["live_bytes"] == 2000)
        );
    }
}
