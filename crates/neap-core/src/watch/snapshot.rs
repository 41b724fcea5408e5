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
    /// The serving thread is to end at the next write to the doorbell.
    ending: bool,
}

/// What the serving thread and the others share, in memory of its own.
struct Shared {
    kept: &'static BeforeImages,
    state: Lock<State>,
    /// A page of ours that is protected: who writes to it is served as the program is.
    doorbell: usize,
    /// The descriptor.
    file: Meant,
    /// 0 before the serving thread is there, then one of [`SERVING`], [`REFUSED`], [`ENDED`].
    stage: AtomicU32,
}

const SERVING: u32 = 1;
const REFUSED: u32 = 2;
const ENDED: u32 = 3;
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
        let doorbell = map::allocate(PAGE_BYTES).map_err(no_memory)?;
        // SAFETY: fresh memory.
        unsafe { doorbell.pointer::<u8>().write_volatile(1) };
        let page = doorbell.0..doorbell.0 + PAGE_BYTES;
        let memory = faults
            .register(&page)
            .and_then(|()| map::allocate(SHARED_BYTES).map_err(no_memory))
            .inspect_err(|_| map::release(doorbell, PAGE_BYTES))?;
        let shared = Shared {
            kept,
            state: Lock::new(
                Rank::Snapshot,
                State {
                    mode: Mode::Off,
                    touched: MetaVec::new(),
                    touched_more: false,
                    rung: 0,
                    ending: false,
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
            return Err(Refusal::new("pthread_create", Errno::AGAIN));
        }
        wait_for(&shared.stage, |stage| stage != 0);
        if shared.stage.load(Acquire) != SERVING {
            shared.stage.store(0, Relaxed);
            return Err(Refusal::new("unshare", Errno::PERM));
        }
        let before = shared.state.lock().rung;
        self.ring()?;
        match shared.state.lock().rung == before + 1 {
            true => Ok(()),
            false => Err(Refusal::wrong("UFFDIO_WRITEPROTECT")),
        }
    }

    fn ring(&self) -> Result<(), Refusal> {
        let doorbell = self.shared.doorbell;
        self.faults.protect(&(doorbell..doorbell + PAGE_BYTES))?;
        // SAFETY: our own page; the serving thread lets this go on.
        unsafe { (doorbell as *mut u8).write_volatile(2) };
        Ok(())
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
        if self.shared.stage.load(Acquire) == SERVING {
            self.end();
            self.shared.state.lock().ending = true;
            if self.ring().is_err() {
                // The program has closed the descriptor; the thread has its own, and stays with
                // what it needs.
                return;
            }
            wait_for(&self.shared.stage, |stage| stage == ENDED);
        }
        map::release(Address(self.shared.doorbell), PAGE_BYTES);
        map::release(Address(core::ptr::from_ref(self.shared) as usize), SHARED_BYTES);
    }
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
        if state.ending {
            break;
        }
        if state.mode == Mode::Keeping {
            shared.kept.fetch_ahead();
        }
    }
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
        if page == self.doorbell {
            state.rung += 1;
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
mod tests {
    use super::*;
    use crate::check::skip;

    const REFUSED: &str = "the system lets nobody serve page faults here";
    const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;

    /// A watch over a chunk of pages that each hold their number; None where the system refuses.
    fn over_a_chunk(most: usize) -> Option<(Snapshot, &'static BeforeImages, Range<usize>)> {
        let start = map::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
        map::commit(start, CHUNK_BYTES).unwrap();
        let range = start.0..start.0 + CHUNK_BYTES;
        (0..PAGES).for_each(|page| store(&range, page, page));
        let memory = map::allocate(size_of::<BeforeImages>().next_multiple_of(PAGE_BYTES)).unwrap();
        // SAFETY: memory of its own, which is never unmapped.
        let kept: &'static BeforeImages = unsafe {
            memory.pointer::<BeforeImages>().write(BeforeImages::new());
            &*memory.pointer::<BeforeImages>()
        };
        kept.open(&range, most).unwrap();
        let mut watch = match Snapshot::open(kept) {
            Ok(watch) => watch,
            Err(refusal) => {
                println!("# not tested: {refusal}");
                return None;
            }
        };
        watch.start().unwrap();
        watch.register(&range).unwrap();
        Some((watch, kept, range))
    }

    fn store(range: &Range<usize>, page: usize, value: usize) {
        // SAFETY: the test's own pages.
        unsafe { ((range.start + page * PAGE_BYTES) as *mut usize).write_volatile(value) };
    }

    /// What a marker makes of the first word of a page.
    fn snapshot_of(kept: &BeforeImages, range: &Range<usize>, page: usize) -> usize {
        let address = range.start + page * PAGE_BYTES;
        // SAFETY: the test's own pages.
        let mut word = unsafe { (address as *const usize).read_volatile() };
        kept.for_each_before_image(address, address + 8, |image| {
            // SAFETY: copies stay while the watch keeps.
            word = unsafe { *(image.copy as *const usize) }
        });
        word
    }

    #[test]
    fn writers_go_on_and_old_contents_stay() {
        let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
        watch.begin_arming();
        watch.protect(&range).unwrap();
        store(&range, 3, 1003);
        watch.begin_keeping();
        let mut touched = Vec::new();
        assert!(watch.take_touched(|page| touched.push(page)));
        assert_eq!(touched, [range.start + 3 * PAGE_BYTES]);
        watch.protect(&(touched[0]..touched[0] + PAGE_BYTES)).unwrap();
        for _ in 0..2 {
            for page in [3, 9, 511] {
                store(&range, page, 2000);
            }
        }
        assert_eq!(kept.count(), 3);
        for (page, old) in [(3, 1003), (9, 9), (511, 511), (10, 10)] {
            let seen = snapshot_of(kept, &range, page);
            assert_eq!(seen, old, "[watch.inv.copy-before-write], [heap.inv.before-images]");
        }
        watch.end();
        store(&range, 20, 7);
        assert_eq!(kept.count(), 3, "nothing is kept after the end");
    }

    #[test]
    fn a_page_first_touched_while_arming_is_kept_later() {
        let Some((mut watch, kept, _)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
        let start = map::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
        map::commit(start, CHUNK_BYTES).unwrap();
        let range = start.0..start.0 + CHUNK_BYTES;
        kept.open(&range, PAGES).unwrap();
        watch.register(&range).unwrap();
        watch.begin_arming();
        watch.protect(&range).unwrap();
        store(&range, 8, 80);
        watch.begin_keeping();
        let mut touched = Vec::new();
        assert!(watch.take_touched(|page| touched.push(page)));
        touched.iter().for_each(|page| watch.protect(&(*page..page + PAGE_BYTES)).unwrap());
        store(&range, 8, 81);
        assert_eq!(snapshot_of(kept, &range, 8), 80);
    }

    #[test]
    fn the_kernel_may_write_too() {
        let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
        watch.begin_arming();
        watch.protect(&range).unwrap();
        watch.begin_keeping();
        let mut zero = std::fs::File::open("/dev/zero").unwrap();
        // SAFETY: the test's own pages.
        let buffer = unsafe {
            core::slice::from_raw_parts_mut((range.start + 20 * PAGE_BYTES) as *mut u8, 5000)
        };
        std::io::Read::read_exact(&mut zero, buffer).unwrap();
        assert_eq!([20, 21, 22].map(|page| snapshot_of(kept, &range, page)), [20, 21, 22]);
        assert_eq!((kept.count(), buffer[0]), (2, 0));
    }

    #[test]
    fn without_room_writers_go_on_and_it_is_known() {
        let Some((watch, kept, range)) = over_a_chunk(5) else { return skip(REFUSED) };
        watch.begin_arming();
        watch.protect(&range).unwrap();
        watch.begin_keeping();
        (0..PAGES).for_each(|page| store(&range, page, 1));
        assert!(kept.has_overflowed());
        assert_eq!(kept.count(), 5);
    }

    #[test]
    fn several_threads_see_one_snapshot_while_all_is_written() {
        let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
        watch.begin_arming();
        watch.protect(&range).unwrap();
        watch.begin_keeping();
        std::thread::scope(|scope| {
            for first in 0..3 {
                let range = range.clone();
                scope.spawn(move || {
                    (0..PAGES).for_each(|page| store(&range, (page * 7 + first) % PAGES, 1 << 20));
                });
            }
            for _ in 0..20 {
                for page in 0..PAGES {
                    assert_eq!(snapshot_of(kept, &range, page), page);
                }
            }
        });
        assert_eq!(kept.count(), PAGES, "each is copied once");
    }

    #[test]
    fn descriptors_that_the_program_closes_are_the_threads_own() {
        let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
        watch.begin_arming();
        watch.protect(&range).unwrap();
        watch.begin_keeping();
        // SAFETY: closes a number of ours, as a daemon does that closes all it finds.
        unsafe { libc::close(watch.faults.meant().number) };
        assert!(watch.was_closed());
        (0..PAGES).for_each(|page| store(&range, page, 1));
        assert_eq!(snapshot_of(kept, &range, 77), 77);
    }

    #[test]
    fn a_child_of_fork_writes_without_the_thread() {
        let Some((watch, kept, range)) = over_a_chunk(PAGES) else { return skip(REFUSED) };
        watch.begin_arming();
        watch.protect(&range).unwrap();
        watch.begin_keeping();
        // SAFETY: the child writes to pages of the test and exits; one that waits for ever is ended
        // by the alarm.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::alarm(10) };
            (0..PAGES).for_each(|page| store(&range, page, 1));
            watch.leave_to_parent();
            // SAFETY: as above.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: waits for our child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7, "{status:#x}");
        assert_eq!(kept.count(), 0);
        store(&range, 5, 1);
        assert_eq!(kept.count(), 1);
    }
}
