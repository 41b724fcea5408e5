//! Tables for spreadsheets and plotting programs, one after the other, each with a line of names:
//! requests by size, cycles, stops.
//!
//! Invariant: names are those of the declaration in `neap-record`; values are whole numbers, so
//! nothing needs quoting; what is not known of a cycle that did not end is empty. Pure.

use crate::cost::Cells;
use crate::unfinished::Unfinished;
use neap_record::{Cycle, KIND_NAMES, Recording, Span};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Requests by size and kind: one line for each.
pub fn requests(recording: &Recording) -> String {
    let cells = Cells::of(recording);
    let mut rows: BTreeMap<(u64, usize), u64> = BTreeMap::new();
    for (&(_, kind, size), &count) in &recording.counts {
        let sum = rows.entry((size, kind)).or_default();
        *sum = count.saturating_add(*sum);
    }
    let mut out = String::from("size_bytes,kind,objects,requested_bytes,allocated_bytes\n");
    for ((size, kind), count) in rows {
        let cell = cells.cell(size).1;
        let _ = writeln!(
            out,
            "{size},{},{count},{},{}",
            KIND_NAMES[kind],
            size.saturating_mul(count),
            cell.saturating_mul(count)
        );
    }
    out
}

/// Cycles: one line for each; `unfinished` is 1 for the one that the recording ends in.
pub fn cycles(recording: &Recording) -> String {
    let names: Vec<&str> = Cycle::FIGURES.iter().map(|figure| figure.name).collect();
    let mut out = names.join(",") + ",unfinished\n";
    for cycle in &recording.cycles {
        let values: Vec<String> = cycle.values().iter().map(u64::to_string).collect();
        let _ = writeln!(out, "{},0", values.join(","));
    }
    if let Some(cycle) = Unfinished::of(recording) {
        let known = cycle.figures();
        let value = |wanted: &&str| known.iter().find(|(name, _)| name == wanted);
        let values: Vec<String> = names
            .iter()
            .map(|name| value(name).map_or_else(String::new, |(_, value)| value.to_string()))
            .collect();
        let _ = writeln!(out, "{},1", values.join(","));
    }
    out
}

/// Stops: one line for each, in the order in which they were over.
pub fn stops(recording: &Recording) -> String {
    let mut out = String::from("kind,cycle,thread,began_ns,length_ns\n");
    for Span { kind, thread, cycle, began_ns, length_ns } in &recording.stops {
        let _ = writeln!(out, "{},{cycle},{thread},{began_ns},{length_ns}", kind.name());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::sample;

    #[test]
    fn lines_have_as_many_fields_as_names() {
        let recording = sample();
        let tables = [(requests(&recording), 5), (cycles(&recording), 3), (stops(&recording), 4)];
        for (table, lines) in tables {
            let fields: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
            assert_eq!(fields.len(), lines);
            assert!(fields.iter().all(|count| *count == fields[0]));
        }
        assert!(requests(&recording).contains("\n24,conservative,15,360,360\n"));
        let cut = cycles(&crate::unfinished::tests::ends_in_a_cycle());
        let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<_> = cut.lines().map(fields).collect();
        let of = |name: &str| lines[0].iter().position(|known| known == name).unwrap();
        assert_eq!((lines.len(), lines[3].len()), (4, lines[0].len()));
        let row = ["number", "ended_ns", "stops", "stops_ns", "unfinished"].map(of);
        assert_eq!(row.map(|place| lines[3][place].as_str()), ["3", "", "2", "1000", "1"]);
        assert_eq!(lines[2][of("unfinished")], "0");
    }
}
