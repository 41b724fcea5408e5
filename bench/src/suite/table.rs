//! The suite's tables: every program in every mode with the sums, the bars, and the table of 2014
//! beside ours.
//!
//! Pure but for reading the published figures. Invariant: terminal and Markdown have the same rows.
//! Called by `suite`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::mode::{MODES, OURS, PEER};
use super::record::{Figure, Record, Sample};
use super::{APART, PROGRAMS};
use crate::grid::Grid;
use crate::machine::Machine;
use crate::record::read_json;
use crate::statistics::largest;
use crate::table::three_digits;

/// What was published in 2014 of the same programs on another collector, machine and system:
/// `bench/gcbench/published-2014.json`.
#[derive(Deserialize)]
pub struct Published {
    source: String,
    modes: BTreeMap<String, BTreeMap<String, Line>>,
}

#[derive(Clone, Copy, Deserialize)]
struct Line {
    seconds: f64,
    memory_mb: f64,
    pause_ms: f64,
    max_pause_ms: f64,
}

impl Published {
    /// From the repository.
    pub fn read(root: &Path) -> Result<Self, String> {
        read_json(&root.join("bench/gcbench/published-2014.json"))
    }

    fn line(&self, mode: &str, program: &str) -> Option<Line> {
        self.modes.get(mode)?.get(program).copied()
    }
}

/// Tables for a terminal.
pub fn plain(record: &Record, published: &Published) -> String {
    let [first, second, third] = notes(published);
    let text = [
        head(record),
        programs(record).plain(),
        first,
        second,
        bars(record).plain(),
        third,
        beside(record, published).plain(),
    ];
    text.join("\n") + "\n"
}

/// The same in Markdown.
pub fn markdown(record: &Record, published: &Published) -> String {
    let [first, second, third] = notes(published);
    let text = [
        head(record),
        programs(record).markdown(),
        first,
        second,
        bars(record).markdown(),
        third,
        beside(record, published).markdown(),
    ];
    text.join("\n") + "\n"
}

fn head(record: &Record) -> String {
    let runs = record.samples.values().flat_map(BTreeMap::values).map(Vec::len).min().unwrap_or(0);
    let few = if runs < 5 { ": fewer than the 5 that a figure for the record needs" } else { "" };
    format!(
        "{} (UTC), revision {}. {}. LDC -O3 -release. Medians of at least {runs} runs in \
         turn{few}.\n",
        record.date,
        record.revision,
        Machine::line(&record.machine)
    )
}

fn notes(published: &Published) -> [String; 3] {
    [
        format!(
            "`s` is the wall time of the process, `work` what of it is not start, input and exit. A sum of longest pauses is the longest of all. The collection at exit is in `s` only. `beside ms`: what the program's threads spend in the collector beside pauses; under Neap sweeping, helping, waiting for a cycle, under druntime the sweep. `{APART}` is in no sum. `druntime, disabled` may map 6 GiB and collects when \
             that is used up.\n"
        ),
        "Bars, Neap with `pagemap` against druntime's conservative collector, default options:\n"
            .to_owned(),
        format!(
            "Published in 2014 ({}): its concurrent collector by its stop-the-world one, beside \
             Neap with `pagemap` by druntime's conservative one here. Machines and collectors \
             differ, so only ratios compare.\n",
            published.source.trim_end_matches('.')
        ),
    ]
}

const FIGURES: [Figure; 8] = [
    |sample: &Sample| sample.seconds,
    |sample| sample.processor_seconds,
    |sample| sample.work_seconds,
    |sample| sample.peak_mb,
    |sample| sample.collections,
    |sample| sample.pause_ms,
    |sample| sample.longest_ms,
    |sample| sample.beside_ms,
];
const SECONDS: Figure = FIGURES[0];
const PROCESSOR: Figure = FIGURES[1];
const PEAK: Figure = FIGURES[3];
const PAUSES: Figure = FIGURES[5];
const LONGEST: Figure = FIGURES[6];
const BESIDE: Figure = FIGURES[7];
/// Programs that take longer than this have a bar of their own.
const LONG_SECONDS: f64 = 0.5;

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), three_digits)
}

fn ratio(ours: Option<f64>, peer: Option<f64>) -> Option<f64> {
    Some(ours? / peer.filter(|peer| *peer > 0.0)?)
}

fn programs(record: &Record) -> Grid<10> {
    let columns = [
        ("program", false),
        ("collector", false),
        ("s", true),
        ("processor s", true),
        ("work s", true),
        ("peak MB", true),
        ("collections", true),
        ("pauses ms", true),
        ("longest ms", true),
        ("beside ms", true),
    ];
    let mut rows = Vec::new();
    let mut add = |program: &str, figures: &dyn Fn(&str, Figure) -> Option<f64>| {
        for mode in &MODES {
            let cells = FIGURES.map(|figure| shown(figures(mode.id, figure)));
            if cells.iter().any(|cell| cell != "–") {
                let [first, second] = [program, mode.name].map(str::to_owned);
                let [a, b, c, d, e, f, g, h] = cells;
                rows.push([first, second, a, b, c, d, e, f, g, h]);
            }
        }
    };
    for program in PROGRAMS {
        add(program, &|mode, figure| record.middle(program, mode, figure));
    }
    add("all", &|mode, figure| {
        if std::ptr::fn_addr_eq(figure, LONGEST) {
            record.middles(mode, figure).and_then(|all| largest(&all))
        } else {
            record.sum(mode, figure)
        }
    });
    Grid { columns, rows }
}

fn bars(record: &Record) -> Grid<5> {
    let columns =
        [("what", false), ("ours", true), ("peer's", true), ("ratio", true), ("bar", true)];
    let sum = |mode, figure| record.sum(mode, figure);
    let row = |what: &str, ours: Option<f64>, peer: Option<f64>, bar: &str| {
        [what.to_owned(), shown(ours), shown(peer), shown(ratio(ours, peer)), bar.to_owned()]
    };
    let worst = |figure: Figure, counts: &dyn Fn(f64) -> bool| {
        let pairs = PROGRAMS.iter().filter(|program| **program != APART).filter_map(|program| {
            let [ours, peer] = [OURS, PEER].map(|mode| record.middle(program, mode, figure));
            let long = record.middle(program, PEER, SECONDS)?;
            counts(long).then_some((ratio(ours, peer)?, *program, ours, peer))
        });
        pairs.max_by(|one, other| one.0.total_cmp(&other.0))
    };
    let mut rows =
        vec![row("sum of execution times, s", sum(OURS, SECONDS), sum(PEER, SECONDS), "≤ 0.75")];
    let mut worst_row = |what: &str, figure, counts: &dyn Fn(f64) -> bool, bar: &str| {
        if let Some((_, program, ours, peer)) = worst(figure, counts) {
            rows.push(row(&format!("{what} ({program})"), ours, peer, bar));
        }
    };
    let is_long = |seconds: f64| seconds > LONG_SECONDS;
    worst_row("worst program of more than half a second, s", SECONDS, &is_long, "≤ 1.0");
    worst_row("worst of the rest, s", SECONDS, &|seconds| !is_long(seconds), "≤ 1.1");
    worst_row("most memory beside the peer's, MB", PEAK, &|_| true, "≤ 1.3");
    let sums: [(&str, Figure, &str); 4] = [
        ("sum of peak memory, MB", PEAK, "≤ 1.1"),
        ("sum of processor times, s", PROCESSOR, "≤ 0.9"),
        ("total pause, ms", PAUSES, "≤ 0.05"),
        ("in the collector beside pauses, ms", BESIDE, "≤ 0.5"),
    ];
    rows.extend(
        sums.map(|(what, figure, bar)| row(what, sum(OURS, figure), sum(PEER, figure), bar)),
    );
    let most = |mode| record.most(mode, LONGEST);
    rows.push(row("longest pause of any run, ms", most(OURS), most(PEER), "< 1 ms"));
    rows.push(row(
        "precise against conservative, both Neap, s",
        sum("neap-precise", SECONDS),
        sum(OURS, SECONDS),
        "≤ 1.0",
    ));
    Grid { columns, rows }
}

fn beside(record: &Record, published: &Published) -> Grid<9> {
    let columns = [
        ("program", false),
        ("time, 2014", true),
        ("time, Neap", true),
        ("memory, 2014", true),
        ("memory, Neap", true),
        ("pauses, 2014", true),
        ("pauses, Neap", true),
        ("longest ms, 2014", true),
        ("longest ms, Neap", true),
    ];
    type OfLine = fn(Line) -> f64;
    let figures: [(OfLine, Figure); 3] = [
        (|line| line.seconds, SECONDS),
        (|line| line.memory_mb, PEAK),
        (|line| line.pause_ms, PAUSES),
    ];
    let rows = PROGRAMS.iter().filter_map(|program| {
        let theirs = published.line("concurrent_write_watch", program)?;
        let stopped = published.line("stop_the_world", program)?;
        let mut cells = vec![(*program).to_owned()];
        for (of, figure) in figures {
            cells.push(shown(ratio(Some(of(theirs)), Some(of(stopped)))));
            let [ours, peer] = [OURS, PEER].map(|mode| record.middle(program, mode, figure));
            cells.push(shown(ratio(ours, peer)));
        }
        cells.push(format!("{} → {}", stopped.max_pause_ms, theirs.max_pause_ms));
        let [ours, peer] = [OURS, PEER].map(|mode| shown(record.middle(program, mode, LONGEST)));
        cells.push(format!("{peer} → {ours}"));
        cells.try_into().ok()
    });
    Grid { columns, rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::tests::example;

    fn published() -> Published {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        Published::read(root).expect("the published figures")
    }

    #[test]
    fn every_program_and_mode_has_a_row_and_so_have_the_sums() {
        let grid = programs(&example());
        assert_eq!(grid.rows.len(), (PROGRAMS.len() + 1) * MODES.len());
        let all = grid.rows.iter().find(|row| row[0] == "all").expect("sums");
        assert_eq!(all[2], "42.0");
        assert_eq!(all[3], "84.0");
        assert_eq!(all[8], "0.200", "of longest pauses the longest counts");
    }

    #[test]
    fn bars_are_ratios_of_sums() {
        let grid = bars(&example());
        // Our mode is the sixth, so six times the first.
        assert_eq!(grid.rows[0][1..], ["252", "42.0", "6.00", "≤ 0.75"]);
        assert_eq!(grid.rows.last().expect("precise")[3], "1.33");
        // No program of the example takes half a second or less.
        assert_eq!(grid.rows.len(), 9);
        assert_eq!(grid.rows[4][1..4], ["504", "84.0", "6.00"]);
        assert_eq!(grid.rows[7][1..4], ["1.80", "0.300", "6.00"], "of any run");
    }

    #[test]
    fn what_2014_measured_stands_beside() {
        let grid = beside(&example(), &published());
        assert_eq!(grid.rows.len(), 14, "tree2 is not in the published table");
        let row = grid.rows.iter().find(|row| row[0] == "dlist").expect("dlist");
        assert_eq!((row[1].as_str(), row[2].as_str()), ("0.745", "6.00"));
        assert_eq!(row[7], "19 → 133");
    }

    #[test]
    fn an_unfinished_record_still_prints() {
        let mut record = example();
        record.samples.retain(|program, _| program == "bulk");
        let text = plain(&record, &published());
        assert!(text.contains("bulk") && text.contains('–') && text.contains("fewer than the 5"));
        assert!(markdown(&record, &published()).contains("| bulk | Neap, pagemap |"));
    }
}
