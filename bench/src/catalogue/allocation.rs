//! Allocation: an object that is dropped at once, by size, and programs that were written for
//! malloc and free.
//!
//! Pure, like `catalogue`.

use super::{contestant, experiment, figure};
use crate::experiment::{Bar, Experiment, Library, Metric};

/// `alloc` with each size.
pub fn of_each_size(quick: bool) -> impl Iterator<Item = Experiment> {
    [
        (16, 50_000, 1.0),
        (32, 50_000, 1.0),
        (64, 50_000, 1.0),
        (256, 50_000, 2.0),
        (1024, 20_000, 1.0),
        (4096, 10_000, 1.0),
        (64 << 10, 1_000, 1.0),
        (1 << 20, 50, 1.0),
    ]
    .into_iter()
    .map(move |(bytes, thousands, bar)| alloc(bytes, thousands / if quick { 10 } else { 1 }, bar))
}

fn alloc(bytes: usize, thousands: usize, bar: f64) -> Experiment {
    let (size, thousands) = (bytes.to_string(), thousands.to_string());
    let one = [size.as_str(), "1", thousands.as_str()];
    let two = [size.as_str(), "2", thousands.as_str()];
    let contestants = vec![
        contestant("mimalloc", Library::Mimalloc, "alloc-mimalloc", &one),
        contestant("neap.h", Library::NeapInline, "alloc-neap", &one),
        contestant("neap", Library::Neap, "alloc", &one),
        contestant("libgc", Library::Libgc, "alloc", &one),
        contestant("neap.h, 2 threads", Library::NeapInline, "alloc-neap", &two),
        contestant("neap, 2 threads", Library::Neap, "alloc", &two),
    ];
    let what = format!("allocate and drop {bytes} bytes");
    let at_most = Some(Bar::AtMost(bar));
    let twice = Some(Bar::AtLeast(1.8));
    let figures = vec![
        figure(
            &format!("{what}, neap.h: time per object"),
            Metric::NsPerObject,
            "neap.h",
            Some("mimalloc"),
            at_most,
        ),
        figure(
            &format!("{what}, GC_malloc: time per object"),
            Metric::NsPerObject,
            "neap",
            Some("mimalloc"),
            at_most,
        ),
        figure(
            &format!("{what}, GC_malloc: time per object"),
            Metric::NsPerObject,
            "neap",
            Some("libgc"),
            None,
        ),
        figure(
            &format!("{what}, neap.h: rate of 2 threads against 1"),
            Metric::MillionsPerSecond,
            "neap.h, 2 threads",
            Some("neap.h"),
            twice,
        ),
        figure(
            &format!("{what}, GC_malloc: rate of 2 threads against 1"),
            Metric::MillionsPerSecond,
            "neap, 2 threads",
            Some("neap"),
            twice,
        ),
    ];
    experiment(&format!("alloc-{bytes}"), contestants, figures)
}

/// The works of `churn`, and how much of each is some tenths of a second for one thread.
const WORKS: [(&str, usize); 7] = [
    ("larson", 1000),
    ("mstress", 2000),
    ("sh6", 4000),
    ("scratch", 20_000),
    ("xmalloc", 10_000),
    ("espresso", 20_000),
    ("barnes", 400),
];

/// `churn` with each work on 1, 2 and 4 threads: malloc and free, and collectors.
pub fn churn(quick: bool) -> impl Iterator<Item = Experiment> {
    WORKS.into_iter().flat_map(move |(work, scale)| {
        let fits = move |threads: &usize| *threads > 1 || work != "xmalloc";
        [1, 2, 4].into_iter().filter(fits).map(move |threads| {
            // As much in all, however many share it.
            let scale = (scale / threads / if quick { 10 } else { 1 }).to_string();
            let count = threads.to_string();
            let arguments = [work, count.as_str(), scale.as_str()];
            let contestants = [
                ("glibc", Library::Glibc, "churn-glibc"),
                ("mimalloc", Library::Mimalloc, "churn-mimalloc"),
                ("jemalloc", Library::Jemalloc, "churn-jemalloc"),
                ("libgc", Library::Libgc, "churn"),
                ("neap", Library::Neap, "churn"),
                ("neap.h", Library::NeapInline, "churn-neap"),
            ]
            .map(|(label, library, program)| contestant(label, library, program, &arguments));
            let what = format!("{work}, {threads} thread{}", if threads == 1 { "" } else { "s" });
            let row = |text: &str, metric, ours: &str, peer: &str| {
                figure(&format!("{what}: {text}"), metric, ours, Some(peer), None)
            };
            let figures = vec![
                row("wall time against malloc and free", Metric::WallSeconds, "neap.h", "mimalloc"),
                row("processor time", Metric::ProcessorSeconds, "neap.h", "mimalloc"),
                row("peak memory", Metric::PeakMb, "neap.h", "mimalloc"),
                row("wall time", Metric::WallSeconds, "neap", "libgc"),
                row("peak memory", Metric::PeakMb, "neap", "libgc"),
            ];
            experiment(&format!("malloc-{work}-{threads}"), contestants.into(), figures)
        })
    })
}
