//! Files of the kernel's that fit a buffer.
//!
//! Invariant: no allocation (a path is shorter than rustix's buffer on the stack), no lock. Called
//! from any thread, outside stops.

use super::descriptor::Descriptor;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

/// Reads a file up to the end of `text`; gives the bytes read.
pub fn read(path: impl Arg, text: &mut [u8]) -> Result<usize, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = Descriptor::new(fs::open(path, flags, Mode::empty())?);
    let mut length = 0;
    while length < text.len() {
        match rustix::io::read(&file, &mut text[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_read() {
        let mut text = [0; 4];
        assert_eq!(read(c"/proc/self/exe", &mut text), Ok(4));
        assert_eq!(&text, b"\x7fELF");
        assert_eq!(read("/there is no such file", &mut text), Err(Errno::NOENT));
    }
}
