//! The line that `NEAP_LOG=cycles` prints for a cycle, and the one declaration of its fields, which
//! `docs/figures.md` is made of.
//!
//! Invariant: a field is declared once, with its meaning; none is printed without. Pure. Called by
//! the thread that drives a cycle.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::record::CycleRecord;
use crate::sys::print;

/// Whether each cycle prints a line.
pub static LOG_CYCLES: AtomicBool = AtomicBool::new(false);

/// A cycle is over: it is counted, and its line printed if that was asked for. With the world
/// running.
pub fn publish(record: &mut CycleRecord) {
    record.count();
    if LOG_CYCLES.load(Relaxed) {
        print::message(format_args!("{}", Line(record)));
    }
}

/// A cycle's record, as its line shows it.
struct Line<'a>(&'a CycleRecord);

macro_rules! fields {
    (
        $record:ident;
        $(#[doc = $first_meaning:literal])+ $first:ident = $first_value:expr;
        $( $(#[doc = $meaning:literal])+ $field:ident = $value:expr; )+
    ) => {
        /// Names and meanings, in the order of the line.
        pub const FIELDS: &[(&str, &str)] = &[
            (stringify!($first), concat!($($first_meaning,)+)),
            $( (stringify!($field), concat!($($meaning,)+)), )+
        ];

        impl fmt::Display for Line<'_> {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $record = self.0;
                write!(
                    out,
                    concat!(stringify!($first), "={}" $(, " ", stringify!($field), "={}")+),
                    $first_value $(, $value)+
                )
            }
        }
    };
}

/// Nanoseconds as microseconds.
const fn us(ns: u64) -> u64 {
    ns / 1000
}

/// Bytes as KiB.
const fn kib(bytes: usize) -> usize {
    bytes >> 10
}

fields! {
    record;
    /// number of the cycle, from 1
    cycle = record.number;
    /// `full`: everything was marked anew, with the world stopped throughout. `concurrent`:
    /// everything was marked anew, with the program running but for a last stop. `minor`: the same,
    /// but what earlier cycles marked counted as live. `fork`: a child process marked everything as
    /// it was in the first of two stops; where the child could not be made, did not answer, or was
    /// overtaken by a weak reference, the world was stopped for it, and the cycle is a `full` one
    /// with a `first_us`. `snapshot`: the same, but marked in the process, and pages were copied
    /// before the program wrote to them. `alone`: everything was marked anew by the program's only
    /// thread, which had asked for it: it stopped nobody ([pacing](design/pacing.md),
    /// `cycle.why.alone`)
    kind = record.kind.name();
    /// the stop of the world, until its threads were let go; of a concurrent or minor cycle the
    /// last stop; of one alone 0
    pause_us = us(record.pause_ns);
    /// concurrent, minor: the longest time that one thread stood for its roots, in the first
    /// reading or in any round, from its answer on; where roots are read in a first stop, with
    /// `fork`, and where a stop ended again because there was so much static data, how long that
    /// was. Otherwise 0
    first_us = us(record.first_ns);
    /// concurrent, minor: how often the world was stopped between, to protect pages that had been
    /// written and scan some of them, or to call the program's trace functions for a start
    short_stops = record.short_stops;
    /// the longest of these stops
    longest_short_us = us(record.longest_short_ns);
    /// minor: pages written since the cycle before, or not watched since, and scanned again
    remembered_pages = record.remembered_pages;
    /// concurrent, minor: how often the written pages were asked for and scanned again, with the
    /// program running or, from the second round on and in small heaps, in short stops
    rounds = record.rounds;
    /// concurrent, minor: how long these rounds waited for a program that wrote all over the heap
    /// and allocated nothing
    waited_us = us(record.waited_ns);
    /// concurrent, minor: how often all of the heap's written pages were scanned in short stops, a
    /// piece in each, after rounds that did not get to an end
    passes = record.passes;
    /// concurrent, minor: how what was written came to be little before the last stop: by `rounds`
    /// beside the program, by `passes` in short stops, or `no`: the last stop had the rest to do
    caught_up = record.caught_up.name();
    /// concurrent, minor: pages scanned again in these rounds and passes; snapshot: pages kept as
    /// they were before the program wrote to them
    preclean_pages = record.preclean_pages;
    /// concurrent, minor: pages scanned again in the last stop, written ones and those of blocks
    /// that are not watched; snapshot: pages protected in the first stop
    remark_pages = record.remark_pages;
    /// from the first stop signal until every thread stood; of a concurrent or minor cycle in its
    /// last stop, with `fork` in its first
    stopping_us = us(record.stopping_ns);
    /// reading the roots: stacks, registers, static data, thread-local storage; in the (last) stop
    roots_us = us(record.roots_ns);
    /// concurrent, minor: how much was read for that: of static data and registered ranges that are
    /// watched only the pages written meanwhile
    root_kib = kib(record.root_bytes);
    /// concurrent, minor: in the last stop, asking which pages were written, and reading what is on
    /// them
    ask_us = us(record.ask_ns);
    /// concurrent, minor: in the last stop, following pointers from there
    remark_us = us(record.remark_ns);
    /// following pointers: in the stop, or in a concurrent or minor cycle what was done with the
    /// program running, the rounds included, but not `waited_us`
    mark_us = us(record.mark_ns);
    /// deciding about finalizers, handles and links in the last stop; `pause_us` has it too
    references_us = us(record.references_ns);
    /// the same after the last stop, with the program running
    references_running_us = us(record.references_running_ns);
    /// before any stop, with the program running: finishing the last sweep, clearing the marks,
    /// having the kernel watch; of a minor cycle with scanning the remembered pages
    protect_us = us(record.protect_ns);
    /// threads that marked; of a concurrent or minor cycle while the program ran, at once at most,
    /// the collector's own thread and helping threads of the program among them
    markers = record.markers;
    /// threads of the program
    threads = record.mutators;
    /// handed out since the cycle before
    allocated_kib = kib(record.allocated_bytes);
    /// found live; of a concurrent cycle with what was born marked while it ran, of a minor one
    /// with everything old
    live_kib = kib(record.live_bytes);
    /// memory of the heap in use or kept for use
    committed_kib = kib(record.committed_bytes);
    /// what may be allocated before the next cycle begins
    next_kib = kib(record.next_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_every_field_once_and_in_order_and_fits() {
        let largest =
            CycleRecord { pause_ns: u64::MAX, live_bytes: usize::MAX, ..Default::default() };
        let line = Line(&largest).to_string();
        let named: Vec<&str> =
            line.split(' ').map(|field| field.split_once('=').unwrap().0).collect();
        let declared: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, declared);
        assert!(line.contains(" pause_us=18446744073709551 "), "{line}");
        assert!(line.len() < 1000, "{}", line.len());
    }
}
