//! `pauses` under every way of watching, beside libgc and druntime's forking collector in the same
//! run, and with huge pages: what `docs/watches.md` rests on.
//!
//! Invariant: a contestant's label begins with its `NEAP_WATCH`. What a watch costs by itself is
//! `neap doctor --measure`. Plain data, as all of the catalogue; `bench/watches.py` makes the
//! document's tables of the results.

use super::pauses::METRICS;
use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Contestant, Experiment, Library, Metric};

/// Every way, as `NEAP_WATCH` names it.
const WATCHES: [&str; 5] = ["none", "pagemap", "fork", "snapshot", "mprotect"];
const SMALL_PAGES: &str = "fork, 4 KiB pages";
const DRUNTIME: &str = "druntime, fork:1";

fn under(watch: &str, huge_pages: Option<&str>, label: &str, arguments: &[&str]) -> Contestant {
    let mut ours = contestant(label, Library::Neap, "pauses", arguments);
    ours.environment.insert("NEAP_WATCH".to_owned(), watch.to_owned());
    if let Some(huge_pages) = huge_pages {
        ours.environment.insert("NEAP_HUGE_PAGES".to_owned(), huge_pages.to_owned());
    }
    ours
}

/// The program with `size` bytes live, for so many seconds; `name` is the size of the full run.
pub fn watches(name: &str, size: &str, seconds: &str) -> Experiment {
    let arguments = [size, "200000", seconds];
    let mut contestants = vec![contestant("libgc", Library::Libgc, "pauses", &arguments)];
    let forking = [size, "200000", seconds, "--DRT-gcopt=gc:conservative fork:1"];
    contestants.push(contestant(DRUNTIME, Library::Druntime, "pauses-druntime", &forking));
    contestants.extend(WATCHES.map(|watch| under(watch, None, watch, &arguments)));
    contestants.push(under("fork", Some("never"), SMALL_PAGES, &arguments));
    let mut figures = Vec::new();
    for ours in WATCHES.into_iter().chain([SMALL_PAGES]) {
        let row = |text: &str, metric, peer, bar| {
            figure(&format!("watch={ours}, {name} live: {text}"), metric, ours, Some(peer), bar)
        };
        for (text, metric) in METRICS {
            let bar = if metric == Metric::LongestPauseMs { longest(ours, name) } else { None };
            figures.push(row(text, metric, "libgc", bar));
        }
        if ours == "fork" {
            let against = |(text, metric)| {
                row(&format!("{text}, against druntime's fork:1"), metric, DRUNTIME, None)
            };
            figures.extend(METRICS.map(against));
        }
        if ours != "none" {
            let bar = (ours == "fork" || ours == "snapshot").then_some(Bar::AtMost(1.5));
            let text = "peak memory against our own stop-the-world mode";
            figures.push(row(text, Metric::PeakMb, "none", bar));
        }
    }
    experiment(&format!("watches-{}", name.to_lowercase()), contestants, figures)
}

/// The longest stop with 1 GB live: of `fork` the copy of page tables, of `snapshot` all that
/// protects.
fn longest(ours: &str, name: &str) -> Option<Bar> {
    let most = match ours {
        SMALL_PAGES => 25.0,
        "fork" => 5.0,
        "snapshot" => 15.0,
        _ => return None,
    };
    (name == "1G").then_some(Bar::ValueAtMost(most))
}

/// Under each watch, with no huge pages, with them for pointer-free objects, and with them
/// everywhere, each against none: `pauses` with `size` live, and how long it takes to mark so many
/// millions of objects.
pub fn huge_pages(size: &str, seconds: &str, millions: &str) -> [Experiment; 2] {
    let noticed = [
        ("longest pause", Metric::LongestPauseMs),
        ("operations in a second", Metric::OperationsPerSecond),
        ("peak memory", Metric::PeakMb),
    ];
    let marked = [("time to mark an object", Metric::NsPerObject), ("peak memory", Metric::PeakMb)];
    [
        by_pages("watches-huge-pages", "pauses", &[size, "200000", seconds], &noticed),
        by_pages("watches-huge-marking", "mark", &[millions, "2"], &marked),
    ]
}

fn by_pages(
    name: &str,
    program: &str,
    arguments: &[&str],
    metrics: &[(&str, Metric)],
) -> Experiment {
    let label = |watch: &str, pages: &str| format!("{watch}, huge pages: {pages}");
    let (mut contestants, mut figures) = (Vec::new(), Vec::new());
    for watch in WATCHES {
        for pages in ["never", "leaf", "all"] {
            let mut ours = under(watch, Some(pages), &label(watch, pages), arguments);
            ours.program = program.to_owned();
            contestants.push(ours);
        }
        for pages in ["leaf", "all"] {
            for &(text, metric) in metrics {
                let (ours, none) = (label(watch, pages), label(watch, "never"));
                figures.push(figure(&format!("{ours}: {text}"), metric, &ours, Some(&none), None));
            }
        }
    }
    experiment(name, contestants, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_watch_competes() {
        let experiment = watches("1G", "1G", "10");
        assert_eq!((experiment.name.as_str(), experiment.contestants.len()), ("watches-1g", 8));
        for contestant in experiment.contestants.iter().filter(|one| one.library.is_neap()) {
            assert!(contestant.label.starts_with(&contestant.environment["NEAP_WATCH"]));
        }
        let bars = |name| {
            let experiment = watches(name, "32M", "1");
            experiment.figures.iter().filter(|figure| figure.bar.is_some()).count()
        };
        assert_eq!([bars("1G"), bars("200M")], [5, 2]);
    }

    #[test]
    fn huge_pages_are_compared_with_none_under_every_watch() {
        for experiment in huge_pages("200M", "5", "5") {
            assert_eq!(experiment.contestants.len(), 3 * WATCHES.len());
            assert!(experiment.contestants.iter().all(|contestant| {
                contestant.label.ends_with(&contestant.environment["NEAP_HUGE_PAGES"])
            }));
        }
    }
}
