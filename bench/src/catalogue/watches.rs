//! `pauses` under every way of watching, beside libgc in the same run: what `docs/watches.md` rests on.
//!
//! Invariant: a contestant is named after its `NEAP_WATCH`. What a watch costs by itself is `neap doctor --measure`. Plain data, as all of the catalogue.

use super::{contestant, experiment, figure};
use crate::experiment::{Experiment, Library, Metric};

/// Every way, as `NEAP_WATCH` names it.
const WATCHES: [&str; 5] = ["none", "pagemap", "fork", "snapshot", "mprotect"];

/// The program with `size` bytes live, for so many seconds; `name` is the size of the full run.
pub fn watches(name: &str, size: &str, seconds: &str) -> Experiment {
    let arguments = [size, "200000", seconds];
    let mut contestants = vec![contestant("libgc", Library::Libgc, "pauses", &arguments)];
    let mut figures = Vec::new();
    for watch in WATCHES {
        let mut ours = contestant(watch, Library::Neap, "pauses", &arguments);
        ours.environment.insert("NEAP_WATCH".to_owned(), watch.to_owned());
        contestants.push(ours);
        for (text, metric) in [
            ("longest pause", Metric::LongestPauseMs),
            ("longest operation", Metric::OperationMaxUs),
            ("operations in a second (200,000 wanted)", Metric::OperationsPerSecond),
            ("peak memory", Metric::PeakMb),
        ] {
            let what = format!("watch={watch}, {size} live: {text}");
            figures.push(figure(&what, metric, watch, Some("libgc"), None));
        }
    }
    experiment(&format!("watches-{}", name.to_lowercase()), contestants, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_watch_competes() {
        let experiment = watches("1G", "1G", "10");
        assert_eq!((experiment.name.as_str(), experiment.contestants.len()), ("watches-1g", 6));
        assert!(
            experiment.contestants[1..]
                .iter()
                .all(|contestant| contestant.environment["NEAP_WATCH"] == contestant.label)
        );
    }
}
