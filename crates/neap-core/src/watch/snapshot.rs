//! The `snapshot` watch: a page is copied before the program first writes to it, so that markers
//! see the heap as it was at one moment.
//!
//! Its contract is not that of [`Watch`](super::Watch). Invariant `[watch.inv.copy-before-write]`:
//! from [`Snapshot::begin_keeping`] to [`Snapshot::end`], with the world stopped at the first, a
//! write to a page that was protected waits until the page's contents were kept
//! (`[heap.inv.before-images]`). What was released while the pages were being protected is named by
//! [`Snapshot::take_touched`] after it, and must be protected again before the world resumes. A
//! thread of our own serves the writers. `[watch.rule.server]`: it waits for nobody but the kernel
//! and the lock here, which is held for a few microseconds by threads that nobody stops; it touches
//! no lock of the heap, no malloc and no thread of the program, so that a writer waits for it and
//! for nothing else, whatever the world does. Called by the collector's thread and who drives a
//! stop.
//!
//! # Safety
//! Starts a thread with an argument that stays mapped until the thread has said that it ends, and
//! copies pages whose writers wait. Ranges are registered by the heap, which owns them.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::*};
use rustix::io::Errno;

use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::heap::before_images::BeforeImages;
use crate::rank::Rank;
use crate::sync::Lock;
use crate::sys::meta_vec::MetaVec;
use crate::sys::protection::page_faults::{Meant, Message, PageFaults, Served};
use crate::sys::refusal::Refusal;
use crate::sys::{futex, map, own_thread};
use crate::watch::mapping_turns::MappingTurns;

/// Messages taken at once.
const MESSAGES: usize = 16;
/// Pages noted while protecting, at most: beyond, protecting everything again takes less time.
const MOST_TOUCHED: usize = 1 << 16;

/// What refuses where there cannot be one more thread now.
pub const NO_THREAD: &str = "pthread_create";

/// What a write to a protected page means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing: protection is being taken away.
    Off,
    /// The page is not protected any more, which is noted.
    Arming,
    /// Its contents are kept first.
    Keeping,
}

struct State {
    mode: Mode,
    /// Pages released while protecting.
    touched: MetaVec<usize>,
    /// There were more.
    touched_more: bool,
    /// Writes to the doorbell.
    rung: u32,
    /// Somebody wrote to the page behind it.
    ended: bool,
}

/// What the serving thread and the others share, in memory of its own.
struct Shared {
    kept: &'static BeforeImages,
    state: Lock<State>,
    /// A page of ours that is protected: who writes to it is served as the program is. The next
    /// page is protected from the start, and whoever writes there ends the thread, also where the
    /// program has closed the descriptor.
    doorbell: usize,
    /// The descriptor.
    file: Meant,
    /// 0 before the serving thread is there, then one of [`SERVING`], [`REFUSED`], [`ENDED`].
    stage: AtomicU32,
}

const SERVING: u32 = 1;
const REFUSED: u32 = 2;
const ENDED: u32 = 3;
/// The doorbell, and the page that ends the thread.
const BELLS_BYTES: usize = 2 * PAGE_BYTES;
const SHARED_BYTES: usize = size_of::<Shared>().next_multiple_of(PAGE_BYTES);

/// The watch.
pub struct Snapshot {
    faults: PageFaults,
    shared: &'static Shared,
    /// Ranges that were registered.
    registered: MetaVec<(usize, usize)>,
}

impl Snapshot {
    /// Opens the watch, which keeps pages in `kept`. Until [`Snapshot::start`] there is no thread.
    pub fn open(kept: &'static BeforeImages) -> Result<Self, Refusal> {
        let faults = PageFaults::open()?;
        let no_memory = |error| Refusal::new("mmap", error);
        let doorbell = map::allocate(BELLS_BYTES).map_err(no_memory)?;
        let pages = doorbell.0..doorbell.0 + BELLS_BYTES;
        pages.clone().step_by(PAGE_BYTES).for_each(write_to);
        let memory = faults
            .register(&pages)
            .and_then(|()| faults.protect(&(doorbell.0 + PAGE_BYTES..pages.end)))
            .and_then(|()| map::allocate(SHARED_BYTES).map_err(no_memory))
            .inspect_err(|_| map::release(doorbell, BELLS_BYTES))?;
        let shared = Shared {
            kept,
            state: Lock::new(
                Rank::Snapshot,
                State {
                    mode: Mode::Off,
                    touched: MetaVec::new(),
                    touched_more: false,
                    rung: 0,
                    ended: false,
                },
            ),
            doorbell: doorbell.0,
            file: faults.meant(),
            stage: AtomicU32::new(0),
        };
        // SAFETY: fresh memory, large enough and page-aligned, that stays until the serving thread
        // has ended.
        let shared = unsafe {
            memory.pointer::<Shared>().write(shared);
            &*memory.pointer::<Shared>()
        };
        Ok(Self { faults, shared, registered: MetaVec::new() })
    }

    /// Starts the serving thread if it is not there, and sees that it serves: a write of ours waits
    /// for it and goes on. Not with the world stopped.
    pub fn start(&self) -> Result<(), Refusal> {
        let shared = self.shared;
        if shared.stage.load(Acquire) == SERVING {
            return Ok(());
        }
        let argument = core::ptr::from_ref(shared).cast_mut().cast::<c_void>();
        if !own_thread::start(serve, argument) {
            return Err(Refusal::new(NO_THREAD, Errno::AGAIN));
        }
        wait_for(&shared.stage, |stage| stage != 0);
        if shared.stage.load(Acquire) != SERVING {
            shared.stage.store(0, Relaxed);
            return Err(Refusal::new("unshare", Errno::PERM));
        }
        let before = shared.state.lock().rung;
        self.ring()?;
        // Who is interrupted asks again, and is counted twice.
        match shared.state.lock().rung != before {
            true => Ok(()),
            false => Err(Refusal::wrong("UFFDIO_WRITEPROTECT")),
        }
    }

    fn ring(&self) -> Result<(), Refusal> {
        let doorbell = self.shared.doorbell;
        self.faults.protect(&(doorbell..doorbell + PAGE_BYTES))?;
        write_to(doorbell);
        Ok(())
    }

    /// Ends the serving thread, if there is one, and with it what it has open. Nothing is protected
    /// but by a descriptor that the program closed.
    pub fn end_thread(&self) {
        if self.shared.stage.load(Acquire) == SERVING {
            write_to(self.shared.doorbell + PAGE_BYTES);
            wait_for(&self.shared.stage, |stage| stage == ENDED);
        }
    }

    /// Whether the program has closed it behind our back.
    pub fn was_closed(&self) -> bool {
        self.faults.was_closed()
    }

    /// In the child of a `fork`, which has no serving thread, and where nothing is protected:
    /// closes the descriptor, and leaves the memory where it is.
    pub fn leave_to_parent(self) {
        let mut left = ManuallyDrop::new(self);
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { core::ptr::drop_in_place(&mut left.faults) };
    }

    /// Has the kernel know a range of whole chunks.
    pub fn register(&mut self, range: &Range<usize>) -> Result<(), Refusal> {
        self.faults.register(range)?;
        self.registered
            .try_push((range.start, range.end))
            .map_err(|_| Refusal::new("mmap", Errno::NOMEM))
    }

    /// Has writes to a registered range wait for the serving thread.
    pub fn protect(&self, range: &Range<usize>) -> Result<(), Refusal> {
        self.faults.protect(range)
    }

    /// From here on pages are protected while the program writes: such a page is released and
    /// noted.
    pub fn begin_arming(&self) {
        let mut state = self.shared.state.lock();
        state.mode = Mode::Arming;
        state.touched.clear();
        state.touched_more = false;
    }

    /// From here on pages are kept before they are released. With the world stopped.
    pub fn begin_keeping(&self) {
        self.shared.state.lock().mode = Mode::Keeping;
    }

    /// Calls `f` for pages that were released while protecting, and forgets them; false if there
    /// were too many to note. In either mode.
    pub fn take_touched(&self, mut f: impl FnMut(usize)) -> bool {
        let mut all = true;
        loop {
            let mut some = [0; 64];
            let mut state = self.shared.state.lock();
            let left = state.touched.len().saturating_sub(some.len());
            let count = state.touched.len() - left;
            some[..count].copy_from_slice(&state.touched[left..]);
            state.touched.truncate(left);
            all &= !core::mem::take(&mut state.touched_more);
            // Writers are served between these pieces.
            drop(state);
            some[..count].iter().for_each(|page| f(*page));
            if count < some.len() {
                return all;
            }
        }
    }

    /// Nothing is kept any more; all protection is taken away. World running.
    pub fn end(&self) {
        self.shared.state.lock().mode = Mode::Off;
        let turns = MappingTurns::default();
        for (start, end) in self.registered.iter() {
            turns.in_pieces(&(*start..*end), |piece| {
                // What the system refuses is released by the first write.
                let _ = self.faults.release(piece);
                true
            });
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.shared.stage.load(Acquire) == SERVING && !self.was_closed() {
            self.end();
        }
        self.end_thread();
        map::release(Address(self.shared.doorbell), BELLS_BYTES);
        map::release(Address(core::ptr::from_ref(self.shared) as usize), SHARED_BYTES);
    }
}

/// Writes to a bell, which a serving thread lets go on where it is protected.
fn write_to(bell: usize) {
    // SAFETY: the callers' own page.
    unsafe { (bell as *mut u8).write_volatile(1) };
}

fn wait_for(word: &AtomicU32, until: impl Fn(u32) -> bool) {
    loop {
        let seen = word.load(Acquire);
        if until(seen) {
            return;
        }
        futex::wait(word, seen, Some(1_000_000));
    }
}

/// The serving thread, every signal blocked.
extern "C" fn serve(shared: *mut c_void) -> *mut c_void {
    // SAFETY: the argument of `start`, which stays mapped until this thread has said that it ends.
    let shared = unsafe { &*shared.cast::<Shared>() };
    let served = Served::alone(shared.file);
    let stage = if served.is_some() { SERVING } else { REFUSED };
    shared.stage.store(stage, Release);
    futex::wake(&shared.stage, 1);
    let Some(served) = served else { return core::ptr::null_mut() };
    let mut messages = [Message::default(); MESSAGES];
    loop {
        let taken = served.wait(&mut messages);
        let mut state = shared.state.lock();
        for address in taken.iter().filter_map(Message::waiting_write) {
            shared.serve(&mut state, &served, address);
        }
        if state.ended {
            break;
        }
        if state.mode == Mode::Keeping {
            shared.kept.fetch_ahead();
        }
    }
    // Before it is said: the same pages may be registered anew at once.
    served.close();
    shared.stage.store(ENDED, Release);
    // Nothing of `shared` may be touched from here on; who waits looks again by itself.
    core::ptr::null_mut()
}

impl Shared {
    /// Lets a write go on.
    fn serve(&self, state: &mut State, served: &Served, address: usize) {
        let page = address & !(PAGE_BYTES - 1);
        let chunk = page & !(CHUNK_BYTES - 1);
        let alone = page..page + PAGE_BYTES;
        if page == self.doorbell || page == self.doorbell + PAGE_BYTES {
            state.rung += 1;
            state.ended |= page != self.doorbell;
            served.let_go(&alone);
            return;
        }
        let released = match state.mode {
            Mode::Arming => {
                let noted =
                    state.touched.len() < MOST_TOUCHED && state.touched.try_push(page).is_ok();
                state.touched_more |= !noted;
                alone.clone()
            }
            Mode::Keeping if self.kept.keep(page) => alone.clone(),
            // Nothing depends on these pages any more: one wait for all of the chunk.
            Mode::Keeping | Mode::Off => chunk..chunk + CHUNK_BYTES,
        };
        if !served.release(&released) {
            served.let_go(&alone);
        }
    }
}

#[cfg(test)]
mod serving_tests;
