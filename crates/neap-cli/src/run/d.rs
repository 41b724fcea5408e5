//! D programs: where one has its runtime (druntime), and what is done for it to run on Neap.
//!
//! Invariant: what is preloaded finds the right package by itself; here it is only made sure that
//! there is one, so that the user hears why not. Reads files, runs nothing. Called by `run`.

use crate::Failure;
use crate::prefix::Prefix;
use goblin::elf::Elf;
use memchr::memmem;
use std::path::Path;

/// Chooses the collector where neither the program nor its command line does; the package reads it.
pub const CHOICE: &str = "NEAPD_GC";
/// The library that is preloaded.
pub const PRELOADED: &str = "libneapd.so";

/// What a D program needs.
#[derive(Debug, PartialEq)]
pub enum Needs {
    /// The package, preloaded.
    Preloading,
    /// The package is in it already.
    Choosing,
}

/// A compiler, the beginnings of its shared runtime's name, and the package for that.
struct Compiler {
    name: &'static str,
    runtimes: &'static [&'static str],
    package: &'static str,
}

const COMPILERS: [Compiler; 2] = [
    Compiler {
        name: "ldc2",
        runtimes: &["libdruntime-ldc-shared.so", "libdruntime-ldc-debug-shared.so"],
        package: "libneapd-ldc.so",
    },
    Compiler {
        name: "gdc",
        runtimes: &["libgdruntime.so", "libgphobos.so"],
        package: "libneapd-gdc.so",
    },
];

/// What the program needs, which loads these libraries; None if it is not in D.
pub fn needs(program: &Path, loads: &[String], prefix: &Prefix) -> Result<Option<Needs>, Failure> {
    let shown = program.display();
    let of_runtime = |name: &str, compiler: &Compiler| {
        compiler.runtimes.iter().any(|runtime| name.starts_with(runtime))
    };
    let Ok(bytes) = std::fs::read(program) else { return Ok(None) };
    if memmem::find(&bytes, CHOICE.as_bytes()).is_some() {
        return Ok(Some(Needs::Choosing));
    }
    for compiler in COMPILERS {
        let Some(runtime) = loads.iter().find(|name| of_runtime(name, &compiler)) else { continue };
        let package = prefix.libraries().join(compiler.package);
        let Ok(package) = std::fs::read(&package) else {
            return Err(Failure::usage(format!(
                "{shown} is a program of {0}, and this Neap was built without {0}: install that, \
                 and build Neap again",
                compiler.name
            )));
        };
        let needed = Elf::parse(&package).map(|elf| elf.libraries).unwrap_or_default();
        if needed
            .iter()
            .any(|name| loads.iter().any(|loaded| loaded == name) && of_runtime(name, &compiler))
        {
            return Ok(Some(Needs::Preloading));
        }
        let built_for = needed.into_iter().find(|name| of_runtime(name, &compiler));
        return Err(Failure::usage(format!(
            "{shown} loads {runtime}, and this Neap was built for {}: build it with the {} that \
             made the program",
            built_for.unwrap_or("none"),
            compiler.name
        )));
    }
    if !is_in_d(&bytes) {
        return Ok(None);
    }
    Err(Failure::usage(format!(
        "{shown} has D's runtime linked into it, where no other collector can be put under it. \
         Link it with the shared one (ldc2 -link-defaultlib-shared, gdc -shared-libphobos) to run \
         it so, or build it with `ldc2 … $(neap flags d)` or `gdc … $(neap flags gdc)`"
    )))
}

/// Whether it has what the compilers of D write about modules.
fn is_in_d(program: &[u8]) -> bool {
    Elf::parse(program).is_ok_and(|elf| {
        let names =
            elf.section_headers.iter().filter_map(|one| elf.shdr_strtab.get_at(one.sh_name));
        names.into_iter().any(|name| matches!(name, "__minfo" | "minfo"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_in_d_need_something() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let prefix = Prefix::at(folder.path().to_str().unwrap());
        let asked = |program: &Path, loads: &[&str]| {
            let loads: Vec<String> = loads.iter().map(|name| (*name).to_owned()).collect();
            needs(program, &loads, &prefix)
        };
        let (plain, with_package) = (write("plain", "text"), write("other", "\0NEAPD_GC\0"));
        assert_eq!(asked(&plain, &["libc.so.6"]), Ok(None));
        assert_eq!(asked(&with_package, &["libc.so.6"]), Ok(Some(Needs::Choosing)));
        let message = asked(&plain, &["libgphobos.so.3"]).unwrap_err().message;
        assert!(message.contains("built without gdc"), "{message}");
        write("lib/libneapd-ldc.so", "no library");
        let message = asked(&plain, &["libdruntime-ldc-shared.so.111"]).unwrap_err().message;
        assert!(message.contains("loads libdruntime-ldc-shared.so.111"), "{message}");
    }
}
