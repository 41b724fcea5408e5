//! What the program notices of concurrent cycles: `pauses` beside libgc and the same program in
//! other languages, beside our own stop-the-world mode, and beside what the machine alone does to
//! two threads; allocation-heavy programs with and without the world stopped.
//!
//! Pure, like `catalogue`.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Contestant, Experiment, Library, Metric};

const NEAP: &str = "neap";
const STOPPING: &str = "neap, stop-the-world";
const MAJOR: &str = "neap, no minor cycles";
const MACHINE: &str = "no collector";
/// The size at which other languages compete too.
const LIVE_OF_PEERS: &str = "1G";
/// What `pauses` is compared by with other collectors and between watches.
pub(super) const METRICS: [(&str, Metric); 4] = [
    ("longest pause", Metric::LongestPauseMs),
    ("longest operation", Metric::OperationMaxUs),
    ("operations in a second", Metric::OperationsPerSecond),
    ("peak memory", Metric::PeakMb),
];

fn with(label: &str, option: (&str, &str), program: &str, arguments: &[&str]) -> Contestant {
    let mut ours = contestant(label, Library::Neap, program, arguments);
    ours.environment.insert(option.0.to_owned(), option.1.to_owned());
    ours
}

/// `pauses` by size of what is live.
pub fn experiments(quick: bool, seconds: &str) -> [Experiment; 3] {
    [("200M", 1.0), ("1G", 1.0), ("4G", 2.0)].map(|(live, longest_ms)| {
        let arguments = [if quick { "32M" } else { live }, "200000", seconds];
        let mut contestants = vec![
            contestant("libgc", Library::Libgc, "pauses", &arguments),
            contestant(NEAP, Library::Neap, "pauses", &arguments),
            with(STOPPING, ("NEAP_WATCH", "none"), "pauses", &arguments),
            contestant(MACHINE, Library::Nothing, "still", &[seconds]),
        ];
        let peers = if live == LIVE_OF_PEERS { other_languages(&arguments) } else { Vec::new() };
        let row = |text: &str, metric, peer, bar| {
            figure(&format!("pauses, {live} live: {text}"), metric, NEAP, Some(peer), bar)
        };
        let mut figures = vec![
            row(
                "longest pause",
                Metric::LongestPauseMs,
                "libgc",
                Some(Bar::ValueAtMost(longest_ms)),
            ),
            row(
                "longest pause, against the longest time for which the machine alone halts a \
                thread",
                Metric::LongestPauseMs,
                MACHINE,
                None,
            ),
            row("99 of 100 stops", Metric::StopP99Ms, STOPPING, None),
            row(
                "longest operation",
                Metric::OperationMaxUs,
                "libgc",
                (live == "1G").then_some(Bar::ValueAtMost(5000.0)),
            ),
            row(
                "longest operation in which the thread was not kept from a processor",
                Metric::UnhinderedMaxUs,
                "libgc",
                (live == "1G").then_some(Bar::ValueAtMost(5000.0)),
            ),
            row(
                "operations in a second (200,000 wanted)",
                Metric::OperationsPerSecond,
                "libgc",
                None,
            ),
            row(
                "operations in a second against our own stop-the-world mode",
                Metric::OperationsPerSecond,
                STOPPING,
                Some(Bar::AtLeast(0.9)),
            ),
            row("peak memory", Metric::PeakMb, "libgc", None),
            row(
                "peak memory against our own stop-the-world mode",
                Metric::PeakMb,
                STOPPING,
                Some(Bar::AtMost(1.25)),
            ),
        ];
        for peer in &peers {
            for (text, metric) in METRICS {
                let text = format!("{text} against {}", peer.label);
                figures.push(row(&text, metric, &peer.label, None));
            }
        }
        contestants.extend(peers.iter().cloned());
        experiment(&format!("pauses-{}", live.to_lowercase()), contestants, figures)
    })
}

/// The same program in languages with collectors of their own, which know every pointer and may
/// have barriers.
pub(super) fn other_languages(arguments: &[&str]) -> Vec<Contestant> {
    let one = |label: &str, library, program: &str, first: &[&str], last: &[&str]| {
        contestant(label, library, program, &[first, arguments, last].concat())
    };
    let forking = "--DRT-gcopt=gc:conservative fork:1";
    vec![
        one("Go", Library::Go, "pauses-go", &[], &[]),
        one("Java, G1", Library::Java, "Pauses-java", &["-XX:+UseG1GC -Xmx4g"], &[]),
        one("Java, ZGC", Library::Java, "Pauses-java", &["-XX:+UseZGC -Xmx4g"], &[]),
        one("druntime", Library::Druntime, "pauses-druntime", &[], &[]),
        one("druntime, fork:1", Library::Druntime, "pauses-druntime", &[], &[forking]),
    ]
}

/// Programs that do nothing but allocate, against our own stop-the-world mode and with full cycles
/// only.
pub fn against_stopping(depth: &str) -> [Experiment; 2] {
    [("binary-trees", vec![depth, "1"]), ("gcbench", vec![depth])].map(|(program, arguments)| {
        let contestants = vec![
            contestant(NEAP, Library::Neap, program, &arguments),
            with(STOPPING, ("NEAP_WATCH", "none"), program, &arguments),
            with(MAJOR, ("NEAP_MINOR_CYCLES", "never"), program, &arguments),
        ];
        let row = |text: &str, metric, peer, bar| {
            figure(&format!("{program}: {text}"), metric, NEAP, Some(peer), bar)
        };
        let figures = vec![
            row(
                "wall time against our own stop-the-world mode",
                Metric::WallSeconds,
                STOPPING,
                Some(Bar::AtMost(1.1)),
            ),
            row("peak memory against our own stop-the-world mode", Metric::PeakMb, STOPPING, None),
            row(
                "wall time with minor cycles against without",
                Metric::WallSeconds,
                MAJOR,
                Some(Bar::AtMost(1.0)),
            ),
        ];
        experiment(&format!("stopping-{program}"), contestants, figures)
    })
}
