//! What recording costs a program that allocates much: `NEAP_STATS` alone and with sampled sites,
//! against the same program without.
//!
//! Invariant: contestants of an experiment differ in their environment alone. What it costs where
//! nobody asks for it is counted in instructions, by `bench/statistics.sh`. Plain data, as all of
//! the catalogue.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Experiment, Library, Metric};

/// Programs and arguments: two of the workloads, and the pattern with the most different sizes.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("bh", "bh-neap", &[]),
    ("bigarr", "bigarr-neap", &[]),
    ("voronoi", "voronoi-neap", &["100000"]),
    ("dil", "replay-neap", &["patterns-2010.json", "dil"]),
];

/// One for each program.
pub fn experiments() -> Vec<Experiment> {
    PROGRAMS.map(|(name, program, arguments)| recording(name, program, arguments)).into()
}

fn recording(name: &str, program: &str, arguments: &[&str]) -> Experiment {
    let file = std::env::temp_dir().join(format!("neap-bench-{}", std::process::id()));
    let run = |label: &str, variables: &[(&str, &str)]| {
        let mut ours = contestant(label, Library::NeapInline, program, arguments);
        let pairs = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        ours.environment.extend(pairs);
        ours
    };
    let stats = ("NEAP_STATS", file.to_str().unwrap_or("neap-bench-recording"));
    let contestants = vec![
        run("off", &[]),
        run("recorded", &[stats]),
        run("sampled", &[stats, ("NEAP_SAMPLE", "512KiB")]),
    ];
    let row = |text: &str, ours: &str, most: f64| {
        let what = format!("{name}, {text}: wall time beside itself without");
        figure(&what, Metric::WallSeconds, ours, Some("off"), Some(Bar::AtMost(most)))
    };
    let figures = vec![
        row("recorded", "recorded", 1.03),
        row("recorded with sampled sites", "sampled", 1.05),
    ];
    experiment(&format!("recording-{name}"), contestants, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_environment_differs() {
        for experiment in experiments() {
            let [off, recorded, sampled] = &experiment.contestants[..] else { panic!() };
            assert!(off.environment.is_empty() && sampled.environment.len() == 2);
            assert!(recorded.environment.contains_key("NEAP_STATS"));
            assert!(off.program == sampled.program && off.arguments == recorded.arguments);
        }
    }
}
