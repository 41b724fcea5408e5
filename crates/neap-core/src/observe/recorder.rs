//! `NEAP_STATS`: what the program asks of its memory and what cycles do, written to a file by a
//! thread of its own.
//!
//! Invariant `[stats.inv.once]`: each request and each cycle is written at most once, and once
//! unless the process ends without exit(3) or the file is refused. Memory is bounded: a buffer, a
//! tally for each thread that lives and for some that ended while the file could not be written,
//! rings of cycles. The lock is taken by the recorder's thread, by threads that begin or end, at
//! exit and over `fork`; its holder may wait for the registry's lock, and nobody who stops the
//! world waits for it. A child of `fork` records to a file of its own, from the fork on.
//!
//! # Safety
//!
//! Reaches the recorder's data, which are behind its lock, and tallies by their addresses: a tally
//! is never unmapped, so an address that was in the list stays good.

#![allow(unsafe_code)]

mod tallies;

use core::ffi::{CStr, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::*};

use neap_record::chunks::{Conditions, Process, Shape as Told};
use neap_record::{MAGIC, Statistics};

use super::census::Taken;
use super::named_file::Path;
use super::output::Output;
use super::recorded_cycles::RecordedCycles;
use super::tally::Tally;
use crate::addr::PAGE_BYTES;
use crate::heap::classes::TABLE;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::{HEAP, samples};
use crate::options;
use crate::rank::Rank;
use crate::stats::events;
use crate::stats::{KEPT, sampler};
use crate::sync::{ForkLock, Lock};
use crate::sys::files::small_file;
use crate::sys::process::modules::Modules;
use crate::sys::{clock, futex, own_thread, print, side_stack, thread};
use tallies::Tallies;

/// How often requests are written. Larger: a smaller file; smaller: less is lost when the program
/// crashes.
const INTERVAL_NS: u64 = 500_000_000;
/// Between two censuses at least: they cost time in proportion to the heap's blocks.
const CENSUS_NS: u64 = 10_000_000;

/// What the layers above know and the recorder asks for.
#[derive(Clone, Copy)]
pub struct Sources {
    /// The process's figures.
    pub statistics: fn() -> Statistics,
    /// How the collector learns what the program writes.
    pub watch: fn() -> &'static str,
    /// Runs a function where no stop falls on the calling thread.
    pub unstopped: fn(&mut dyn FnMut()),
    /// Options in force.
    pub options: options::Options,
}

struct Recorder {
    sources: Option<Sources>,
    out: Output,
    began_ns: u64,
    tallies: Tallies,
    /// Layouts that were told.
    layouts: usize,
    modules: Modules,
    /// Of those, how many were told.
    modules_told: usize,
    cycles: RecordedCycles,
    census: Taken,
    /// The cycle whose census was taken last, and when.
    census_of: u64,
    census_ns: u64,
}

static RECORDER: Lock<Recorder> = Lock::new(
    Rank::Recorder,
    Recorder {
        sources: None,
        out: Output::new(),
        began_ns: 0,
        tallies: Tallies::new(),
        layouts: 0,
        modules: Modules::new(),
        modules_told: 0,
        cycles: RecordedCycles::new(),
        census: Taken::new(),
        census_of: 0,
        census_ns: 0,
    },
);
/// Whether the process records: one of the three below. Written once at start-up, before the first
/// thread is attached.
static DECISION: AtomicU8 = AtomicU8::new(OPEN);
const OPEN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// The process that records: no child which does not know that it is one, as one that was forked in
/// a handler which interrupted the library, or shares its parent's memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static RUNNING: AtomicBool = AtomicBool::new(false);
/// Bytes of cells that requests for an alignment took beyond their size.
static PADDING: AtomicU64 = AtomicU64::new(0);
static RESIZED: AtomicU64 = AtomicU64::new(0);

/// Whether the process records.
#[inline]
pub fn is_on() -> bool {
    KEPT && DECISION.load(Relaxed) == ON
}

/// Whether it is decided that the process does not record.
#[inline]
pub fn is_off() -> bool {
    !KEPT || DECISION.load(Relaxed) == OFF
}

fn is_own_process() -> bool {
    PROCESS.load(Relaxed) == thread::process()
}

/// The process does not record. Called once, at start-up, instead of [`begin`].
pub fn decline() {
    DECISION.store(OFF, Release);
}

/// Begins to record to a file. Called once, at start-up, by one thread.
pub fn begin(file: &'static CStr, sources: Sources) {
    let mut recorder = RECORDER.lock();
    recorder.out.begin(file);
    recorder.sources = Some(sources);
    recorder.began_ns = clock::now_ns();
    drop(recorder);
    PROCESS.store(thread::process(), Relaxed);
    events::want();
    DECISION.store(ON, Release);
    // SAFETY: a function of the right type that stays loaded.
    unsafe { libc::atexit(at_exit) };
}

/// Makes sure that the recorder's thread runs: after start-up, and in a forked child that does
/// something worth recording.
#[inline]
pub fn ensure_running() {
    if !RUNNING.load(Relaxed) && !RUNNING.swap(true, AcqRel) {
        let started = own_thread::start(run, core::ptr::null_mut());
        RUNNING.store(started, Release);
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // The first bytes of a recording are there at once: even a program that crashes early leaves a
    // file.
    let mut next_ns = 0;
    loop {
        let seen = events::WAKES.load(Acquire);
        let now = clock::now_ns();
        RECORDER.lock().tick(now, now >= next_ns);
        if now >= next_ns {
            next_ns = now + INTERVAL_NS;
        }
        futex::wait(&events::WAKES, seen, Some(next_ns.saturating_sub(clock::now_ns()).max(1)));
    }
}

extern "C" fn at_exit() {
    if is_own_process() {
        events::set_ends(true);
        side_stack::on_new(end);
    }
}

/// Writes what is left, and records no more. On the thread that exits, which may be stopped in it.
pub fn end() {
    let mut recorder = RECORDER.lock();
    recorder.tick(clock::now_ns(), true);
    recorder.finish();
}

/// A tally for the calling thread; None when there is no memory, and in a child that records
/// nothing. Outside critical sections.
#[cold]
pub fn tally() -> Option<&'static Tally> {
    if !is_own_process() {
        return None;
    }
    let tally = RECORDER.lock().tallies.make()?;
    ensure_running();
    Some(tally)
}

/// The thread of a tally ends: what it counted is written, and the tally is free for another.
/// Called by that thread, outside critical sections.
pub fn end_of_thread(address: usize) {
    if is_own_process() {
        side_stack::on_new(|| end_of_tally(address));
    }
}

fn end_of_tally(address: usize) {
    let mut recorder = RECORDER.lock();
    // SAFETY: the mutator's tally.
    let Some(ended) = (unsafe { Tally::at(address) }) else { return };
    let at_ns = recorder.since_began(clock::now_ns());
    if recorder.write_tally(ended, at_ns) {
        recorder.tallies.let_go(ended);
    } else if recorder.out.is_open() {
        recorder.tallies.keep(ended);
    } else {
        recorder.tallies.give_up(ended);
    }
}

/// Counts bytes that an alignment costs.
pub fn note_padding(bytes: usize) {
    PADDING.fetch_add(bytes as u64, Relaxed);
}

/// Counts an object that was resized where it was.
pub fn note_resized() {
    RESIZED.fetch_add(1, Relaxed);
}

impl Recorder {
    fn since_began(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns)
    }

    /// Writes what is new; requests only if `counts`.
    fn tick(&mut self, now_ns: u64, counts: bool) {
        if !self.out.is_open() {
            self.tallies.give_up_waiting();
            return;
        }
        if !self.begin_file() || !self.out.flush_when_half_full() {
            return;
        }
        self.cycles.write(&mut self.out, self.began_ns);
        if now_ns >= self.census_ns + CENSUS_NS {
            self.write_census(now_ns);
        }
        if counts {
            let at_ns = self.since_began(now_ns);
            self.write_layouts();
            for tally in self.tallies.in_use() {
                // SAFETY: under the lock.
                let has_ended = unsafe { (*tally.entry.get()).has_ended };
                if self.write_tally(tally, at_ns) && has_ended {
                    self.tallies.let_go(tally);
                }
            }
            if sampler::mean() != 0 {
                self.write_samples(at_ns);
            }
            self.write_statistics(at_ns);
            self.out.flush();
        }
    }

    /// Writes what a recording begins with, once.
    fn begin_file(&mut self) -> bool {
        if self.out.has_begun() {
            return true;
        }
        let Some(sources) = self.sources else { return false };
        let mut command = [0; 4096];
        let read = small_file::read(c"/proc/self/cmdline", &mut command).unwrap_or(0);
        let process = Process {
            id: u64::from(thread::process()),
            parent: rustix::process::getppid()
                .map_or(0, |parent| parent.as_raw_nonzero().get() as u64),
            began_unix_ns: clock::unix_ns().saturating_sub(self.since_began(clock::now_ns())),
            page_bytes: PAGE_BYTES as u64,
            command: &command[..read],
            watch: (sources.watch)().as_bytes(),
            version: env!("CARGO_PKG_VERSION").as_bytes(),
            sample_bytes: sampler::mean(),
        };
        let began = self.out.encode(|out| {
            if out.length() == 0 {
                out.raw(&MAGIC);
            }
            out.process(&process, TABLE.iter().map(|class| class.cell_bytes))
        });
        for entry in options::TABLE {
            let mut value = print::Line::new();
            let _ = (entry.show)(&sources.options, &mut value);
            self.out.encode(|out| out.option(entry.name.as_bytes(), value.bytes()));
        }
        began
    }

    fn write_census(&mut self, now_ns: u64) {
        let cycle = HEAP.state.cycles.load(Acquire);
        if cycle == self.census_of || !self.census.take(&HEAP) {
            return;
        }
        self.census_of = cycle;
        self.census_ns = now_ns;
        let census = &self.census;
        self.out.encode(|out| out.census(cycle, census.entries()));
        let filled = &census.filled[..census.stretches];
        self.out.encode(|out| out.map(cycle, census.stretch_bytes as u64, filled));
    }

    fn write_layouts(&mut self) {
        while self.layouts < HEAP.layouts.count() {
            let number = self.layouts;
            let told = match HEAP.layouts.shape(LayoutId(number as u32)) {
                Shape::Bitmap { element_words, bits } => Told::Bitmap {
                    element_words: element_words as u64,
                    pointer_words: bits.iter().map(|word| u64::from(word.count_ones())).sum(),
                },
                Shape::Prefix { bytes } => Told::Prefix { bytes: bytes as u64 },
                Shape::Leaf => Told::Prefix { bytes: 0 },
                Shape::Function { .. } => Told::Function,
            };
            let name = HEAP.layouts.label(LayoutId(number as u32)).name;
            if !self.out.encode(|out| out.layout(number as u64, told, name)) {
                return;
            }
            self.layouts += 1;
        }
    }

    fn write_samples(&mut self, at_ns: u64) {
        let Some(sources) = self.sources else { return };
        self.modules.look();
        while let Some(module) = self.modules.seen().get(self.modules_told) {
            let [start, end, bias] =
                [module.start, module.end, module.bias].map(|word| word as u64);
            let (path, build_id) = (module.path(), module.build_id());
            if !self.out.encode(|out| out.module(start, end, bias, path, build_id)) {
                return;
            }
            self.modules_told += 1;
        }
        let mut more = true;
        while more {
            // The lock is not held while a full buffer is written to the file, nor where a thread
            // that exits may be stopped: who stops the world takes it.
            let encoded = self.out.encode(|out| {
                let mut written = Ok(false);
                (sources.unstopped)(&mut || written = samples::lock().encode(out, at_ns));
                more = written?;
                Ok(())
            });
            if !encoded {
                return;
            }
        }
    }

    /// Writes what a thread counted; whether that is all written.
    fn write_tally(&mut self, tally: &Tally, at_ns: u64) -> bool {
        if !self.out.is_open() || !self.begin_file() {
            return false;
        }
        // SAFETY: under the lock.
        let entry = unsafe { &mut *tally.entry.get() };
        if !entry.told {
            let id = tally.thread.load(Relaxed);
            let mut path = Path::new();
            let _ = write!(path, "/proc/self/task/{id}/comm\0");
            let mut name = [0; 32];
            let read = match CStr::from_bytes_with_nul(path.as_bytes()) {
                // Another thread may have the id by now.
                Ok(path) if !entry.has_ended => small_file::read(path, &mut name).unwrap_or(0),
                _ => 0,
            };
            let name = name[..read].trim_ascii_end();
            entry.told =
                self.out.encode(|out| out.thread(at_ns, entry.number, u64::from(id), name));
        }
        entry.told && self.out.encode(|out| tally.encode(out, at_ns, entry.number))
    }

    fn write_statistics(&mut self, at_ns: u64) {
        let Some(sources) = self.sources else { return };
        let conditions = Conditions {
            past_end: HEAP.state.past_end.load(Relaxed) as u64,
            align_all: HEAP.state.align_all.load(Relaxed) as u64,
            padding_bytes: PADDING.load(Relaxed),
            resized_in_place: RESIZED.load(Relaxed),
            lost: self.cycles.lost(),
        };
        let statistics = (sources.statistics)();
        self.out.encode(|out| out.statistics(at_ns, &conditions, &statistics));
    }

    /// The process ends.
    fn finish(&mut self) {
        let at_ns = self.since_began(clock::now_ns());
        if self.out.has_begun() && self.out.encode(|out| out.end(at_ns)) {
            self.out.flush();
        }
        self.out.finish();
    }
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &RECORDER
}

/// In the child of a `fork`, whose only thread has `own` as its tally (0: none): the parent's file,
/// thread and counts are the parent's.
pub fn after_fork(own: usize) {
    if !is_on() {
        return;
    }
    PROCESS.store(thread::process(), Relaxed);
    RUNNING.store(false, Relaxed);
    let mut recorder = RECORDER.lock();
    if recorder.out.is_over() {
        return;
    }
    recorder.out.after_fork();
    // SAFETY: the calling thread's tally, or none.
    recorder.tallies.after_fork(unsafe { Tally::at(own) });
    recorder.layouts = 0;
    recorder.modules_told = 0;
    samples::lock().clear();
    recorder.began_ns = clock::now_ns();
    recorder.cycles = RecordedCycles::end();
    PADDING.store(0, Relaxed);
    RESIZED.store(0, Relaxed);
}
