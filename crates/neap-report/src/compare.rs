//! Two runs beside each other.
//!
//! Invariant: a ratio is the second run's figure by the first's; what a report of one warns of is
//! said here, too. Pure.

use crate::summary::{Summary, length};
use crate::text::{self, did_not_end};
use crate::units::{bytes, count, duration};
use neap_record::Recording;
use serde_json::{Value, json};
use std::fmt::Write;

type Show = fn(u64) -> String;

/// Name, how to show it, both values.
type Row = (&'static str, Show, u64, u64);

fn rows(first: &Recording, second: &Recording) -> Vec<Row> {
    let (a, b) = (Summary::of(first), Summary::of(second));
    let cycles = |recording: &Recording| recording.cycles.len() as u64;
    let mut rows: Vec<Row> = Vec::new();
    let mut row =
        |name, show: Show, of: fn(&Summary) -> u64| rows.push((name, show, of(&a), of(&b)));
    row("run time", duration, |summary| summary.length_ns);
    row("objects requested", count, |summary| summary.total.objects);
    row("bytes requested", bytes, |summary| summary.total.requested);
    row("bytes allocated", bytes, |summary| summary.total.allocated);
    row("bytes wasted", bytes, |summary| summary.total.wasted());
    row("scanned objects", count, |summary| summary.scanned.objects);
    row("scanned bytes", bytes, |summary| summary.scanned.requested);
    row("different sizes", count, |summary| summary.different_sizes as u64);
    row("words never scanned", count, Summary::words_saved);
    row("stops", count, |summary| summary.stops.count());
    row("longest stop", duration, |summary| summary.stops.max());
    row("99 of 100 stops", duration, |summary| summary.stops.percentile(0.99));
    row("half of the stops", duration, |summary| summary.stops.percentile(0.5));
    row("all stops", duration, |summary| summary.stops.total());
    row("found dead", bytes, |summary| summary.yielded);
    row("most in use", bytes, |summary| summary.statistics.peak_bytes);
    row("live at the end", bytes, |summary| summary.memory.map_or(0, |memory| memory.live));
    row("fragmentation at the end", bytes, |summary| {
        summary.memory.map_or(0, |memory| memory.fragmentation)
    });
    rows.push(("cycles", count, cycles(first), cycles(second)));
    rows
}

fn ratio(first: u64, second: u64) -> Option<f64> {
    (first > 0).then(|| second as f64 / first as f64)
}

/// What is to be known before figures of a recording are compared.
fn problems(recording: &Recording) -> Vec<String> {
    let length_ns = length(recording);
    let unfinished = recording.ended_ns.is_none().then(|| did_not_end(length_ns));
    unfinished.into_iter().chain(text::problems(recording)).collect()
}

/// For a terminal.
pub fn text(first: (&str, &Recording), second: (&str, &Recording)) -> String {
    let mut out = String::new();
    for (letter, (name, recording)) in [("A", first), ("B", second)] {
        let _ = writeln!(out, "{letter}  {name}: {}", recording.process.command.join(" "));
        for problem in problems(recording) {
            let _ = writeln!(out, "   {problem}");
        }
    }
    let _ = writeln!(out, "\n{:<26} {:>15} {:>15} {:>8}", "", "A", "B", "B / A");
    for (name, show, a, b) in rows(first.1, second.1) {
        let ratio = ratio(a, b).map_or("–".to_owned(), |ratio| format!("{ratio:.3}"));
        let _ = writeln!(out, "{name:<26} {:>15} {:>15} {ratio:>8}", show(a), show(b));
    }
    out
}

/// For programs.
pub fn json(first: (&str, &Recording), second: (&str, &Recording)) -> Value {
    let figures: serde_json::Map<String, Value> = rows(first.1, second.1)
        .into_iter()
        .map(|(name, _, a, b)| {
            (name.replace(' ', "_"), json!({ "a": a, "b": b, "ratio": ratio(a, b) }))
        })
        .collect();
    let problems = json!({ "a": problems(first.1), "b": problems(second.1) });
    json!({ "a": first.0, "b": second.0, "problems": problems, "figures": figures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::sample;

    #[test]
    fn a_run_beside_one_with_twice_the_requests() {
        let (first, mut second) = (sample(), sample());
        second.counts.values_mut().for_each(|count| *count *= 2);
        let json = json(("a", &first), ("b", &second));
        assert_eq!(json["figures"]["objects_requested"]["ratio"], 2.0);
        assert_eq!(json["figures"]["longest_stop"]["ratio"], 1.0);
        assert!(text(("a", &first), ("b", &second)).contains("2.000"));
    }

    #[test]
    fn what_a_report_of_one_warns_of_is_said_of_both() {
        let (mut first, mut second) = (sample(), sample());
        first.ended_ns = Some(1_000);
        second.ended_ns = None;
        second.conditions.lost = 3;
        second.problems = vec!["a chunk is cut".to_owned()];
        let json = json(("a", &first), ("b", &second));
        assert_eq!(json["problems"]["a"], json!([]));
        let said = json["problems"]["b"].as_array().unwrap();
        let text = text(("a", &first), ("b", &second));
        for (at, problem) in
            ["did not end in order", "a chunk is cut", "3 stops"].iter().enumerate()
        {
            assert!(said[at].as_str().unwrap().contains(problem), "{said:?}");
            assert_eq!(text.matches(problem).count(), 1, "{text}");
        }
    }

    #[test]
    fn nothing_has_no_ratio() {
        assert_eq!(ratio(0, 5), None);
    }
}
