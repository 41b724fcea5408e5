//! The experiments about handles and monitors, against the same loops in C# on Mono.
//!
//! Pure, as the rest of the catalogue.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Contestant, Experiment, Library, Metric};

/// All of them.
pub fn experiments(quick: bool) -> Vec<Experiment> {
    let mut all: Vec<Experiment> =
        ["weak", "strong", "pinned"].map(|kind| handles(kind, quick)).into();
    all.push(weak_stress(quick));
    all.push(weak_pause(quick));
    all.push(monitors(quick));
    all
}

fn ours(label: &str, program: &str, arguments: &[&str]) -> Contestant {
    contestant(label, Library::NeapInline, program, arguments)
}

fn mono(label: &str, program: &str, arguments: &[&str]) -> Contestant {
    contestant(label, Library::Mono, program, arguments)
}

fn handles(kind: &str, quick: bool) -> Experiment {
    let (our_turns, their_turns) = if quick { ("5", "1") } else { ("50", "5") };
    let mut contestants = Vec::new();
    let mut figures = Vec::new();
    for (threads, bar) in [("1", 3.0), ("2", 10.0), ("4", 10.0)] {
        let (us, them) = (format!("neap, {threads}"), format!("mono, {threads}"));
        contestants.push(mono(&them, "Handles-mono", &[kind, threads, their_turns]));
        contestants.push(ours(&us, "handles-neap", &[kind, threads, our_turns]));
        let what = format!("{kind} handle, alloc + get + free, {threads} threads: turns");
        let bar = Some(Bar::AtLeast(bar));
        figures.push(figure(&what, Metric::MillionsPerSecond, &us, Some(&them), bar));
    }
    for threads in ["2", "4"] {
        let what = format!("{kind} handle: rate of {threads} threads against 1");
        let us = format!("neap, {threads}");
        let bar = Some(Bar::AtLeast(1.8));
        figures.push(figure(&what, Metric::MillionsPerSecond, &us, Some("neap, 1"), bar));
    }
    experiment(&format!("handles-{kind}"), contestants, figures)
}

fn weak_stress(quick: bool) -> Experiment {
    let arguments = ["4", if quick { "100" } else { "1000" }];
    let contestants = vec![
        mono("mono", "WeakStress-mono", &arguments),
        ours("neap", "weak-stress-neap", &arguments),
    ];
    let half = Some(Bar::AtMost(0.5));
    let what = "weak reference stress, 4 threads: wall time";
    let figures = vec![figure(what, Metric::WallSeconds, "neap", Some("mono"), half)];
    experiment("weak-stress", contestants, figures)
}

fn weak_pause(quick: bool) -> Experiment {
    let (thousands, cycles) = if quick { ("100", "5") } else { ("1000", "15") };
    let mut pagemap = ours("neap, pagemap", "weak-pause-neap", &[thousands, cycles]);
    pagemap.environment.insert("NEAP_WATCH".to_owned(), "pagemap".to_owned());
    let what =
        format!("stops of a cycle, added by {thousands},000 weak handles, half of them dying");
    let most = Some(Bar::ValueAtMost(0.2));
    let figures = vec![figure(&what, Metric::AddedStopsMs, "neap, pagemap", None, most)];
    experiment("weak-pause", vec![pagemap], figures)
}

fn monitors(quick: bool) -> Experiment {
    let mut contestants = Vec::new();
    let mut figures = Vec::new();
    let turns = if quick { "1" } else { "10" };
    for threads in ["1", "2"] {
        let (us, them) = (format!("neap, {threads}"), format!("mono, {threads}"));
        contestants.push(mono(&them, "Monitors-mono", &[threads, turns]));
        contestants.push(ours(&us, "monitors-neap", &[threads, turns]));
        let what = format!("monitor entered and left, {threads} threads: rate");
        let bar = Some(Bar::AtLeast(1.0));
        figures.push(figure(&what, Metric::MillionsPerSecond, &us, Some(&them), bar));
    }
    experiment("monitors", contestants, figures)
}
