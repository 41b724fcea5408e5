//! `NEAP_SUMMARY`: one JSON object with the run's figures, written when the process ends; and the
//! figures themselves.
//!
//! Invariant: written at most once per process, by the thread that calls exit(3). A file that
//! cannot be written is reported and nothing else happens, no signal either.
//!
//! # Safety
//!
//! Hands a function of the right type to `atexit`.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use crate::addr::FRAME_BYTES;
use crate::cycle::driver::watch_in_use;
use crate::cycle::report::record::{self, CYCLES, MINOR_CYCLES, PAUSES};
use crate::heap::HEAP;
use crate::observe::named_file::{self, Path};
use crate::stats::{assists, events};
use crate::sync::set_once::SetOnce;
use crate::sys::files::quiet_write;
use crate::sys::{meta_alloc, print, side_stack, thread};
use crate::world::while_stopped;
use rustix::io::Errno;

pub use neap_record::Statistics;

/// The heap's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In use, or free and not yet given back.
    pub committed: u64,
    /// Of that, free.
    pub free: u64,
    /// Given back, or never touched.
    pub unmapped: u64,
}

/// The heap's memory now. From any thread, outside critical sections.
pub fn memory() -> Memory {
    let _critical = crate::world::current::get().map(|mutator| mutator.critical());
    let inner = HEAP.inner();
    let resident = inner.frames.resident() * FRAME_BYTES;
    let free = inner.frames.dirty_free() * FRAME_BYTES;
    let unmapped = HEAP.committed() - resident;
    Memory { committed: resident as u64, free: free as u64, unmapped: unmapped as u64 }
}

/// Cycles so far. From any thread.
pub fn cycles() -> u64 {
    CYCLES.load(Relaxed)
}

/// Bytes allocated since the last cycle, as far as threads have reported it. From any thread.
pub fn allocated_since_cycle() -> u64 {
    HEAP.state.allocated_since_cycle.load(Relaxed) as u64
}

/// Bytes that were live after the last cycle, and those allocated since, but for what the program
/// freed of the latter; as far as threads have reported either. From any thread.
pub fn held_bytes() -> u64 {
    let freed = HEAP.state.freed_since_cycle.load(Relaxed) as u64;
    HEAP.state.live_bytes.load(Relaxed) as u64 + allocated_since_cycle().saturating_sub(freed)
}

/// Bytes of the blocks in use, gaps and dead objects that are not swept yet included. From any
/// thread.
pub fn used_bytes() -> u64 {
    HEAP.state.taken_bytes.load(Relaxed) as u64
}

/// Objects and bytes allocated so far. From any thread, outside critical sections; also while the
/// world is stopped, by functions of the program.
pub fn allocated() -> (u64, u64) {
    while_stopped::allocated()
}

/// Bytes of the objects that the program freed itself so far. As above.
pub fn freed_bytes() -> u64 {
    while_stopped::freed_bytes()
}

/// What the calling thread freed counts in the heap's sums from now on.
fn report_own_frees() {
    if let Some(mutator) = crate::world::current::get() {
        let _critical = mutator.critical();
        let _inner = HEAP.inner();
        mutator.local.report_freed(&HEAP);
    }
}

/// The figures now. From any thread, outside critical sections.
pub fn statistics() -> Statistics {
    report_own_frees();
    let (allocated_objects, allocated_bytes) = allocated();
    let memory = memory();
    let [pause_count, pause_max_ns, pause_p99_ns, pause_p50_ns, pause_total_ns] =
        PAUSES.read(|pauses| {
            let [p99, p50] = [0.99, 0.5].map(|part| pauses.percentile(part));
            [pauses.count(), pauses.max(), p99, p50, pauses.total()]
        });
    Statistics {
        cycles: cycles(),
        minor_cycles: MINOR_CYCLES.load(Relaxed),
        pause_count,
        pause_max_ns,
        pause_p99_ns,
        pause_p50_ns,
        pause_total_ns,
        peak_bytes: HEAP.state.peak_bytes.load(Relaxed) as u64,
        live_bytes: HEAP.state.live_bytes.load(Relaxed) as u64,
        committed_bytes: memory.committed,
        free_bytes: memory.free,
        metadata_bytes: (HEAP.metadata_bytes() + meta_alloc::mapped_bytes()) as u64,
        allocated_bytes,
        allocated_objects,
        allocated_since_cycle: allocated_since_cycle(),
        freed_since_cycle: HEAP.state.freed_since_cycle.load(Relaxed) as u64,
        unmapped_bytes: memory.unmapped,
        assist_total_ns: assists::total_ns(),
    }
}

/// What the user gave, and the folder that the process was in then. Written once, at start-up.
static ASKED: SetOnce<(&'static CStr, Path)> = SetOnce::new();
/// The process that writes it: no child which does not know that it is one.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// 1 once the summary is written.
static WRITTEN: AtomicU32 = AtomicU32::new(0);
/// Whether this process was forked from the one that began: its file then has its number behind the
/// name.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Has the summary written at exit. Called once, at start-up.
pub fn install(path: Option<&'static CStr>) {
    if let Some(path) = path {
        ASKED.set((path, Path::current_folder()));
        PROCESS.store(thread::process(), Relaxed);
        // SAFETY: a function of the right type that stays loaded.
        unsafe { libc::atexit(at_exit) };
    }
}

extern "C" fn at_exit() {
    // Such as one that was forked in a handler which interrupted the library.
    if PROCESS.load(Relaxed) == thread::process() {
        events::set_ends(true);
        side_stack::on_new(write_once);
    }
}

fn write_once() {
    let Some((given, folder)) = ASKED.get() else { return };
    if WRITTEN.swap(1, AcqRel) != 0 {
        return;
    }
    let mut line = print::Line::new();
    let _ = write(&statistics(), &mut line);
    let written = if *given == c"-" {
        quiet_write::all(print::standard_error(), line.bytes())
    } else {
        let path = Path::of(given.to_bytes(), folder.as_bytes(), FORKED.load(Relaxed));
        named_file::create(&path).and_then(|file| {
            rustix::fs::ftruncate(&file, 0)?;
            quiet_write::all(file, line.bytes())
        })
    };
    let name = given.to_string_lossy();
    // Standard error may be no better a place.
    match written {
        Ok(()) => {}
        Err(Errno::LOOP | Errno::INVAL | Errno::NXIO) => quiet_write::message(format_args!(
            "NEAP_SUMMARY={name}: not a regular file; name one that can be made"
        )),
        Err(error) => {
            quiet_write::message(format_args!("cannot write NEAP_SUMMARY to {name}: {error}"));
        }
    }
}

/// In the child of a `fork`: it writes a summary of its own, beside its parent's.
pub fn after_fork() {
    WRITTEN.store(0, Relaxed);
    PROCESS.store(thread::process(), Relaxed);
    FORKED.store(true, Relaxed);
    // The stops are told from the fork on: those before it were the parent's.
    record::after_fork();
    assists::clear();
}

/// Nanoseconds as milliseconds.
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

macro_rules! keys {
    ($s:ident; $( $group:literal {
        $( $(#[doc = $meaning:literal])+ $key:ident: $form:literal = $value:expr, )+
    } )+) => {
        /// The object's keys in their order: the object within it that has it, or nothing, its name
        /// and its meaning. `docs/figures.md` is made of them.
        pub const KEYS: &[(&str, &str, &str)] =
            &[ $($( ($group, stringify!($key), concat!($($meaning,)+)), )+)+ ];

        fn write($s: &Statistics, out: &mut impl Write) -> core::fmt::Result {
            let mut before = '{';
            $(
                if !$group.is_empty() {
                    write!(out, "{before}\"{}\":", $group)?;
                    before = '{';
                }
                $(
                    write!(out, concat!("{}\"", stringify!($key), "\":", $form), before, $value)?;
                    before = ',';
                )+
                if !$group.is_empty() {
                    out.write_char('}')?;
                }
            )+
            out.write_str("}\n")
        }
    };
}

keys! {
    s;
    "" {
        /// Neap's
        version: "\"{}\"" = env!("CARGO_PKG_VERSION"),
        /// how the collector learnt what the program wrote while it marked: `pagemap`, it asked the
        /// kernel; `mprotect`, by faults; `fork`, it need not, since a child process marked a
        /// snapshot; `snapshot`, it need not, since pages were copied before they were written;
        /// `none`, it stopped the world. What is in use at exit, not what was asked for
        watch: "\"{}\"" = watch_in_use::watching().name(),
        /// cycles of all kinds
        cycles: "{}" = s.cycles,
        /// of these, minor ones
        minor_cycles: "{}" = s.minor_cycles,
    }
    "pauses_ms" {
        /// stops of the world, and the longest stop of one thread in each concurrent or minor cycle
        count: "{}" = s.pause_count,
        /// the longest, in milliseconds
        max: "{:.4}" = ms(s.pause_max_ns),
        /// 99 of 100 were no longer, in milliseconds, at most an eighth off
        p99: "{:.4}" = ms(s.pause_p99_ns),
        /// half of them were no longer, in milliseconds, at most an eighth off
        p50: "{:.4}" = ms(s.pause_p50_ns),
        /// all of them together, in milliseconds
        total: "{:.4}" = ms(s.pause_total_ns),
    }
    "" {
        /// what threads of the program spent in the collector beside stops: marking along, waiting
        /// for a cycle, sweeping for a block, in milliseconds. What functions of the program take
        /// that hear of a cycle's end is theirs
        assists_ms: "{:.4}" = ms(s.assist_total_ns),
    }
    "heap" {
        /// most in use by blocks at once, in bytes
        peak_bytes: "{}" = s.peak_bytes,
        /// found live by the last cycle
        live_bytes: "{}" = s.live_bytes,
        /// holding memory of the system now
        committed_bytes: "{}" = s.committed_bytes,
        /// the collector's own tables, beside the heap
        metadata_bytes: "{}" = s.metadata_bytes,
    }
    "" {
        /// all that was ever allocated
        allocated_bytes: "{}" = s.allocated_bytes,
        /// objects, likewise
        allocated_objects: "{}" = s.allocated_objects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_figures_fit_a_line_and_the_object_is_balanced() {
        let largest = Statistics::from_values(&[u64::MAX; Statistics::COUNT]);
        let mut line = print::Line::new();
        write(&largest, &mut line).unwrap();
        let text = core::str::from_utf8(line.bytes()).unwrap();
        for (_, key, _) in KEYS {
            assert!(text.contains(&format!("\"{key}\":")), "{key}: {text}");
        }
        assert!(
            text.ends_with("}\n") && text.matches('{').count() == text.matches('}').count(),
            "{text}"
        );
    }
}
