//! JSON on its way to an output, without malloc.
//!
//! Invariant: holds one piece at a time and hands it on when it is full; after a refusal nothing is
//! handed on any more. Called by `heap_snapshot` in a copy of the process.

use core::fmt::{Arguments, Result, Write};

/// Where the text goes, piece by piece; false when it takes no more.
pub type Output<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Larger: fewer calls of the output; smaller: less stack.
const PIECE: usize = 4096;

/// Text on its way to the output.
pub struct Text<'a> {
    output: Output<'a>,
    piece: [u8; PIECE],
    length: usize,
    /// The output took no more.
    pub refused: bool,
}

impl<'a> Text<'a> {
    /// Nothing yet.
    pub fn new(output: Output<'a>) -> Self {
        Self { output, piece: [0; PIECE], length: 0, refused: false }
    }

    /// Appends a text as it is.
    pub fn put(&mut self, text: Arguments<'_>) {
        // It keeps everything, or notes that it was refused.
        let _ = self.write_fmt(text);
    }

    /// Appends what stands in a string of JSON: bytes that are no printable ASCII become `?`, so
    /// that names from outside end no string and are valid UTF-8.
    pub fn put_in_string(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'"' | b'\\' => self.put(format_args!("\\{}", char::from(*byte))),
                b' '..=b'~' => self.put(format_args!("{}", char::from(*byte))),
                _ => self.put(format_args!("?")),
            }
        }
    }

    /// Appends an array of numbers.
    pub fn put_numbers(&mut self, numbers: impl Iterator<Item = usize>) {
        self.put(format_args!("["));
        for (index, number) in numbers.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            self.put(format_args!("{comma}{number}"));
        }
        self.put(format_args!("]"));
    }

    /// Hands on what there is.
    pub fn flush(&mut self) {
        if !self.refused && self.length > 0 {
            self.refused = !(self.output)(&self.piece[..self.length]);
        }
        self.length = 0;
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.length == self.piece.len() {
                self.flush();
            }
            let taken = rest.len().min(self.piece.len() - self.length);
            self.piece[self.length..self.length + taken].copy_from_slice(&rest[..taken]);
            self.length += taken;
            rest = &rest[taken..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_no_string_and_numbers_are_apart() {
        let mut said = Vec::new();
        let mut output = |bytes: &[u8]| {
            said.extend_from_slice(bytes);
            true
        };
        let mut text = Text::new(&mut output);
        text.put_in_string(b"a\"b\\c\n\xff");
        text.put_numbers([1, 23].into_iter());
        text.flush();
        assert!(!text.refused);
        assert_eq!(said, b"a\\\"b\\\\c??[1,23]");
    }
}
