//! The one list of what takes time in cycles: stops of the program, the phases of a cycle, what
//! single threads do for it. Recordings keep each with its thread and its times; reports count the
//! stops among them, traces draw all.
//!
//! Invariant: numbers are part of the format; kinds are only added. Stops have the numbers below
//! [`STOPS_END`]: each is counted once, here and in the figures. Pure.

/// Where the numbers of stops end.
pub const STOPS_END: u64 = 16;

macro_rules! kinds {
    ($( $(#[doc = $meaning:literal])+ $name:ident = $number:literal, $shown:literal; )+) => {
        /// What takes time.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u64)]
        pub enum SpanKind { $( $(#[doc = $meaning])+ $name = $number, )+ }

        impl SpanKind {
            /// Every kind, in the order of its number.
            pub const ALL: &[SpanKind] = &[ $( SpanKind::$name, )+ ];

            /// Its name in traces, tables and documents.
            pub const fn name(self) -> &'static str {
                match self { $( SpanKind::$name => $shown, )+ }
            }

            /// What it says, one or more lines, each beginning with a space.
            pub const fn meaning(self) -> &'static str {
                match self { $( SpanKind::$name => concat!($( $meaning, "\n", )+), )+ }
            }

            /// The kind of a number.
            pub fn from_number(number: u64) -> Option<SpanKind> {
                Self::ALL.iter().copied().find(|kind| *kind as u64 == number)
            }
        }
    };
}

kinds! {
    /// A stop: the world stood for the end of a cycle, or for all of its marking.
    LastStop = 0, "last_stop";
    /// A stop: the world stood while roots were read, before marking beside the program.
    FirstStop = 1, "first_stop";
    /// A stop: of the threads that stood one at a time for their roots in a cycle, the one that
    /// stood longest.
    ThreadStop = 2, "thread_stop";
    /// A stop: the world stood for written pages to be protected again, or for functions of the
    /// program to be called, between the first and the last stop.
    ShortStop = 3, "short_stop";
    /// A stop: the world stood for the process to be copied, for a snapshot of its heap.
    CopyStop = 4, "copy_stop";
    /// Beside the program: the last sweep is finished, marks are cleared, pages are protected.
    Protect = 16, "protect";
    /// Beside the program: roots are read, one thread standing at a time.
    Roots = 17, "roots";
    /// Beside the program: grey words are followed, and written pages scanned again.
    Mark = 18, "mark";
    /// A round of asking for written pages and scanning them again, beside the program.
    Preclean = 19, "preclean";
    /// Beside the program, after the last stop: references are processed.
    References = 20, "references";
    /// Of a stop: from the first signal until every thread stood.
    Stopping = 21, "stopping";
    /// Of a stop: roots are read.
    StoppedRoots = 22, "stopped_roots";
    /// Of a stop: grey words are followed, and written pages scanned.
    StoppedMark = 23, "stopped_mark";
    /// Of a stop: references are processed.
    StoppedReferences = 24, "stopped_references";
    /// A thread of the program stood for its roots, while the others ran.
    Stands = 32, "stands";
    /// A thread of the library's own marks.
    Help = 33, "help";
    /// A thread of the program marks, for 20 microseconds or more.
    Assist = 34, "assist";
    /// A thread of the program is in the collector for 20 microseconds or more: it takes a part of
    /// a cycle, marks, or waits.
    InCollector = 35, "in_collector";
    /// A copy of the process marks, with watch=fork: from its beginning until everything is marked.
    /// Its thread is the copy's number.
    ForkedMark = 36, "forked_mark";
}

impl SpanKind {
    /// Whether it is a stop.
    pub const fn is_stop(self) -> bool {
        (self as u64) < STOPS_END
    }

    /// Whether every thread of the program stood.
    pub const fn is_of_world(self) -> bool {
        self.is_stop() && !matches!(self, SpanKind::ThreadStop)
    }
}

/// Something took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What.
    pub kind: SpanKind,
    /// The thread that did it, by its kernel's id; of a thread that stood, that one.
    pub thread: u64,
    /// The cycle's number; 0 outside of cycles. What a thread of the program does may end after it.
    pub cycle: u64,
    /// When it began, since the process's recording began.
    pub began_ns: u64,
    /// How long it took.
    pub length_ns: u64,
}

impl Span {
    /// Numbers of a span.
    pub const COUNT: usize = 5;
    /// The place of `began_ns` among them.
    pub const BEGAN: usize = 3;

    /// Its numbers.
    pub const fn values(&self) -> [u64; Self::COUNT] {
        let Self { kind, thread, cycle, began_ns, length_ns } = *self;
        [kind as u64, thread, cycle, began_ns, length_ns]
    }

    /// From its numbers; None for a kind that this version does not know.
    pub fn from_values(values: &[u64; Self::COUNT]) -> Option<Self> {
        let [kind, thread, cycle, began_ns, length_ns] = *values;
        Some(Self { kind: SpanKind::from_number(kind)?, thread, cycle, began_ns, length_ns })
    }

    /// When it was over.
    pub const fn ended_ns(&self) -> u64 {
        self.began_ns.saturating_add(self.length_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_lead_back_and_stops_are_told_apart() {
        for kind in SpanKind::ALL.iter().copied() {
            let span = Span { kind, thread: 7, cycle: 3, began_ns: 100, length_ns: 20 };
            assert_eq!(Span::from_values(&span.values()), Some(span));
            assert_eq!(kind.is_stop(), kind.name().ends_with("_stop"), "{kind:?}");
            assert_eq!(kind.is_stop(), kind.meaning().trim().starts_with("A stop:"), "{kind:?}");
        }
        assert!(SpanKind::ALL.is_sorted());
        assert_eq!(Span::from_values(&[15, 0, 0, 0, 0]), None);
    }
}
