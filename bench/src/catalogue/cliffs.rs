//! No cliffs: what the program waits for, by its own clock, in programs of shapes that the other
//! benchmarks lack: large roots, links, sleepers, all sizes, fast writers, growing stacks, typed
//! objects, busy neighbours, large heaps. The programs of `bench/cliffs`, on libgc and on ours.
//!
//! Invariant: an experiment's name begins with `cliffs-`, and every contestant of libgc or Neap
//! reports times of operations, in service and response, and utilisation. Plain data, as all of the
//! catalogue.

use super::pauses::other_languages;
use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Contestant, Experiment, Figure, Library, Metric};

const LIBGC: &str = "libgc";
const NEAP: &str = "neap";
const STOPPING: &str = "neap, stop-the-world";
const IGNORING: &str = "neap, types ignored";
const NOT_COLLECTING: &str = "libgc, not collecting";
const MACHINE: &str = "no collector";

const LONGEST: &str = "longest operation";
const STOP: &str = "longest stop";

/// An experiment that is being put together.
struct Cliff {
    name: &'static str,
    /// How rows begin.
    what: &'static str,
    program: String,
    arguments: Vec<String>,
    contestants: Vec<Contestant>,
    figures: Vec<Figure>,
}

/// A program on libgc and on ours, with the rows that all have and their bars, if any: the longest
/// operation (ms), and the longest stop by the library's own count (ms).
fn cliff(
    name: &'static str,
    what: &'static str,
    command: &str,
    longest_ms: Option<f64>,
    stop_ms: Option<f64>,
) -> Cliff {
    let mut words = command.split(' ');
    let program = format!("cliffs-{}", words.next().unwrap_or_default());
    let arguments = words.map(str::to_owned).collect();
    let new =
        Cliff { name, what, program, arguments, contestants: Vec::new(), figures: Vec::new() };
    let longest = longest_ms.map(|ms| Bar::ValueAtMost(ms * 1000.0));
    new.on(LIBGC, Library::Libgc, &[])
        .on(NEAP, Library::Neap, &[])
        .row(LONGEST, Metric::OperationMaxUs, Some(LIBGC), longest)
        .row(STOP, Metric::LongestPauseMs, Some(LIBGC), stop_ms.map(Bar::ValueAtMost))
}

impl Cliff {
    /// The same program on another library or with variables.
    fn on(mut self, label: &str, library: Library, variables: &[(&str, &str)]) -> Self {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut new = contestant(label, library, &self.program, &arguments);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        new.environment.extend(variables.iter().map(owned));
        self.contestants.push(new);
        self
    }

    /// One that does something else.
    fn beside(mut self, other: Contestant) -> Self {
        self.contestants.push(other);
        self
    }

    fn row(mut self, text: &str, metric: Metric, peer: Option<&str>, bar: Option<Bar>) -> Self {
        self.figures.push(figure(&format!("{}: {text}", self.what), metric, NEAP, peer, bar));
        self
    }

    /// From when an operation was due, and the worst 5 ms.
    fn response(self, longest_us: Option<f64>, part: Option<f64>) -> Self {
        let bar = longest_us.map(Bar::ValueAtMost);
        let text = "response, 999 of 1000";
        let all = self.row(text, Metric::ResponseP999Us, Some(LIBGC), bar);
        let text = "the program's part of its worst 5 ms";
        all.row(text, Metric::Utilisation5Ms, None, part.map(Bar::ValueAtLeast))
    }

    /// Operations, and what threads spent in the collector beside stops.
    fn pace(self, bar: Option<f64>) -> Self {
        let bar = bar.map(Bar::AtLeast);
        self.row("operations in a second", Metric::OperationsPerSecond, Some(LIBGC), bar).row(
            "time in assists",
            Metric::AssistsMs,
            None,
            None,
        )
    }

    /// What the same work takes.
    fn costs(self) -> Self {
        let bar = Some(Bar::AtMost(1.0));
        self.row("wall time", Metric::WallSeconds, Some(LIBGC), bar)
            .row("processor time", Metric::ProcessorSeconds, Some(LIBGC), bar)
            .row("peak memory", Metric::PeakMb, Some(LIBGC), bar)
    }

    fn build(mut self, quick: bool) -> Experiment {
        for argument in self.contestants.iter_mut().flat_map(|one| &mut one.arguments) {
            *argument = scaled(argument, quick);
        }
        experiment(self.name, self.contestants, self.figures)
    }
}

/// All of them; in a quick run what is live is small.
pub fn experiments(quick: bool) -> Vec<Experiment> {
    let mut all = heaps();
    all.push(neighbours());
    all.extend(roots());
    all.extend(links());
    all.extend(threads());
    all.extend(sizes_and_writers());
    all.extend(typed());
    all.extend(collecting());
    all.push(mappings());
    all.into_iter().map(|cliff| cliff.build(quick)).collect()
}

/// Small live objects: operations, stops, and what filling the heap costs.
fn heaps() -> Vec<Cliff> {
    let one =
        cliff("cliffs-heap-1g", "1 GB live", "heap 1G 1 200000 SECONDS", Some(2.0), Some(1.0))
            .response(Some(5000.0), Some(0.5))
            .pace(None)
            .on(NOT_COLLECTING, Library::Libgc, &[("GC_DONT_GC", "1")])
            .row(
                "longest operation against no cycles",
                Metric::OperationMaxUs,
                Some(NOT_COLLECTING),
                None,
            );
    let peers = other_languages(&["1G", "200000", "SECONDS"]);
    let one = peers.into_iter().filter(|peer| peer.library != Library::Druntime).fold(
        one,
        |one, peer| {
            let label = peer.label.clone();
            let text = format!("longest operation against {label}");
            one.beside(peer).row(&text, Metric::OperationMaxUs, Some(&label), None)
        },
    );
    vec![
        cliff("cliffs-heap-200m", "200 MB live", "heap 200M 1 200000 SECONDS", Some(2.0), None)
            .response(None, None)
            .pace(None),
        filling(one),
        cliff(
            "cliffs-heap-threads",
            "1 GB, 2 threads",
            "heap 1G 2 150000 SECONDS",
            Some(2.0),
            None,
        )
        .response(None, None)
        .pace(None),
        cliff("cliffs-heap-4g", "4 GB live", "heap 4G 1 200000 SECONDS", None, Some(0.6))
            .response(None, None),
        filling(cliff(
            "cliffs-heap-12g",
            "12 GB live",
            "heap 12G 1 200000 SECONDS",
            None,
            Some(1.0),
        )),
    ]
}

fn filling(heap: Cliff) -> Cliff {
    heap.row(
        "processor time of the fill",
        Metric::FillProcessorSeconds,
        Some(LIBGC),
        Some(Bar::AtMost(1.0)),
    )
    .row("longest wait in the fill", Metric::FillMaxUs, Some(LIBGC), None)
}

/// Four spinning processes, beside the program and beside one without a collector.
fn neighbours() -> Cliff {
    let still = contestant(MACHINE, Library::Nothing, "still", &["SECONDS", "4"]);
    let what = "200 MB live, 4 busy neighbours";
    cliff("cliffs-neighbours", what, "heap 200M 1 200000 SECONDS 4", None, None)
        .beside(still)
        .row(
            "longest operation against the machine alone",
            Metric::OperationMaxUs,
            Some(MACHINE),
            Some(Bar::AtMost(1.5)),
        )
        .pace(None)
}

/// Memory that leads to objects, is large, and is not written any more; and a stack that was
/// written just now.
fn roots() -> Vec<Cliff> {
    let least = Some(0.999);
    vec![
        cliff(
            "cliffs-roots-100m",
            "100 MB registered",
            "roots registered 100M 200000 SECONDS",
            Some(2.0),
            None,
        )
        .pace(least),
        cliff(
            "cliffs-roots-1g",
            "1 GB registered",
            "roots registered 1G 200000 SECONDS",
            Some(2.0),
            None,
        )
        .pace(least),
        cliff(
            "cliffs-roots-registering",
            "512 MB registered, and words that come and go",
            "roots registering 512M 100000 SECONDS",
            Some(2.0),
            None,
        )
        .pace(None),
        cliff(
            "cliffs-roots-loading",
            "512 MB registered, and a library that comes and goes",
            "roots loading 512M 10000 SECONDS",
            Some(2.0),
            None,
        )
        .pace(None),
        cliff(
            "cliffs-roots-array",
            "an array of 400 MB",
            "roots array 400M 200000 SECONDS",
            Some(2.0),
            None,
        )
        .pace(least),
        cliff(
            "cliffs-stack",
            "a stack that grows to 64 MB",
            "growing-stack 64M 20000 SECONDS",
            None,
            Some(1.0),
        ),
    ]
}

/// A program that changes its mappings while page tables are looked through.
fn mappings() -> Cliff {
    let what = "1 GB live, mappings that come and go";
    cliff("cliffs-mappings", what, "mappings 1G 20000 SECONDS", Some(2.0), None).pace(None)
}

fn links() -> Vec<Cliff> {
    let stop = Some(0.3);
    vec![
        cliff(
            "cliffs-links-short",
            "1 million links",
            "links short 1000000 100000 SECONDS",
            None,
            stop,
        ),
        cliff(
            "cliffs-links-long",
            "1 million long links",
            "links long 1000000 100000 SECONDS",
            None,
            stop,
        ),
        cliff(
            "cliffs-links-churning",
            "1 million churning links",
            "links churning 1000000 100000 SECONDS",
            None,
            stop,
        ),
        cliff(
            "cliffs-links-finalized",
            "links beside 10 million nodes that die with a finalizer",
            "links finalized 10000000 100000 SECONDS",
            Some(2.0),
            None,
        ),
    ]
}

/// Idle threads; a row asks whether the library tells of all that a stop took.
fn threads() -> Vec<Cliff> {
    let stop = Some(0.5);
    [
        ("cliffs-threads-64", "64 threads in sem_wait", "threads 64 sem_wait 200000 SECONDS"),
        ("cliffs-threads-256", "256 threads in sem_wait", "threads 256 sem_wait 200000 SECONDS"),
        (
            "cliffs-threads-1000",
            "1,000 threads in sem_wait",
            "threads 1000 sem_wait 200000 SECONDS",
        ),
        ("cliffs-threads-read", "1,000 threads in read", "threads 1000 read 200000 SECONDS"),
        ("cliffs-threads-futex", "1,000 threads in futex", "threads 1000 futex 200000 SECONDS"),
    ]
    .map(|(name, what, command)| {
        let bar = Some(Bar::ValueAtMost(0.1));
        cliff(name, what, command, None, stop)
            .row("part of a stop that the library does not tell", Metric::UntoldStopMs, None, bar)
            .pace(None)
    })
    .into()
}

fn sizes_and_writers() -> Vec<Cliff> {
    let stop = Some(1.0);
    vec![
        cliff("cliffs-sizes", "200 MB of all sizes", "sizes 200M 1000000", None, None).costs(),
        cliff("cliffs-cache", "a cache of 50,000 entries", "cache 50000 1500000", None, stop)
            .on(STOPPING, Library::Neap, &[("NEAP_WATCH", "none")])
            .costs(),
        cliff(
            "cliffs-table",
            "a table that grows to 3 million entries",
            "table 3000000",
            None,
            stop,
        )
        .on(STOPPING, Library::Neap, &[("NEAP_WATCH", "none")])
        .costs(),
        cliff(
            "cliffs-writer-20",
            "200 MB, a fifth written",
            "writer 200M 20 50000 SECONDS",
            None,
            stop,
        )
        .pace(None),
        cliff(
            "cliffs-writer-all",
            "200 MB, all written",
            "writer 200M 100 50000 SECONDS",
            None,
            stop,
        )
        .pace(None),
        cliff(
            "cliffs-writer-800m",
            "800 MB, all written",
            "writer 800M 100 50000 SECONDS",
            None,
            stop,
        )
        .pace(None),
        cliff(
            "cliffs-graph",
            "a million linked nodes, replaced at full speed",
            "graph 1000000 0 SECONDS",
            None,
            stop,
        )
        .pace(None),
    ]
}

/// Objects whose kind says where their pointers are.
fn typed() -> Vec<Cliff> {
    let stop = Some(1.0);
    let what = "2 million gcj objects";
    vec![
        cliff("cliffs-typed-gcj", what, "typed gcj 21 100000 SECONDS", None, stop)
            .on(IGNORING, Library::Neap, &[("GC_IGNORE_GCJ_INFO", "1")])
            .row(
                "longest stop against types ignored",
                Metric::LongestPauseMs,
                Some(IGNORING),
                None,
            ),
        cliff(
            "cliffs-typed-object",
            "2 million self-describing",
            "typed object 21 100000 SECONDS",
            None,
            stop,
        ),
        cliff(
            "cliffs-typed-procedure",
            "2 million by mark procedure",
            "typed procedure 21 100000 SECONDS",
            None,
            stop,
        ),
        cliff(
            "cliffs-typed-incremental",
            "the same, incremental mode",
            "typed incremental 21 100000 SECONDS",
            None,
            stop,
        ),
    ]
}

/// `GC_gcollect`: how long its caller waits, and whether another thread does.
fn collecting() -> Vec<Cliff> {
    [
        ("cliffs-collect-1g", "GC_gcollect at 1 GB", "collect 1G"),
        ("cliffs-collect-4g", "GC_gcollect at 4 GB", "collect 4G"),
    ]
    .map(|(name, what, command)| {
        let bar = Some(Bar::AtMost(1.2));
        cliff(name, what, command, Some(2.0), None)
            .on(STOPPING, Library::Neap, &[("NEAP_WATCH", "none")])
            .row("time of the call", Metric::CollectMs, Some(LIBGC), None)
            .row("time of the call against stopping", Metric::CollectMs, Some(STOPPING), bar)
    })
    .into()
}

/// What a quick run takes in the place of a size or a number of something.
const SMALL: [(&str, &str); 13] = [
    ("12G", "16M"),
    ("4G", "16M"),
    ("1G", "16M"),
    ("800M", "8M"),
    ("400M", "4M"),
    ("200M", "8M"),
    ("100M", "2M"),
    ("64M", "1M"),
    ("1000000", "10000"),
    ("21", "14"),
    ("1000", "40"),
    ("256", "20"),
    ("64", "10"),
];

/// An argument of a contestant, for so much work.
fn scaled(argument: &str, quick: bool) -> String {
    let small = SMALL.iter().find(|(size, _)| *size == argument);
    match (argument, quick, small) {
        ("SECONDS", true, _) => "1",
        ("SECONDS", false, _) => "10",
        (_, true, Some((_, small))) => small,
        _ => argument,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_runs_on_both_libraries_with_arguments_of_its_size() {
        for quick in [false, true] {
            for experiment in experiments(quick) {
                assert!(experiment.name.starts_with("cliffs-"), "{}", experiment.name);
                let libraries = [0, 1].map(|index: usize| experiment.contestants[index].library);
                assert_eq!(libraries, [Library::Libgc, Library::Neap], "{}", experiment.name);
                for argument in experiment.contestants.iter().flat_map(|one| &one.arguments) {
                    let large = SMALL.iter().any(|(size, _)| size == argument);
                    assert!(argument != "SECONDS" && !(quick && large), "{}", experiment.name);
                }
            }
        }
    }

    #[test]
    fn every_row_of_the_issue_has_a_bar() {
        let barred =
            |experiment: &Experiment| experiment.figures.iter().any(|figure| figure.bar.is_some());
        assert!(experiments(false).iter().all(barred));
    }
}
