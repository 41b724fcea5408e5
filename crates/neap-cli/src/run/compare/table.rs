//! The table of a comparison: medians of both sides, their ratio, and what there is to say of the
//! output and the exit statuses.
//!
//! Invariant: what is not known is shown as `–`, never made up. Pure. Called by `compare`.

use crate::run::compare::once::Run;
use crate::run::compare::output::Difference;
use std::fmt::Write;

const UNKNOWN: &str = "–";

/// Whether the runs printed the same.
#[derive(Debug, Default, PartialEq)]
pub enum Same {
    #[default]
    Yes,
    /// One on Neap printed something else.
    No(Difference),
    /// Those on libgc printed different things themselves.
    Unsteady,
}

/// What the comparison comes to, figures aside.
#[derive(Debug, Default)]
pub struct Verdict {
    pub output: Same,
    /// The exit statuses that there were, in the order of the runs, for libgc and for Neap.
    statuses: [Vec<i32>; 2],
}

impl Verdict {
    /// Takes down how the runs ended.
    pub fn statuses(&mut self, libgc: &[Run], neap: &[Run]) {
        for (found, runs) in self.statuses.iter_mut().zip([libgc, neap]) {
            for run in runs {
                if !found.contains(&run.status) {
                    found.push(run.status);
                }
            }
        }
    }

    /// Whether every run printed the same and had the same exit status.
    pub fn is_same(&self) -> bool {
        let [libgc, neap] = &self.statuses;
        self.output == Same::Yes && libgc.len() <= 1 && libgc == neap
    }

    /// What is not the same, in words.
    fn words(&self) -> String {
        let mut out = String::new();
        match &self.output {
            Same::Yes => {}
            Same::Unsteady => out.push_str(
                "The output differs from run to run on libgc too: whether it is the same on Neap \
                 cannot be told.\n",
            ),
            Same::No(difference) => {
                let _ = writeln!(out, "The output differs, first in line {}:", difference.line);
                for (side, text) in ["libgc", "Neap"].iter().zip(&difference.texts) {
                    let text = text.as_deref().unwrap_or("(it ends before)");
                    let _ = writeln!(out, "  {side:7}{text}");
                }
            }
        }
        let [libgc, neap] = &self.statuses;
        if libgc.len() > 1 {
            out.push_str("The exit status differs from run to run on libgc too.\n");
        } else if libgc != neap {
            out.push_str("The exit status differs.\n");
        }
        out
    }
}

/// The whole text. Both sides have at least one run.
pub fn text(program: &str, libgc: &[Run], neap: &[Run], verdict: &Verdict) -> String {
    let mut out = format!("{program}\n");
    let _ = match libgc.len() {
        1 => writeln!(out, "One run on each."),
        count => writeln!(out, "Medians of {count} runs on each, in turn."),
    };
    out.push('\n');
    let same = match verdict.output {
        Same::Yes => "yes",
        Same::No(_) => "no",
        Same::Unsteady => "not on libgc",
    };
    let [statuses_libgc, statuses_neap] = verdict
        .statuses
        .each_ref()
        .map(|found| found.iter().map(|status| status.to_string()).collect::<Vec<_>>().join(", "));
    row(&mut out, ["", "libgc", "Neap", "Neap/libgc"]);
    row(&mut out, ["same output", "", same, ""]);
    row(&mut out, ["exit status", &statuses_libgc, &statuses_neap, ""]);
    let medians = |figure: fn(&Run) -> f64| {
        [libgc, neap].map(|runs| median(runs.iter().map(figure)).unwrap_or_default())
    };
    for (name, [a, b], shown) in [
        ("wall time", medians(|run| run.wall), seconds as fn(f64) -> String),
        ("processor time", medians(|run| run.processor), seconds),
        ("peak memory", medians(|run| run.peak_bytes as f64), megabytes),
    ] {
        // Without so much as a clock's tick there is no ratio.
        let ratio = if a > 0.0 { format!("{:.2}", b / a) } else { UNKNOWN.to_owned() };
        row(&mut out, [name, &shown(a), &shown(b), &ratio]);
    }
    let known = || neap.iter().filter_map(|run| run.figures.as_ref());
    let cycles = median(known().map(|figures| figures.cycles as f64));
    let stop = median(known().map(|figures| figures.longest_stop_ms));
    let cycles = cycles.map_or(UNKNOWN.to_owned(), |count| count.to_string());
    let stop = stop.map_or(UNKNOWN.to_owned(), |stop| format!("{stop:.1} ms"));
    row(&mut out, ["cycles", UNKNOWN, &cycles, ""]);
    row(&mut out, ["longest stop", UNKNOWN, &stop, ""]);
    let mut words = verdict.words();
    if matches!(verdict.output, Same::No(_)) && libgc.len() == 1 {
        words.push_str("Whether it differs from run to run on libgc too, --rounds=2 would tell.\n");
    }
    if known().next().is_none() {
        words.push_str(
            "Neap wrote no summary: the program ended past exit(3), or never called libgc.\n",
        );
    }
    if !words.is_empty() {
        let _ = write!(out, "\n{words}");
    }
    out
}

/// The first column to the left, the others to the right.
fn row(out: &mut String, cells: [&str; 4]) {
    let [name, libgc, neap, ratio] = cells;
    let line = format!("{name:16} {libgc:>14} {neap:>14} {ratio:>12}");
    let _ = writeln!(out, "{}", line.trim_end());
}

/// The middle one, or the mean of the two in the middle; None of nothing.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn seconds(value: f64) -> String {
    let places = if value < 10.0 { 3 } else { 1 };
    format!("{value:.places$} s")
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / (1 << 20) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::compare::once::Figures;

    fn run(wall: f64, processor: f64, megabytes: u64, figures: Option<(u64, f64)>) -> Run {
        let figures = figures.map(|(cycles, longest_stop_ms)| Figures { cycles, longest_stop_ms });
        Run { wall, processor, peak_bytes: megabytes << 20, status: 0, figures }
    }

    fn rows(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn medians_and_their_ratio() {
        let libgc = [run(2.0, 0.0, 10, None), run(9.0, 0.0, 30, None), run(1.0, 0.0, 20, None)];
        let figures = [Some((3, 0.5)), Some((4, 2.25)), Some((9, 0.1))];
        let neap = figures.map(|figures| run(1.0, 12.34, 30, figures));
        let mut verdict = Verdict::default();
        verdict.statuses(&libgc, &neap);
        assert!(verdict.is_same());
        let text = text("prog 'a b'", &libgc, &neap, &verdict);
        assert!(text.starts_with("prog 'a b'\nMedians of 3 runs on each, in turn.\n\n"), "{text}");
        let wanted: [&[&str]; 8] = [
            &["libgc", "Neap", "Neap/libgc"],
            &["same", "output", "yes"],
            &["exit", "status", "0", "0"],
            &["wall", "time", "2.000", "s", "1.000", "s", "0.50"],
            &["processor", "time", "0.000", "s", "12.3", "s", "–"],
            &["peak", "memory", "20.0", "MB", "30.0", "MB", "1.50"],
            &["cycles", "–", "4"],
            &["longest", "stop", "–", "0.5", "ms"],
        ];
        assert_eq!(rows(&text)[3..], wanted, "{text}");
    }

    #[test]
    fn of_an_even_number_the_two_in_the_middle_count() {
        assert_eq!(median([4.0, 1.0, 2.0, 9.0].into_iter()), Some(3.0));
        assert_eq!(median([7.0].into_iter()), Some(7.0));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn what_is_not_the_same_is_said() {
        let with = |status| Run { status, ..run(1.0, 1.0, 1, Some((1, 1.0))) };
        let said = |libgc: &[i32], neap: &[i32], output| {
            let [libgc, neap] =
                [libgc, neap].map(|all| all.iter().copied().map(with).collect::<Vec<_>>());
            let mut verdict = Verdict { output, ..Verdict::default() };
            verdict.statuses(&libgc, &neap);
            (verdict.is_same(), text("prog", &libgc, &neap, &verdict))
        };
        assert!(said(&[3, 3], &[3, 3], Same::Yes).0, "a failure on both");
        let (same, text) = said(&[0, 0], &[0, 7], Same::Yes);
        assert!(!same && text.contains("The exit status differs.") && text.contains("0, 7"));
        let (same, text) = said(&[0, 1], &[0, 1], Same::Yes);
        assert!(!same && text.contains("status differs from run to run on libgc too"), "{text}");
        let (same, text) = said(&[0], &[0], Same::Unsteady);
        assert!(!same && text.contains("output differs from run to run on libgc too"), "{text}");
        let texts = [None, Some("\"x\"".to_owned())];
        let (same, text) = said(&[0], &[0], Same::No(Difference { line: 4, texts }));
        assert!(text.contains("--rounds=2 would tell"), "{text}");
        assert!(
            !same && text.contains("first in line 4:\n  libgc  (it ends before)\n  Neap   \"x")
        );
    }

    #[test]
    fn without_a_summary_nothing_is_made_up() {
        let runs = [run(1.0, 1.0, 1, None)];
        let text = text("prog", &runs, &runs, &Verdict::default());
        assert!(text.contains("\ncycles                        –              –\n"), "{text}");
        assert!(text.contains("Neap wrote no summary") && text.contains("One run on each."));
    }
}
