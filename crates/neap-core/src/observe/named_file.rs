//! Files that a user named: their names, and how they are opened.
//!
//! Invariant: only a regular file is ever opened to write, whatever a link in its place leads to.
//! Called where a recording, a summary or a heap snapshot begins. Never calls malloc.
//!
//! # Safety
//!
//! Asks the system for the current folder, in a buffer as long as is said.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::fmt::Write;

use crate::sys::files::descriptor::Descriptor;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::sys::{print, thread};

const LONGEST_PATH: usize = 4096;

/// A path with room for every path that the system takes.
#[derive(Clone, Copy)]
pub struct Path {
    bytes: [u8; LONGEST_PATH],
    length: usize,
    /// Something did not fit: no path that may be opened.
    is_cut: bool,
}

impl Path {
    /// No path.
    pub const fn new() -> Self {
        Self { bytes: [0; LONGEST_PATH], length: 0, is_cut: false }
    }

    /// The folder that the process is in; none if the system does not say.
    pub fn current_folder() -> Self {
        let mut path = Self::new();
        let mut bytes = [0_u8; LONGEST_PATH];
        // SAFETY: the buffer is as long as is said.
        let found = unsafe { libc::getcwd(bytes.as_mut_ptr().cast(), bytes.len()) };
        if !found.is_null() {
            path.push(CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_bytes());
        }
        path
    }

    /// Appends what fits.
    pub fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(LONGEST_PATH - 1 - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken;
        self.is_cut |= taken < bytes.len();
    }

    /// What it is.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// What the user gave, from the folder that the process is in, `%p` replaced by its id; `.ID`
    /// behind it if `own` says that the name is another process's, unless it is no regular file's,
    /// which is refused under its own name.
    pub fn of(given: &[u8], folder: &[u8], own: bool) -> Self {
        let mut number = print::Line::new();
        let _ = write!(number, "{}", thread::process());
        let mut path = Self::new();
        if !given.starts_with(b"/") && !folder.is_empty() {
            path.push(folder);
            path.push(b"/");
        }
        let mut rest = given;
        let mut named = false;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"%p") {
            path.push(&rest[..at]);
            path.push(number.bytes());
            rest = &rest[at + 2..];
            named = true;
        }
        path.push(rest);
        if own && !named && !is_no_file(&path) {
            path.push(b".");
            path.push(number.bytes());
        }
        path
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Whether something is there that is no regular file.
fn is_no_file(path: &Path) -> bool {
    let there = fs::lstat(path.as_bytes()).map(|there| fs::FileType::from_raw_mode(there.st_mode));
    there.is_ok_and(|there| !there.is_file())
}

/// Opens a file that a user named, to write: a regular one, which nobody else may read if it is
/// new. No link is followed, since who may write to the folder could have put one there, and nobody
/// waits: a pipe without a reader is `Errno::NXIO`, anything else that is no file `Errno::INVAL`.
pub fn create(path: &Path) -> Result<Descriptor, Errno> {
    match path.is_cut {
        true => Err(Errno::NAMETOOLONG),
        false => create_at(path.as_bytes()),
    }
}

/// The same by its plain name.
pub fn create_at(name: impl Arg) -> Result<Descriptor, Errno> {
    let how = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = Descriptor::new(fs::open(name, how | OFlags::CLOEXEC, Mode::from(0o600))?);
    match fs::FileType::from_raw_mode(fs::fstat(&file)?.st_mode).is_file() {
        true => Ok(file),
        false => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_table() {
        let id = thread::process();
        for (given, folder, own, wanted) in [
            ("a", "/x", false, "/x/a".to_owned()),
            ("/a", "/x", true, format!("/a.{id}")),
            ("/a%p.b", "/x", true, format!("/a{id}.b")),
            ("%p", "", false, format!("{id}")),
            ("/dev/null", "/x", true, "/dev/null".to_owned()),
        ] {
            let path = Path::of(given.as_bytes(), folder.as_bytes(), own);
            assert_eq!(path.as_bytes(), wanted.as_bytes());
        }
        let cut = Path::of(&[b'x'; 9000], b"/", false);
        assert_eq!(cut.as_bytes().len(), LONGEST_PATH - 1);
        assert_eq!(create(&cut).unwrap_err(), Errno::NAMETOOLONG);
    }

    #[test]
    fn devices_and_links_are_refused() {
        assert_eq!(create_at("/dev/full").unwrap_err(), Errno::INVAL);
        let link = std::env::temp_dir().join(format!("neap-named-file-{}", thread::process()));
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(create_at(&link).unwrap_err(), Errno::LOOP);
        std::fs::remove_file(link).unwrap();
    }
}
