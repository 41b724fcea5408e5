//! What a program gets without Neap: which libgc it would load, and the environment for that.
//!
//! Invariant: nothing of Neap's is left in it, wherever it came from: no `NEAP_` variable, and no
//! folder or library of Neap's among what the loader is told. Reads files and the environment.
//! Called by `run` for `--compare`.

use crate::Failure;
use crate::run::libraries::LIBGC;
use memchr::memmem;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Every build of Neap's library holds this name, and no other libgc does.
const OURS: &[u8] = b"NEAP_SUMMARY";

/// The value of LD_LIBRARY_PATH without the folders in which the loader would find Neap.
pub fn library_path(value: &OsStr) -> OsString {
    kept(value, b":;", |folder| !is_neap(&folder.join(LIBGC)))
}

/// The value of LD_PRELOAD without Neap.
pub fn preload(value: &OsStr) -> OsString {
    kept(value, b": \t\n", |file| !is_neap(file))
}

/// What differs from this process's environment: new values, and None for what is left out.
pub fn environment() -> Vec<(OsString, Option<OsString>)> {
    let mut changes = Vec::new();
    for (name, value) in std::env::vars_os() {
        let kept = match name.as_bytes() {
            b"LD_LIBRARY_PATH" => library_path(&value),
            b"LD_PRELOAD" => preload(&value),
            bytes if bytes.starts_with(b"NEAP_") => OsString::new(),
            _ => continue,
        };
        if kept != value {
            changes.push((name, Some(kept).filter(|kept| !kept.is_empty())));
        }
    }
    changes
}

/// Refuses a program that has no libgc to be compared on: `found` is the one that it would load,
/// and `needs` says whether it cannot start without.
pub fn check(program: &Path, found: Option<&Path>, needs: bool) -> Result<(), Failure> {
    let shown = program.display();
    match found {
        Some(path) if is_neap(path) => Err(Failure::usage(format!(
            "the {LIBGC} that {shown} loads without `neap run` is Neap too ({}): there is nothing \
             to compare it with. Take it out of the loader's way, or install the system's libgc",
            path.display()
        ))),
        None if needs => Err(Failure::usage(format!(
            "{shown} needs {LIBGC}, and this system has none: without Neap it cannot start, so \
             there is nothing to compare with. Install it (Debian: apt install libgc1), or run the \
             program without --compare"
        ))),
        _ => Ok(()),
    }
}

fn is_neap(library: &Path) -> bool {
    let named = library.file_name() == Some(OsStr::new(LIBGC));
    named && std::fs::read(library).is_ok_and(|bytes| memmem::find(&bytes, OURS).is_some())
}

/// `value` without the parts that are not wanted; as it is, if all are.
fn kept(value: &OsStr, separators: &[u8], wanted: impl Fn(&Path) -> bool) -> OsString {
    let parts = || value.as_bytes().split(|byte| separators.contains(byte));
    let path = |part| PathBuf::from(OsStr::from_bytes(part));
    let rest: Vec<&[u8]> = parts().filter(|part| wanted(&path(*part))).collect();
    match rest.len() == parts().count() {
        true => value.to_owned(),
        false => OsString::from_vec(rest.join(&b":"[..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_neaps_is_taken_out() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(LIBGC), text).unwrap();
            path.display().to_string()
        };
        let (ours, other) = (make("ours", "\0NEAP_SUMMARY\0"), make("other", "\0GC_init\0"));
        let path = |text: String| library_path(OsStr::new(&text));
        assert_eq!(path(format!("{ours}:{other}:/absent")), *format!("{other}:/absent"));
        assert_eq!(path(format!("{other};/absent")), *format!("{other};/absent"), "as it is");
        assert_eq!(path(ours.clone()), "");
        assert_eq!(path(String::new()), "");
        let text = format!("{ours}/{LIBGC} libx.so {other}/{LIBGC}");
        assert_eq!(preload(OsStr::new(&text)), *format!("libx.so:{other}/{LIBGC}"));
    }

    #[test]
    fn there_has_to_be_another_libgc() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join(LIBGC);
        let program = Path::new("program");
        std::fs::write(&library, "GC_init").unwrap();
        assert_eq!(check(program, Some(&library), true), Ok(()));
        assert_eq!(check(program, None, false), Ok(()));
        let message = check(program, None, true).unwrap_err().message;
        assert!(message.contains("this system has none"), "{message}");
        std::fs::write(&library, "NEAP_SUMMARY").unwrap();
        for needs in [true, false] {
            let message = check(program, Some(&library), needs).unwrap_err().message;
            assert!(message.contains("is Neap too"), "{message}");
        }
    }
}
