//! A recording as a trace in Chrome's JSON format, which Perfetto reads too: cycles and stops on
//! tracks of their own, each phase on the track of the thread that did it, and so what helpers and
//! threads of the program do for a cycle; the heap's size as counters.
//!
//! Invariant: events on a track nest or follow each other; times are microseconds since the
//! recording began. Names of spans and figures are those of docs/events.md. Each event is written
//! as it is made: a recording of a few megabytes has millions. Called by `export`.

use neap_record::{Cycle, Figure, Recording, Span, SpanKind};
use neap_report::Unfinished;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// The tracks that are no thread's have numbers that no thread has: the kernel's end at 2^22.
/// Perfetto keeps the low 32 bits of a number.
const CYCLES: u64 = 0x7fff_fff0;
const STOPS: u64 = CYCLES + 1;
/// Each cycle has a process of its own for that.
const FORKED: u64 = CYCLES + 2;

/// Writes the trace.
pub fn write(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let process = recording.process.id;
    let mut events = Events { out, has_one: false };
    events.push(json!({"ph": "M", "name": "process_name", "pid": process,
            "args": {"name": recording.process.command.join(" ")}}))?;
    for (order, (track, name)) in tracks(recording).into_iter().enumerate() {
        events.push(json!({"ph": "M", "name": "thread_name", "pid": process, "tid": track,
            "args": {"name": name}}))?;
        let order = json!({"sort_index": order});
        events
            .push(json!({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track,
            "args": order}))?;
    }
    for cycle in &recording.cycles {
        let name = format!("cycle {}", cycle.number);
        let track = Track { process, thread: CYCLES, category: "cycle" };
        events.push(track.span(name, began(cycle), cycle.ended_ns, figures(cycle)))?;
        events.push(counter(process, "live_bytes", cycle.ended_ns, cycle.live_bytes))?;
        events.push(counter(process, "committed_bytes", cycle.ended_ns, cycle.committed_bytes))?;
    }
    if let Some(cycle) = Unfinished::of(recording) {
        let name = format!("cycle {} (did not end)", cycle.number);
        let track = Track { process, thread: CYCLES, category: "cycle" };
        let Value::Object(args) = cycle.json() else { unreachable!("a row is an object") };
        events.push(track.span(name, cycle.began_ns, cycle.until_ns, args))?;
    }
    for stop in &recording.stops {
        let track = Track { process, thread: STOPS, category: "stop" };
        let name = stop.kind.name().to_owned();
        events.push(track.span(name, stop.began_ns, stop.ended_ns(), args(stop)))?;
    }
    for span in nested(&recording.spans) {
        let category = if span.kind as u64 >= SpanKind::Stands as u64 { "thread" } else { "phase" };
        let track = Track { process, thread: track_of(&span), category };
        let name = span.kind.name().to_owned();
        events.push(track.span(name, span.began_ns, span.ended_ns(), args(&span)))?;
    }
    for moment in &recording.moments {
        events.push(counter(process, "requested_bytes", moment.at_ns, moment.bytes))?;
    }
    events.end()
}

/// The events so far, in what they are written to.
struct Events<'o> {
    out: &'o mut dyn Write,
    has_one: bool,
}

impl Events<'_> {
    fn push(&mut self, event: Value) -> io::Result<()> {
        let before = match std::mem::replace(&mut self.has_one, true) {
            true => ",\n",
            false => "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
        };
        write!(self.out, "{before}{event}")
    }

    fn end(self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }
}

fn track_of(span: &Span) -> u64 {
    if span.kind == SpanKind::ForkedMark { FORKED } else { span.thread }
}

/// The tracks and their names, in the order in which they are shown: what is no thread's, threads
/// of the library, threads of the program.
fn tracks(recording: &Recording) -> Vec<(u64, String)> {
    let mut tracks = vec![(CYCLES, "cycles".to_owned()), (STOPS, "stops".to_owned())];
    let program: BTreeMap<u64, &str> =
        recording.threads.values().map(|thread| (thread.id, thread.name.as_str())).collect();
    let doing = |wanted: fn(SpanKind) -> bool| -> BTreeSet<u64> {
        let spans = recording.spans.iter().filter(|span| wanted(span.kind));
        spans.map(track_of).collect()
    };
    let helpers = doing(|kind| kind == SpanKind::Help);
    let mut threads = doing(|_| true);
    if threads.remove(&FORKED) {
        tracks.push((FORKED, "marking, forked process".to_owned()));
    }
    // A thread of the program's that never asked for memory is not among those that did.
    let of_program =
        doing(|kind| matches!(kind, SpanKind::Stands | SpanKind::Assist | SpanKind::InCollector));
    let is_programs = |thread: &u64| program.contains_key(thread) || of_program.contains(thread);
    for thread in threads.iter().filter(|thread| !is_programs(thread)) {
        let name = if helpers.contains(thread) { "neap: marks" } else { "neap: runs cycles" };
        tracks.push((*thread, name.to_owned()));
    }
    tracks.extend(threads.iter().filter(|thread| is_programs(thread)).map(|thread| {
        let name = match program.get(thread) {
            Some(&name) if !name.is_empty() => name.to_owned(),
            _ if *thread == recording.process.id => "main thread".to_owned(),
            _ => format!("thread {thread}"),
        };
        (*thread, name)
    }));
    tracks
}

/// The spans by thread, outer ones before those within them. One that ends after what it lies in,
/// because two threads took the times, ends with it.
fn nested(spans: &[Span]) -> Vec<Span> {
    let mut sorted = spans.to_vec();
    sorted.sort_by_key(|span| (track_of(span), span.began_ns, u64::MAX - span.length_ns));
    let mut outer: Vec<Span> = Vec::new();
    for span in &mut sorted {
        while outer.last().is_some_and(|last| {
            track_of(last) != track_of(span) || last.ended_ns() <= span.began_ns
        }) {
            outer.pop();
        }
        if let Some(last) = outer.last() {
            span.length_ns = span.length_ns.min(last.ended_ns() - span.began_ns);
        }
        outer.push(*span);
    }
    sorted
}

/// When a cycle began. Earlier versions did not record that: then it was at least as long as its
/// parts.
fn began(cycle: &Cycle) -> u64 {
    let parts = [cycle.protect_ns, cycle.first_ns, cycle.mark_ns, cycle.pause_ns];
    let parts = parts.into_iter().fold(0, u64::saturating_add);
    if cycle.began_ns > 0 { cycle.began_ns } else { cycle.ended_ns.saturating_sub(parts) }
}

/// Perfetto has `int64(ts * 1000.0)` nanoseconds of that. What is cut off there must not make a
/// span of it that ends after the one around it, which would be dropped.
fn microseconds(ns: u64) -> f64 {
    let exact = ns as f64 / 1000.0;
    if ((exact * 1000.0) as u64) < ns { exact.next_up() } else { exact }
}

/// Where spans are drawn.
struct Track {
    process: u64,
    thread: u64,
    category: &'static str,
}

impl Track {
    fn span(&self, name: String, begin: u64, end: u64, args: Map<String, Value>) -> Value {
        json!({
            "ph": "X", "name": name, "pid": self.process, "tid": self.thread, "cat": self.category,
            "ts": microseconds(begin), "dur": microseconds(end.saturating_sub(begin)), "args": args,
        })
    }
}

fn counter(process: u64, name: &str, at: u64, value: u64) -> Value {
    json!({"ph": "C", "name": name, "pid": process, "ts": microseconds(at), "args": {name: value}})
}

fn args(span: &Span) -> Map<String, Value> {
    let named = [("cycle", span.cycle), ("thread", span.thread)];
    named.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

fn figures(cycle: &Cycle) -> Map<String, Value> {
    let named = |(figure, value): (&Figure, u64)| (figure.name.to_owned(), json!(value));
    Cycle::FIGURES.iter().zip(cycle.values()).map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::decode::{Process, Thread};

    const COLLECTOR: u64 = 50;
    const HELPER: u64 = 51;
    const PROGRAM: u64 = 60;
    const CHILD: u64 = 70;
    const MAIN: u64 = 80;

    fn recording() -> Recording {
        let span = |kind, thread, began_ns, ended_ns: u64| Span {
            kind,
            thread,
            cycle: 1,
            began_ns,
            length_ns: ended_ns - began_ns,
        };
        let cycle = Cycle {
            number: 1,
            began_ns: 1_000,
            ended_ns: 9_000,
            mark_ns: 200,
            live_bytes: 1000,
            ..Cycle::default()
        };
        let thread = Thread { id: PROGRAM, name: "worker".to_owned(), began_ns: 0 };
        Recording {
            cycles: vec![cycle],
            threads: [(1, thread)].into(),
            stops: vec![span(SpanKind::LastStop, COLLECTOR, 7_000, 8_500)],
            spans: vec![
                span(SpanKind::Assist, PROGRAM, 3_000, 4_100),
                span(SpanKind::InCollector, PROGRAM, 2_500, 4_000),
                span(SpanKind::Help, HELPER, 2_000, 5_000),
                span(SpanKind::Mark, COLLECTOR, 1_500, 6_000),
                span(SpanKind::ForkedMark, CHILD, 2_200, 5_500),
                // It waits, and has no other part in anything.
                span(SpanKind::InCollector, MAIN, 1_200, 9_100),
            ],
            process: Process { id: MAIN, ..Process::default() },
            ..Recording::default()
        }
    }

    fn text(recording: &Recording) -> String {
        let mut out = Vec::new();
        write(recording, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Perfetto cuts numbers to 32 bits: to 2^32 and 0, the main thread's track, alike.
    #[test]
    fn tracks_have_numbers_that_fit_and_that_no_thread_has() {
        const LARGEST_THREAD: u64 = 1 << 22;
        let trace: Value = serde_json::from_str(&text(&recording())).unwrap();
        let tracks = trace["traceEvents"].as_array().unwrap().iter().map(|event| &event["tid"]);
        let tracks: BTreeSet<u64> = tracks.filter_map(Value::as_u64).collect();
        assert!(tracks.iter().all(|track| i32::try_from(*track).is_ok()), "{tracks:?}");
        let of_no_thread = tracks.iter().filter(|track| **track > LARGEST_THREAD);
        assert_eq!(of_no_thread.count(), 3, "{tracks:?}");
    }

    #[test]
    fn nanoseconds_are_the_same_where_the_reader_cuts_them_off() {
        let mut random = 1_u64;
        for round in 0..1_000_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // To a month of them.
            let ns = if round < 100_000 { round } else { random >> (13 + round % 40) };
            assert_eq!((microseconds(ns) * 1000.0) as u64, ns);
        }
    }

    /// Whatever is written is not held.
    #[test]
    fn events_are_written_as_they_are_made() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += bytes.len();
                if self.0 > 1000 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut long = recording();
        long.stops = vec![long.stops[0]; 10_000];
        let mut full = Full(0);
        assert_eq!(write(&long, &mut full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(full.0 < 2000, "{} bytes at once", full.0);
    }

    #[test]
    fn spans_are_on_the_tracks_of_their_threads() {
        let trace: Value = serde_json::from_str(&text(&recording())).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let names: BTreeMap<u64, &str> = events
            .iter()
            .filter(|event| event["name"] == "thread_name")
            .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
            .collect();
        let spans: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| {
                let at = |name: &str| event[name].as_f64().unwrap();
                let track = names[&event["tid"].as_u64().unwrap()];
                (track, event["name"].as_str().unwrap(), at("ts"), at("dur"))
            })
            .collect();
        let wanted = [
            ("cycles", "cycle 1", 1.0, 8.0),
            ("stops", "last_stop", 7.0, 1.5),
            ("neap: runs cycles", "mark", 1.5, 4.5),
            ("neap: marks", "help", 2.0, 3.0),
            ("worker", "in_collector", 2.5, 1.5),
            // It was said to end later than what it lies in.
            ("worker", "assist", 3.0, 1.0),
            ("main thread", "in_collector", 1.2, 7.9),
            ("marking, forked process", "forked_mark", 2.2, 3.3),
        ];
        assert_eq!(spans, wanted);
        let first = events.iter().find(|event| event["name"] == "cycle 1").unwrap();
        assert_eq!(first["args"]["mark_ns"], 200);
        assert!(
            events.iter().any(|event| event["ph"] == "C" && event["args"]["live_bytes"] == 1000)
        );
    }

    #[test]
    fn a_cycle_that_did_not_end_lasts_as_long_as_is_known() {
        let mut cut = recording();
        cut.stops.push(Span { cycle: 2, began_ns: 11_000, length_ns: 500, ..cut.stops[0] });
        let trace: Value = serde_json::from_str(&text(&cut)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let last = events.iter().rfind(|event| event["cat"] == "cycle").unwrap();
        assert_eq!(last["name"], "cycle 2 (did not end)");
        assert_eq!((&last["ts"], &last["dur"]), (&json!(11.0), &json!(0.5)));
        assert_eq!(
            (&last["args"]["stops"], &last["args"]["unfinished"]),
            (&json!(1), &json!(true))
        );
    }

    #[test]
    fn cycles_of_earlier_versions_are_as_long_as_their_parts() {
        let cycle = Cycle { ended_ns: 5_000, mark_ns: 200, pause_ns: 300, ..Cycle::default() };
        assert_eq!(began(&cycle), 4_500);
    }
}
