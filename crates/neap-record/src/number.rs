//! Numbers in a recording: LEB128, seven bits to a byte, lowest first.
//!
//! Invariant: what is written is read back; reading past the end gives nothing and reads nothing.
//! Pure.

/// Bytes that the longest number takes.
pub const LONGEST: usize = 10;

/// Writes a number into `to`; gives its length.
pub fn encode(mut value: u64, to: &mut [u8; LONGEST]) -> usize {
    let mut length = 0;
    loop {
        let low = value as u8 & 0x7f;
        value >>= 7;
        to[length] = if value == 0 { low } else { low | 0x80 };
        length += 1;
        if value == 0 {
            return length;
        }
    }
}

/// Reads numbers and texts from bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// From the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next number; None at the end, and for one that is longer than 64 bits.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next text, a length and so many bytes.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let text = self.bytes.get(..length)?;
        self.bytes = &self.bytes[length..];
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_cut_ones_do_not() {
        for value in [0, 1, 127, 128, 300, 1 << 31, 1 << 63, u64::MAX] {
            let mut bytes = [0; LONGEST];
            let length = encode(value, &mut bytes);
            assert_eq!(Reader::new(&bytes[..length]).number(), Some(value));
            assert_eq!(Reader::new(&bytes[..length - 1]).number(), None);
        }
        assert_eq!(Reader::new(&[0xff; 11]).number(), None);
    }

    #[test]
    fn texts_stay_inside() {
        let mut reader = Reader::new(b"\x02hi\x05no");
        assert_eq!(reader.text(), Some(&b"hi"[..]));
        assert_eq!(reader.text(), None);
    }
}
