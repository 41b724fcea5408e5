//! The file of a recording: opened for one process, written behind what is there, given up where
//! that is refused.
//!
//! Invariant: no file but the recording is ever written to, even if the program closes descriptors
//! that are not its own; a refused write leaves whole chunks in the file and what was to be written
//! in memory, and may be tried again; no write raises a signal in the program. One thread at a
//! time, under the recorder's lock. Never calls malloc.
//!
//! # Safety
//!
//! In tests only: a limit of the test's own process, and a descriptor that nobody else closes.

#![allow(unsafe_code)]

use crate::sys::files::descriptor::Descriptor;
use rustix::fd::AsFd;
use rustix::fs::{self, FlockOperation};
use rustix::io::{self, Errno};

use super::named_file::{self, Path};
use crate::sys::files::quiet_write::without_signals;

/// The descriptor is put above this, out of the way of programs that count on low ones.
const LOWEST_DESCRIPTOR: i32 = 500;
/// An open recording.
pub struct RecordFile {
    file: Descriptor,
    /// Device and inode: what the descriptor must still mean.
    identity: (u64, u64),
    /// Bytes of whole chunks.
    length: u64,
}

impl RecordFile {
    /// Opens a file for this process and empties it; `Errno::AGAIN` if another living process
    /// records to it, or it was written since the run began that this process belongs to: another
    /// process of the run has left it. The time is the system's, in nanoseconds since 1970.
    pub fn open(path: &Path, run_began_ns: Option<u64>) -> Result<Self, Errno> {
        let low = named_file::create(path)?;
        let high = io::fcntl_dupfd_cloexec(&low, LOWEST_DESCRIPTOR);
        let file = high.map_or(low, Descriptor::new);
        fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let there = fs::fstat(&file)?;
        let written_ns = (there.st_mtime as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(there.st_mtime_nsec as u64);
        if there.st_size > 0 && run_began_ns.is_some_and(|began_ns| written_ns >= began_ns) {
            return Err(Errno::AGAIN);
        }
        fs::ftruncate(&file, 0)?;
        let identity = identity(&file)?;
        Ok(Self { file, identity, length: 0 })
    }

    /// Writes all of `bytes`, which are whole chunks, or nothing.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if identity(&self.file) != Ok(self.identity) {
            return Err(Errno::BADF);
        }
        let result = without_signals(|| {
            let mut at = 0;
            while at < bytes.len() {
                match io::pwrite(&self.file, &bytes[at..], self.length + at as u64) {
                    Ok(0) => return Err(Errno::NOSPC),
                    Ok(written) => at += written,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        match result {
            Ok(()) => self.length += bytes.len() as u64,
            // A reader tells a cut chunk from a whole one, should even this be refused.
            Err(_) => drop(fs::ftruncate(&self.file, self.length)),
        }
        result
    }

    /// Forgets the descriptor without closing it, if it is the program's by now.
    pub fn close(self) {
        if identity(&self.file) != Ok(self.identity) {
            core::mem::forget(self.file);
        }
    }
}

fn identity(file: impl AsFd) -> Result<(u64, u64), Errno> {
    fs::fstat(file).map(|status| (status.st_dev, status.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::{FromRawFd, OwnedFd};

    fn path(name: &str) -> Path {
        let folder = std::env::temp_dir();
        let given = format!("{}/neap-record-file-{name}-%p", folder.display());
        Path::of(given.as_bytes(), b"", false)
    }

    fn read(path: &Path) -> Vec<u8> {
        let name = std::str::from_utf8(path.as_bytes()).unwrap();
        std::fs::read(name).unwrap()
    }

    fn remove(path: &Path) {
        std::fs::remove_file(std::str::from_utf8(path.as_bytes()).unwrap()).unwrap();
    }

    #[test]
    fn a_file_has_one_writer_and_is_emptied_for_the_next() {
        let path = path("one");
        let mut first = RecordFile::open(&path, None).unwrap();
        first.append(b"abc").unwrap();
        first.append(b"def").unwrap();
        assert_eq!(read(&path), b"abcdef");
        assert_eq!(RecordFile::open(&path, None).err(), Some(Errno::AGAIN));
        assert_eq!(read(&path), b"abcdef");
        first.close();
        RecordFile::open(&path, None).unwrap().append(b"x").unwrap();
        assert_eq!(read(&path), b"x");
        remove(&path);
    }

    #[test]
    fn what_another_process_of_the_run_has_left_stays() {
        let path = path("run");
        let began_ns = crate::sys::clock::unix_ns() - 1_000_000_000;
        let mut first = RecordFile::open(&path, Some(began_ns)).unwrap();
        first.close();
        // Nothing was written.
        first = RecordFile::open(&path, Some(began_ns)).unwrap();
        first.append(b"abc").unwrap();
        first.close();
        assert_eq!(RecordFile::open(&path, Some(began_ns)).err(), Some(Errno::AGAIN));
        assert_eq!(read(&path), b"abc");
        // Of a later run.
        RecordFile::open(&path, Some(began_ns + 60_000_000_000)).unwrap().append(b"x").unwrap();
        assert_eq!(read(&path), b"x");
        remove(&path);
    }

    #[test]
    fn a_descriptor_that_became_another_files_is_left_alone() {
        let (path, other) = (path("mine"), path("theirs"));
        let mut file = RecordFile::open(&path, None).unwrap();
        let name = std::str::from_utf8(other.as_bytes()).unwrap();
        std::fs::write(name, b"theirs").unwrap();
        let theirs = std::fs::OpenOptions::new().write(true).open(name).unwrap();
        // SAFETY: the descriptor of the recording, which nobody else closes.
        let mut descriptor = unsafe { OwnedFd::from_raw_fd(file.file.into_number()) };
        rustix::io::dup2(&theirs, &mut descriptor).unwrap();
        file.file = Descriptor::new(descriptor);
        assert_eq!(file.append(b"no"), Err(Errno::BADF));
        assert_eq!(read(&other), b"theirs");
        remove(&path);
        remove(&other);
    }

    #[test]
    fn a_refused_write_leaves_what_was_there() {
        let path = path("limit");
        let mut file = RecordFile::open(&path, None).unwrap();
        file.append(b"whole").unwrap();
        let limit = libc::rlimit { rlim_cur: 8, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: sets a limit of this process, which is the test's own.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
        assert_eq!(file.append(b"too long"), Err(Errno::FBIG));
        assert_eq!(read(&path), b"whole");
        let free = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: as above.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &free) };
        file.append(b" again").unwrap();
        assert_eq!(read(&path), b"whole again");
        remove(&path);
    }
}
