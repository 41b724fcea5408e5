//! Chunks: a tag, the payload's length, the payload, a checksum over all of it. Writing them into a
//! fixed buffer, finding them in a file.
//!
//! Invariant: a buffer holds whole chunks only; a chunk that does not fit leaves no trace and is
//! told. One thread at a time writes.

use crate::number;

/// What a recording begins with; the last byte is the version of the format.
pub const MAGIC: [u8; 8] = *b"NEAPREC\x01";
/// Bytes of a chunk besides its payload: tag, length, checksum.
pub const FRAME_BYTES: usize = 1 + 4 + 4;
/// Bytes of a chunk at most: those of the buffer in which the library writes them.
pub const MOST_BYTES: usize = 256 << 10;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// The process: once, first.
    Process = 1,
    /// One option and its value.
    Option = 2,
    /// Requests of one thread since its last such chunk.
    Counts = 3,
    /// Requests for objects of layouts since the last such chunk.
    Layouts = 4,
    /// What a layout says: once for each.
    Layout = 5,
    /// A cycle.
    Cycle = 6,
    /// Steps of cycles, with times.
    Steps = 7,
    /// What lives in which class after a cycle.
    Census = 8,
    /// How full each stretch of the heap is after a cycle.
    Map = 9,
    /// The process's figures at a moment.
    Statistics = 10,
    /// A loaded object, for symbolising.
    Module = 11,
    /// A sampled site: once for each.
    Site = 12,
    /// Samples by site since the last such chunk.
    Samples = 13,
    /// The process ended in order.
    End = 14,
    /// A thread of the program: once for each, before its counts.
    Thread = 15,
    /// Stops, phases and what threads did for cycles, with times.
    Spans = 16,
    /// The layout of a sampled site's objects: once for each that has one.
    SiteLayout = 17,
}

impl Tag {
    /// The tag of a byte.
    pub fn from_byte(byte: u8) -> Option<Tag> {
        use Tag::*;
        [
            Process, Option, Counts, Layouts, Layout, Cycle, Steps, Census, Map, Statistics,
            Module, Site, Samples, End, Thread, Spans, SiteLayout,
        ]
        .into_iter()
        .find(|tag| *tag as u8 == byte)
    }
}

/// The buffer has no room for the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Chunks in a buffer.
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    /// The chunk under way overran the buffer.
    overrun: bool,
}

impl<'b> Writer<'b> {
    /// Goes on behind the first `length` bytes of `buffer`.
    pub fn new(buffer: &'b mut [u8], length: usize) -> Self {
        let length = length.min(buffer.len());
        Self { buffer, length, overrun: false }
    }

    /// Bytes written.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Writes one chunk, whose payload `fill` writes; [`Full`] if it does not fit, and nothing of
    /// it stays.
    pub fn chunk(&mut self, tag: Tag, fill: impl FnOnce(&mut Self)) -> Result<(), Full> {
        let start = self.length;
        self.overrun = false;
        self.raw(&[tag as u8, 0, 0, 0, 0]);
        fill(self);
        let payload = (self.length - start).saturating_sub(5) as u32;
        if !self.overrun {
            self.buffer[start + 1..start + 5].copy_from_slice(&payload.to_le_bytes());
            let sum = checksum(&self.buffer[start..self.length]);
            self.raw(&sum.to_le_bytes());
        }
        if self.overrun {
            self.length = start;
            return Err(Full);
        }
        Ok(())
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.length..self.length + bytes.len()) {
            Some(room) if !self.overrun => {
                room.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            _ => self.overrun = true,
        }
    }

    /// One number of a payload.
    pub fn number(&mut self, value: u64) {
        let mut bytes = [0; number::LONGEST];
        let length = number::encode(value, &mut bytes);
        self.raw(&bytes[..length]);
    }

    /// Numbers of a payload.
    pub fn numbers(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.number(*value));
    }

    /// A text of a payload.
    pub fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.raw(text);
    }
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 != 0 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// CRC-32 as in IEEE 802.3.
pub fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum: u32, byte| sum >> 8 ^ TABLE[(sum as u8 ^ byte) as usize])
}

/// The next chunk of a file.
pub enum Next<'a> {
    /// A whole one.
    Chunk {
        /// Its tag as written.
        tag: u8,
        /// What it holds.
        payload: &'a [u8],
        /// Bytes of the whole chunk.
        length: usize,
    },
    /// The file ends within a chunk: whoever wrote it was interrupted.
    Cut,
    /// Length or checksum are wrong.
    Broken,
    /// The file ends here.
    End,
}

/// Looks at the front of `bytes`.
pub fn next(bytes: &[u8]) -> Next<'_> {
    if bytes.is_empty() {
        return Next::End;
    }
    if bytes.len() < FRAME_BYTES {
        return Next::Cut;
    }
    let payload = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize;
    let length = payload + FRAME_BYTES;
    if length > MOST_BYTES {
        return Next::Broken;
    }
    let Some(chunk) = bytes.get(..length) else { return Next::Cut };
    let (summed, sum) = chunk.split_at(length - 4);
    if checksum(summed).to_le_bytes() != sum {
        return Next::Broken;
    }
    Next::Chunk { tag: bytes[0], payload: &chunk[5..length - 4], length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn chunks_come_back_and_damage_is_seen() {
        let mut buffer = [0; 64];
        let mut writer = Writer::new(&mut buffer, 0);
        writer.chunk(Tag::Cycle, |out| out.number(300)).unwrap();
        let length = writer.length();
        match next(&buffer[..length]) {
            Next::Chunk { tag, payload, length: whole } => {
                assert_eq!((tag, payload, whole), (6, &[0xac, 2][..], length));
            }
            _ => panic!("a whole chunk"),
        }
        assert!(matches!(next(&buffer[..length - 1]), Next::Cut));
        for byte in 0..length {
            let mut damaged = buffer;
            damaged[byte] ^= 4;
            assert!(!matches!(next(&damaged[..length]), Next::Chunk { .. }), "byte {byte}");
        }
    }

    #[test]
    fn a_length_that_nobody_writes_is_damage_and_no_end() {
        let mut bytes = vec![0; MOST_BYTES];
        bytes[0] = Tag::Map as u8;
        for (payload, is_damage) in
            [(MOST_BYTES - FRAME_BYTES + 1, true), (MOST_BYTES - FRAME_BYTES, false)]
        {
            bytes[1..5].copy_from_slice(&(payload as u32).to_le_bytes());
            assert_eq!(matches!(next(&bytes[..MOST_BYTES - 1]), Next::Broken), is_damage);
            assert_eq!(matches!(next(&bytes[..MOST_BYTES - 1]), Next::Cut), !is_damage);
        }
    }

    #[test]
    fn what_does_not_fit_leaves_no_trace() {
        let mut buffer = [0; 16];
        let mut writer = Writer::new(&mut buffer, 0);
        writer.chunk(Tag::End, |_| {}).unwrap();
        let before = writer.length();
        assert_eq!(writer.chunk(Tag::End, |out| out.raw(&[1; 20])), Err(Full));
        assert_eq!(writer.length(), before);
    }
}
