//! Programs at a limit and below one: how soon a leaking program is told, and what one that dropped
//! nearly everything still holds.
//!
//! Pure, like `catalogue`. The programs are those of `tests/limits`.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Contestant, Experiment, Library, Metric};

/// A leaking program has to be told within so long of reaching its limit.
const MOST_MS: f64 = 3000.0;

fn on_neap(label: &str, program: &str, arguments: &[&str], options: &[(&str, &str)]) -> Contestant {
    let mut ours = contestant(label, Library::Neap, program, arguments);
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ours.environment.extend(options.iter().map(owned));
    ours
}

/// `leak` under a limit of 64 MiB by option and by control group, `shrink` from a gigabyte.
pub fn experiments(quick: bool) -> [Experiment; 3] {
    let leak = |name: &str, program: &str, limit: &[(&str, &str)], what: &str| {
        let ways: [(&str, &[&str]); 3] = [
            ("alone", &["0"]),
            ("with ten times as much garbage", &["10"]),
            ("with three threads and garbage", &["10", "0", "3"]),
        ];
        let contestants = ways
            .iter()
            .map(|(label, arguments)| on_neap(label, program, arguments, limit))
            .collect();
        let figures = ways.map(|(label, _)| {
            let text = format!("a leak in {what}, {label}: until the program is told");
            figure(&text, Metric::ToldAfterMs, label, None, Some(Bar::ValueAtMost(MOST_MS)))
        });
        experiment(name, contestants, figures.into())
    };
    let (held, seconds) = if quick { ("100", "10") } else { ("1000", "10") };
    let shrink = vec![
        on_neap("neap", "shrink", &[held, seconds, "64"], &[]),
        on_neap(
            "neap, stop-the-world",
            "shrink",
            &[held, seconds, "64"],
            &[("NEAP_WATCH", "none")],
        ),
    ];
    let row = |label: &str, text: &str| {
        let text = format!(
            "{held} MB live, then a hundredth, then idle: resident {seconds} s later{text}"
        );
        figure(&text, Metric::ResidentMb, label, None, Some(Bar::ValueAtMost(64.0)))
    };
    let rows = vec![row("neap", ""), row("neap, stop-the-world", ", stop-the-world")];
    [
        leak("limit-option", "leak", &[("NEAP_MAX_HEAP", "64MiB")], "a heap of at most 64 MiB"),
        leak("limit-group", "leak-in-group", &[], "a control group of 64 MiB"),
        experiment("shrink", shrink, rows),
    ]
}
