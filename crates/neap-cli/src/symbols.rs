//! Names of functions, files and lines for addresses of recorded programs, from the files' own
//! debugging information and symbols, and from debugging files apart from them.
//!
//! Invariant: a file that cannot be read, or that is another build than the recorded one, gives no
//! names rather than wrong ones; so does code that no symbol's size reaches to. Single-threaded.
//! Called by `neap report`, `neap export` and `neap heap`.

mod d_names;
mod debug_files;

use crate::regular_file;
use addr2line::{Loader, demangle_auto};
use goblin::elf::sym::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use goblin::elf::{Elf, Sym, Symtab};
use goblin::strtab::Strtab;
use neap_record::decode::Module;
use neap_report::sites::Frame;
use std::borrow::Cow;
use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};

/// A program with its debugging information has fewer bytes.
const LARGEST_FILE: u64 = 2 << 30;
/// Symbols that overlap are looked through so far: a function within another one's bytes.
const NESTED: usize = 8;

/// Files opened so far; None for those without names.
#[derive(Default)]
pub struct Symbols {
    /// By path and build id: another file may come to a path.
    files: HashMap<(String, String), Option<Named>>,
    /// What is wrong with files, to be said once each.
    pub problems: Vec<String>,
}

/// A file whose code has names.
struct Named {
    /// Debugging information: its own, or that of the file apart.
    lines: Loader,
    functions: Functions,
    variables: Functions,
}

/// Symbols of functions, or of variables: where one begins and ends, and its name, sorted.
#[derive(Default)]
struct Functions(Vec<(u64, u64, String)>);

impl Symbols {
    /// The functions at an address of a module's file, innermost first.
    pub fn at(&mut self, module: &Module, address: u64) -> Vec<Frame> {
        self.named(module).map(|named| named.at(address)).unwrap_or_default()
    }

    /// The variable at an address of a module's file, and how far in it, if not at its start.
    pub fn variable(&mut self, module: &Module, address: u64) -> Option<String> {
        let (start, name) = self.named(module)?.variables.at(address)?;
        let name = demangled(name);
        Some(match address - start {
            0 => name,
            within => format!("{name}+{within}"),
        })
    }

    fn named(&mut self, module: &Module) -> Option<&Named> {
        let key = (module.path.clone(), module.build_id.clone());
        if !self.files.contains_key(&key) {
            let named = match open(module) {
                Ok(named) => Some(named),
                Err(problem) => {
                    self.problems.push(problem);
                    None
                }
            };
            self.files.insert(key.clone(), named);
        }
        self.files.get(&key)?.as_ref()
    }
}

/// What a symbol stands for, in the words of its language.
pub fn demangled(symbol: &str) -> String {
    let in_d = d_names::demangle(symbol);
    in_d.unwrap_or_else(|| demangle_auto(Cow::Borrowed(symbol), None).into_owned())
}

/// Crates of the library that are linked into programs.
const CRATES: [&str; 4] = ["neap", "neap-core", "neap-c", "neap-bdw"];

/// Its headers, whose functions are compiled into programs.
const HEADERS: [&str; 2] = ["/neap.h", "/neap.hpp"];

/// Whether a source file is one of the library's: a header, in its tree, or of a version that a
/// registry has. Of functions that were inlined the names alone do not say whose they are.
fn is_of_library(source: &str) -> bool {
    if HEADERS.iter().any(|header| source.ends_with(header)) {
        return true;
    }
    source.match_indices("/src/").any(|(at, _)| {
        let folder = &source[..at];
        let name = folder.rsplit('/').next().unwrap_or_default();
        let in_tree = |name: &str| folder == name || folder.ends_with(&format!("/{name}"));
        CRATES.into_iter().any(|of| {
            let version = name.strip_prefix(of).and_then(|rest| rest.strip_prefix('-'));
            in_tree(&format!("crates/{of}"))
                || version
                    .is_some_and(|version| version.starts_with(|sign: char| sign.is_ascii_digit()))
        })
    })
}

fn open(module: &Module) -> Result<Named, String> {
    let path = &module.path;
    let no_names = |why: String| format!("{path}: {why}; its functions are shown as addresses");
    let bytes = read(module).map_err(no_names)?;
    let (mut functions, mut variables) = (Functions::default(), Functions::default());
    let mut add = |bytes: &[u8]| {
        functions.add(bytes, &[STT_FUNC, STT_GNU_IFUNC]);
        variables.add(bytes, &[STT_OBJECT]);
    };
    add(&bytes);
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let apart = debug_files::find(Path::new(path), &bytes, &module.build_id, &variable);
    let lines = apart.and_then(|(apart, bytes)| {
        add(&bytes);
        Loader::new(&apart).ok()
    });
    functions.0.sort_unstable();
    variables.0.sort_unstable();
    let lines = match lines {
        Some(lines) => lines,
        None => Loader::new(path).map_err(|error| no_names(error.to_string()))?,
    };
    Ok(Named { lines, functions, variables })
}

/// A module's file, if it is the one that was recorded; else why not.
pub fn read(module: &Module) -> Result<Vec<u8>, String> {
    if !module.path.starts_with('/') {
        // The kernel's own object has no file.
        return Err("no file".to_owned());
    }
    // A recording may come from anybody, and name any file.
    let bytes = regular_file::read(Path::new(&module.path), LARGEST_FILE)
        .map_err(|error| error.to_string())?;
    match build_id(&bytes).unwrap_or_default() == module.build_id {
        true => Ok(bytes),
        false => Err("another build than the one recorded".to_owned()),
    }
}

/// A file's build id, in hexadecimal.
pub fn build_id(file: &[u8]) -> Option<String> {
    let elf = Elf::parse(file).ok()?;
    let notes = elf.iter_note_headers(file)?;
    let note = notes
        .filter_map(Result::ok)
        .find(|note| note.name == "GNU" && note.n_type == goblin::elf::note::NT_GNU_BUILD_ID)?;
    Some(note.desc.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Functions {
    /// Adds those of a file that are of one of these types.
    fn add(&mut self, file: &[u8], types: &[u8]) {
        let Ok(elf) = Elf::parse(file) else { return };
        self.add_table(&elf.syms, &elf.strtab, types);
        self.add_table(&elf.dynsyms, &elf.dynstrtab, types);
    }

    fn add_table(&mut self, symbols: &Symtab<'_>, names: &Strtab<'_>, types: &[u8]) {
        let is_wanted = |symbol: &Sym| types.contains(&symbol.st_type()) && symbol.st_shndx != 0;
        self.0.extend(symbols.iter().filter(is_wanted).filter_map(|symbol| {
            let name = names.get_at(symbol.st_name)?.to_owned();
            Some((symbol.st_value, symbol.st_value.checked_add(symbol.st_size)?, name))
        }));
    }

    /// The one that the address is in: where it begins, and its name.
    fn at(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.0.partition_point(|(start, ..)| *start <= address);
        let near = self.0[..after].iter().rev().take(NESTED);
        let found = near.into_iter().find(|(_, end, _)| address < *end)?;
        Some((found.0, found.2.as_str()))
    }
}

impl Named {
    fn at(&self, address: u64) -> Vec<Frame> {
        let mut found = Vec::new();
        if let Ok(mut frames) = self.lines.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(function) = frame.function else { continue };
                let Ok(name) = function.raw_name() else { continue };
                let file = frame.location.as_ref().and_then(|location| location.file);
                let is_library = file.is_some_and(is_of_library);
                let place = frame.location.and_then(|location| {
                    Some((location.file?.rsplit('/').next()?.to_owned(), location.line?))
                });
                found.push(Frame { function: demangled(&name), place, is_library });
            }
        }
        let symbol = self.functions.at(address).map(|(_, symbol)| demangled(symbol));
        match (found.last_mut(), symbol) {
            (None, Some(symbol)) => found.push(symbol.into()),
            // Where debugging information has lines only, it has names without their paths.
            (Some(outermost), Some(symbol))
                if symbol.ends_with(&format!("::{}", outermost.function)) =>
            {
                outermost.function = symbol;
            }
            _ => {}
        }
        found
    }
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
        let name = names.last().unwrap().to_string();
        let wanted = "symbols::tests::function_of_a_known_name (symbols.rs:";
        assert!(name.contains(wanted), "{names:?}");
    }

    #[test]
    fn sources_of_the_library_by_table() {
        for (source, is) in [
            ("/home/a/neap/crates/neap-core/src/runtime/allocation.rs", true),
            ("crates/neap/src/gc.rs", true),
            ("/home/a/.cargo/registry/src/index-0/neap-0.1.0/src/memory/cells.rs", true),
            ("/home/a/.cargo/registry/src/index-0/neap-core-0.1.0/src/api.rs", true),
            ("/usr/include/neap.hpp", true),
            ("/usr/include/neap.h", true),
            ("/home/a/src/cheneap.h", false),
            ("/home/a/neap/examples/rust/src/bin/trees.rs", false),
            ("/home/a/neap/src/main.rs", false),
            ("/home/a/crates/neap-like/src/main.rs", false),
            ("src/main.rs", false),
            ("main.c", false),
        ] {
            assert_eq!(is_of_library(source), is, "{source}");
        }
    }

    /// By which `neap heap` knows objects of a class.
    #[test]
    fn tables_of_methods_are_named_by_their_class() {
        assert_eq!(demangled("_ZTVN5shape6CircleE"), "{vtable(shape::Circle)}");
        assert_eq!(demangled("_D5shape6Circle6__vtblZ"), "shape.Circle.__vtbl");
    }

    #[test]
    fn a_name_reaches_as_far_as_its_size() {
        let function = |start, end, name: &str| (start, end, name.to_owned());
        let functions = Functions(vec![
            function(0x100, 0x142, "exported"),
            function(0x200, 0x400, "outer"),
            function(0x300, 0x310, "within"),
            function(0x500, 0x500, "no size"),
        ]);
        for (address, name) in [
            (0xff, None),
            (0x100, Some("exported")),
            (0x141, Some("exported")),
            (0x142, None),
            (0x308, Some("within")),
            (0x310, Some("outer")),
            (0x500, None),
        ] {
            assert_eq!(functions.at(address).map(|(_, name)| name), name, "{address:#x}");
        }
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
