//! A program as a recording tells it: the table of cycles that `neap report --csv=cycles` prints of
//! a run with `watch=none`, in which every cycle is exact about what lives, and with so small a
//! `growth` that there are many.
//!
//! Lines that begin with `#` hold a name and a number each: `threads`, `pages_per_ms`, and after
//! `recorded` what a run with the usual settings came to, to compare with.

use std::collections::BTreeMap;
use std::path::Path;

use crate::program::{Program, Stretch};

/// A program, and what was recorded of it under the usual settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The program.
    pub program: Program,
    /// Figures of the recorded run, by their names.
    pub recorded: BTreeMap<String, f64>,
}

/// The traces in `bench/scaling/traces`.
pub fn kept() -> Result<Vec<Trace>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let files = std::fs::read_dir(&folder).map_err(|error| format!("{folder:?}: {error}"))?;
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    paths.iter().map(|path| open(path)).collect()
}

/// Reads the file.
pub fn open(path: &Path) -> Result<Trace, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path:?}: {error}"))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    read(&name, &text)
}

/// Reads one; an error names the line.
pub fn read(name: &str, text: &str) -> Result<Trace, String> {
    let mut notes = BTreeMap::new();
    let mut recorded = BTreeMap::new();
    let mut columns: Option<Columns> = None;
    let mut stretches = Vec::new();
    let mut before_ns = 0.0;
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("{name}, line {}: {what}", number + 1);
        if let Some(note) = line.strip_prefix('#') {
            let words: Vec<&str> = note.split_whitespace().collect();
            match words[..] {
                ["recorded", figure, value] => insert(&mut recorded, figure, value),
                [figure, value] => insert(&mut notes, figure, value),
                _ => {}
            }
            continue;
        }
        let Some(columns) = &columns else {
            columns = Some(Columns::of(line).ok_or_else(|| wrong("a column is missing"))?);
            continue;
        };
        // Of a cycle that did not end not everything is known.
        if line.split(',').any(str::is_empty) {
            continue;
        }
        let row = columns.row(line).ok_or_else(|| wrong("not a row of numbers"))?;
        let [ended_ns, stops_ns, mark_ns, markers, bytes, live] = row;
        if bytes > 0.0 {
            let program_ns = (ended_ns - before_ns - stops_ns).max(1.0);
            let mark_byte_ns = mark_ns * markers / live.max(1.0);
            stretches.push(Stretch { bytes, live, program_ns, mark_byte_ns });
        }
        before_ns = ended_ns;
    }
    if stretches.is_empty() {
        return Err(format!("{name}: no cycle"));
    }
    let noted = |figure: &str| notes.get(figure).copied();
    let program = Program {
        name: name.to_string(),
        threads: noted("threads").map_or(1, |threads| threads as usize),
        stretches,
        unmeasured: 0,
        pages_per_ms: noted("pages_per_ms").unwrap_or(0.0),
    };
    Ok(Trace { program, recorded })
}

fn insert(to: &mut BTreeMap<String, f64>, figure: &str, value: &str) {
    if let Ok(value) = value.parse() {
        to.insert(figure.to_string(), value);
    }
}

/// Where the columns are that a trace needs.
struct Columns([usize; 6]);

impl Columns {
    fn of(line: &str) -> Option<Self> {
        let names: Vec<&str> = line.split(',').collect();
        let at = |wanted: &str| names.iter().position(|name| *name == wanted);
        let [ended, stops] = [at("ended_ns")?, at("stops_ns")?];
        let [mark, markers] = [at("mark_ns")?, at("markers")?];
        Some(Self([ended, stops, mark, markers, at("allocated_bytes")?, at("live_bytes")?]))
    }

    fn row(&self, line: &str) -> Option<[f64; 6]> {
        let values: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        let mut row = [0.0; 6];
        for (value, column) in row.iter_mut().zip(self.0) {
            *value = *values.get(column)?;
        }
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# program\n# threads 2\n# recorded cycles 7\n\
        number,ended_ns,stops_ns,mark_ns,markers,allocated_bytes,live_bytes\n\
        1,1000,100,50,2,500,100\n2,3000,500,50,2,1000,200\n";

    #[test]
    fn the_table_of_cycles_is_a_program() {
        let trace = read("two", TEXT).unwrap();
        assert_eq!((trace.program.threads, trace.recorded["cycles"]), (2, 7.0));
        let last = Stretch { bytes: 1000.0, live: 200.0, program_ns: 1500.0, mark_byte_ns: 0.5 };
        assert_eq!(trace.program.stretches[1], last);
        assert_eq!(trace.program.bytes(), 1500.0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(read("a", "ended_ns\n").unwrap_err(), "a, line 1: a column is missing");
        assert!(read("a", &TEXT.replace("3000", "x")).unwrap_err().contains("line 6"));
        assert_eq!(read("a", "").unwrap_err(), "a: no cycle");
    }
}
