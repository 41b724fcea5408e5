//! Places: memory outside the heap whose words are roots, of every sort that a program can have.
//!
//! Invariant: the shadow knows what each slot of a place holds; nothing else of the run keeps an
//! address of the heap in memory that is scanned. A place belongs to one graph.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use crate::ensure;
use crate::options::{self, Sabotage};
use crate::referrers::handles::StrongSlots;
use crate::shadow::node::Edge;
use neap_core::api;

/// Slots of a place on a stack, in thread-local storage, or among static data.
pub const SLOTS: usize = 16;

/// A stretch of slots on a stack or in static or thread-local data.
pub type Slots = [AtomicUsize; SLOTS];

/// What memory a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A stretch of the program's writable data; which one.
    Static(usize),
    /// Mapped memory that is registered as roots.
    Registered,
    /// Strong handles.
    Handles,
    /// The worker's stack, its thread-local storage, or a fiber's stack: somebody else's memory.
    Lent,
}

/// One place.
pub struct Place {
    /// What it is.
    pub sort: Sort,
    base: *const AtomicUsize,
    /// Words from one slot to the next.
    stride: usize,
    /// What the slots are instead, of the sort `Handles`.
    handles: Option<StrongSlots>,
    /// What the slots hold.
    pub edges: Vec<Option<Edge>>,
}

// SAFETY: the memory is used through the graph that the place is in, and that by one thread at a
// time.
unsafe impl Send for Place {}

const STRETCHES: usize = 512;
static STATIC_SLOTS: [Slots; STRETCHES] =
    [const { [const { AtomicUsize::new(0) }; SLOTS] }; STRETCHES];
/// No lock: a forked child may not wait for one that a thread of its parent held.
static TAKEN: [AtomicBool; STRETCHES] = [const { AtomicBool::new(false) }; STRETCHES];

thread_local! {
    static THREAD_SLOTS: Slots = const { [const { AtomicUsize::new(0) }; SLOTS] };
}

/// Empty slots, for a stack.
pub const fn empty_slots() -> Slots {
    [const { AtomicUsize::new(0) }; SLOTS]
}

impl Place {
    /// A stretch of static data; `None` if all are taken.
    pub fn in_static_data() -> Option<Self> {
        let stretch = TAKEN.iter().position(|taken| !taken.swap(true, AcqRel))?;
        Some(Self::of(Sort::Static(stretch), &STATIC_SLOTS[stretch]))
    }

    /// Slots in the calling thread's local storage. One graph uses them, and on this thread only.
    pub fn in_thread_storage() -> Self {
        THREAD_SLOTS.with(Self::lent)
    }

    /// Slots in memory that outlives the place, on a stack.
    pub fn lent(slots: &Slots) -> Self {
        Self::of(Sort::Lent, slots)
    }

    fn of(sort: Sort, slots: &Slots) -> Self {
        let edges = vec![None; slots.len()];
        Self { sort, base: slots.as_ptr(), stride: 1, handles: None, edges }
    }

    /// Freshly mapped memory, registered with the collector. Some places have an eighth of a page
    /// for a slot, so that they are large enough to be watched; all would be slow where they are
    /// not.
    pub fn registered(slots: usize) -> Option<Self> {
        let stride = if slots.is_multiple_of(16) { 64 } else { 1 };
        let bytes = slots * stride * 8;
        // SAFETY: maps new memory.
        let memory = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let start = memory as usize;
        if !options::get().sabotages(Sabotage::Lost) {
            ensure!(api::add_roots(start..start + bytes), "roots were refused");
        }
        let edges = vec![None; slots];
        Some(Self { sort: Sort::Registered, base: memory.cast(), stride, handles: None, edges })
    }

    /// Strong handles; `None` if there is no domain for them.
    pub fn of_handles(slots: usize, own_domain: bool) -> Option<Self> {
        let handles = Some(StrongSlots::new(slots, own_domain)?);
        let edges = vec![None; slots];
        Some(Self { sort: Sort::Handles, base: core::ptr::null(), stride: 0, handles, edges })
    }

    /// What a slot holds.
    pub fn read(&self, slot: usize) -> usize {
        match &self.handles {
            Some(handles) => handles.read(slot),
            None => self.word(slot).load(Relaxed),
        }
    }

    /// Writes a slot; to a handle the start of an object.
    pub fn write(&self, slot: usize, value: usize) {
        match &self.handles {
            Some(handles) => handles.write(slot, value),
            None => self.word(slot).store(value, Relaxed),
        }
    }

    /// The word of a slot.
    fn word(&self, slot: usize) -> &AtomicUsize {
        debug_assert!(slot < self.edges.len());
        // SAFETY: the memory is there for as long as the place, with a word for each of the edges.
        unsafe { &*self.base.add(slot * self.stride) }
    }

    /// Gives the memory back. The slots are empty.
    pub fn give_back(self) {
        for slot in 0..self.edges.len() {
            self.write(slot, 0);
        }
        match self.sort {
            Sort::Static(stretch) => {
                TAKEN[stretch].store(false, Release);
            }
            Sort::Registered => {
                let bytes = self.edges.len() * self.stride * 8;
                api::remove_roots(self.base as usize..self.base as usize + bytes);
                // SAFETY: mapped by `registered`, and nobody uses it any more.
                unsafe { libc::munmap(self.base.cast_mut().cast(), bytes) };
            }
            Sort::Handles => {
                self.handles.iter().for_each(StrongSlots::give_back);
            }
            Sort::Lent => {}
        }
    }
}
