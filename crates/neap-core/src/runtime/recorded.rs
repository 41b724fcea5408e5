//! Allocation while requests are recorded: each is counted, and gets its cell from the buffer that
//! it would have got it from anyway.
//!
//! Invariant `[stats.inv.requests]`: while the process records, no thread finds its buffers by the
//! word that inline allocation reads, so every request comes here, and is counted once; and who
//! does not record never does, but for a process's first request. What a size gets is worked out
//! once (`learn`): afterwards a request costs a look into its thread's tally and a step of the
//! buffer, less than working out its class. Called by mutators, as `allocation`.
//!
//! # Safety
//!
//! Reaches the calling thread's tally by its address, which is 0 or that of a tally, and tallies
//! are never unmapped.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use neap_record::TYPED;

use super::buffers::{cell_bytes, class_for, from_buffer, from_class, from_typed_buffer};
use super::mutator;
use crate::heap::HEAP;
use crate::heap::classes::{LARGEST_SMALL, TABLE};
use crate::heap::kind::Kind;
use crate::heap::layout::LayoutId;
use crate::heap::spaces::SpaceId;
use crate::observe::recorder;
use crate::observe::tally::Tally;
use crate::stats::KEPT;
use crate::world::current;
use crate::world::mutator::Mutator;

/// The cell for a request like one that was made before, if the thread's buffer has one, and then
/// the request is counted; else 0.
#[inline(always)]
pub fn at_once(bytes: usize, kind: Kind) -> usize {
    if bytes <= LARGEST_SMALL
        && let Some((mutator, tally)) = counting()
        && let Some(known) = tally.known(kind as usize, bytes, past_end())
    {
        let cell = mutator.local.fixed(SpaceId(known.place())).bump(known.cell_bytes());
        if cell != 0 {
            known.add();
            return cell;
        }
    }
    0
}

/// The same for an object of a layout.
#[inline(always)]
pub fn typed_at_once(bytes: usize, layout: LayoutId) -> usize {
    if bytes <= LARGEST_SMALL
        && let Some((mutator, tally)) = counting()
        && let Some(known) = tally.known(TYPED, bytes, past_end())
        && let Some(of_layout) = tally.known_layout(layout)
    {
        let cell = from_class(mutator, known.place() as usize, known.cell_bytes(), layout);
        if cell != 0 {
            known.add();
            of_layout.add(bytes);
            return cell;
        }
    }
    0
}

/// Counts a request of `bytes` that takes as much room as one of `reserved`; gives the cell if the
/// thread's buffer has one, else 0. Whatever [`at_once`] does not give.
#[inline(never)]
pub fn count(bytes: usize, reserved: usize, kind: Kind) -> usize {
    if let Some((mutator, tally)) = begin_counting() {
        tally.count(kind, bytes);
        if reserved == bytes {
            learn(tally, kind as usize, bytes, |class| SpaceId::of(kind, class).0);
        } else {
            recorder::note_padding(cell_bytes(reserved).saturating_sub(cell_bytes(bytes)));
        }
        let cell = from_buffer(mutator, reserved, kind);
        if cell != 0 {
            return cell;
        }
        // A forked child that allocates has no recorder's thread yet.
        recorder::ensure_running();
    }
    0
}

/// Counts a request, and does nothing else: no thread is started for it.
pub fn count_alone(bytes: usize, kind: Kind) {
    if let Some((_, tally)) = begin_counting() {
        tally.count(kind, bytes);
    }
}

/// As [`count`], for an object of a layout. Whatever [`typed_at_once`] does not give.
#[inline(never)]
pub fn count_typed(bytes: usize, layout: LayoutId) -> usize {
    if let Some((mutator, tally)) = begin_counting() {
        tally.count_typed(layout, bytes);
        learn(tally, TYPED, bytes, |class| class as u32);
        let cell = from_typed_buffer(mutator, bytes, layout);
        if cell != 0 {
            return cell;
        }
        // A forked child that allocates has no recorder's thread yet.
        recorder::ensure_running();
    }
    0
}

/// Bytes that each request gets beyond its size: a program may change it while it runs.
#[inline(always)]
fn past_end() -> usize {
    HEAP.state.past_end.load(Relaxed)
}

/// Tells the tally what requests of a size get, if they are small ones.
fn learn(tally: &Tally, kind: usize, bytes: usize, place: impl Fn(usize) -> u32) {
    let past_end = past_end();
    let wanted = bytes.saturating_add(past_end);
    if wanted <= LARGEST_SMALL && tally.known(kind, bytes, past_end).is_none() {
        let class = class_for(wanted);
        tally.learn(kind, bytes, past_end, TABLE[class].cell_bytes as usize, place(class));
    }
}

/// The calling thread and what counts its requests; None if nothing does yet.
#[inline(always)]
fn counting() -> Option<(&'static Mutator, &'static Tally)> {
    if !KEPT {
        return None;
    }
    let mutator = current::get()?;
    // SAFETY: 0 or a tally.
    let tally = unsafe { Tally::at(mutator.tally.load(Relaxed)) }?;
    Some((mutator, tally))
}

/// As [`counting`], from now on if nothing did; None if the process does not record, or has no
/// memory for it.
fn begin_counting() -> Option<(&'static Mutator, &'static Tally)> {
    if let Some(counting) = counting() {
        return Some(counting);
    }
    // The first request of the process starts the collector, which knows whether it records.
    let mutator = mutator();
    if !recorder::is_on() {
        return None;
    }
    let tally = recorder::tally()?;
    mutator.tally.store(tally.address(), Relaxed);
    Some((mutator, tally))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::driver::watch_in_use;
    use crate::heap::layout::Shape;
    use crate::options::Options;
    use crate::runtime::allocation::{allocate, allocate_typed};
    use crate::runtime::{initialize, record};
    use crate::world::attach;
    use neap_record::Recording;
    use std::ffi::{CStr, CString};
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    /// Of this process, with what it records and sums up.
    fn folder() -> PathBuf {
        std::env::temp_dir().join(format!("neap-recorded-{}", std::process::id()))
    }

    /// The name of a file for as long as the process lives. What is only in memory of the library's
    /// own the address sanitizer takes for lost.
    fn kept(path: &Path) -> &'static CStr {
        static KEPT: Mutex<Vec<&CStr>> = Mutex::new(Vec::new());
        let name = CString::new(path.to_str().unwrap()).unwrap();
        let name: &'static CStr = Box::leak(name.into_boxed_c_str());
        KEPT.lock().unwrap().push(name);
        name
    }

    extern "C" fn remove_folder() {
        let _ = std::fs::remove_dir_all(folder());
    }

    /// This process, which is the test's own, records to the file; one object in `sample` bytes is
    /// followed.
    fn begin(sample: usize) -> PathBuf {
        initialize();
        // As at the start of a process that is recorded.
        watch_in_use::watching();
        attach::detach();
        // An earlier process of this number may have been killed.
        remove_folder();
        std::fs::create_dir(folder()).unwrap();
        // Goes when all that is written at exit has been, since that is asked for later.
        // SAFETY: a function of the right type that stays loaded.
        unsafe { libc::atexit(remove_folder) };
        let path = folder().join("recording");
        record(kept(&path), &Options { sample, ..Options::DEFAULT });
        mutator();
        path
    }

    /// What was recorded. No more is.
    fn end(path: PathBuf) -> Recording {
        recorder::end();
        Recording::read(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Who stops the world takes the lock of samples: debug builds see who has it where a stop may
    /// come.
    #[test]
    fn a_thread_that_exits_is_stopped_nowhere_with_a_lock_that_the_stop_takes() {
        let path = begin(64);
        for _ in 0..100 {
            assert!(!allocate(64, Kind::Leaf).is_null());
        }
        assert!(!end(path).samples.is_empty(), "[world.inv.critical]");
    }

    /// A program may change its mind about pointers one past the end while it is recorded.
    #[test]
    fn a_size_that_was_seen_gets_its_byte_from_the_moment_that_it_is_wanted() {
        let path = begin(0);
        let layout = HEAP.layouts.intern(Shape::Prefix { bytes: 16 }).unwrap();
        for past_end in [0, 1, 0, 1] {
            HEAP.state.past_end.store(past_end, Relaxed);
            for _ in 0..100 {
                for object in [allocate(48, Kind::Conservative), allocate_typed(48, layout)] {
                    let cell = HEAP.object_at(object as usize).unwrap();
                    assert!(cell.bytes() >= 48 + past_end, "{}", cell.bytes());
                }
            }
        }
        let recording = end(path);
        assert_eq!(recording.counts.values().sum::<u64>(), 800);
        assert_eq!(recording.layouts[&u64::from(layout.0)], (400, 400 * 48));
    }

    /// A child that was forked in a handler which interrupted the library does not know that it is
    /// one: what it has of its parent's stays its parent's.
    #[test]
    fn a_child_forked_inside_the_library_leaves_the_files_to_its_parent() {
        if cfg!(address_sanitizer) {
            return println!("# SKIP in the child it takes for lost what other threads had");
        }
        let path = begin(0);
        let summary = path.with_extension("summary");
        crate::runtime::summary::install(Some(kept(&summary)));
        allocate(16, Kind::Leaf);
        while std::fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
            std::thread::yield_now();
        }
        let inside = mutator().critical();
        // SAFETY: the child ends; so many of libc's functions are safe in it as its handlers call.
        let child = unsafe { libc::fork() };
        drop(inside);
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::exit(0) };
        }
        let mut status = 1;
        // SAFETY: waits for a child of this thread's.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert!(!summary.exists());
        assert_eq!(Recording::read(&std::fs::read(&path).unwrap()).unwrap().ended_ns, None);
        assert!(end(path).ended_ns.is_some());
    }

    /// Threads end while the file is refused, as on a full disk: their counts wait for it.
    #[test]
    fn what_ended_threads_counted_is_written_when_the_file_takes_it() {
        let limit = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: sets a limit of this process, which is the test's own.
            unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
        };
        let path = begin(0);
        limit(100);
        for _ in 0..12 {
            let count = || (0..=LARGEST_SMALL).for_each(|bytes| count_alone(bytes, Kind::Leaf));
            std::thread::spawn(count).join().unwrap();
        }
        limit(libc::RLIM_INFINITY);
        let counts = end(path).counts;
        assert_eq!(counts.len(), 12 * (LARGEST_SMALL + 1));
        assert!(counts.values().all(|count| *count == 1), "[stats.inv.once]");
    }
}
