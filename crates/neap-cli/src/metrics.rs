//! `neap metrics`: a running process's figures as OpenMetrics text: printed, or served on a Unix
//! socket or by HTTP; or in a file, in the older format that node_exporter's textfile collector
//! reads.
//!
//! Invariant: names, units and meanings come from the declaration in neap-record: `used_bytes` is
//! `neap_used_bytes`, nanoseconds become seconds, a counter gets `_total`, a figure of the last
//! cycle `neap_cycle_`; the stops are one histogram, `neap_pause_seconds`. A file is replaced
//! whole. Files and sockets are there as long as what they say is true: until the process or this
//! one ends. Called by `main`.

mod http;
mod profile;
mod serve;

use crate::live::{self, Process};
use crate::run::held::Held;
use crate::{Failure, regular_file};
use clap::{Arg, ArgMatches, Command, value_parser};
use neap_record::live::{Page, upper};
use neap_record::{Cycle, Figure, Live, Nature, Unit};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks at whether a process whose figures are in a file is still there.
const LOOK: Duration = Duration::from_millis(500);

/// Figures of [`Live`] that the histogram holds.
const IN_HISTOGRAM: [&str; 2] = ["pause_count", "pause_total_ns"];

/// Figures of [`Cycle`] that say nothing about a process that is looked at from outside: `cycles`
/// counts them, and times are the reader's.
const LEFT_OUT: [&str; 3] = ["number", "began_ns", "ended_ns"];

/// The command line.
pub fn command() -> Command {
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("PATH").value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("metrics")
        .about("Print the figures of a running process as OpenMetrics text")
        .after_help(
            "docs/events.md has the names, units and meanings. `curl --unix-socket PATH \
             http://neap/metrics` reads a socket.",
        )
        .arg(live::argument())
        .arg(path(
            "file",
            "Write to this file instead, again every --every seconds, and remove it when the \
            process ends",
        ))
        .arg(
            path("socket", "Serve on a Unix socket of this name, until the process ends")
                .conflicts_with("file"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .help(
                    "Serve by HTTP until the process ends: /metrics, and of a process with \
                     NEAP_STATS and NEAP_SAMPLE its allocation sites as /debug/pprof/heap and \
                     /debug/pprof/allocs",
                )
                .conflicts_with_all(["file", "socket"])
                .value_parser(value_parser!(SocketAddr)),
        )
        .arg(
            Arg::new("every")
                .long("every")
                .value_name("SECONDS")
                .help("Time between two writings of the file")
                .default_value("10")
                .value_parser(value_parser!(u64).range(1..=86400)),
        )
}

/// Does what the command line says.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let process = Process::open(*matches.get_one::<u32>("pid").expect("it is required"))?;
    let every = Duration::from_secs(*matches.get_one::<u64>("every").expect("it has a default"));
    if let Some(path) = matches.get_one::<PathBuf>("file") {
        return keep(&process, path, every)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())));
    }
    if let Some(path) = matches.get_one::<PathBuf>("socket") {
        return serve::on_socket(&process, path);
    }
    if let Some(address) = matches.get_one::<SocketAddr>("listen") {
        return serve::on_address(&process, *address);
    }
    match process.look().map_err(|error| process.failure(error))? {
        Some(page) => crate::print(&text(&page, &labels(&process), Format::OpenMetrics)),
        None => Err(Failure::usage(format!("process {} has just ended", process.id))),
    }
}

/// Keeps the figures in the file, and removes it when the process ends or this one is to, given
/// that it has written it.
fn keep(process: &Process, path: &Path, every: Duration) -> io::Result<()> {
    let held = Held::new();
    let mut is_ours = false;
    let asked = renew(process, path, every, &held, &mut is_ours);
    let removed = match is_ours.then(|| fs::remove_file(path)) {
        Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    if let Some(signal) = asked? {
        held.die(signal);
    }
    removed
}

/// Writes the file again and again until the process has ended, or a signal comes that ends this
/// one. Where that fails later than the first time, it is said once and tried again. `is_ours`
/// becomes true when the file is written.
fn renew(
    process: &Process,
    path: &Path,
    every: Duration,
    held: &Held,
    is_ours: &mut bool,
) -> io::Result<Option<i32>> {
    let mut has_failed = false;
    loop {
        // Writing may take longer than the time between two.
        if let Some(signal) = held.within(Duration::ZERO) {
            return Ok(Some(signal));
        }
        let began = Instant::now();
        let look = process.look();
        if matches!(look, Ok(None)) {
            return Ok(None);
        }
        let written = look.and_then(|page| match page {
            Some(page) => {
                regular_file::replace(path, &text(&page, &labels(process), Format::Prometheus))
            }
            None => Ok(()),
        });
        match written {
            Ok(()) => (*is_ours, has_failed) = (true, false),
            Err(error) if !*is_ours => return Err(error),
            Err(error) if !has_failed => {
                let seconds = every.as_secs();
                let shown = path.display();
                // Standard error may be gone, too.
                let _ = writeln!(
                    io::stderr(),
                    "neap: {shown}: {error}; it is tried again every {seconds} s"
                );
                has_failed = true;
            }
            Err(_) => {}
        }
        while began.elapsed() < every && !matches!(process.look(), Ok(None)) {
            if let Some(signal) = held.within(LOOK.min(every.saturating_sub(began.elapsed()))) {
                return Ok(Some(signal));
            }
        }
    }
}

/// Which process the figures are of, as OpenMetrics has it between braces.
fn labels(process: &Process) -> String {
    let program = process.name.replace('\\', r"\\").replace('"', "\\\"");
    format!("pid=\"{}\",program=\"{program}\"", process.id)
}

/// How the figures are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A counter's family has the name without `_total`.
    OpenMetrics,
    /// Version 0.0.4 of the text format: a family has the name of its values. A reader of it takes
    /// what is said of another name for that of other values, and these for untyped.
    Prometheus,
}

/// The figures as text.
pub fn text(page: &Page, labels: &str, format: Format) -> String {
    let mut out = String::new();
    for (figure, value) in Live::FIGURES.iter().zip(page.live.values()) {
        if !IN_HISTOGRAM.contains(&figure.name) {
            family(&mut out, "neap_", figure, value, labels, format);
        }
    }
    // While one is written there are none: zeros would be wrong.
    let last = page.cycle.iter().flat_map(|cycle| Cycle::FIGURES.iter().zip(cycle.values()));
    for (figure, value) in last {
        if !LEFT_OUT.contains(&figure.name) {
            family(&mut out, "neap_cycle_", figure, value, labels, format);
        }
    }
    stops(&mut out, page, labels, format);
    // A comment in the older format, by which a file is seen to be whole.
    out.push_str("# EOF\n");
    out
}

/// One figure: its name, unit, meaning and value.
fn family(
    out: &mut String,
    prefix: &str,
    figure: &Figure,
    value: u64,
    labels: &str,
    format: Format,
) {
    let (name, value) = match figure.unit {
        Unit::Nanoseconds => {
            (figure.name.trim_end_matches("_ns").to_owned() + "_seconds", seconds(value))
        }
        _ => (figure.name.to_owned(), value.to_string()),
    };
    let unit = match figure.unit {
        Unit::Nanoseconds => "seconds",
        Unit::Bytes if name.ends_with("_bytes") => "bytes",
        _ => "",
    };
    let (kind, suffix) = match figure.nature {
        Nature::Counter => ("counter", "_total"),
        Nature::Gauge => ("gauge", ""),
    };
    let of_family = if format == Format::Prometheus { suffix } else { "" };
    let _ = writeln!(out, "# TYPE {prefix}{name}{of_family} {kind}");
    if !unit.is_empty() && format == Format::OpenMetrics {
        let _ = writeln!(out, "# UNIT {prefix}{name} {unit}");
    }
    let meaning: Vec<&str> = figure.meaning.split_whitespace().collect();
    let _ = writeln!(out, "# HELP {prefix}{name}{of_family} {}", meaning.join(" "));
    let _ = writeln!(out, "{prefix}{name}{suffix}{{{labels}}} {value}");
}

/// The stops: a bucket for each doubling.
fn stops(out: &mut String, page: &Page, labels: &str, format: Format) {
    out.push_str("# TYPE neap_pause_seconds histogram\n");
    if format == Format::OpenMetrics {
        out.push_str("# UNIT neap_pause_seconds seconds\n");
    }
    out.push_str("# HELP neap_pause_seconds Stops of the world, by their length.\n");
    let mut count: u64 = 0;
    for (bucket, stops) in page.stops.iter().enumerate() {
        count = count.saturating_add(*stops);
        // From a microsecond to half a minute; what is shorter or longer is in the next or the
        // last.
        let limit = upper(bucket);
        if limit.is_power_of_two() && (1 << 10..=1 << 35).contains(&limit) {
            let limit = seconds(limit);
            let _ = writeln!(out, "neap_pause_seconds_bucket{{{labels},le=\"{limit}\"}} {count}");
        }
    }
    let _ = writeln!(out, "neap_pause_seconds_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "neap_pause_seconds_count{{{labels}}} {count}");
    let sum = seconds(page.live.pause_total_ns);
    let _ = writeln!(out, "neap_pause_seconds_sum{{{labels}}} {sum}");
}

/// Nanoseconds as seconds, without a trace of rounding.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::Format::*;
    use super::*;
    use neap_record::live::{BUCKETS, bucket};

    fn page() -> Page {
        let live = Live { used_bytes: 77, cycles: 4, pause_total_ns: 5_000_001, ..Live::default() };
        let cycle = Cycle { mark_ns: 1_500, ..Cycle::default() };
        let mut stops = vec![0; BUCKETS];
        stops[bucket(3_000)] = 2;
        stops[bucket(u64::MAX)] = 1;
        Page { live, cycle: Some(cycle), stops, ..Page::default() }
    }

    #[test]
    fn the_text_says_what_the_page_says() {
        let text = text(&page(), "pid=\"12\"", OpenMetrics);
        for line in [
            "# TYPE neap_used_bytes gauge",
            "# UNIT neap_used_bytes bytes",
            "# HELP neap_used_bytes Bytes of blocks in use.",
            "neap_used_bytes{pid=\"12\"} 77",
            "neap_cycles_total{pid=\"12\"} 4",
            "neap_cycle_mark_seconds{pid=\"12\"} 0.0000015",
            "neap_pause_seconds_bucket{pid=\"12\",le=\"0.000002048\"} 0",
            "neap_pause_seconds_bucket{pid=\"12\",le=\"0.000004096\"} 2",
            "neap_pause_seconds_bucket{pid=\"12\",le=\"34.359738368\"} 2",
            "neap_pause_seconds_bucket{pid=\"12\",le=\"+Inf\"} 3",
            "neap_pause_seconds_count{pid=\"12\"} 3",
            "neap_pause_seconds_sum{pid=\"12\"} 0.005000001",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    /// Every value has the type of the family that has its name.
    #[test]
    fn in_a_file_families_have_the_names_of_their_values() {
        let text = text(&page(), "pid=\"1\"", Prometheus);
        let mut family = ("", "");
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => family = (name, kind),
                ["#", "HELP", name, _] => assert_eq!(name, family.0),
                ["#", "EOF"] => {}
                ["#", ..] => panic!("{line}"),
                _ => {
                    let name = line.split('{').next().unwrap();
                    let of_histogram = name.strip_prefix(family.0).is_some_and(|part| {
                        family.1 == "histogram" && ["_bucket", "_count", "_sum"].contains(&part)
                    });
                    assert!(name == family.0 || of_histogram, "{line} {family:?}");
                    assert_eq!(name.ends_with("_total"), family.1 == "counter", "{line}");
                }
            }
        }
    }

    /// Whoever wrote the page may have written anything.
    #[test]
    fn counts_beyond_all_bounds_are_the_largest() {
        let page = Page { stops: vec![u64::MAX; BUCKETS], ..page() };
        let text = text(&page, "pid=\"1\"", OpenMetrics);
        let most = format!("neap_pause_seconds_count{{pid=\"1\"}} {}", u64::MAX);
        assert!(text.lines().any(|found| found == most), "{text}");
    }

    #[test]
    fn figures_of_a_cycle_that_could_not_be_read_are_left_out() {
        let text = text(&Page { cycle: None, ..page() }, "pid=\"1\"", OpenMetrics);
        assert!(text.contains("neap_cycles_total") && !text.contains("neap_cycle_"), "{text}");
    }

    #[test]
    fn every_figure_is_there_once() {
        let text = text(&page(), "pid=\"1\"", OpenMetrics);
        let families: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(
            families.len(),
            Live::COUNT - IN_HISTOGRAM.len() + Cycle::COUNT - LEFT_OUT.len() + 1
        );
        let mut names: Vec<_> = families.iter().map(|line| line.split(' ').next()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), families.len());
    }
}
