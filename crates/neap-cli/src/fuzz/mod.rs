//! What a fuzzer calls: each reader of what comes from outside, with any bytes, and everything that
//! is made of what it read. `NEAP_FUZZ` names the reader.
//!
//! Invariant: bytes alone decide what happens, so a failure comes again. Tests run what is kept in
//! tests/fuzz/corpus, where what a fuzzer found is kept too. Single-threaded.
//!
//! # Safety
//!
//! The fuzzer hands over bytes and their number.

#![allow(unsafe_code)]

use crate::export::{pprof, trace};
use crate::metrics;
use crate::run::libraries;
use crate::symbols::{self, Symbols};
use crate::top::{figures, history::History};
use neap_core::options::{Entry, Options, TABLE};
use neap_record::Recording;
use neap_record::decode::Module;
use neap_record::live::Page;
use neap_report::heap::{self, Analysis, graph::Graph};
use neap_report::sites::{self, Frame};
use neap_report::{compare, csv, json, page, text};
use rustix::fs::MemfdFlags;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// A reader, by its name and the folder of its corpus.
type Reader = (&'static str, fn(&[u8]));

const READERS: &[Reader] = &[
    ("recording", recording),
    ("snapshot", snapshot),
    ("page", live_page),
    ("elf", elf),
    ("options", options),
    ("symbol", symbol),
    #[cfg(fuzzing)]
    ("texts", neap_core::probe::parse_texts),
];

/// Names for addresses that need no file.
fn names(_: &Module, address: u64) -> Vec<Frame> {
    vec![format!("{address:#x}").into()]
}

/// `neap report` and `neap export`.
fn recording(bytes: &[u8]) {
    let Ok(recording) = Recording::read(bytes) else { return };
    let sites = sites::sites(&recording, &mut names);
    let _ = (text::text(&recording, &sites), json::json(&recording, &sites).to_string());
    let _ = (csv::requests(&recording), csv::cycles(&recording), csv::stops(&recording));
    let _ = (page::html(&recording, &sites), trace::write(&recording, &mut std::io::sink()));
    let both = (("a", &recording), ("b", &recording));
    let _ = (compare::text(both.0, both.1), compare::json(both.0, both.1));
    let _ = pprof::profile(&recording, &pprof::Wanted::whole(&recording), &mut names);
}

/// `neap heap`.
fn snapshot(bytes: &[u8]) {
    let variable = &mut |_: &Module, address: u64| Some(format!("{{vtable({address})}}+16"));
    let mut read = || {
        let mut graph = Graph::read(bytes).ok()?;
        graph.name_classes(variable);
        Some(Analysis::new(graph, &mut names))
    };
    let (Some(analysis), Some(other)) = (read(), read()) else { return };
    let largest = analysis.largest(None, 3);
    let _ = heap::text::tables(&analysis, 5);
    let _ = heap::text::paths(&analysis, &largest, variable);
    let _ = heap::text::json(&analysis, Some(&largest), 5, variable).to_string();
    let _ = heap::text::compare(&analysis, &other, 5);
    let _ = heap::text::compare_json(&analysis, &other).to_string();
}

/// `neap top` and `neap metrics`: two pages, one after the other.
fn live_page(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let pages = [first, second].map(|bytes| Page::decode(bytes).ok());
    let mut history = History::new(1, "name", Duration::ZERO);
    for (at, page) in pages.into_iter().flatten().enumerate() {
        let _ = metrics::text(&page, "pid=\"1\"", metrics::Format::OpenMetrics);
        history.add(Duration::from_secs(at as u64 * 50), page);
        let _ = figures::rows(&history);
        let _ = history.rates(10, |page| page.live.used_bytes);
    }
}

/// Names from a file's symbols and debugging information, and what `neap run` asks of a program.
fn elf(bytes: &[u8]) {
    let Ok(memory) = rustix::fs::memfd_create("neap-fuzz", MemfdFlags::CLOEXEC) else { return };
    let mut file = File::from(memory);
    if file.write_all(bytes).is_err() {
        return;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let build_id = symbols::build_id(bytes).unwrap_or_default();
    let module = Module { path: path.clone(), build_id, ..Module::default() };
    let mut symbols = Symbols::default();
    // addr2line adds one to an address, which wraps but for builds that check it.
    for address in [0, 0x1000, 0x1010, 0x1040, u64::MAX - 1] {
        let _ = (symbols.at(&module, address), symbols.variable(&module, address));
    }
    let _ = libraries::uses(Path::new(&path), &[]);
    let _ = libraries::exports(Path::new(&path), "GC_malloc");
}

/// A symbol's name in the words of its language.
fn symbol(bytes: &[u8]) {
    if let Ok(symbol) = str::from_utf8(bytes) {
        let _ = symbols::demangled(symbol);
    }
}

/// Lines NAME=VALUE: set, shown, or told what is wrong with.
fn options(bytes: &[u8]) {
    let mut options = Options::DEFAULT;
    let mut out = String::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let at = line.iter().position(|byte| *byte == b'=').unwrap_or(line.len());
        let (name, value) = (&line[..at], line.get(at + 1..).unwrap_or_default());
        // A path is kept for the life of the process.
        if Entry::find(name).is_some_and(|entry| entry.kind == "path") {
            continue;
        }
        if let Err(error) = options.set(name, value) {
            let _ = error.describe("NEAP_", name, value, &mut out);
        }
    }
    for entry in TABLE.iter().filter(|entry| entry.kind != "path") {
        let _ = (entry.show)(&options, &mut out);
        // What is shown is what may be set.
        let mut shown = String::new();
        let _ = (entry.show)(&options, &mut shown);
        let mut again = Options::DEFAULT;
        assert!(again.set(entry.name.as_bytes(), shown.as_bytes()).is_ok(), "{shown}");
        let mut second = String::new();
        let _ = (entry.show)(&again, &mut second);
        assert_eq!(shown, second, "{}", entry.name);
    }
    let _ = write!(out, "{options:?}");
}

/// libFuzzer's entry.
#[cfg(fuzzing)]
#[unsafe(no_mangle)]
extern "C" fn LLVMFuzzerTestOneInput(bytes: *const u8, length: usize) -> i32 {
    use std::sync::OnceLock;
    static READER: OnceLock<Reader> = OnceLock::new();
    let reader = READER.get_or_init(|| {
        let wanted = std::env::var("NEAP_FUZZ").unwrap_or_default();
        let named = READERS.iter().find(|reader| reader.0 == wanted);
        *named.unwrap_or_else(|| panic!("NEAP_FUZZ={wanted}: no reader has this name"))
    });
    let bytes = match length {
        0 => &[],
        // SAFETY: so many bytes, which stay during the call.
        _ => unsafe { core::slice::from_raw_parts(bytes, length) },
    };
    reader.1(bytes);
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_comes_back_from_what_is_kept_for_it() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus");
        for (name, reader) in READERS {
            let folder = std::fs::read_dir(corpus.join(name)).unwrap();
            let files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
            assert!(!files.is_empty(), "{name}");
            for file in files {
                eprintln!("{}", file.display());
                reader(&std::fs::read(file).unwrap());
            }
        }
    }
}
