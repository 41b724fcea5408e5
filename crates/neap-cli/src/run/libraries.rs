//! Which libraries a program will load, in what order, and whether libgc is among them.
//!
//! Invariant: follows ld.so(8): breadth first over DT_NEEDED; each name searched in DT_RPATH,
//! LD_LIBRARY_PATH, DT_RUNPATH, then the system's folders. Reads files, runs nothing. Called by
//! `run`.

use super::carried::{self, Copy};
use goblin::elf::{Elf, header};
use memchr::memmem;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The library that Neap stands in for.
pub const LIBGC: &str = "libgc.so.1";
const LIBC: &str = "libc.so.6";

/// How a program comes to use libgc.
#[derive(Debug, PartialEq)]
pub enum Uses {
    /// Loads it at start.
    Links {
        /// Before the C library, so that its functions are found before those of the same name
        /// there.
        before_libc: bool,
        /// DT_RPATH leads to this one before LD_LIBRARY_PATH is looked at.
        fixed: Option<PathBuf>,
        /// The one that it gets as things are, if there is any.
        found: Option<PathBuf>,
    },
    /// This file, the program or a library that it loads, has a copy of it inside.
    Carries(PathBuf, Copy),
    /// Holds its name, so that it can open it while running.
    Opens,
    /// Not at all, as far as can be seen.
    No {
        /// The libraries that it loads.
        loads: Vec<String>,
    },
}

/// Why a file cannot be judged.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// Not an ELF program, or a damaged one.
    NotElf(String),
    /// It has no loader: nothing can be put under it.
    Static,
    /// For another processor, or of another word size, than Neap.
    OtherMachine,
}

/// One loaded file's dynamic section, as far as it matters here.
struct Object {
    folder: PathBuf,
    needed: Vec<String>,
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
    loader: Option<Rc<Object>>,
    names_libgc: bool,
    carries: Option<(PathBuf, Copy)>,
}

/// How `program` uses libgc, where `library_path` is LD_LIBRARY_PATH's folders.
pub fn uses(program: &Path, library_path: &[PathBuf]) -> Result<Uses, Refusal> {
    let system = system_folders(Path::new("/etc/ld.so.conf"));
    let mut order: Vec<String> = Vec::new();
    let mut linked = None;
    let mut opens = false;
    let mut carries = None;
    let mut found: HashMap<String, ()> = HashMap::new();
    let mut queue = VecDeque::from([Rc::new(read(program, None)?)]);
    while let Some(object) = queue.pop_front() {
        opens |= object.names_libgc && !object.needed.iter().any(|name| is_libgc(name));
        carries = carries.or_else(|| object.carries.clone());
        for name in &object.needed {
            if found.insert(name.clone(), ()).is_some() {
                continue;
            }
            order.push(name.clone());
            if is_libgc(name) {
                let folders = object.rpaths();
                let fixed =
                    folders.iter().map(|folder| folder.join(LIBGC)).find(|path| path.exists());
                let found = object.candidates(name, library_path, &system);
                let found = found.into_iter().find(|path| path.exists());
                linked = Some((order.len(), fixed, found));
                continue;
            }
            // One that is not found stops the program's start; that is the loader's to say.
            let candidates = object.candidates(name, library_path, &system);
            let mut readable =
                candidates.iter().filter_map(|path| read(path, Some(object.clone())).ok());
            queue.extend(readable.next().map(Rc::new));
        }
    }
    let libc = order.iter().position(|name| name == LIBC).map_or(usize::MAX, |index| index + 1);
    Ok(match linked {
        Some((position, fixed, found)) => {
            Uses::Links { before_libc: position < libc, fixed, found }
        }
        None => match carries {
            Some((file, copy)) => Uses::Carries(file, copy),
            None if opens => Uses::Opens,
            None => Uses::No { loads: order },
        },
    })
}

/// The libgc that a program gets which opens it late, where `library_path` is LD_LIBRARY_PATH's
/// folders and nothing else says where to look.
pub fn opened(library_path: &[PathBuf]) -> Option<PathBuf> {
    let system = system_folders(Path::new("/etc/ld.so.conf"));
    let mut paths = library_path.iter().chain(&system).map(|folder| folder.join(LIBGC));
    paths.find(|path| path.exists())
}

/// Whether the library at `path` defines this function for others.
pub fn exports(path: &Path, function: &str) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    let Ok(elf) = Elf::parse(&bytes) else { return false };
    let mut symbols = elf.dynsyms.iter();
    symbols
        .any(|symbol| !symbol.is_import() && elf.dynstrtab.get_at(symbol.st_name) == Some(function))
}

fn is_libgc(name: &str) -> bool {
    name.rsplit('/').next() == Some(LIBGC)
}

impl Object {
    /// DT_RPATH of this object and of those that loaded it; none if it has DT_RUNPATH.
    fn rpaths(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let mut next = Some(self);
        while let Some(object) = next {
            if object.runpath.is_empty() {
                folders.extend(object.rpath.iter().cloned());
            } else if std::ptr::eq(object, self) {
                return folders;
            }
            next = object.loader.as_deref();
        }
        folders
    }

    /// Where a needed library can be, best first.
    fn candidates(&self, name: &str, library_path: &[PathBuf], system: &[PathBuf]) -> Vec<PathBuf> {
        if name.contains('/') {
            return vec![self.expand(name)];
        }
        let rpaths = self.rpaths();
        let folders = rpaths.iter().chain(library_path).chain(&self.runpath).chain(system);
        folders.map(|folder| folder.join(name)).filter(|path| path.exists()).collect()
    }

    fn expand(&self, text: &str) -> PathBuf {
        let folder = self.folder.to_string_lossy();
        text.replace("${ORIGIN}", &folder).replace("$ORIGIN", &folder).into()
    }
}

fn read(path: &Path, loader: Option<Rc<Object>>) -> Result<Object, Refusal> {
    let not_elf = |error: &dyn std::fmt::Display| Refusal::NotElf(error.to_string());
    let bytes = std::fs::read(path).map_err(|error| not_elf(&error))?;
    let elf = Elf::parse(&bytes).map_err(|error| not_elf(&error))?;
    if !is_our_machine(&elf) {
        return Err(Refusal::OtherMachine);
    }
    if loader.is_none() && elf.interpreter.is_none() {
        return Err(Refusal::Static);
    }
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut object = Object {
        folder: real.parent().unwrap_or(Path::new("/")).to_path_buf(),
        needed: elf.libraries.iter().map(|name| (*name).to_owned()).collect(),
        rpath: Vec::new(),
        runpath: Vec::new(),
        names_libgc: memmem::find(&bytes, LIBGC.as_bytes()).is_some(),
        carries: carried::copy(&elf, &bytes, loader.is_none()).map(|copy| (path.into(), copy)),
        loader,
    };
    let folders = |paths: &[&str]| -> Vec<PathBuf> {
        let parts = paths.iter().flat_map(|path| path.split(':'));
        parts.filter(|part| !part.is_empty()).map(|part| object.expand(part)).collect()
    };
    let (rpath, runpath) = (folders(&elf.rpaths), folders(&elf.runpaths));
    (object.rpath, object.runpath) = (rpath, runpath);
    Ok(object)
}

fn is_our_machine(elf: &Elf<'_>) -> bool {
    let ours = match std::env::consts::ARCH {
        "x86_64" => header::EM_X86_64,
        "aarch64" => header::EM_AARCH64,
        "riscv64" => header::EM_RISCV,
        _ => elf.header.e_machine,
    };
    elf.header.e_machine == ours && elf.is_64 == cfg!(target_pointer_width = "64")
}

/// The folders that the system's configuration names, then those built into the loader.
fn system_folders(configuration: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    read_configuration(configuration, &mut folders, 0);
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    for folder in ["/lib", "/usr/lib"] {
        folders.push(Path::new(folder).join(&multiarch));
        folders.push(folder.into());
        folders.push(format!("{folder}64").into());
    }
    folders
}

/// Reads one file in the manner of ld.so.conf; `depth` bounds files that include each other.
fn read_configuration(file: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(pattern) = line.strip_prefix("include").filter(|_| depth < 4) else {
            if line.starts_with('/') {
                folders.push(line.into());
            }
            continue;
        };
        // The only pattern in use is a folder's *.conf.
        let pattern = file.parent().unwrap_or(Path::new("/")).join(pattern.trim());
        let Some((folder, name)) = pattern.parent().zip(pattern.file_name()) else { continue };
        let ending = name.to_string_lossy().trim_start_matches('*').to_owned();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(&ending));
        files.sort();
        files.iter().for_each(|path| read_configuration(path, folders, depth + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A folder with a stand-in for libgc, and what the tests build beside it.
    struct Built(tempfile::TempDir);

    impl Built {
        fn new() -> Built {
            let built = Built(tempfile::TempDir::new().unwrap());
            built.cc(
                "void GC_init(void) {}",
                LIBGC,
                &["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"],
            );
            built
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn cc(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
            let input = self.path("input.c");
            std::fs::write(&input, source).unwrap();
            let mut command = Command::new("cc");
            command.current_dir(self.0.path()).arg("-Wl,--no-as-needed").arg("input.c");
            let status = command.args(["-o", name]).args(flags).status().expect("cc is installed");
            assert!(status.success());
            self.path(name)
        }

        fn uses(&self, program: &Path) -> Result<Uses, Refusal> {
            uses(program, &[self.0.path().to_path_buf()])
        }
    }

    const MAIN: &str = "int main(void) { return 0; }";

    #[test]
    fn a_direct_need_comes_before_the_c_library() {
        let built = Built::new();
        let program = built.cc(MAIN, "program", &["-L.", "-l:libgc.so.1"]);
        let found = Some(built.path(LIBGC));
        let links = Uses::Links { before_libc: true, fixed: None, found };
        assert_eq!(built.uses(&program), Ok(links));
    }

    #[test]
    fn a_need_of_a_library_comes_after_it() {
        let built = Built::new();
        let shared = ["-shared", "-fPIC", "-L.", "-l:libgc.so.1"];
        built.cc("int f(void) { return 0; }", "libmiddle.so", &shared);
        let program =
            built.cc(MAIN, "program", &["-L.", "-lmiddle", "-Wl,--allow-shlib-undefined"]);
        let found = Some(built.path(LIBGC));
        let links = Uses::Links { before_libc: false, fixed: None, found };
        assert_eq!(built.uses(&program), Ok(links));
    }

    #[test]
    fn rpath_fixes_the_library_and_runpath_does_not() {
        let built = Built::new();
        let rpath = ["-L.", "-l:libgc.so.1", "-Wl,--disable-new-dtags,-rpath,$ORIGIN"];
        let program = built.cc(MAIN, "program", &rpath);
        let fixed = Some(std::fs::canonicalize(built.path(LIBGC)).unwrap());
        let links = Uses::Links { before_libc: true, fixed: fixed.clone(), found: fixed };
        assert_eq!(built.uses(&program), Ok(links));
        let runpath = ["-L.", "-l:libgc.so.1", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"];
        let program = built.cc(MAIN, "program", &runpath);
        let found = Some(built.path(LIBGC));
        let links = Uses::Links { before_libc: true, fixed: None, found };
        assert_eq!(built.uses(&program), Ok(links));
    }

    #[test]
    fn a_need_that_is_a_path_leads_to_that_file_or_to_none() {
        let built = Built::new();
        built.cc("void GC_init(void) {}", LIBGC, &["-shared", "-fPIC"]);
        let program = built.cc(MAIN, "program", &["./libgc.so.1"]);
        std::fs::remove_file(built.path(LIBGC)).unwrap();
        let links = Uses::Links { before_libc: true, fixed: None, found: None };
        assert_eq!(built.uses(&program), Ok(links));
    }

    #[test]
    fn a_program_that_holds_the_name_opens_it() {
        let built = Built::new();
        let source = "#include <stdio.h>\nint main(void) { puts(\"libgc.so.1\"); }";
        let program = built.cc(source, "program", &[]);
        assert_eq!(built.uses(&program), Ok(Uses::Opens));
    }

    #[test]
    fn copies_inside_are_seen_and_whether_they_can_be_replaced() {
        let built = Built::new();
        let copy = "#include <stdlib.h>
            void *GC_malloc(size_t n) { return getenv(\"GC_INITIAL_HEAP_SIZE\") ? 0 : malloc(n); }
            void *allocate(void) { return GC_malloc(8); }";
        let link = ["-L.", "-lhost"];
        let library = built.path("libhost.so");
        for (flags, wanted) in [
            (&["-fPIC"][..], Copy::Replaceable),
            (&["-fPIC", "-Wl,-Bsymbolic"], Copy::Within),
            (&["-fPIC", "-fvisibility=hidden"], Copy::Within),
        ] {
            built.cc(copy, "libhost.so", &[&["-O0", "-shared"], flags].concat());
            let program = built.cc(MAIN, "program", &link);
            let uses = built.uses(&program);
            assert_eq!(uses, Ok(Uses::Carries(library.clone(), wanted)), "{flags:?}");
        }
        let main = format!("{copy}\n{MAIN}");
        for flags in [&["-rdynamic"][..], &[]] {
            let program = built.cc(&main, "program", flags);
            assert_eq!(built.uses(&program), Ok(Uses::Carries(program, Copy::Within)));
        }
        // One that has it from libgc, and asks for the variable itself.
        let caller = format!("void GC_malloc(void); {}", MAIN.replace('{', "{ GC_malloc();"));
        built.cc("void GC_malloc(void) {}", LIBGC, &["-shared", "-fPIC"]);
        let program = built.cc(&caller, "program", &["-L.", "-l:libgc.so.1"]);
        assert!(matches!(built.uses(&program), Ok(Uses::Links { .. })));
    }

    #[test]
    fn others_do_not_use_it_or_cannot() {
        let built = Built::new();
        let found = built.uses(&built.cc(MAIN, "program", &[]));
        let Ok(Uses::No { loads }) = found else { panic!("{found:?}") };
        assert!(loads.iter().any(|name| name == LIBC), "{loads:?}");
        assert_eq!(built.uses(&built.cc(MAIN, "static", &["-static"])), Err(Refusal::Static));
        let text = built.path("text");
        std::fs::write(&text, "no program").unwrap();
        assert!(matches!(built.uses(&text), Err(Refusal::NotElf(_))));
    }

    #[test]
    fn exports_are_what_is_defined_for_others() {
        let built = Built::new();
        let source = "extern void g(void); void f(void) { g(); } static void h(void) {}";
        let library = built.cc(source, "libx.so", &["-shared", "-fPIC", "-Wno-unused-function"]);
        assert!(exports(&library, "f"));
        assert!(!exports(&library, "g"));
        assert!(!exports(&library, "h"));
        assert!(!exports(Path::new("/absent"), "f"));
    }

    #[test]
    fn the_systems_configuration_is_followed() {
        let built = Built::new();
        std::fs::create_dir(built.path("conf.d")).unwrap();
        std::fs::write(built.path("conf.d/b.conf"), "/from/b # why\n").unwrap();
        std::fs::write(built.path("conf.d/a.conf"), "# why\n/from/a\n").unwrap();
        std::fs::write(built.path("conf.d/c.other"), "/from/c\n").unwrap();
        std::fs::write(built.path("ld.so.conf"), "include conf.d/*.conf\n/own\n").unwrap();
        let folders = system_folders(&built.path("ld.so.conf"));
        let wanted = ["/from/a", "/from/b", "/own"].map(PathBuf::from);
        assert_eq!(folders[..3], wanted);
        assert!(folders.contains(&"/usr/lib".into()));
    }
}
