//! Whether two files hold the same, and where they part.
//!
//! Invariant: byte for byte, with little memory however long they are; text that is shown steers no
//! terminal. Called by `compare`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const PART_BYTES: usize = 64 << 10;
/// What is shown of a line: so much before the first byte that differs, and so much in all.
const BEFORE_BYTES: u64 = 30;
const SHOWN_BYTES: usize = 60;

/// Where two files part.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// Of the first byte that differs, from 1.
    pub line: u64,
    /// What stands there in each; None where the file has ended.
    pub texts: [Option<String>; 2],
}

/// None if they hold the same.
pub fn difference(a: &File, b: &File) -> io::Result<Option<Difference>> {
    let mut parts = [vec![0; PART_BYTES], vec![0; PART_BYTES]];
    let (mut at, mut line, mut line_begins) = (0, 1, 0);
    loop {
        let lengths = [filled(a, &mut parts[0], at)?, filled(b, &mut parts[1], at)?];
        let both = [&parts[0][..lengths[0]], &parts[1][..lengths[1]]];
        let same = both[0].iter().zip(both[1]).take_while(|(a, b)| a == b).count();
        for (index, _) in both[0][..same].iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            line += 1;
            line_begins = at + index as u64 + 1;
        }
        at += same as u64;
        if same < lengths[0].max(lengths[1]) {
            let from = line_begins.max(at.saturating_sub(BEFORE_BYTES));
            let texts = [excerpt(a, from, at)?, excerpt(b, from, at)?];
            return Ok(Some(Difference { line, texts }));
        }
        if same == 0 {
            return Ok(None);
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn filled(file: &File, part: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < part.len() {
        match file.read_at(&mut part[length..], at + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The rest of the line that begins at `from`, in quotes; None if the file ends at `differs`.
fn excerpt(file: &File, from: u64, differs: u64) -> io::Result<Option<String>> {
    let mut bytes = [0; SHOWN_BYTES];
    let length = filled(file, &mut bytes, from)?;
    if from + length as u64 <= differs {
        return Ok(None);
    }
    let line = bytes[..length].split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(Some(format!("\"{}\"", line.escape_ascii())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn found(a: &[u8], b: &[u8]) -> Option<(u64, [Option<String>; 2])> {
        let difference = difference(&file(a), &file(b)).unwrap()?;
        Some((difference.line, difference.texts))
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn the_first_difference_is_found_and_shown() {
        assert_eq!(found(b"", b""), None);
        assert_eq!(found(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(
            found(b"a\nb1\n", b"a\nb2\n"),
            Some((2, [text("\"b1\\n\""), text("\"b2\\n\"")]))
        );
        assert_eq!(found(b"a\n", b"a\nb"), Some((2, [None, text("\"b\"")])));
        assert_eq!(found(b"a", b"a\n"), Some((1, [None, text("\"a\\n\"")])));
        assert_eq!(found(b"\x1b[2J", b""), Some((1, [text("\"\\x1b[2J\""), None])));
    }

    #[test]
    fn parts_of_a_long_file_are_all_compared() {
        let mut a = vec![b'x'; 3 * PART_BYTES];
        assert_eq!(found(&a, &a.clone()), None);
        let b = a.clone();
        for place in [PART_BYTES - 1, PART_BYTES, 3 * PART_BYTES - 1] {
            a[place] = b'\n';
            let (line, [left, right]) = found(&a, &b).unwrap();
            assert_eq!(line, 1, "{place}");
            assert!(left.unwrap().ends_with("x\\n\""), "{place}");
            assert!(right.unwrap().starts_with("\"xxxxx"), "{place}");
            a[place] = b'x';
        }
    }
}
