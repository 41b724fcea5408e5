//! What a program does, as far as a collector notices: how fast it allocates and writes, and how
//! much of what it allocated is alive.
//!
//! Invariant: everything is told by how much was allocated, so it is the same whenever cycles come.

use crate::costs::Costs;

/// A steady program allocates this many times what it has alive before it is measured.
const KNOWN_AFTER: f64 = 6.0;

/// A stretch of a program, between two looks at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Bytes allocated in it.
    pub bytes: f64,
    /// Bytes alive at its end.
    pub live: f64,
    /// The program's own time for it, nanoseconds of one thread.
    pub program_ns: f64,
    /// What marking what was alive took, for each byte.
    pub mark_byte_ns: f64,
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Threads that share the work.
    pub threads: usize,
    /// What it does, in turn.
    pub stretches: Vec<Stretch>,
    /// So many of the first stretches are no part of what is measured.
    pub unmeasured: usize,
    /// Pages that a thread writes in a millisecond for the first time since they were protected,
    /// while nearly all of them are.
    pub pages_per_ms: f64,
}

/// Where a program stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    index: usize,
    /// Bytes into the stretch.
    offset: f64,
}

impl Program {
    /// One that does the same for ever: of `rate` bytes in a microsecond, each thread's, with
    /// `live` bytes alive, for `ms` milliseconds of its own time; before, it gets there and the
    /// policies get to know it.
    pub fn steady(threads: usize, rate: f64, live: f64, pages_per_ms: f64, ms: f64) -> Self {
        let mark_byte_ns = Costs::HERE.mark_byte_ns;
        let stretch = |bytes| Stretch { bytes, live, program_ns: bytes / rate * 1e3, mark_byte_ns };
        let measured = rate * 1e3 * ms * threads as f64;
        let stretches = vec![stretch(live), stretch(live * KNOWN_AFTER), stretch(measured)];
        let name = format!("steady, {threads} threads");
        Self { name, threads, stretches, unmeasured: 2, pages_per_ms }
    }

    /// All that it allocates.
    pub fn bytes(&self) -> f64 {
        self.stretches.iter().map(|stretch| stretch.bytes).sum()
    }

    /// Its beginning.
    pub fn start(&self) -> Place {
        Place { index: 0, offset: 0.0 }
    }

    /// Goes on by so many bytes; None at its end.
    pub fn advance(&self, place: Place, bytes: f64) -> Option<Place> {
        let Place { mut index, mut offset } = place;
        offset += bytes;
        while offset >= self.stretches[index].bytes {
            offset -= self.stretches[index].bytes;
            index += 1;
            if index == self.stretches.len() {
                return None;
            }
        }
        Some(Place { index, offset })
    }

    /// Whether what is measured has begun.
    pub fn is_measured(&self, place: Place) -> bool {
        place.index >= self.unmeasured
    }

    /// The stretch that it is in.
    pub fn stretch(&self, place: Place) -> &Stretch {
        &self.stretches[place.index]
    }

    /// Bytes alive.
    pub fn live(&self, place: Place) -> f64 {
        let before = place.index.checked_sub(1).map_or(0.0, |before| self.stretches[before].live);
        let stretch = self.stretch(place);
        before + (stretch.live - before) * place.offset / stretch.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_is_found_between_two_looks() {
        let program = Program::steady(2, 100.0, 1e6, 0.0, 10.0);
        assert_eq!(program.bytes(), 9e6);
        let place = program.advance(program.start(), 5e5).unwrap();
        assert_eq!((program.live(place), program.is_measured(place)), (5e5, false));
        let place = program.advance(place, 7e6).unwrap();
        assert_eq!((program.live(place), program.stretch(place).bytes), (1e6, 2e6));
        assert!(program.is_measured(place));
        assert!(program.advance(place, 1.5e6).is_none());
    }
}
