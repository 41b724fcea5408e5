//! Draws the rows of the table from the samples: medians, ratios, means over several ratios.
//!
//! Pure. Invariant: a row with a ratio has runs on both sides; whatever is missing is named in the
//! row's note. Called by `main`.

use crate::experiment::{Draw, Figure, Metric};
use crate::record::{ContestantRecord, Row};
use crate::statistics::{geometric_mean, largest, median, spread};

/// The row of one figure.
pub fn draw(figure: &Figure, contestants: &[ContestantRecord]) -> Row {
    let mut row = Row {
        what: figure.what.clone(),
        metric: figure.metric,
        peer_name: None,
        peer: None,
        ours: None,
        ratio: None,
        spread: None,
        runs: 0,
        bar: figure.bar,
        met: None,
        note: None,
    };
    match &figure.draw {
        Draw::One { ours, peer } => {
            let ours = Side::of(ours, contestants, figure.metric);
            row.ours = ours.median;
            row.spread = ours.spread;
            row.runs = ours.runs;
            row.note = ours.problem.clone();
            if let Some(peer) = peer {
                let peer = Side::of(peer, contestants, figure.metric);
                row.peer_name = Some(peer.name);
                row.peer = peer.median;
                row.ratio = ratio(ours.median, peer.median);
                row.spread =
                    [ours.spread, peer.spread].into_iter().flatten().max_by(f64::total_cmp);
                row.runs = ours.runs.min(peer.runs);
                row.note = ours.problem.or(peer.problem);
            }
        }
        Draw::GeometricMean(pairs) => {
            let (ratios, problem) = all_ratios(pairs, contestants, figure.metric);
            let values: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
            row.ratio = problem.is_none().then(|| geometric_mean(&values)).flatten();
            row.note = problem.or_else(|| Some(format!("of {} cases", values.len())));
            row.runs = fewest_runs(pairs, contestants, figure.metric);
        }
        Draw::Worst(pairs) => {
            let (ratios, problem) = all_ratios(pairs, contestants, figure.metric);
            let values: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
            row.ratio = problem.is_none().then(|| largest(&values)).flatten();
            let worst = ratios
                .iter()
                .find(|(_, ratio)| Some(*ratio) == row.ratio)
                .map(|(label, _)| label.clone());
            row.note = problem.or(worst);
            row.runs = fewest_runs(pairs, contestants, figure.metric);
        }
    }
    row.met = match (figure.bar, row.ours, row.ratio) {
        (Some(bar), ours, ratio) if ours.is_some() || ratio.is_some() => {
            bar.is_met(ours.unwrap_or(f64::INFINITY), ratio)
        }
        _ => None,
    };
    row
}

/// What one contestant's runs say about one metric.
struct Side {
    name: String,
    median: Option<f64>,
    spread: Option<f64>,
    runs: usize,
    problem: Option<String>,
}

impl Side {
    fn of(label: &str, contestants: &[ContestantRecord], metric: Metric) -> Self {
        let Some(contestant) = contestants.iter().find(|contestant| contestant.label == label)
        else {
            let problem = Some(format!("{label} did not take part"));
            return Self { name: label.to_owned(), median: None, spread: None, runs: 0, problem };
        };
        let values: Vec<f64> = contestant
            .samples
            .iter()
            .filter_map(|sample| sample.get(metric.field()).copied())
            .collect();
        let missing =
            || values.is_empty().then(|| format!("{label} does not report {}", metric.field()));
        // A contestant that failed once has no figure: a median of the runs before it crashed would
        // hide the crash.
        let failed = contestant.failure.as_ref().map(|failure| format!("{label}: {failure}"));
        let usable = if failed.is_some() { &[][..] } else { &values[..] };
        let version =
            contestant.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        Self {
            name: format!("{}{version}", contestant.library.name()),
            median: median(usable),
            spread: spread(usable),
            runs: usable.len(),
            problem: failed.or_else(missing),
        }
    }
}

fn ratio(ours: Option<f64>, peer: Option<f64>) -> Option<f64> {
    ours.zip(peer).filter(|(_, peer)| *peer > 0.0).map(|(ours, peer)| ours / peer)
}

/// The ratio of each pair, and the first thing that is missing.
fn all_ratios(
    pairs: &[(String, String)],
    contestants: &[ContestantRecord],
    metric: Metric,
) -> (Vec<(String, f64)>, Option<String>) {
    let mut ratios = Vec::new();
    let mut problem = None;
    for (ours_label, peer_label) in pairs {
        let ours = Side::of(ours_label, contestants, metric);
        let peer = Side::of(peer_label, contestants, metric);
        match ratio(ours.median, peer.median) {
            Some(ratio) => ratios.push((ours_label.clone(), ratio)),
            None => {
                problem = problem
                    .or(ours.problem)
                    .or(peer.problem)
                    .or_else(|| Some(format!("{peer_label} measured 0")))
            }
        }
    }
    (ratios, problem)
}

fn fewest_runs(
    pairs: &[(String, String)],
    contestants: &[ContestantRecord],
    metric: Metric,
) -> usize {
    let runs = |label: &String| Side::of(label, contestants, metric).runs;
    pairs.iter().map(|(ours, peer)| runs(ours).min(runs(peer))).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Bar, Library};
    use std::collections::BTreeMap;

    fn contestant(label: &str, walls: &[f64]) -> ContestantRecord {
        ContestantRecord {
            label: label.to_owned(),
            library: if label.ends_with("neap") { Library::Neap } else { Library::Libgc },
            version: Some("1.2".to_owned()),
            command: Vec::new(),
            environment: BTreeMap::new(),
            samples: walls
                .iter()
                .map(|wall| BTreeMap::from([("wall_seconds".to_owned(), *wall)]))
                .collect(),
            failure: None,
        }
    }

    fn figure(draw: Draw, bar: Bar) -> Figure {
        Figure { what: "x".to_owned(), metric: Metric::WallSeconds, draw, bar: Some(bar) }
    }

    fn one(peer: Option<&str>) -> Draw {
        Draw::One { ours: "neap".to_owned(), peer: peer.map(str::to_owned) }
    }

    #[test]
    fn ratio_of_medians_against_the_bar() {
        let contestants =
            [contestant("neap", &[1.0, 9.0, 2.0]), contestant("libgc", &[4.0, 5.0, 3.0])];
        let row = draw(&figure(one(Some("libgc")), Bar::AtMost(0.5)), &contestants);
        assert_eq!(
            (row.ours, row.peer, row.ratio, row.met),
            (Some(2.0), Some(4.0), Some(0.5), Some(true))
        );
        assert_eq!((row.runs, row.spread, row.note), (3, Some(4.0), None));
        assert_eq!(row.peer_name.as_deref(), Some("libgc 1.2"));
        assert_eq!(
            draw(&figure(one(Some("libgc")), Bar::AtMost(0.49)), &contestants).met,
            Some(false)
        );
    }

    #[test]
    fn a_failure_leaves_no_figure() {
        let mut contestants = [contestant("neap", &[1.0, 2.0]), contestant("libgc", &[4.0])];
        contestants[0].failure = Some("ended with signal: 11".to_owned());
        let row = draw(&figure(one(Some("libgc")), Bar::AtMost(0.5)), &contestants);
        assert_eq!((row.ours, row.ratio, row.met), (None, None, None));
        assert!(row.note.expect("a note").contains("signal: 11"));
    }

    #[test]
    fn a_peer_that_is_missing_is_named() {
        let row =
            draw(&figure(one(Some("libgc")), Bar::AtMost(0.5)), &[contestant("neap", &[1.0])]);
        assert_eq!((row.ours, row.ratio, row.met), (Some(1.0), None, None));
        assert_eq!(row.note.as_deref(), Some("libgc did not take part"));
    }

    #[test]
    fn a_metric_nobody_reports_is_named() {
        let mut contestants = [contestant("neap", &[1.0]), contestant("libgc", &[4.0])];
        contestants[1].samples[0].clear();
        let row = draw(&figure(one(Some("libgc")), Bar::AtMost(0.5)), &contestants);
        assert_eq!(row.note.as_deref(), Some("libgc does not report wall_seconds"));
    }

    #[test]
    fn a_value_needs_no_peer() {
        let row =
            draw(&figure(one(None), Bar::ValueAtMost(1.5)), &[contestant("neap", &[1.0, 2.0])]);
        assert_eq!((row.ours, row.peer, row.met), (Some(1.5), None, Some(true)));
    }

    fn two_programs() -> [ContestantRecord; 4] {
        [
            contestant("a neap", &[1.0]),
            contestant("a libgc", &[2.0]),
            contestant("b neap", &[4.0]),
            contestant("b libgc", &[2.0]),
        ]
    }

    fn pairs() -> Vec<(String, String)> {
        vec![
            ("a neap".to_owned(), "a libgc".to_owned()),
            ("b neap".to_owned(), "b libgc".to_owned()),
        ]
    }

    #[test]
    fn mean_and_worst_of_several() {
        let mean = draw(&figure(Draw::GeometricMean(pairs()), Bar::AtMost(0.9)), &two_programs());
        assert!((mean.ratio.expect("a mean") - 1.0).abs() < 1e-12);
        assert_eq!(
            (mean.met, mean.note.as_deref(), mean.runs),
            (Some(false), Some("of 2 cases"), 1)
        );
        let worst = draw(&figure(Draw::Worst(pairs()), Bar::AtMost(2.0)), &two_programs());
        assert_eq!(
            (worst.ratio, worst.met, worst.note.as_deref()),
            (Some(2.0), Some(true), Some("b neap"))
        );
    }

    #[test]
    fn a_mean_without_one_program_is_no_mean() {
        let mut programs = two_programs();
        programs[2].failure = Some("wrong output".to_owned());
        for kind in [Draw::GeometricMean(pairs()), Draw::Worst(pairs())] {
            let row = draw(&figure(kind, Bar::AtMost(0.9)), &programs);
            assert_eq!((row.ratio, row.met), (None, None));
            assert!(row.note.expect("a note").contains("wrong output"));
        }
    }
}
