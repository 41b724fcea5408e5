//! Taking the time of what a cycle does, and telling of it where anybody has asked.
//!
//! Invariant: a span is told once, when it is over; telling takes no lock and waits for nobody, so
//! it may happen with the world stopped. By the thread that did it.

use crate::stats::events;
use crate::sys::{clock, thread};

pub use neap_record::{Span, SpanKind};

/// A stop that is over.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// When it began, by the clock.
    pub began_ns: u64,
    /// How long it took.
    pub length_ns: u64,
}

impl Stop {
    /// From one moment to another.
    pub fn between(began_ns: u64, over_ns: u64) -> Self {
        Self { began_ns, length_ns: over_ns.saturating_sub(began_ns) }
    }
}

/// Something that takes time since a moment.
#[derive(Clone, Copy)]
pub struct Timed {
    kind: SpanKind,
    began_ns: u64,
}

/// Begins now.
pub fn timed(kind: SpanKind) -> Timed {
    Timed { kind, began_ns: clock::now_ns() }
}

impl Timed {
    /// When it began, by the clock.
    pub fn began_ns(self) -> u64 {
        self.began_ns
    }

    /// It is over, for a cycle of this number; gives how long it took.
    pub fn over(self, cycle: u64) -> u64 {
        let length_ns = clock::now_ns().saturating_sub(self.began_ns);
        tell(self.kind, None, cycle, self.began_ns, length_ns);
        length_ns
    }

    /// The same for what a thread of the program does, which is told only where it took a while.
    pub fn over_on_program(self, cycle: u64) {
        let length_ns = clock::now_ns().saturating_sub(self.began_ns);
        if length_ns >= LEAST_NS {
            tell(self.kind, None, cycle, self.began_ns, length_ns);
        }
    }
}

/// What threads of the program do for a cycle is told from so many nanoseconds on. Larger: gaps in
/// traces; smaller: threads that come by at every refill fill the ring.
const LEAST_NS: u64 = 20_000;

/// Tells of a span, of the calling thread if none is named.
pub fn tell(kind: SpanKind, thread: Option<i32>, cycle: u64, began_ns: u64, length_ns: u64) {
    if events::are_wanted() {
        let thread = thread.unwrap_or_else(thread::current) as u64;
        events::note_span(&Span { kind, thread, cycle, began_ns, length_ns });
    }
}
