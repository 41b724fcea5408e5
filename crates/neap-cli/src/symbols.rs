//! Names of functions, files and lines for addresses of recorded programs, from the files' own
//! debugging information and symbols.
//!
//! Invariant: a file that cannot be read, or that is another build than the recorded one, gives no
//! names rather than wrong ones. Single-threaded. Called by `neap report`.

use crate::regular_file;
use addr2line::{Loader, demangle_auto};
use neap_record::decode::Module;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// A program with its debugging information has fewer bytes.
const LARGEST_FILE: u64 = 2 << 30;

/// Files opened so far; None for those without names.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<String, Option<Loader>>,
    /// What is wrong with files, to be said once each.
    pub problems: Vec<String>,
}

impl Symbols {
    /// The functions at an address of a module's file, innermost first.
    pub fn at(&mut self, module: &Module, address: u64) -> Vec<String> {
        if !self.files.contains_key(&module.path) {
            let loader = match open(module) {
                Ok(loader) => Some(loader),
                Err(problem) => {
                    self.problems.push(problem);
                    None
                }
            };
            self.files.insert(module.path.clone(), loader);
        }
        match self.files.get(&module.path) {
            Some(Some(loader)) => names(loader, address),
            _ => Vec::new(),
        }
    }
}

fn open(module: &Module) -> Result<Loader, String> {
    let path = &module.path;
    let no_names = |why: String| format!("{path}: {why}; its functions are shown as addresses");
    if !path.starts_with('/') {
        // The kernel's own object has no file.
        return Err(no_names("no file".to_owned()));
    }
    // A recording may come from anybody, and name any file.
    let bytes = regular_file::read(Path::new(path), LARGEST_FILE)
        .map_err(|error| no_names(error.to_string()))?;
    if build_id(&bytes).unwrap_or_default() != module.build_id {
        return Err(no_names("another build than the one recorded".to_owned()));
    }
    Loader::new(path).map_err(|error| no_names(error.to_string()))
}

fn build_id(file: &[u8]) -> Option<String> {
    let elf = goblin::elf::Elf::parse(file).ok()?;
    let notes = elf.iter_note_headers(file)?;
    let note = notes
        .filter_map(Result::ok)
        .find(|note| note.name == "GNU" && note.n_type == goblin::elf::note::NT_GNU_BUILD_ID)?;
    Some(note.desc.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn names(loader: &Loader, address: u64) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else { continue };
            let Ok(name) = function.demangle() else { continue };
            let place = frame.location.and_then(|location| {
                let file = location.file?.rsplit('/').next()?.to_owned();
                Some(format!(" ({file}:{})", location.line?))
            });
            names.push(format!("{name}{}", place.unwrap_or_default()));
        }
    }
    if names.is_empty()
        && let Some(symbol) = loader.find_symbol(address)
    {
        names.push(demangle_auto(Cow::Borrowed(symbol), None).into_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn function_of_a_known_name() -> usize {
        std::hint::black_box(3)
    }

    fn own() -> (Module, u64) {
        let path = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with(&path)).unwrap();
        let bias = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let build_id = build_id(&std::fs::read(&path).unwrap()).unwrap_or_default();
        let address = function_of_a_known_name as *const () as u64 - bias;
        (Module { path, bias, build_id, ..Module::default() }, address)
    }

    #[test]
    fn names_a_function_of_ours_with_its_file() {
        assert_eq!(function_of_a_known_name(), 3);
        let (module, address) = own();
        let names = Symbols::default().at(&module, address);
        let name = names.last().unwrap();
        assert!(name.contains("function_of_a_known_name (symbols.rs:"), "{names:?}");
    }

    #[test]
    fn what_a_recording_names_is_read_only_if_it_is_a_regular_file() {
        for path in ["/dev/zero", "/dev/stdin", "/proc/self"] {
            let module = Module { path: path.to_owned(), ..Module::default() };
            let mut symbols = Symbols::default();
            assert!(symbols.at(&module, 0).is_empty());
            assert!(symbols.problems[0].contains("functions are shown as"), "{path}");
        }
    }

    #[test]
    fn another_build_gives_no_names_and_says_so() {
        let (mut module, address) = own();
        module.build_id = "00".to_owned();
        let mut symbols = Symbols::default();
        assert!(symbols.at(&module, address).is_empty() && symbols.at(&module, address).is_empty());
        assert_eq!(symbols.problems.len(), 1);
        assert!(symbols.problems[0].contains("another build"), "{:?}", symbols.problems);
    }
}
