//! The summary for a terminal.
//!
//! Pure.

use crate::cost::Cost;
use crate::sites::Site;
use crate::summary::{self, Summary};
use crate::unfinished::Unfinished;
use crate::units::{bytes, count, duration, percent};
use neap_record::chunks::Shape;
use neap_record::{KIND_NAMES, Recording};
use std::fmt::Write;

/// Rows of the tables that could be longer.
const MOST_ROWS: usize = 20;
/// Frames of a site.
const MOST_FRAMES: usize = 8;

/// The whole of it.
pub fn text(recording: &Recording, sites: &[Site]) -> String {
    let summary = Summary::of(recording);
    let mut out = String::new();
    head(&mut out, recording, &summary);
    requests(&mut out, &summary);
    table(&mut out, "requests by bin (powers of two)", "bin", &bin_rows(&summary.bins, "pages"));
    table(&mut out, "requests by Neap's cells", "cell", &bin_rows(&summary.classes, "large"));
    threads(&mut out, recording, &summary);
    layouts(&mut out, &summary);
    cycles(&mut out, recording, &summary);
    out.push_str(&allocation_sites(recording, sites));
    out
}

fn head(out: &mut String, recording: &Recording, summary: &Summary) {
    let process = &recording.process;
    let _ = writeln!(out, "program      {}", process.command.join(" "));
    let _ = writeln!(
        out,
        "process      {}, Neap {}, watch {}, {}",
        process.id,
        process.version,
        process.watch,
        match recording.ended_ns {
            Some(_) => format!("ran {}", duration(summary.length_ns)),
            None => did_not_end(summary.length_ns),
        }
    );
    for problem in problems(recording) {
        let _ = writeln!(out, "problem      {problem}");
    }
}

/// What is said of a run whose recording has no end, after so long.
pub fn did_not_end(length_ns: u64) -> String {
    format!("did not end in order: recorded up to {} from its start", duration(length_ns))
}

/// What is wrong with a recording, and what it lacks.
pub fn problems(recording: &Recording) -> Vec<String> {
    let lost = (recording.conditions.lost > 0).then(|| {
        format!(
            "{} stops, steps or cycles came faster than they could be written, and are missing",
            count(recording.conditions.lost)
        )
    });
    recording.problems.iter().cloned().chain(lost).collect()
}

fn requests(out: &mut String, summary: &Summary) {
    let total = &summary.total;
    let _ = writeln!(out, "\nrequests");
    let line = |out: &mut String, name: &str, cost: &Cost| {
        let _ = writeln!(
            out,
            "  {name:<18} {:>15} objects {:>12} requested {:>12} allocated {:>12} wasted ({})",
            count(cost.objects),
            bytes(cost.requested),
            bytes(cost.allocated),
            bytes(cost.wasted()),
            percent(cost.wasted(), cost.allocated),
        );
    };
    line(out, "all", total);
    line(out, "scanned", &summary.scanned);
    line(out, "not scanned", &summary.not_scanned);
    for (name, cost) in KIND_NAMES.iter().zip(&summary.kinds) {
        if cost.objects > 0 {
            line(out, &format!("- {name}"), cost);
        }
    }
    let _ = writeln!(out, "  different sizes    {:>15}", count(summary.different_sizes as u64));
    if summary.padding > 0 {
        let _ = writeln!(out, "  for alignment      {:>15} more allocated", bytes(summary.padding));
    }
    let _ = writeln!(out, "the same requests in powers of two up to 4 KiB, then pages");
    line(out, "as they are", &summary.powers_of_two.conservative);
    line(out, "with type pointers", &summary.powers_of_two.with_type_pointers);
}

fn bin_rows(bins: &[(Option<u64>, Cost)], last: &str) -> Vec<(String, Cost)> {
    bins.iter().map(|(bin, cost)| (bin.map_or(last.to_owned(), count), *cost)).collect()
}

fn table(out: &mut String, title: &str, first: &str, rows: &[(String, Cost)]) {
    let _ = writeln!(
        out,
        "\n{title}\n  {first:>10} {:>15} {:>12} {:>12} {:>12} {:>8}",
        "objects", "requested", "allocated", "wasted", ""
    );
    for (name, cost) in rows {
        let _ = writeln!(
            out,
            "  {name:>10} {:>15} {:>12} {:>12} {:>12} {:>8}",
            count(cost.objects),
            bytes(cost.requested),
            bytes(cost.allocated),
            bytes(cost.wasted()),
            percent(cost.wasted(), cost.allocated),
        );
    }
}

fn threads(out: &mut String, recording: &Recording, summary: &Summary) {
    if summary.threads.len() < 2 {
        return;
    }
    let mut rows = summary.threads.clone();
    rows.sort_by_key(|(_, cost)| core::cmp::Reverse(cost.requested));
    let more = rows.len().saturating_sub(MOST_ROWS);
    let _ = writeln!(out, "\nrequests by thread");
    for (number, cost) in rows.iter().take(MOST_ROWS) {
        let thread = recording.threads.get(number);
        let name = thread.map_or("", |thread| thread.name.as_str());
        let id = thread.map_or(0, |thread| thread.id);
        let _ = writeln!(
            out,
            "  {name:<16} {id:>8} {:>15} objects {:>12}",
            count(cost.objects),
            bytes(cost.requested)
        );
    }
    if more > 0 {
        let _ = writeln!(out, "  and {} more", count(more as u64));
    }
}

fn layouts(out: &mut String, summary: &Summary) {
    if summary.layouts.is_empty() {
        return;
    }
    let _ = writeln!(out, "\ntyped objects by layout");
    let mut rows = summary.layouts.clone();
    rows.sort_by_key(|row| core::cmp::Reverse(row.bytes));
    for row in rows.iter().take(MOST_ROWS) {
        let shape = match row.shape {
            Some(Shape::Bitmap { element_words, pointer_words }) => {
                format!("{pointer_words} of {element_words} words scanned")
            }
            Some(Shape::Prefix { bytes: u64::MAX }) => "all words scanned".to_owned(),
            Some(Shape::Prefix { bytes }) => format!("first {bytes} bytes scanned"),
            Some(Shape::Function) => "scanned by a function".to_owned(),
            None => "not described".to_owned(),
        };
        let _ = writeln!(
            out,
            "  layout {:<6} {shape:<28} {:>15} objects {:>12}, of it never scanned {:>12}{}{}",
            row.number,
            count(row.objects),
            bytes(row.bytes),
            bytes(row.not_scanned),
            if row.name.is_empty() { "" } else { "  " },
            row.name,
        );
    }
    let more = rows.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        let _ = writeln!(out, "  and {} more", count(more as u64));
    }
    let saved = count(summary.words_saved());
    match summary.bytes_per_typed_object() {
        Some(cost) => {
            let _ = writeln!(
                out,
                "  a layout cost {cost:.2} bytes an object, and saved scanning {saved} words"
            );
        }
        None => {
            let _ = writeln!(out, "  layouts saved scanning {saved} words");
        }
    }
}

/// A minor cycle, as `concurrent` numbers it.
const MINOR: u64 = 3;

fn cycles(out: &mut String, recording: &Recording, summary: &Summary) {
    let stops = &summary.stops;
    let cycles = recording.cycles.len() as u64;
    let _ = writeln!(out, "\ncycles");
    let unfinished = Unfinished::of(recording);
    if cycles == 0 && unfinished.is_none() {
        let _ = writeln!(out, "  none");
        return;
    }
    let of_kind = |is: fn(u64) -> bool| {
        recording.cycles.iter().filter(|cycle| is(cycle.concurrent)).count() as u64
    };
    let minor = match of_kind(|kind| kind == MINOR) {
        0 => String::new(),
        minor => format!(", {} of those minor", count(minor)),
    };
    let sum = |of: fn(&neap_record::Cycle) -> u64| summary::sum(recording.cycles.iter().map(of));
    let rescanned = sum(|cycle| cycle.preclean_pages.saturating_add(cycle.remark_pages));
    let _ = writeln!(
        out,
        "  cycles             {:>12}, of them concurrent {}{minor}",
        count(cycles),
        count(of_kind(|kind| kind != 0))
    );
    if let Some(cycle) = unfinished {
        let _ = writeln!(
            out,
            "  did not end        {:>12}: cycle {}, in which the recording ends, with {} stops, \
             together {}",
            1,
            cycle.number,
            count(cycle.stops),
            duration(cycle.stops_ns)
        );
    }
    let _ = writeln!(
        out,
        "  stops              {:>12}, longest {}, 99 of 100 at most {}, half at most {}, all \
         together {} ({} of the run)",
        count(stops.count()),
        duration(stops.max()),
        duration(stops.percentile(0.99)),
        duration(stops.percentile(0.5)),
        duration(stops.total()),
        percent(stops.total(), summary.length_ns),
    );
    let _ = writeln!(
        out,
        "  beside stops       {:>12} in the collector, all threads of the program",
        duration(summary.statistics.assist_total_ns)
    );
    let _ = writeln!(out, "  marking            {:>12}", duration(sum(|cycle| cycle.mark_ns)));
    let _ = writeln!(out, "  marked             {:>12}", bytes(sum(|cycle| cycle.live_bytes)));
    let _ = writeln!(out, "  found dead         {:>12}", bytes(summary.yielded));
    let _ = writeln!(out, "  pages rescanned    {:>12}", count(rescanned));
    if let Some(memory) = summary.memory {
        let _ = writeln!(
            out,
            "  memory, cycle {:<4} {:>12} committed: {} live, {} room until the next cycle is \
             over, {} spare, {} fragmentation; all but the room is {:.2} of live, {:.2} in the \
             median of cycles",
            memory.cycle,
            bytes(memory.committed),
            bytes(memory.live),
            bytes(memory.room),
            bytes(memory.spare),
            bytes(memory.fragmentation),
            memory.beside_room(),
            summary.beside_room,
        );
    }
    let _ = writeln!(out, "  most in use        {:>12}", bytes(summary.statistics.peak_bytes));
}

/// The sites that allocated most; nothing where none were sampled.
pub fn allocation_sites(recording: &Recording, sites: &[Site]) -> String {
    let mut out = String::new();
    if recording.process.sample_bytes == 0 {
        return out;
    }
    let samples = summary::sum(sites.iter().map(|site| site.samples));
    let _ = writeln!(
        out,
        "\nallocation sites (estimated from {} samples, one in {})",
        count(samples),
        bytes(recording.process.sample_bytes)
    );
    for site in sites.iter().take(MOST_ROWS) {
        let _ = writeln!(
            out,
            "  {:>12} allocated {:>12} live {:>15} objects",
            bytes(site.allocated.bytes),
            bytes(site.live.bytes),
            count(site.allocated.objects)
        );
        for frame in site.frames.iter().take(MOST_FRAMES) {
            let _ = writeln!(out, "      {frame}");
        }
    }
    let more = sites.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        let _ = writeln!(out, "  and {} more", count(more as u64));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::sample;

    #[test]
    fn says_what_matters() {
        let text = text(&sample(), &[]);
        for wanted in [
            "program      prog a b",
            "ran 1.00 s",
            "different sizes                  4",
            "a layout cost 0.00 bytes an object, and saved scanning 12 words",
            "1 of 4 words scanned",
            "of it never scanned         96 B  Tide\n",
            "of them concurrent 1\n",
            "longest 2.00 ms",
            "712 B spare, 0 B fragmentation",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in:\n{text}");
        }
    }

    #[test]
    fn minor_cycles_are_told() {
        let mut recording = sample();
        recording.cycles[1].concurrent = MINOR;
        let text = text(&recording, &[]);
        assert!(text.contains("of them concurrent 1, 1 of those minor\n"), "{text}");
    }

    #[test]
    fn a_cycle_that_did_not_end_is_told() {
        let said = text(&crate::unfinished::tests::ends_in_a_cycle(), &[]);
        assert!(said.contains(": cycle 3, in which the recording ends, with 2 stops"), "{said}");
        assert!(!text(&sample(), &[]).contains("did not end  "));
    }

    #[test]
    fn an_empty_recording_is_no_failure() {
        assert!(text(&Recording::default(), &[]).contains("did not end in order"));
    }

    #[test]
    fn sites_are_told_where_there_are_any() {
        use crate::sites::{sites, tests};
        let recording = tests::sampled();
        let text = text(&recording, &sites(&recording, &mut tests::names));
        assert!(text.contains("estimated from 8 samples, one in 1.00 KiB"), "{text}");
        assert!(text.contains("      main (a.c:20)"), "{text}");
    }
}
