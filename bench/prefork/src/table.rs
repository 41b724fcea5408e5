//! The tables of docs/prefork.md, in Markdown: memory of the workers, collections, requests, and
//! how that compares with what was aimed at.
//!
//! Pure. Every figure is a median over the runs of a contestant; one that never ran, or was not
//! measured, has none.

use std::fmt::Write;

use crate::{Long, Run, WORKERS};

/// The middle one, or the mean of the two in the middle; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    match count {
        0 => f64::NAN,
        _ if count % 2 == 1 => values[count / 2],
        _ => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

type Column = (&'static str, fn(&Run) -> f64, usize);

const MB: f64 = 1e6;

const COLLECTIONS: &[Column] = &[
    ("parent, until all is marked", |run| run.parent_marked / 1e3, 1),
    ("then until all is swept", |run| run.parent_swept / 1e3, 1),
    ("in a worker", |run| run.collection / 1e3, 1),
    ("longest pause of a worker", |run| run.pause / 1e3, 2),
    ("fork of the parent", |run| run.fork / 1e3, 2),
];

const MEMORY: &[Column] = &[
    ("private before load", |run| run.before.private as f64 / MB, 1),
    ("after load", |run| run.loaded.private as f64 / MB, 1),
    ("after a collection in each", |run| run.collected.private as f64 / MB, 1),
    ("of it anonymous", |run| run.collected.anonymous_private as f64 / MB, 1),
    ("shared then", |run| run.collected.shared as f64 / MB, 0),
    ("private after the long run", |run| of_long(run, |long| long.loaded.private as f64 / MB), 1),
];

const REQUESTS: &[Column] = &[
    ("mean", |run| run.times.mean, 1),
    ("of it making the answer", |run| run.answering, 2),
    ("p99", |run| run.times.p99, 0),
    ("longest", |run| run.times.longest, 0),
    ("long run: mean", |run| of_long(run, |long| long.times.mean), 1),
    ("of it making the answer", |run| of_long(run, |long| long.answering), 2),
    ("p99", |run| of_long(run, |long| long.times.p99), 0),
    ("longest", |run| of_long(run, |long| long.times.longest), 0),
];

fn of_long(run: &Run, pick: fn(&Long) -> f64) -> f64 {
    run.long.as_ref().map_or(f64::NAN, pick)
}

type Pick = fn(&Run) -> f64;
/// A figure of the contestant of this name.
type Of = (&'static str, Pick);
const PREFORK: &str = "Neap, neap_prefork()";
const DROP_IN: &str = "Neap as libgc, prefork=on-fork";
const COLLECTED: Pick = |run| run.collected.private as f64;

/// What is compared, with what, and what was aimed at: a figure of one contestant over that of
/// another.
const AIMS: &[(&str, Of, Of, &str)] = &[
    (
        "private memory that a collection adds to a worker, of the live heap",
        (PREFORK, |run| COLLECTED(run) - run.loaded.private as f64),
        (PREFORK, |run| run.live * f64::from(WORKERS)),
        "0.02",
    ),
    (
        "private memory of the workers, of libgc's",
        (PREFORK, COLLECTED),
        ("libgc", COLLECTED),
        "0.5",
    ),
    ("the same with the option alone", (DROP_IN, COLLECTED), ("libgc", COLLECTED), "0.5"),
    (
        "private memory of the workers, of that with marks in objects",
        (PREFORK, COLLECTED),
        ("marks in objects, stopped cycles", COLLECTED),
        "0.25",
    ),
    (
        "collection in a worker, of the time with marks in objects",
        ("Neap, plain fork, stopped cycles", |run| run.collection),
        ("marks in objects, stopped cycles", |run| run.collection),
        "1.0",
    ),
    (
        "collection of the parent until all is marked, of the same",
        ("Neap, plain fork, stopped cycles", |run| run.parent_marked),
        ("marks in objects, stopped cycles", |run| run.parent_marked),
        "1.0",
    ),
    (
        "request, of libgc's time",
        (PREFORK, |run| run.times.mean),
        ("libgc", |run| run.times.mean),
        "0.9",
    ),
    (
        "the same, without a collector",
        ("no collector, an arena for each request", |run| run.times.mean),
        ("libgc", |run| run.times.mean),
        "",
    ),
    ("making the answer", (PREFORK, |run| run.answering), ("libgc", |run| run.answering), ""),
    (
        "long run: request, of libgc's time",
        (PREFORK, |run| of_long(run, |long| long.times.mean)),
        ("libgc", |run| of_long(run, |long| long.times.mean)),
        "0.9",
    ),
    (
        "the same with the option alone",
        (DROP_IN, |run| of_long(run, |long| long.times.mean)),
        ("libgc", |run| of_long(run, |long| long.times.mean)),
        "0.9",
    ),
    (
        "the same, without a collector",
        ("no collector, an arena for each request", |run| of_long(run, |long| long.times.mean)),
        ("libgc", |run| of_long(run, |long| long.times.mean)),
        "",
    ),
    (
        "making the answer",
        (PREFORK, |run| of_long(run, |long| long.answering)),
        ("libgc", |run| of_long(run, |long| long.answering)),
        "",
    ),
];

fn middle(rows: &[(&str, &[Run])], (name, pick): (&str, Pick)) -> f64 {
    let runs = rows.iter().find(|row| row.0 == name).map_or(&[][..], |row| row.1);
    median(runs.iter().map(pick).collect())
}

fn shown(value: f64, digits: usize) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.digits$}") }
}

/// Forks of a large parent, microseconds of each.
pub fn forks(rows: &[(&str, &[f64])]) -> String {
    let mut out =
        String::from("| fork of the parent, ms | median | quickest |\n| --- | ---: | ---: |\n");
    for (name, times) in rows.iter().filter(|row| !row.1.is_empty()) {
        let quickest = times.iter().copied().fold(f64::INFINITY, f64::min);
        let _ = writeln!(
            out,
            "| {name} | {} | {} |",
            shown(median(times.to_vec()) / 1e3, 1),
            shown(quickest / 1e3, 1)
        );
    }
    out
}

/// All of a series of runs.
pub fn all(rows: &[(&str, &[Run])]) -> String {
    let mut out = String::new();
    for (title, columns) in [
        ("memory of the workers together, MB", MEMORY),
        ("collections, ms", COLLECTIONS),
        ("request, µs", REQUESTS),
    ] {
        let _ = write!(out, "| {title} |");
        columns.iter().for_each(|column| _ = write!(out, " {} |", column.0));
        let _ = write!(out, "\n| --- |{}\n", " ---: |".repeat(columns.len()));
        for (name, runs) in rows {
            let _ = write!(out, "| {name} |");
            for (_, pick, digits) in columns {
                let value = median(runs.iter().map(pick).collect());
                let _ = write!(out, " {} |", shown(value, *digits));
            }
            out.push('\n');
        }
        out.push('\n');
    }
    out.push_str("| what | measured | aimed at |\n| --- | ---: | ---: |\n");
    for (what, ours, theirs, aim) in AIMS {
        let ratio = middle(rows, *ours) / middle(rows, *theirs);
        let _ = writeln!(out, "| {what} | {} | {aim} |", shown(ratio, 3));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Times;
    use crate::memory::Memory;

    #[test]
    fn medians_by_table() {
        for (values, middle) in
            [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)]
        {
            assert_eq!(median(values), middle);
        }
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_contestant_that_never_ran_has_no_figures() {
        let text = all(&[("nobody", &[])]);
        assert_eq!(text.matches("| nobody | –").count(), 3);
    }

    #[test]
    fn figures_are_compared_by_name() {
        let run = |mean| Run {
            parent_marked: 1.0,
            parent_swept: 1.0,
            before: Memory::default(),
            loaded: Memory::default(),
            collected: Memory::default(),
            collection: 1.0,
            times: Times { mean, p99: 2.0, longest: 3.0 },
            pause: 1.0,
            fork: 1.0,
            answering: mean / 10.0,
            live: 1.0,
            long: None,
        };
        let (ours, theirs) = ([run(90.0), run(80.0), run(70.0)], [run(100.0)]);
        let text = all(&[(PREFORK, &ours), ("libgc", &theirs)]);
        assert!(text.contains("| request, of libgc's time | 0.800 | 0.9 |"), "{text}");
        assert!(text.contains("| long run: request, of libgc's time | – | 0.9 |"), "{text}");
        let forks = forks(&[("one", &[3000.0, 1000.0, 2000.0]), ("none", &[])]);
        assert!(forks.ends_with("| one | 2.0 | 1.0 |\n"), "{forks}");
    }
}
