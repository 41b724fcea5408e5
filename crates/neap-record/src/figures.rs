//! The one declaration of figures: what it declares is a struct, its encoding, and a table of
//! names, units and meanings, which reports, metrics and `docs/events.md` are made of.
//!
//! Invariant: figures are only added at the end of their struct, so that old files and new readers
//! understand each other. Pure. Called from any thread.

/// What a figure counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// As documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Bytes => "bytes",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

/// How a figure behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// Only grows while the process lives.
    Counter,
    /// Goes up and down, or belongs to one moment.
    Gauge,
}

impl Nature {
    /// As documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// A figure's name, unit and meaning.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// In lower case, with the unit at its end where that is not a count.
    pub name: &'static str,
    /// What it counts in.
    pub unit: Unit,
    /// How it behaves.
    pub nature: Nature,
    /// One or more lines, each beginning with a space.
    pub meaning: &'static str,
}

macro_rules! figures {
    ($(#[doc = $about:literal])+ $name:ident { $(
        $(#[doc = $meaning:literal])+ $field:ident: $unit:ident $nature:ident,
    )+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name { $( $(#[doc = $meaning])+ pub $field: u64, )+ }

        impl $name {
            /// The declaration, in the order of the fields.
            pub const FIGURES: &[Figure] = &[ $( Figure {
                name: stringify!($field),
                unit: Unit::$unit,
                nature: Nature::$nature,
                meaning: concat!($( $meaning, "\n", )+),
            }, )+ ];
            /// How many there are.
            pub const COUNT: usize = Self::FIGURES.len();

            /// The values, in the order of the fields.
            pub fn values(&self) -> [u64; Self::COUNT] {
                [ $( self.$field, )+ ]
            }

            /// From values in this order; missing ones are 0.
            pub fn from_values(values: &[u64]) -> Self {
                let mut values = values.iter().copied();
                Self { $( $field: values.next().unwrap_or(0), )+ }
            }
        }
    };
}

figures! {
    /// The process's figures.
    Statistics {
        /// Cycles completed.
        cycles: Count Counter,
        /// Of those, minor ones.
        minor_cycles: Count Counter,
        /// Stops: of the world, and of each cycle the longest of a single thread for its roots.
        pause_count: Count Counter,
        /// The longest stop.
        pause_max_ns: Nanoseconds Gauge,
        /// 99 of 100 stops were no longer.
        pause_p99_ns: Nanoseconds Gauge,
        /// Half of the stops were no longer.
        pause_p50_ns: Nanoseconds Gauge,
        /// All stops together.
        pause_total_ns: Nanoseconds Counter,
        /// Most bytes of blocks in use at once.
        peak_bytes: Bytes Gauge,
        /// Bytes of objects that the last cycle found live.
        live_bytes: Bytes Gauge,
        /// Bytes of the heap that hold memory of the system.
        committed_bytes: Bytes Gauge,
        /// Of those, bytes in no block.
        free_bytes: Bytes Gauge,
        /// Bytes of headers, bits and the collector's own tables.
        metadata_bytes: Bytes Gauge,
        /// Bytes of cells handed out.
        allocated_bytes: Bytes Counter,
        /// Objects handed out.
        allocated_objects: Count Counter,
        /// Bytes handed out to threads since the last cycle.
        allocated_since_cycle: Bytes Gauge,
        /// Bytes freed explicitly since the last cycle.
        freed_since_cycle: Bytes Gauge,
        /// Bytes of address space in use by the heap that were given back to the system.
        unmapped_bytes: Bytes Gauge,
        /// Time that the program's threads spent in the collector beside stops: sweeping, helping,
        /// waiting for cycles.
        assist_total_ns: Nanoseconds Counter,
    }
}

figures! {
    /// What one cycle did.
    Cycle {
        /// Its number, from 1.
        number: Count Gauge,
        /// When it ended, since the process's recording began.
        ended_ns: Nanoseconds Gauge,
        /// 0: with the world stopped throughout. 1: with the world running but for one short stop,
        /// under a write watch. 2: with two, marked by a child process. 3: as 1, and a minor cycle.
        /// 4: with two, marked as the heap was at the first. 5: by the
        /// program's only thread, which had asked for it.
        concurrent: Count Gauge,
        /// The longest stop for roots, of one thread or of all, of a concurrent cycle; 0 otherwise.
        first_ns: Nanoseconds Gauge,
        /// Short stops between, to write-protect pages.
        short_stops: Count Gauge,
        /// The longest of them.
        longest_short_ns: Nanoseconds Gauge,
        /// All of them together.
        short_stops_ns: Nanoseconds Gauge,
        /// The whole stop; of a concurrent cycle the last one.
        pause_ns: Nanoseconds Gauge,
        /// Of the last stop, from its first signal until every thread stood.
        stopping_ns: Nanoseconds Gauge,
        /// Reading roots in the last stop.
        roots_ns: Nanoseconds Gauge,
        /// Following grey words.
        mark_ns: Nanoseconds Gauge,
        /// Processing references (finalizers, links, handles) in the last stop.
        references_ns: Nanoseconds Gauge,
        /// Finishing the last sweep and clearing marks, world running.
        protect_ns: Nanoseconds Gauge,
        /// Rounds of asking for written pages and scanning them again, world running.
        rounds: Count Gauge,
        /// Pages scanned again, world running; with a snapshot, pages kept as they were.
        preclean_pages: Count Gauge,
        /// Pages scanned again in the last stop; with a snapshot, protected in the first.
        remark_pages: Count Gauge,
        /// Markers at work.
        markers: Count Gauge,
        /// Threads of the program.
        mutators: Count Gauge,
        /// Bytes of cells handed out since the cycle before.
        allocated_bytes: Bytes Gauge,
        /// Bytes marked, and so live; what was born during a concurrent cycle counts as live.
        live_bytes: Bytes Gauge,
        /// Bytes of the heap that hold memory of the system.
        committed_bytes: Bytes Gauge,
        /// Bytes that may be allocated before the next cycle begins.
        next_bytes: Bytes Gauge,
        /// Bytes that may be allocated before it ends: the room for growth.
        room_bytes: Bytes Gauge,
        /// When it began, since the process's recording began.
        began_ns: Nanoseconds Gauge,
        /// Processing references beside the program, after the last stop.
        references_running_ns: Nanoseconds Gauge,
        /// Its stops, the first, the short and the last ones; of those of single threads the
        /// longest.
        stops: Count Gauge,
        /// All of them together.
        stops_ns: Nanoseconds Gauge,
        /// The longest of them.
        longest_stop_ns: Nanoseconds Gauge,
    }
}

figures! {
    /// The state of one size class (or of all large objects) of one kind after a cycle.
    Census {
        /// Objects found live.
        live_objects: Count Gauge,
        /// Bytes of their cells.
        live_bytes: Bytes Gauge,
        /// Cells in those blocks of the class that hold something live.
        cells: Count Gauge,
        /// Bytes of those blocks; what is not live in them is free for the same class.
        block_bytes: Bytes Gauge,
    }
}

figures! {
    /// What the live page of a running process says, at any moment. `neap top` and `neap metrics`
    /// read it.
    Live {
        /// Bytes handed out: runs of cells to threads, and large objects. Threads count theirs in
        /// steps of half a megabyte, and the rest in each cycle and when they end.
        handed_out_bytes: Bytes Counter,
        /// Bytes of blocks in use.
        used_bytes: Bytes Gauge,
        /// Bytes of the heap's address range that were made usable.
        reserved_bytes: Bytes Gauge,
        /// Threads of the program that the collector knows.
        threads: Count Gauge,
        /// Cycles completed.
        cycles: Count Counter,
        /// The phase of the cycle under way: 0 idle, 1 protect, 2 roots, 3 mark, 4 remark, 5
        /// references.
        phase: Count Gauge,
        /// Stops: of the world, and of each cycle the longest of a single thread for its roots.
        pause_count: Count Counter,
        /// All stops together.
        pause_total_ns: Nanoseconds Counter,
        /// The longest stop.
        pause_max_ns: Nanoseconds Gauge,
    }
}

impl Cycle {
    /// Bytes that the cycle found dead, of what had been live after the one before and was
    /// allocated since.
    pub fn yield_bytes(&self, live_before: u64) -> u64 {
        live_before.saturating_add(self.allocated_bytes).saturating_sub(self.live_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_their_unit_and_values_come_back() {
        for figure in Cycle::FIGURES
            .iter()
            .chain(Statistics::FIGURES)
            .chain(Census::FIGURES)
            .chain(Live::FIGURES)
        {
            assert_eq!(
                figure.name.ends_with("_ns"),
                figure.unit == Unit::Nanoseconds,
                "{figure:?}"
            );
            if figure.name.ends_with("_bytes") {
                assert_eq!(figure.unit, Unit::Bytes, "{figure:?}");
            }
            assert!(figure.meaning.trim().ends_with('.'), "{figure:?}");
        }
        let values: [u64; Cycle::COUNT] = core::array::from_fn(|index| index as u64 * 3 + 1);
        assert_eq!(Cycle::from_values(&values).values(), values);
        assert_eq!(Cycle::from_values(&[7]).number, 7);
    }
}
