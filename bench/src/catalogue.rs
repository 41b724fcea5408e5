//! All experiments, with the bars they have to reach. The one place that says what is measured.
//!
//! Pure: builds data from a size (`full` or `quick`) and the list of client cases. Called by
//! `main`.

mod allocation;
mod cliffs;
mod finalizers;
mod handles;
mod limits;
mod pauses;
mod recording;
mod roots;
mod watches;

use std::collections::BTreeMap;

use watches::{huge_pages, watches};

use crate::experiment::{Bar, Contestant, Draw, Experiment, Figure, Library, Metric};

/// The real programs that the means are about; each has at least one timed case, named after it
/// (`guile-trees`).
const PROGRAMS: [&str; 6] = ["crystal", "ecl", "guile", "neko", "nim", "w3m"];

/// Programs whose longest stop has a bar.
const STOPS: [&str; 2] = ["ecl", "guile"];

/// How much work each experiment does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Size {
    /// What the bars are about.
    Full,
    /// A look at whether everything runs; figures mean little.
    Quick,
}

/// All experiments. `clients` are the names of the timed client cases.
pub fn experiments(size: Size, clients: &[String]) -> Vec<Experiment> {
    let quick = size == Size::Quick;
    let depth = if quick { "16" } else { "20" };
    let mut all = vec![
        binary_trees("binary-trees-1", depth, "1", 0.45),
        binary_trees("binary-trees-2", depth, "2", 0.4),
        gcbench(depth),
        mark(if quick { "1" } else { "20" }),
    ];
    all.extend(allocation::of_each_size(quick));
    all.push(resident(if quick { "2" } else { "10" }));
    all.push(if quick { live("64M", "1") } else { live("1G", "5") });
    all.push(patterns());
    all.extend(workloads());
    all.extend(recording::experiments());
    all.extend(handles::experiments(quick));
    all.extend(finalizers::experiments(quick));
    all.push(client_cases(clients));
    let seconds = if quick { "1" } else { "10" };
    all.extend(pauses::experiments(quick, seconds));
    all.extend(pauses::against_stopping(depth));
    all.extend(roots::experiments(quick));
    all.extend(limits::experiments(quick));
    all.extend(
        ["200M", "1G", "4G"].map(|live| watches(live, if quick { "32M" } else { live }, seconds)),
    );
    let (size, millions) = if quick { ("32M", "1") } else { ("200M", "5") };
    all.extend(huge_pages(size, seconds, millions));
    all.extend(cliffs::experiments(quick));
    all.extend(allocation::churn(quick));
    all
}

/// What is run only when it is asked for.
fn is_long(name: &str) -> bool {
    let beginnings = ["watches-", "finalizers-", "cliffs-", "malloc-"];
    name == "pauses-4g" || beginnings.iter().any(|beginning| name.starts_with(beginning))
}

/// The experiments of `all` that `names` ask for: each is a whole name or its beginning up to a
/// hyphen. Without names all but the longest.
pub fn choose(all: Vec<Experiment>, names: &[String]) -> Result<Vec<Experiment>, String> {
    if names.is_empty() {
        return Ok(all.into_iter().filter(|experiment| !is_long(&experiment.name)).collect());
    }
    let fits = |experiment: &Experiment, name: &String| {
        experiment
            .name
            .strip_prefix(name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if let Some(name) =
        names.iter().find(|name| !all.iter().any(|experiment| fits(experiment, name)))
    {
        let known: Vec<&str> = all.iter().map(|experiment| experiment.name.as_str()).collect();
        return Err(format!(
            "no benchmark is called '{name}'; there are {}, and the beginnings of these names",
            known.join(", ")
        ));
    }
    Ok(all
        .into_iter()
        .filter(|experiment| names.iter().any(|name| fits(experiment, name)))
        .collect())
}

fn contestant(label: &str, library: Library, program: &str, arguments: &[&str]) -> Contestant {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    Contestant {
        label: label.to_owned(),
        library,
        program: program.to_owned(),
        arguments,
        environment: BTreeMap::new(),
    }
}

fn figure(what: &str, metric: Metric, ours: &str, peer: Option<&str>, bar: Option<Bar>) -> Figure {
    let draw = Draw::One { ours: ours.to_owned(), peer: peer.map(str::to_owned) };
    Figure { what: what.to_owned(), metric, draw, bar }
}

/// The same program on libgc and on Neap.
fn both(program: &str, arguments: &[&str]) -> Vec<Contestant> {
    vec![
        contestant("libgc", Library::Libgc, program, arguments),
        contestant("neap", Library::Neap, program, arguments),
    ]
}

fn experiment(name: &str, contestants: Vec<Contestant>, figures: Vec<Figure>) -> Experiment {
    Experiment { name: name.to_owned(), contestants, figures, same_output: Vec::new() }
}

fn binary_trees(name: &str, depth: &str, threads: &str, bar: f64) -> Experiment {
    let what = format!(
        "binary-trees, depth {depth}, {threads} thread{}",
        if threads == "1" { "" } else { "s" }
    );
    let mut contestants = both("binary-trees", &[depth, threads]);
    contestants.push(contestant(
        "mimalloc",
        Library::Mimalloc,
        "binary-trees-mimalloc",
        &[depth, threads],
    ));
    let figures = vec![
        figure(
            &format!("{what}: wall time"),
            Metric::WallSeconds,
            "neap",
            Some("libgc"),
            Some(Bar::AtMost(bar)),
        ),
        figure(
            &format!("{what}: peak memory"),
            Metric::PeakMb,
            "neap",
            Some("libgc"),
            Some(Bar::AtMost(1.0)),
        ),
        figure(
            &format!("{what}: wall time against malloc and free"),
            Metric::WallSeconds,
            "neap",
            Some("mimalloc"),
            None,
        ),
    ];
    experiment(name, contestants, figures)
}

fn gcbench(scale: &str) -> Experiment {
    let what = format!("GCBench, scale {scale}");
    let figures = vec![
        figure(
            &format!("{what}: wall time"),
            Metric::WallSeconds,
            "neap",
            Some("libgc"),
            Some(Bar::AtMost(0.6)),
        ),
        figure(
            &format!("{what}: peak memory"),
            Metric::PeakMb,
            "neap",
            Some("libgc"),
            Some(Bar::AtMost(1.0)),
        ),
    ];
    experiment("gcbench", both("gcbench", &[scale]), figures)
}

fn mark(millions: &str) -> Experiment {
    let mut contestants = both("mark", &[millions, "5"]);
    for contestant in &mut contestants {
        for variable in ["GC_MARKERS", "NEAP_MARKERS"] {
            contestant.environment.insert(variable.to_owned(), "1".to_owned());
        }
    }
    let what =
        format!("marking {millions} million linked 48-byte objects, 1 marker: time per object");
    experiment(
        "mark",
        contestants,
        vec![figure(&what, Metric::NsPerObject, "neap", Some("libgc"), Some(Bar::AtMost(0.4)))],
    )
}

fn resident(seconds: &str) -> Experiment {
    let what = "resident memory of a program that allocates and drops small objects";
    let figures =
        vec![figure(what, Metric::PeakRssMb, "neap", Some("libgc"), Some(Bar::ValueAtMost(16.0)))];
    experiment("resident", both("resident", &[seconds]), figures)
}

fn live(size: &str, seconds: &str) -> Experiment {
    let what = format!("{size} of small live objects");
    let figures = vec![
        figure(
            &format!("{what}: longest pause"),
            Metric::LongestPauseMs,
            "neap",
            Some("libgc"),
            Some(Bar::AtMost(0.5)),
        ),
        figure(
            &format!("{what}: operations in a second"),
            Metric::OperationsPerSecond,
            "neap",
            Some("libgc"),
            None,
        ),
        figure(&format!("{what}: peak memory"), Metric::PeakMb, "neap", Some("libgc"), None),
    ];
    experiment("live", both("live", &[size, seconds]), figures)
}

/// The requests of five programs of 2010, replayed: what is wasted, as a part of what their
/// collector wasted.
fn patterns() -> Experiment {
    let replay = |label: &str, library, program: &str, mode: &str| {
        let mut replay = contestant(label, library, program, &["patterns-2010.json", "all", mode]);
        // Where D wants a byte past the end its requests have it.
        if library == Library::NeapInline {
            replay.environment.insert("NEAP_PAST_END".to_owned(), "0".to_owned());
        }
        replay
    };
    let contestants = vec![
        replay("libgc", Library::Libgc, "replay", "conservative"),
        replay("neap.h", Library::NeapInline, "replay-neap", "conservative"),
        replay("neap", Library::Neap, "replay", "conservative"),
        replay("libgc, typed", Library::Libgc, "replay", "typed"),
        replay("neap.h, typed", Library::NeapInline, "replay-neap", "typed"),
    ];
    let what = "five patterns of 2010 replayed";
    let figures = vec![
        figure(
            &format!("{what}: waste, part of the conservative collector's then"),
            Metric::WastedPart,
            "neap.h",
            Some("libgc"),
            Some(Bar::ValueAtMost(0.2)),
        ),
        figure(
            &format!("{what}, GC_malloc: the same"),
            Metric::WastedPart,
            "neap",
            Some("libgc"),
            None,
        ),
        figure(
            &format!("{what}, typed: waste, part of the precise collector's then"),
            Metric::WastedPart,
            "neap.h, typed",
            Some("libgc, typed"),
            Some(Bar::ValueAtMost(0.16)),
        ),
        figure(&format!("{what}: wall time"), Metric::WallSeconds, "neap.h", Some("libgc"), None),
    ];
    experiment("patterns", contestants, figures)
}

/// The programs behind four of these patterns, written anew.
fn workloads() -> Vec<Experiment> {
    ["bh", "bigarr", "mcore", "voronoi"]
        .map(|program| {
            let mut contestants = both(program, &[]);
            contestants.push(contestant(
                "neap.h",
                Library::NeapInline,
                &format!("{program}-neap"),
                &[],
            ));
            let row = |text: &str, metric, ours: &str| {
                figure(&format!("{program}: {text}"), metric, ours, Some("libgc"), None)
            };
            let figures = vec![
                row("wall time", Metric::WallSeconds, "neap"),
                row("peak memory", Metric::PeakMb, "neap"),
                row("wasted, neap.h", Metric::WastedMb, "neap.h"),
            ];
            experiment(program, contestants, figures)
        })
        .into()
}

/// The real programs: each case on both libraries, means over all of them.
fn client_cases(cases: &[String]) -> Experiment {
    let mut contestants = Vec::new();
    let mut figures = Vec::new();
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    for case in cases {
        let (ours, peer) = (format!("{case} on neap"), format!("{case} on libgc"));
        let script = format!("tests/clients/{case}/run");
        contestants.push(contestant(&peer, Library::Libgc, &script, &[]));
        contestants.push(contestant(&ours, Library::Neap, &script, &[]));
        figures.push(figure(
            &format!("{case}: wall time"),
            Metric::WallSeconds,
            &ours,
            Some(&peer),
            None,
        ));
        figures.push(figure(
            &format!("{case}: peak memory"),
            Metric::PeakMb,
            &ours,
            Some(&peer),
            None,
        ));
        if STOPS.iter().any(|program| case.starts_with(program)) {
            let text = format!("{case}: longest stop");
            let bar = Some(Bar::ValueAtMost(1.0));
            figures.push(figure(&text, Metric::LongestPauseMs, &ours, None, bar));
        }
        pairs.push((ours, peer));
    }
    // A mean over five programs must not pass for one over six: a program without a case is a pair
    // that never ran.
    let has_case = |program: &str| {
        cases.iter().any(|case| case == program || case.starts_with(&format!("{program}-")))
    };
    for program in PROGRAMS.into_iter().filter(|program| !has_case(program)) {
        missing.push((format!("{program} on neap"), format!("{program} on libgc")));
    }
    let compared: Vec<_> = pairs.iter().cloned().chain(missing).collect();
    let means =
        [("wall time", Metric::WallSeconds, 0.9, 1.05), ("peak memory", Metric::PeakMb, 1.0, 1.2)];
    for (text, metric, mean, worst) in means {
        let row = |what: &str, draw, bar| Figure {
            what: format!("real clients, {text}: {what}"),
            metric,
            draw,
            bar: Some(Bar::AtMost(bar)),
        };
        figures.push(row("geometric mean", Draw::GeometricMean(compared.clone()), mean));
        figures.push(row("worst one", Draw::Worst(compared.clone()), worst));
    }
    Experiment { name: "clients".to_owned(), contestants, figures, same_output: pairs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn cases() -> Vec<String> {
        ["crystal", "ecl", "guile-trees", "guile-threads", "neko", "nim", "w3m"]
            .map(str::to_owned)
            .into()
    }

    #[test]
    fn figures_refer_to_contestants_that_exist() {
        for size in [Size::Full, Size::Quick] {
            for experiment in experiments(size, &cases()) {
                let labels: BTreeSet<&str> = experiment
                    .contestants
                    .iter()
                    .map(|contestant| contestant.label.as_str())
                    .collect();
                assert_eq!(
                    labels.len(),
                    experiment.contestants.len(),
                    "labels of {} are unique",
                    experiment.name
                );
                for figure in &experiment.figures {
                    assert!(
                        figure.draw.labels().iter().all(|label| labels.contains(label)),
                        "{}: {}",
                        experiment.name,
                        figure.what
                    );
                }
            }
        }
    }

    #[test]
    fn a_program_without_a_case_leaves_the_means_without_a_figure() {
        let experiment = client_cases(&["guile-trees".to_owned()]);
        let mean = experiment.figures.iter().find(|figure| figure.what.contains("geometric mean"));
        let Some(Figure { draw: Draw::GeometricMean(pairs), .. }) = mean else { panic!("no mean") };
        assert_eq!(pairs.len(), PROGRAMS.len());
        assert!(
            experiment.contestants.iter().all(|contestant| contestant.label.starts_with("guile"))
        );
        assert!(pairs.iter().any(|(ours, _)| ours == "neko on neap"));
    }

    #[test]
    fn no_two_bars_are_about_the_same() {
        let all = experiments(Size::Full, &cases());
        let figures = all.iter().flat_map(|experiment| &experiment.figures);
        let mut seen = std::collections::BTreeSet::new();
        for figure in figures.filter(|figure| figure.bar.is_some()) {
            assert!(seen.insert((&figure.what, format!("{:?}", figure.draw))), "{}", figure.what);
        }
    }

    #[test]
    fn names_choose() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            choose(experiments(Size::Full, &cases()), &wanted).map(|chosen| {
                chosen.into_iter().map(|experiment| experiment.name).collect::<Vec<_>>()
            })
        };
        assert_eq!(
            names(&["alloc"]).expect("known"),
            [16, 32, 64, 256, 1024, 4096, 64 << 10, 1 << 20].map(|bytes| format!("alloc-{bytes}"))
        );
        assert_eq!(names(&["mark", "binary-trees-2"]).expect("known"), ["binary-trees-2", "mark"]);
        assert!(!names(&[]).expect("all").contains(&"pauses-4g".to_owned()));
        assert_eq!(names(&["pauses-4g"]).expect("known"), ["pauses-4g"]);
        let error = names(&["allo"]).expect_err("unknown");
        assert!(error.contains("'allo'") && error.contains("gcbench"), "{error}");
    }
}
