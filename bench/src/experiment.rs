//! What an experiment is: who competes, and which figures are drawn from the runs.
//!
//! Contestants of one experiment are run in turn, A B A B …, so that a machine which drifts slows
//! both. Plain data; filled in by `catalogue`, read by `contest` (which runs it) and `report`
//! (which draws the figures).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which library a contestant runs on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Library {
    /// The system's libgc.
    Libgc,
    /// Neap's drop-in, put in libgc's place by the library path.
    Neap,
    /// Neap through neap.h, linked directly.
    NeapInline,
    /// mimalloc, linked directly.
    Mimalloc,
    /// The C library's own malloc and free.
    Glibc,
    /// jemalloc, linked directly.
    Jemalloc,
    /// The same program in C#, on Mono.
    Mono,
    /// The same program on Java.
    Java,
    /// The same program in D, on druntime.
    Druntime,
    /// The same program in Go.
    Go,
    /// No collector at all: a control.
    Nothing,
}

impl Library {
    /// How tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Libgc => "libgc",
            Self::Neap => "Neap",
            Self::NeapInline => "Neap, neap.h",
            Self::Mimalloc => "mimalloc",
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Mono => "Mono",
            Self::Java => "Java",
            Self::Druntime => "druntime",
            Self::Go => "Go",
            Self::Nothing => "no collector",
        }
    }

    /// Whether it is ours.
    pub fn is_neap(self) -> bool {
        matches!(self, Self::Neap | Self::NeapInline)
    }
}

/// A program with its arguments on a library.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Unique within the experiment; figures refer to it.
    pub label: String,
    /// The library it runs on.
    pub library: Library,
    /// Name in build/bench, or the path of a client's script from the repository's root.
    pub program: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Variables set for this run alone.
    pub environment: BTreeMap<String, String>,
}

/// Something measured in each run: a field of the program's line, or one that `contest` adds
/// (`wall_seconds`, `peak_mb`, …).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Wall time of the whole program.
    WallSeconds,
    /// Peak resident memory, by the kernel's count.
    PeakMb,
    /// The longest stop of the world.
    LongestPauseMs,
    /// What 99 of 100 stops of the world do not exceed, by the library's own summary.
    StopP99Ms,
    /// Nanoseconds for an object (and thread).
    NsPerObject,
    /// All threads' objects together.
    MillionsPerSecond,
    /// Peak resident memory by the program's own look at itself.
    PeakRssMb,
    /// The longest stop of the measured time, by the program's own watch.
    MeasuredStopMs,
    /// The longest operation of `pauses`.
    OperationMaxUs,
    /// The same, of those in which the thread was not kept from a processor.
    UnhinderedMaxUs,
    /// From the moment when the heap was full to the call of the program's out-of-memory function.
    ToldAfterMs,
    /// Resident memory at the end.
    ResidentMb,
    /// Operations made in a second.
    OperationsPerSecond,
    /// What `replay` wasted, as a part of what the collector of the pattern file did.
    WastedPart,
    /// Bytes of cells less bytes asked for.
    WastedMb,
    /// What something adds to the sum of a cycle's stops.
    AddedStopsMs,
    /// Objects finalized in a millisecond.
    FinalizedPerMs,
    /// Objects constructed and not finalized, at most, in millions.
    MostInFlightMillions,
    /// Processor time of the whole program, the kernel's on its behalf included.
    ProcessorSeconds,
    /// What 999 of 1000 operations of a program in `bench/cliffs` took from when they were due.
    ResponseP999Us,
    /// Minimum mutator utilisation of 5 ms, as the program sees it.
    Utilisation5Ms,
    /// What threads spent in the collector beside stops, by the library's own summary.
    AssistsMs,
    /// Processor time of building what is live.
    FillProcessorSeconds,
    /// The longest that adding one thing took then.
    FillMaxUs,
    /// The time of a call of `GC_gcollect`, with no other thread.
    CollectMs,
    /// By how much the longest step of the program's clock that a stop touched is longer than the
    /// longest stop of the library's summary.
    UntoldStopMs,
}

impl Metric {
    /// The name of its field in a sample.
    pub fn field(self) -> &'static str {
        match self {
            Self::WallSeconds => "wall_seconds",
            Self::PeakMb => "peak_mb",
            Self::LongestPauseMs => "longest_pause_ms",
            Self::StopP99Ms => "summary.pauses_ms.p99",
            Self::NsPerObject => "ns_per_object",
            Self::MillionsPerSecond => "millions_per_second",
            Self::PeakRssMb => "peak_rss_mb",
            Self::MeasuredStopMs => "measured_longest_stop_ms",
            Self::OperationMaxUs => "operation_us.max",
            Self::UnhinderedMaxUs => "unhindered_us.max",
            Self::ToldAfterMs => "ms_since_full",
            Self::ResidentMb => "resident_mib_after",
            Self::OperationsPerSecond => "operations_per_second",
            Self::WastedPart => "wasted_part_of_2010",
            Self::WastedMb => "wasted_mb",
            Self::AddedStopsMs => "added_stops_ms",
            Self::FinalizedPerMs => "finalized_per_ms",
            Self::MostInFlightMillions => "most_in_flight_millions",
            Self::ProcessorSeconds => "processor_seconds",
            Self::ResponseP999Us => "response_us.p999",
            Self::Utilisation5Ms => "mmu.5",
            Self::AssistsMs => "summary.assists_ms",
            Self::FillProcessorSeconds => "fill_processor_seconds",
            Self::FillMaxUs => "fill_us.max",
            Self::CollectMs => "collect_ms",
            Self::UntoldStopMs => "untold_stop_ms",
        }
    }

    /// Whether what Neap needs to write its summary would be a part of it.
    fn has_summary_in_it(self) -> bool {
        matches!(self, Self::WallSeconds | Self::ProcessorSeconds | Self::PeakMb)
    }

    /// Whether it is taken from Neap's summary.
    fn is_of_summary(self) -> bool {
        matches!(
            self,
            Self::LongestPauseMs | Self::StopP99Ms | Self::AssistsMs | Self::UntoldStopMs
        )
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::WallSeconds | Self::ProcessorSeconds | Self::FillProcessorSeconds => "s",
            Self::PeakMb | Self::PeakRssMb | Self::ResidentMb => "MB",
            Self::LongestPauseMs
            | Self::StopP99Ms
            | Self::AddedStopsMs
            | Self::MeasuredStopMs
            | Self::AssistsMs
            | Self::CollectMs
            | Self::UntoldStopMs
            | Self::ToldAfterMs => "ms",
            Self::NsPerObject => "ns",
            Self::MillionsPerSecond => "M/s",
            Self::OperationMaxUs
            | Self::UnhinderedMaxUs
            | Self::ResponseP999Us
            | Self::FillMaxUs => "µs",
            Self::OperationsPerSecond => "1/s",
            Self::WastedPart | Self::Utilisation5Ms => "",
            Self::WastedMb => "MB (10^6)",
            Self::FinalizedPerMs => "1/ms",
            Self::MostInFlightMillions => "10^6",
        }
    }
}

/// What a figure has to be.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bar {
    /// The ratio of ours to the peer's, at most.
    AtMost(f64),
    /// The ratio, at least.
    AtLeast(f64),
    /// Our own value in its unit, at most, whatever a peer needs.
    ValueAtMost(f64),
    /// Our own value in its unit, at least.
    ValueAtLeast(f64),
}

impl Bar {
    /// Whether it is reached.
    pub fn is_met(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::AtMost(bar) => ratio.map(|ratio| ratio <= bar),
            Self::AtLeast(bar) => ratio.map(|ratio| ratio >= bar),
            Self::ValueAtMost(bar) => Some(ours <= bar),
            Self::ValueAtLeast(bar) => Some(ours >= bar),
        }
    }
}

/// How a figure is drawn from the medians of contestants.
#[derive(Clone, Debug)]
pub enum Draw {
    /// Ours against a peer, of which there may be none.
    One {
        /// Label of ours.
        ours: String,
        /// Label of the peer.
        peer: Option<String>,
    },
    /// The geometric mean of the ratios of pairs (ours, peer).
    GeometricMean(Vec<(String, String)>),
    /// The largest ratio of pairs (ours, peer).
    Worst(Vec<(String, String)>),
}

impl Draw {
    /// The labels of all whom it is drawn from.
    pub fn labels(&self) -> Vec<&str> {
        let labels: Vec<&String> = match self {
            Self::One { ours, peer } => std::iter::once(ours).chain(peer).collect(),
            Self::GeometricMean(pairs) | Self::Worst(pairs) => {
                pairs.iter().flat_map(|(ours, peer)| [ours, peer]).collect()
            }
        };
        labels.into_iter().map(String::as_str).collect()
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it says in the table.
    pub what: String,
    /// What is compared.
    pub metric: Metric,
    /// How.
    pub draw: Draw,
    /// Its bar, if it has one.
    pub bar: Option<Bar>,
}

/// Contestants run in turn, and the figures drawn from them.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// Who runs, in this order.
    pub contestants: Vec<Contestant>,
    /// What comes out.
    pub figures: Vec<Figure>,
    /// Contestants with the same output must also agree in every byte of it (real clients).
    pub same_output: Vec<(String, String)>,
}

impl Experiment {
    /// In how many of `turns` a contestant has a further run, in which Neap is asked for a summary;
    /// none where it is asked in every run.
    ///
    /// A summary takes a millisecond and some code into memory, which peers do not pay. So where
    /// whole programs are timed, or peaks compared and nothing that a summary tells, it is asked
    /// for apart: as often as the others run, if a figure needs it, or once to know what ran.
    /// Where stops are what is measured, and time is not, it is asked for in every run.
    pub fn turns_apart(&self, contestant: &Contestant, turns: usize) -> usize {
        let any = |is: fn(Metric) -> bool| self.figures.iter().any(|figure| is(figure.metric));
        let is_time = |metric: Metric| metric.has_summary_in_it() && metric != Metric::PeakMb;
        let apart = any(is_time) || any(Metric::has_summary_in_it) && !any(Metric::is_of_summary);
        if !contestant.library.is_neap() || !apart {
            return 0;
        }
        let tells = self.figures.iter().any(|figure| {
            figure.metric.is_of_summary() && figure.draw.labels().contains(&&*contestant.label)
        });
        if tells { turns } else { turns.min(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_asked_for_apart_where_they_would_be_measured() {
        let contestant = |label: &str, library| Contestant {
            label: label.to_owned(),
            library,
            program: label.to_owned(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
        };
        let (ours, peer) = (contestant("neap", Library::Neap), contestant("gc", Library::Libgc));
        let other = contestant("neap.h", Library::NeapInline);
        use Metric::{LongestPauseMs, NsPerObject, PeakMb, ProcessorSeconds, WallSeconds};
        let table: [(&[Metric], usize); 7] = [
            (&[NsPerObject], 0),
            (&[LongestPauseMs], 0),
            (&[LongestPauseMs, PeakMb], 0),
            (&[PeakMb], 1),
            (&[WallSeconds, PeakMb], 1),
            (&[ProcessorSeconds], 1),
            (&[LongestPauseMs, WallSeconds], 5),
        ];
        for (metrics, apart) in table {
            let figure = |metric: &Metric| Figure {
                what: "x".to_owned(),
                metric: *metric,
                draw: Draw::One { ours: "neap".to_owned(), peer: Some("gc".to_owned()) },
                bar: None,
            };
            let experiment = Experiment {
                name: "x".to_owned(),
                contestants: Vec::new(),
                figures: metrics.iter().map(figure).collect(),
                same_output: Vec::new(),
            };
            assert_eq!(experiment.turns_apart(&ours, 5), apart, "{metrics:?}");
            assert_eq!(experiment.turns_apart(&other, 5), apart.min(1), "no figure needs it");
            assert_eq!(experiment.turns_apart(&peer, 5), 0, "others are not asked");
        }
    }

    #[test]
    fn bars_by_table() {
        let table = [
            (Bar::AtMost(0.45), 3.0, Some(0.45), Some(true)),
            (Bar::AtMost(0.45), 3.0, Some(0.46), Some(false)),
            (Bar::AtMost(0.45), 3.0, None, None),
            (Bar::AtLeast(1.8), 3.0, Some(1.81), Some(true)),
            (Bar::AtLeast(1.8), 3.0, Some(1.7), Some(false)),
            (Bar::ValueAtMost(16.0), 15.9, None, Some(true)),
            (Bar::ValueAtMost(16.0), 16.1, Some(0.1), Some(false)),
            (Bar::ValueAtLeast(0.5), 0.6, None, Some(true)),
            (Bar::ValueAtLeast(0.5), 0.4, Some(2.0), Some(false)),
        ];
        for (bar, ours, ratio, met) in table {
            assert_eq!(bar.is_met(ours, ratio), met, "{bar:?} {ours} {ratio:?}");
        }
    }
}
