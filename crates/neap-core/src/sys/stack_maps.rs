//! `/proc/self/maps`, read without malloc, for the one question that nothing else answers: which mapping holds this stack address?
//!
//! Called when a thread of unknown origin is attached, and for a stopped thread that runs on an alternate stack.

use core::ops::Range;
use rustix::fs::{Mode, OFlags};

/// The mapping that contains `address`, None if there is none or `/proc` is not there.
pub fn mapping_of(address: usize) -> Option<Range<usize>> {
    let file =
        rustix::fs::open(c"/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .ok()?;
    let mut parser = Parser::default();
    let mut buffer = [0_u8; 4096];
    loop {
        let read = rustix::io::read(&file, &mut buffer).ok().filter(|read| *read > 0)?;
        if let Some(found) = buffer[..read]
            .iter()
            .find_map(|byte| parser.feed(*byte).filter(|range| range.contains(&address)))
        {
            return Some(found);
        }
    }
}

/// Reads `START-END ` at the beginning of each line and skips the rest.
#[derive(Default)]
struct Parser {
    start: usize,
    number: usize,
    skipping: bool,
}

impl Parser {
    fn feed(&mut self, byte: u8) -> Option<Range<usize>> {
        match byte {
            b'\n' => *self = Self::default(),
            _ if self.skipping => {}
            b'-' => (self.start, self.number) = (self.number, 0),
            b' ' => {
                self.skipping = true;
                return Some(self.start..self.number);
            }
            digit => {
                self.number = self.number << 4 | (digit as char).to_digit(16).unwrap_or(0) as usize
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_mapping_of_a_local() {
        let local = 0_u8;
        let address = core::ptr::from_ref(&local) as usize;
        assert!(mapping_of(address).unwrap().contains(&address));
        assert_eq!(mapping_of(1), None);
    }

    #[test]
    fn parses_lines() {
        let mut parser = Parser::default();
        let found: Vec<_> = b"1000-2000 rw-p 0 f-f 0\nab-cd r\n"
            .iter()
            .filter_map(|byte| parser.feed(*byte))
            .collect();
        assert_eq!(found, [0x1000..0x2000, 0xab..0xcd]);
    }
}
