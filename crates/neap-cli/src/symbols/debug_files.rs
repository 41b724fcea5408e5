//! Finds the file with a program's debugging information where that lies apart from it: by the
//! build id, where packages and `debuginfod` keep it, and by the link (`.gnu_debuglink`) that
//! `objcopy` leaves, where GDB looks too.
//!
//! Invariant: what is found belongs to this very build, by its build id or by the link's checksum.
//! Single-threaded. Called by `symbols`.

use super::{LARGEST_FILE, build_id};
use crate::regular_file;
use flate2::Crc;
use goblin::elf::Elf;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where packages install them.
const INSTALLED: &str = "/usr/lib/debug";

/// Environment variables, as paths.
pub type Variable<'v> = dyn Fn(&str) -> Option<PathBuf> + 'v;

/// The file with the debugging information of a program's file with these contents, and what is in
/// it.
pub fn find(
    path: &Path,
    program: &[u8],
    id: &str,
    variable: &Variable<'_>,
) -> Option<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| {
        let bytes = regular_file::read(&path, LARGEST_FILE).ok()?;
        Some((path, bytes))
    };
    let of_the_build = |(_, bytes): &(PathBuf, Vec<u8>)| build_id(bytes).as_deref() == Some(id);
    let by_build = by_build(id, variable).into_iter();
    by_build.filter_map(read).find(of_the_build).or_else(|| {
        let (name, checksum) = link(program)?;
        let linked = by_link(path, name).into_iter().filter_map(read);
        let mut linked = linked.filter(|(_, bytes)| crc32(bytes) == checksum);
        linked.next()
    })
}

/// Where a build's may lie.
fn by_build(id: &str, variable: &Variable<'_>) -> Vec<PathBuf> {
    let (Some(first), Some(rest)) = (id.get(..2), id.get(2..)) else {
        return Vec::new();
    };
    let home = variable("HOME");
    let cache = variable("XDG_CACHE_HOME").or(home.as_ref().map(|home| home.join(".cache")));
    let caches = [
        variable("DEBUGINFOD_CACHE_PATH"),
        cache.map(|cache| cache.join("debuginfod_client")),
        home.map(|home| home.join(".debuginfod_client_cache")),
    ];
    let mut files = vec![PathBuf::from(format!("{INSTALLED}/.build-id/{first}/{rest}.debug"))];
    files.extend(caches.into_iter().flatten().map(|cache| cache.join(id).join("debuginfo")));
    files
}

/// Where a file that a program's file names may lie: beside it, in `.debug` there, and under the
/// same path where packages install them.
fn by_link(path: &Path, name: &OsStr) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else { return Vec::new() };
    let below_root = folder.strip_prefix("/").unwrap_or(folder);
    [folder.to_owned(), folder.join(".debug"), Path::new(INSTALLED).join(below_root)]
        .map(|folder| folder.join(name))
        .to_vec()
}

/// The name that a program's file has for the one with its debugging information, and the checksum
/// of that one. A name with a folder in it is none: the recording may come from anybody.
fn link(program: &[u8]) -> Option<(&OsStr, u32)> {
    let elf = Elf::parse(program).ok()?;
    let is_link = |name: Option<&str>| name == Some(".gnu_debuglink");
    let section = elf
        .section_headers
        .iter()
        .find(|section| is_link(elf.shdr_strtab.get_at(section.sh_name)))?;
    let contents = program.get(section.file_range()?)?;
    let name = CStr::from_bytes_until_nul(contents).ok()?.to_bytes();
    let checksum = contents.get((name.len() + 1).next_multiple_of(4)..)?.first_chunk()?;
    let is_plain = !name.is_empty() && !name.contains(&b'/') && name != b".." && name != b".";
    is_plain.then(|| (OsStr::from_bytes(name), u32::from_le_bytes(*checksum)))
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_looked_for_by_their_build() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/a"));
        let files = by_build("abcdef", &home);
        let wanted = [
            "/usr/lib/debug/.build-id/ab/cdef.debug",
            "/home/a/.cache/debuginfod_client/abcdef/debuginfo",
            "/home/a/.debuginfod_client_cache/abcdef/debuginfo",
        ];
        assert_eq!(files, wanted.map(PathBuf::from));
        let cache = |name: &str| (name == "DEBUGINFOD_CACHE_PATH").then(|| PathBuf::from("/c"));
        assert_eq!(by_build("abcdef", &cache)[1], PathBuf::from("/c/abcdef/debuginfo"));
        assert!(by_build("", &home).is_empty());
    }

    #[test]
    fn they_are_looked_for_by_the_name_that_the_program_has_for_them() {
        let files = by_link(Path::new("/opt/a/program"), OsStr::new("program.debug"));
        let wanted = [
            "/opt/a/program.debug",
            "/opt/a/.debug/program.debug",
            "/usr/lib/debug/opt/a/program.debug",
        ];
        assert_eq!(files, wanted.map(PathBuf::from));
    }

    #[test]
    fn the_checksum_is_the_one_of_the_link() {
        // The check value of the CRC with which `objcopy` makes links.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_program_without_a_link_and_what_is_no_program_have_none() {
        assert!(link(b"").is_none() && link(b"\x7fELF").is_none());
        assert!(link(&std::fs::read("/proc/self/exe").unwrap()).is_none());
    }
}
