//! Large roots: how long a program stands that has its pointers in static data, or on a deep stack.
//!
//! Pure, like `catalogue`.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Experiment, Library, Metric};

/// `static-data` and `deep-stack`: the longest stop once the roots are filled.
pub fn experiments(quick: bool) -> [Experiment; 2] {
    let seconds = if quick { "1" } else { "5" };
    [
        ("roots-static", "static-data", vec![seconds], "64 MB of pointers in static data"),
        ("roots-stack", "deep-stack", vec!["8M", seconds], "8 MB of pointers on a stack"),
    ]
    .map(|(name, program, arguments, what)| {
        let mut stopping = contestant("neap, stop-the-world", Library::Neap, program, &arguments);
        stopping.environment.insert("NEAP_WATCH".to_owned(), "none".to_owned());
        let contestants = vec![
            contestant("libgc", Library::Libgc, program, &arguments),
            contestant("neap", Library::Neap, program, &arguments),
            stopping,
        ];
        let row = |peer, bar| {
            let text = format!("{what}: longest stop");
            figure(&text, Metric::MeasuredStopMs, "neap", Some(peer), bar)
        };
        let figures =
            vec![row("libgc", Some(Bar::ValueAtMost(1.0))), row("neap, stop-the-world", None)];
        experiment(name, contestants, figures)
    })
}
