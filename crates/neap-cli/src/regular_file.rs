//! Opening files whose names come from outside: from a recording, or from another process.
//!
//! Invariant: what is no regular file is neither read nor waited for. Called wherever a name
//! is not this program's own, on any thread.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file to read; anything else, as a pipe or a device, is refused.
pub fn open(path: &Path) -> io::Result<File> {
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, how, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// All of a regular file, if it has at most so many bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (mut bytes, file) = (Vec::new(), open(path)?);
    // One that is too large is not read first; and it may grow while it is.
    if file.metadata()?.len() > most || file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        let why = format!("larger than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_large_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read(&file, 4).unwrap(), b"text");
        assert!(read(&file, 3).unwrap_err().to_string().contains("larger than"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::from(0o600),
            0,
        )
        .unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert_eq!(open(path).unwrap_err().to_string(), "not a regular file", "{path:?}");
        }
        assert_eq!(open(Path::new("/no/such")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
