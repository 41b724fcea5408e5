//! `neap flags`: what a compiler needs, in the manner of pkg-config.
//!
//! Invariant: a program built with the flags finds the library at run time without LD_LIBRARY_PATH.
//! Pure but for looking whether the files are there. Called by `main`.

use crate::Failure;
use crate::prefix::Prefix;
use crate::shell::quote;
use std::path::Path;

/// Which flags.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// For a compiler of D: a program includes no header, and takes the package for druntime along.
    pub for_d: Option<DCompiler>,
    /// What compiling needs.
    pub compile: bool,
    /// What linking needs.
    pub link: bool,
    /// Link `libneap.a` and not `libneap.so`.
    pub into_program: bool,
    /// Link everything into the program, libc too.
    pub all_of_it: bool,
}

/// Compilers of D: what they pass on to the linker has different forms, and each has a druntime of
/// its own.
#[derive(Clone, Copy, PartialEq)]
pub enum DCompiler {
    Ldc,
    Gdc,
}

/// What the code in `libneap.a` needs from the system: rustc's `native-static-libs`, but for
/// `-lgcc_s`, which compilers add by themselves, or what stands for it under `-static-libgcc`.
const SYSTEM: &str = "-lutil -lrt -lpthread -lm -ldl -lc";

/// Tells the linker which functions of libc's the library stands before; of `tools/static.sh`.
const WRAPPED: &str = "neap/static.options";

/// One line of flags. C and C++ need the same.
pub fn text(prefix: &Prefix, wanted: Wanted) -> Result<String, Failure> {
    if let Some(compiler) = wanted.for_d {
        if wanted.all_of_it {
            return Err(Failure::usage("--all-static is for C and C++ only".to_owned()));
        }
        return for_d(prefix, wanted, compiler);
    }
    let mut flags = Vec::new();
    if wanted.compile {
        let include = prefix.include();
        check(&include.join("neap.h"))?;
        flags.push(quote(&format!("-I{}", include.display())));
    }
    let libraries = prefix.libraries();
    if wanted.link && wanted.all_of_it {
        let (archive, options) = (libraries.join("libneap-static.a"), libraries.join(WRAPPED));
        check(&archive)?;
        check(&options)?;
        flags.push("-static".to_owned());
        flags.push(quote(&format!("-Wl,@{}", options.display())));
        flags.push(quote(&archive.display().to_string()));
        flags.push(SYSTEM.to_owned());
    } else if wanted.link && wanted.into_program {
        let archive = libraries.join("libneap.a");
        check(&archive)?;
        flags.push(quote(&archive.display().to_string()));
        flags.push(SYSTEM.to_owned());
    } else if wanted.link {
        check(&libraries.join("libneap.so"))?;
        flags.push(quote(&format!("-L{}", libraries.display())));
        flags.push("-lneap".to_owned());
        flags.push(quote(&format!("-Wl,-rpath,{}", libraries.display())));
    }
    Ok(flags.join(" ") + "\n")
}

/// The name of the constructor that registers the collector: nothing else would have the linker
/// take it from the archive.
const REGISTER: &str = "neap_d_register";

fn for_d(prefix: &Prefix, wanted: Wanted, compiler: DCompiler) -> Result<String, Failure> {
    // What names a library is the compiler's own flag under gdc.
    let to_linker = |flag: &str| match compiler {
        DCompiler::Ldc => quote(&format!("-L={flag}")),
        DCompiler::Gdc if flag.starts_with("-L") || flag.starts_with("-l") => quote(flag),
        DCompiler::Gdc => quote(&format!("-Wl,{flag}")),
    };
    let (name, package, debian) = match compiler {
        DCompiler::Ldc => ("ldc2", "libneapd.a", "ldc"),
        DCompiler::Gdc => ("gdc", "libneapd-gdc.a", "gdc"),
    };
    let libraries = prefix.libraries();
    let mut flags = Vec::new();
    if wanted.link {
        let package = libraries.join(package);
        if !package.is_file() {
            return Err(Failure::usage(format!(
                "{} is missing: this installation was made without {name}; install it ({debian} in \
                 Debian) and run `make build` and `make install` again",
                package.display()
            )));
        }
        flags.push(to_linker(&format!("--undefined={REGISTER}")));
        flags.push(quote(&package.display().to_string()));
    }
    if wanted.link && wanted.into_program {
        let archive = libraries.join("libneap.a");
        check(&archive)?;
        flags.push(quote(&archive.display().to_string()));
        flags.extend(SYSTEM.split(' ').map(to_linker));
    } else if wanted.link {
        check(&libraries.join("libneap.so"))?;
        flags.push(to_linker(&format!("-L{}", libraries.display())));
        flags.push(to_linker("-lneap"));
        flags.push(to_linker(&format!("-rpath={}", libraries.display())));
    }
    Ok(flags.join(" ") + "\n")
}

fn check(file: &Path) -> Result<(), Failure> {
    if file.is_file() {
        return Ok(());
    }
    let message = format!("{} is missing: this installation was made without it", file.display());
    Err(Failure::usage(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Wanted =
        Wanted { for_d: None, compile: true, link: true, into_program: false, all_of_it: false };

    fn installed() -> (tempfile::TempDir, String) {
        let folder = tempfile::TempDir::new().unwrap();
        let libraries = [
            "libneap.so",
            "libneap.a",
            "libneap-static.a",
            WRAPPED,
            "libneapd.a",
            "libneapd-gdc.a",
        ];
        let libraries = libraries.map(|name| format!("lib/{name}"));
        for file in libraries.iter().map(String::as_str).chain(["include/neap.h"]) {
            let file = folder.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let path = folder.path().to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn flags_by_table() {
        let (_folder, path) = installed();
        let prefix = Prefix::at(&path);
        let shared = format!("-L{path}/lib -lneap -Wl,-rpath,{path}/lib\n");
        let archive = format!("{path}/lib/libneap.a {SYSTEM}\n");
        let all =
            format!("-static -Wl,@{path}/lib/{WRAPPED} {path}/lib/libneap-static.a {SYSTEM}\n");
        let package = format!("-L=--undefined={REGISTER} {path}/lib/libneapd.a");
        let d = format!("{package} -L=-L{path}/lib -L=-lneap -L=-rpath={path}/lib\n");
        let gdc = format!(
            "-Wl,--undefined={REGISTER} {path}/lib/libneapd-gdc.a -L{path}/lib -lneap \
             -Wl,-rpath={path}/lib\n"
        );
        for (wanted, flags) in [
            (ALL, format!("-I{path}/include {shared}")),
            (Wanted { link: false, ..ALL }, format!("-I{path}/include\n")),
            (Wanted { compile: false, ..ALL }, shared),
            (Wanted { for_d: Some(DCompiler::Ldc), ..ALL }, d),
            (Wanted { for_d: Some(DCompiler::Ldc), link: false, ..ALL }, "\n".to_owned()),
            (Wanted { for_d: Some(DCompiler::Gdc), ..ALL }, gdc),
            (Wanted { compile: false, into_program: true, ..ALL }, archive),
            (Wanted { compile: false, all_of_it: true, ..ALL }, all),
        ] {
            assert_eq!(text(&prefix, wanted), Ok(flags));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let message = text(&Prefix::at("/nonexistent"), ALL).unwrap_err().to_string();
        assert!(message.contains("/nonexistent/include/neap.h is missing"), "{message}");
        let for_d = Wanted { for_d: Some(DCompiler::Ldc), ..ALL };
        let message = text(&Prefix::at("/nonexistent"), for_d).unwrap_err().to_string();
        assert!(message.contains("libneapd.a is missing"), "{message}");
        let all = Wanted { all_of_it: true, for_d: Some(DCompiler::Ldc), ..ALL };
        let message = text(&Prefix::at("/nonexistent"), all).unwrap_err().to_string();
        assert!(message.contains("--all-static is for C"), "{message}");
    }
}
