//! Opening files whose names come from outside, from a recording or from another process, and
//! writing those that the user names.
//!
//! Invariant: what is no regular file is neither read nor waited for. A regular file is replaced
//! whole: it has what it had where that fails. Called wherever a name is not this program's own,
//! on any thread.

use rustix::fs::{Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::NamedTempFile;

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

/// Writes a file. What is none, as a device or a pipe, is written to as it is, and so is what a
/// link leads to: /dev/stdout is one.
pub fn write(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let there = fs::symlink_metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return fill(&File::create(path)?, content);
    }
    // One that this user may not write to is not replaced either.
    let mut open = match &there {
        Some(_) => Some(File::options().write(true).open(path)?),
        None => None,
    };
    let Ok(mut beside) = beside(path) else {
        // The file may be written all the same, where the folder may not.
        return fill(&File::create(path)?, content);
    };
    if let Some(there) = there {
        beside.as_file().set_permissions(Permissions::from_mode(there.mode() & 0o777))?;
    }
    fill(beside.as_file(), content)?;
    let refused = match beside.persist(path) {
        Ok(_) => return Ok(()),
        Err(refused) => refused,
    };
    // It is a mount, or another user's in a folder of all: it has the content, if not at once.
    let Some(open) = &mut open else { return Err(refused.error) };
    beside = refused.file;
    beside.as_file_mut().rewind()?;
    open.set_len(0)?;
    io::copy(beside.as_file_mut(), open).map(drop)
}

/// Replaces whatever has this name: a reader finds the old text or the new.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = beside(path)?;
    fill(beside.as_file(), |out| out.write_all(text.as_bytes()))?;
    Ok(beside.persist(path).map(drop)?)
}

/// A file beside this one, to be put in its place.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // For another user to read, where the mask of this one lets it.
    tempfile::Builder::new()
        .prefix(OsStr::from_bytes(&[name.as_bytes(), b"."].concat()))
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
}

fn fill(file: &File, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    content(&mut out)?;
    out.flush()
}

/// Whether two names are of one regular file, be it there already or not.
pub fn are_same(one: &Path, other: &Path) -> bool {
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// What there is one of: a file, or a name in a folder. None of devices and pipes, to which several
/// may write.
fn identity(path: &Path) -> Option<(u64, u64, Option<OsString>)> {
    if let Ok(there) = fs::metadata(path) {
        return there.is_file().then(|| (there.dev(), there.ino(), None));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = fs::metadata(folder.unwrap_or(Path::new("."))).ok()?;
    Some((folder.dev(), folder.ino(), Some(path.file_name()?.to_owned())))
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

    /// Another user may have put links wherever a name can be guessed.
    #[test]
    fn a_file_is_replaced_past_links_and_is_there_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let [file, other, link] = ["file", "other", "link"].map(|name| folder.path().join(name));
        fs::write(&other, "other").unwrap();
        let guessed = folder.path().join(format!("file.{}", std::process::id()));
        for name in [&file, &guessed, &link] {
            std::os::unix::fs::symlink(&other, name).unwrap();
        }
        replace(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(!fs::symlink_metadata(&file).unwrap().is_symlink());
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let modes = [&file, &plain].map(|name| fs::metadata(name).unwrap().permissions().mode());
        assert_eq!(modes[0], modes[1]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5, "nothing stays beside it");
    }

    fn text(text: &str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
        move |out| out.write_all(text.as_bytes())
    }

    #[test]
    fn a_file_that_cannot_be_written_to_its_end_has_what_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let full = |out: &mut dyn Write| {
            out.write_all(&[0; 1 << 20])?;
            Err(ErrorKind::StorageFull.into())
        };
        assert_eq!(write(&file, full).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        write(&file, text("new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600, "as private as it was");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing stays beside it");
    }

    #[test]
    fn links_devices_and_pipes_are_written_to_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, text("new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        write(Path::new("/dev/null"), text("nothing")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let (mut reader, writer) = io::pipe().unwrap();
        let name = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        write(Path::new(&name), text("through")).unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(&mut reader).unwrap(), "through");
    }

    #[test]
    fn one_file_may_have_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, hard, other] =
            ["file", "link", "hard", "other"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::hard_link(&file, &hard).unwrap();
        assert!(are_same(&file, &link) && are_same(&file, &hard) && !are_same(&file, &other));
        let winding = folder.path().join("./other");
        assert!(are_same(&other, &winding), "though it is not there");
        assert!(!are_same(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
