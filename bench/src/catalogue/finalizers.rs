//! The experiments about finalization, against the same program on Java.
//!
//! Invariant: a contestant is named after what it finalizes with; the peers differ in nothing but
//! the JVM's collector. All have 2 GB of heap. Plain data, as all of the catalogue.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Contestant, Experiment, Library, Metric};

/// One experiment for each number of constructing threads, and what finalizers add to the stops.
pub fn experiments(quick: bool) -> Vec<Experiment> {
    let mut all: Vec<Experiment> = ["1", "2", "4"].map(|threads| rate(threads, quick)).into();
    all.push(added_stops(quick));
    all
}

/// Objects constructed and finalized.
fn rate(threads: &str, quick: bool) -> Experiment {
    let seconds = if quick { "1" } else { "20" };
    let ours = |label: &str, what: &str| -> Contestant {
        contestant(label, Library::NeapInline, "finalizers-neap", &[what, threads, seconds])
    };
    let java = |label: &str, collector: &str, what: &str| -> Contestant {
        let arguments = [collector, what, threads, seconds];
        contestant(label, Library::Java, "Finalizers-java", &arguments)
    };
    let contestants = vec![
        java("G1, finalize()", "-XX:+UseG1GC -Xmx2g", "finalizer"),
        java("Parallel, finalize()", "-XX:+UseParallelGC -Xmx2g", "finalizer"),
        java("ZGC, finalize()", "-XX:+UseZGC -Xmx2g", "finalizer"),
        java("G1, Cleaner", "-XX:+UseG1GC -Xmx2g", "cleaner"),
        ours("neap, finalizer", "finalizer"),
        ours("neap, cleaner", "cleaner"),
    ];
    let mut figures = Vec::new();
    let against = [
        ("neap, finalizer", "G1, finalize()", 10.0),
        ("neap, finalizer", "Parallel, finalize()", 5.0),
        ("neap, finalizer", "ZGC, finalize()", 5.0),
        ("neap, cleaner", "G1, Cleaner", 5.0),
    ];
    for (us, them, bar) in against {
        let what =
            format!("{} against {them}, {threads} constructing threads", us.replace("neap, ", ""));
        let bar = Some(Bar::AtLeast(bar));
        figures.push(figure(&what, Metric::FinalizedPerMs, us, Some(them), bar));
    }
    for (us, them) in [("neap, finalizer", "G1, finalize()"), ("neap, cleaner", "G1, Cleaner")] {
        let what = format!("{us}, {threads} constructing threads");
        let row = |text: &str, metric, bar| {
            figure(&format!("{what}: {text}"), metric, us, Some(them), bar)
        };
        figures.push(row("most in flight", Metric::MostInFlightMillions, None));
        figures.push(row("peak memory", Metric::PeakMb, None));
        let bar = Some(Bar::ValueAtMost(1.0));
        let text = format!("{what}: longest stop");
        figures.push(figure(&text, Metric::LongestPauseMs, us, None, bar));
    }
    experiment(&format!("finalizers-{threads}"), contestants, figures)
}

/// A million finalizers, half of which find their object dead in each cycle.
fn added_stops(quick: bool) -> Experiment {
    let (thousands, cycles) = if quick { ("100", "5") } else { ("1000", "15") };
    let ours =
        contestant("neap", Library::NeapInline, "finalizer-pause-neap", &[thousands, cycles]);
    let what = format!("stops of a cycle, added by {thousands},000 finalizers, half of them dying");
    let most = Some(Bar::ValueAtMost(0.2));
    let figures = vec![figure(&what, Metric::AddedStopsMs, "neap", None, most)];
    experiment("finalizers-pause", vec![ours], figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collector_of_the_peer_has_the_bar_of_the_best() {
        for experiment in experiments(false).iter().filter(|one| one.name != "finalizers-pause") {
            let bars = experiment.figures.iter().filter(|figure| {
                figure.metric == Metric::FinalizedPerMs
                    && matches!(figure.bar, Some(Bar::AtLeast(bar)) if bar >= 5.0)
            });
            let peers = experiment.contestants.iter().filter(|one| one.library == Library::Java);
            assert_eq!(bars.count(), peers.count(), "{}", experiment.name);
        }
    }
}
