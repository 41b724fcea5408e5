//! The three tables, in Markdown: collections of the parent, memory of the workers, time of requests.
//!
//! Pure. Every figure is a median over the runs of a contestant; one that never ran has none.

use std::fmt::Write;

use crate::Run;

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
    (
        "collection of the parent before it forks, ms",
        |run| (run.parent_marked + run.parent_swept) / 1e3,
        1,
    ),
    ("of it until all is marked", |run| run.parent_marked / 1e3, 1),
    ("then until all is swept", |run| run.parent_swept / 1e3, 1),
    ("collection in a worker, ms", |run| run.collection / 1e3, 1),
    ("longest pause of a worker, ms", |run| run.pause / 1e3, 2),
    ("fork of the parent, ms", |run| run.fork / 1e3, 2),
];

const MEMORY: &[Column] = &[
    ("private before load", |run| run.before.private as f64 / MB, 1),
    ("after load", |run| run.loaded.private as f64 / MB, 1),
    ("after a collection in each", |run| run.collected.private as f64 / MB, 1),
    ("of it heaps", |run| run.collected.anonymous_private as f64 / MB, 1),
    ("shared before load", |run| run.before.shared as f64 / MB, 0),
    ("after load and collection", |run| run.collected.shared as f64 / MB, 0),
];

const REQUESTS: &[Column] = &[
    ("mean, µs", |run| run.times.mean, 1),
    ("p99", |run| run.times.p99, 0),
    ("longest", |run| run.times.longest, 0),
];

/// All three.
pub fn all(rows: &[(&str, &[Run])]) -> String {
    let mut out = String::new();
    for (title, columns) in [
        ("Collections", COLLECTIONS),
        ("Memory of the workers together, MB", MEMORY),
        ("Time of a request", REQUESTS),
    ] {
        let _ = write!(out, "\n{title}\n\n| |");
        columns.iter().for_each(|column| _ = write!(out, " {} |", column.0));
        let _ = write!(out, "\n| --- |{}\n", " ---: |".repeat(columns.len()));
        for (name, runs) in rows {
            let _ = write!(out, "| {name} |");
            for (_, pick, digits) in columns {
                let value = median(runs.iter().map(pick).collect());
                let _ = match value.is_nan() {
                    true => write!(out, " – |"),
                    false => write!(out, " {value:.digits$} |"),
                };
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
