//! neap-observe-tests FILE: opens a heap snapshot with the parser of Visual Studio Code, and prints
//! for each name how many objects have it and how many bytes they are, then what the root retains.
//!
//! Single-threaded. Called by tests/observe/run.sh.

use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("usage: neap-observe-tests FILE");
        return ExitCode::from(2);
    };
    let text = match std::fs::read(&file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let graph = match v8_heap_parser::decode_slice(&text) {
        Ok(graph) => graph,
        Err(error) => {
            eprintln!("{file}: {error:?}");
            return ExitCode::FAILURE;
        }
    };
    let mut names: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for node in graph.iter() {
        let sum = names.entry(node.name().to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + node.self_size);
    }
    for (name, (count, bytes)) in names {
        println!("{count} {bytes} {name}");
    }
    println!("retained {}", graph.retained_size(graph.root_index));
    ExitCode::SUCCESS
}
