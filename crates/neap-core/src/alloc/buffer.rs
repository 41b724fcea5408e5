//! A buffer: neighbouring free cells that one thread hands out by moving a cursor. The shape is
//! shared with `neap_inline.h`.
//!
//! Invariant `[alloc.inv.buffer]`: cells from the cursor to the limit are zeroed (unless leaf),
//! have their allocation bits set and belong to the thread. A stop may lower the limit, but the
//! cell at the cursor stays: a thread stopped between reading and writing the cursor goes on as if
//! nothing had been. Written by its thread, and by others while it is stopped.
//!
//! # Safety
//!
//! Makes buffers of zeroed memory, which is a buffer without cells, and reaches them by number
//! within the mapping that has room for all. A buffer is written by its own thread; what others
//! read of it is atomic.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
    compiler_fence, fence,
};

use crate::addr::{Address, CellIndex, FRAME_BYTES, Frame, PAGE_BYTES};
use crate::heap::Heap;
use crate::heap::blocks::header::NONE;
use crate::heap::blocks::header::SHARDS;
use crate::heap::classes::LARGEST_SMALL;
use crate::heap::spaces::{FIXED_SPACES, MOST_SPACES, SpaceId};
use crate::stats::live;
use crate::stats::sampler::Sampler;
use crate::sys::map;
use crate::sys::thread::{self, barrier};

/// One buffer.
#[repr(C)]
pub struct Buffer {
    /// The next cell to hand out.
    pub cursor: AtomicUsize,
    /// The end of the buffer.
    pub limit: AtomicUsize,
    /// Where the buffer began, or where its objects were counted last.
    counted: AtomicUsize,
    /// The block that further buffers come from, [`NONE`] if none.
    block: AtomicU32,
    /// Bytes of a cell of the buffer.
    cell_bytes: AtomicU16,
    /// How many blocks it takes at once the next time, less one.
    further: AtomicU8,
    /// Its next cells begin with a sample, if the thread comes to the end of these ones.
    pub(super) owes_sample: AtomicBool,
}

const _: () = assert!(LARGEST_SMALL <= u16::MAX as usize);
const _: () = assert!(TAKEN_AT_ONCE / FRAME_BYTES <= u8::MAX as usize);

/// What the blocks that a thread takes at once for a space hold at most. Larger: fewer threads meet
/// at the heap's lock; smaller: less memory that only one thread can use.
pub(super) const TAKEN_AT_ONCE: usize = 128 << 10;

impl Buffer {
    /// Hands out the next cell, or 0 if the buffer has none.
    #[inline(always)]
    pub fn bump(&self, cell_bytes: usize) -> usize {
        let cursor = self.cursor.load(Relaxed);
        let end = cursor + cell_bytes;
        if end > self.limit.load(Relaxed) {
            return 0;
        }
        self.cursor.store(end, Relaxed);
        // The cursor has moved before anything is stored into the cell: who stops this thread must
        // know the cell as allocated.
        compiler_fence(SeqCst);
        // SAFETY: what lies below the limit of a buffer lies in the heap, which does not begin at
        // 0; no cell has 0 bytes. Spares whoever asks for a cell a second look.
        unsafe { core::hint::assert_unchecked(cursor != 0) };
        cursor
    }

    /// The cells not handed out yet.
    pub fn rest(&self) -> core::ops::Range<usize> {
        self.cursor.load(Relaxed)..self.limit.load(Relaxed)
    }

    /// The block that further buffers come from.
    pub fn block(&self) -> Option<Frame> {
        let block = self.block.load(Relaxed);
        (block != NONE).then_some(Frame(block))
    }

    /// Sets or forgets the block that further buffers come from.
    pub fn set_block(&self, block: Option<Frame>) {
        self.block.store(block.map_or(NONE, |block| block.0), Relaxed);
    }

    /// How many further blocks to take with one of `block_bytes`: twice as many each time, and none
    /// at first, so that a space that is little used keeps no memory from the others.
    pub fn take_further(&self, block_bytes: usize) -> usize {
        let further = self.further.load(Relaxed) as usize;
        let most = (TAKEN_AT_ONCE / block_bytes).saturating_sub(1);
        self.further.store((further * 2 + 1).min(most) as u8, Relaxed);
        further.min(most)
    }

    /// Forgets its blocks; calls `f` for each.
    fn drop_blocks(&self, heap: &Heap, mut f: impl FnMut(Frame)) {
        let mut next = self.block();
        self.set_block(None);
        self.further.store(0, Relaxed);
        while let Some(block) = next {
            next = heap.header(block).let_go();
            f(block);
        }
    }

    /// Bytes of a cell of the buffer.
    pub fn cell_bytes(&self) -> usize {
        self.cell_bytes.load(Relaxed) as usize
    }
}

/// What one thread allocates from: a buffer for each space, and its counts.
#[repr(C)]
pub struct Local {
    /// Runs of the spaces without layout, by [`SpaceId`].
    fixed: [Buffer; FIXED_SPACES],
    /// Address of [`Typed`]; 0 until the first typed object.
    typed: AtomicUsize,
    /// Typed buffers in use lie below this index.
    typed_end: AtomicUsize,
    /// Objects and bytes handed out in buffers that are over, and in large objects.
    objects: AtomicU64,
    bytes: AtomicU64,
    /// Odd while `objects` and `bytes` take over what a buffer handed out.
    counting: AtomicU32,
    /// Bytes of buffers that the heap's count does not hold yet. Written by its thread, or while it
    /// is stopped.
    unreported: Cell<usize>,
    /// The same of the page that shows what goes on. Written by its thread.
    unshown: Cell<usize>,
    /// Bytes that the program freed on its thread and the heap's count does not hold yet; of these,
    /// what the last cycle had found live. As `unreported`.
    freed: Cell<usize>,
    freed_live: Cell<usize>,
    /// Its thread frees a cell without the heap's lock, or hands some out. Written by its thread.
    changing_bits: AtomicBool,
    /// Its shard, below [`SHARDS`]; written before any other thread knows of it.
    shard: Cell<usize>,
    /// A bit for each fixed buffer that ever had cells: the others need not be looked at, least of
    /// all by who stopped the thread and has none of them in its cache. Written by its thread.
    used: [AtomicU64; FIXED_SPACES.div_ceil(64)],
    /// Which of its objects are sampled.
    pub sampler: Sampler,
}

/// Looks at what a thread handed out until it counts no buffer meanwhile, at most.
const MOST_LOOKS: usize = 100;

/// The shard of the next thread.
static NEXT_SHARD: AtomicU32 = AtomicU32::new(0);
/// Bytes of a thread that are shown to others at once. Larger: less traffic between processors.
const SHOWN_AT_ONCE: usize = 512 << 10;
/// Bytes that a thread reports at once. Larger: less traffic between processors; smaller: a more
/// exact trigger.
const REPORTED_AT_ONCE: usize = 64 << 10;
/// The same of what it frees; to report it takes the heap's lock.
const FREED_AT_ONCE: usize = 16 << 10;
const TYPED_SPACES: usize = MOST_SPACES - FIXED_SPACES;

const TYPED_BYTES: usize = size_of::<Typed>().next_multiple_of(PAGE_BYTES);

/// The buffers of typed spaces, in memory that is zero and mostly never touched.
#[repr(C)]
struct Typed {
    buffers: [Buffer; TYPED_SPACES],
    /// As [`Local::used`]: a program may have thousands of layouts, of which a thread uses few.
    used: [AtomicU64; TYPED_SPACES.div_ceil(64)],
}

impl Local {
    /// Makes zeroed memory a thread's buffers: none has cells, none has a block.
    pub fn initialize(&self) {
        self.shard.set(NEXT_SHARD.fetch_add(1, Relaxed) as usize % SHARDS);
        for buffer in &self.fixed {
            buffer.set_block(None);
        }
    }

    /// The shard whose blocks it takes first.
    pub fn shard(&self) -> usize {
        self.shard.get()
    }

    /// The buffer of a space without layout.
    #[inline(always)]
    pub fn fixed(&self, id: SpaceId) -> &Buffer {
        &self.fixed[id.0 as usize]
    }

    /// The buffer of any space, None when the system gives no memory for typed ones.
    #[inline]
    pub fn buffer(&self, id: SpaceId) -> Option<&Buffer> {
        let index = id.0 as usize;
        if index < FIXED_SPACES {
            return Some(&self.fixed[index]);
        }
        if self.typed.load(Relaxed) == 0 {
            self.typed.store(map::allocate(TYPED_BYTES).ok()?.0, Relaxed);
        }
        let buffers = &self.typed()?.buffers;
        let (index, end) = (index - FIXED_SPACES, self.typed_end.load(Relaxed));
        if index >= end {
            buffers[end..=index].iter().for_each(|fresh| fresh.set_block(None));
            self.typed_end.store(index + 1, Relaxed);
        }
        Some(&buffers[index])
    }

    fn typed(&self) -> Option<&Typed> {
        // SAFETY: null, or a mapping of that size; zeroed memory is buffers without cells, and
        // none that was used.
        unsafe { (self.typed.load(Relaxed) as *const Typed).as_ref() }
    }

    /// A buffer is about to get cells.
    pub fn note_used(&self, id: SpaceId) {
        let index = id.0 as usize;
        let (words, index) = match (index.checked_sub(FIXED_SPACES), self.typed()) {
            (None, _) => (&self.used[..], index),
            (Some(index), Some(typed)) => (&typed.used[..], index),
            (Some(_), None) => return,
        };
        let word = &words[index / 64];
        word.store(word.load(Relaxed) | 1 << (index % 64), Relaxed);
    }

    /// Calls `f` for every buffer that was ever used. Called by its thread, or while it is stopped.
    pub fn for_each_buffer(&self, mut f: impl FnMut(&Buffer)) {
        let mut each = |used: &[AtomicU64], buffers: &[Buffer]| {
            for (index, word) in used.iter().enumerate() {
                let mut left = word.load(Relaxed);
                while left != 0 {
                    f(&buffers[index * 64 + left.trailing_zeros() as usize]);
                    left &= left - 1;
                }
            }
        };
        each(&self.used, &self.fixed);
        if let Some(typed) = self.typed() {
            let end = self.typed_end.load(Relaxed);
            each(&typed.used[..end.div_ceil(64)], &typed.buffers);
        }
    }

    /// Gives a buffer further cells; counts what its last ones were used for. Between any two of
    /// these stores the buffer has no cells or all of them: a signal handler may ask it for one.
    pub fn install(&self, buffer: &Buffer, cells: core::ops::Range<usize>, cell_bytes: usize) {
        let number = self.begin_counting();
        self.count_buffer(buffer);
        buffer.counted.store(cells.start, Relaxed);
        buffer.cell_bytes.store(cell_bytes as u16, Relaxed);
        buffer.limit.store(0, Relaxed);
        compiler_fence(SeqCst);
        buffer.cursor.store(cells.start, Relaxed);
        compiler_fence(SeqCst);
        buffer.limit.store(cells.end, Relaxed);
        self.end_counting(number);
    }

    /// Who adds up what was handed out meanwhile adds it up again.
    fn begin_counting(&self) -> u32 {
        let number = self.counting.load(Relaxed);
        self.counting.store(number.wrapping_add(1), Relaxed);
        fence(Release);
        number
    }

    /// `number`: what [`Self::begin_counting`] gave.
    fn end_counting(&self, number: u32) {
        self.counting.store(number.wrapping_add(2), Release);
    }

    /// Reports bytes handed out to the heap's count, which all threads share: now and then, not for
    /// each buffer.
    pub fn report(&self, heap: &Heap, bytes: usize) {
        let unreported = self.unreported.get() + bytes;
        if unreported < REPORTED_AT_ONCE {
            self.unreported.set(unreported);
        } else {
            self.unreported.set(0);
            heap.state.allocated_since_cycle.fetch_add(unreported, Relaxed);
            self.unshown.set(self.unshown.get() + unreported);
            if self.unshown.get() >= SHOWN_AT_ONCE {
                live::note_handed_out(self.unshown.take());
            }
        }
    }

    /// Does `f`, which changes bits by what `marking` and `allocate_black` say: who changes these
    /// finds that it is at it, or it finds them changed. By its thread in a critical section.
    pub fn change_bits<R>(&self, f: impl FnOnce() -> R) -> R {
        // A handler of the program's may have interrupted another one.
        let is_inner = self.changing_bits.load(Relaxed);
        barrier::say(&self.changing_bits);
        let done = f();
        if !is_inner {
            self.changing_bits.store(false, Release);
        }
        done
    }

    /// Whether [`Local::change_bits`] is under way.
    pub fn is_changing_bits(&self) -> bool {
        self.changing_bits.load(SeqCst)
    }

    /// A cell was freed without the heap's lock; `was_live` says whether the last cycle had found
    /// it live. By its thread in a critical section.
    pub fn note_freed(&self, heap: &Heap, bytes: usize, was_live: bool) {
        self.freed.set(self.freed.get() + bytes);
        if was_live {
            self.freed_live.set(self.freed_live.get() + bytes);
        }
        if self.freed.get() >= FREED_AT_ONCE {
            let _inner = heap.inner();
            self.report_freed(heap);
        }
    }

    /// Reports what it freed to the heap's count. Under the heap's lock by its thread, or while it
    /// is stopped.
    pub fn report_freed(&self, heap: &Heap) {
        let (freed, live) = (self.freed.take(), self.freed_live.take());
        if live > 0 {
            heap.state.note_freed(live, true);
        }
        if freed > live {
            heap.state.note_freed(freed - live, false);
        }
    }

    /// So many bytes that it reported, or was about to, are not handed out: they are reported when
    /// they are taken again. Its thread stopped.
    fn take_back(&self, heap: &Heap, bytes: usize) {
        let unreported = self.unreported.get();
        self.unreported.set(unreported.saturating_sub(bytes));
        let reported = bytes.saturating_sub(unreported);
        let less = |allocated: usize| Some(allocated.saturating_sub(reported));
        let _ = heap.state.allocated_since_cycle.fetch_update(Relaxed, Relaxed, less);
    }

    fn count_buffer(&self, buffer: &Buffer) {
        let cursor = buffer.cursor.load(Relaxed);
        // Not exchanged: nobody else writes it, and an atomic exchange waits until the zeros that
        // were written before are in the cache.
        // In the child of a `fork` its thread may have been about to use other cells.
        let bytes = cursor.saturating_sub(buffer.counted.load(Relaxed));
        buffer.counted.store(cursor, Relaxed);
        if bytes > 0 {
            self.count((bytes / buffer.cell_bytes()) as u64, bytes as u64);
        }
    }

    /// Counts objects handed out otherwise.
    pub fn count(&self, objects: u64, bytes: u64) {
        self.objects.store(self.objects.load(Relaxed) + objects, Relaxed);
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
    }

    /// Objects and bytes handed out so far. Called from any thread; buffers in use are read as they
    /// stand. Their thread may have lost its processor while it counts one: then without them.
    pub fn totals(&self) -> (u64, u64) {
        for _ in 0..MOST_LOOKS {
            let before = self.counting.load(Acquire);
            let totals = self.totals_now();
            fence(Acquire);
            if before.is_multiple_of(2) && self.counting.load(Relaxed) == before {
                return totals;
            }
            thread::yield_now();
        }
        (self.objects.load(Relaxed), self.bytes.load(Relaxed))
    }

    fn totals_now(&self) -> (u64, u64) {
        let (mut objects, mut bytes) = (self.objects.load(Relaxed), self.bytes.load(Relaxed));
        self.for_each_buffer(|buffer| {
            let used = buffer.cursor.load(Relaxed).saturating_sub(buffer.counted.load(Relaxed));
            if used > 0 && buffer.cell_bytes() > 0 {
                objects += (used / buffer.cell_bytes()) as u64;
                bytes += used as u64;
            }
        });
        (objects, bytes)
    }

    /// Before a cycle, its thread stopped: it keeps the next cell of each buffer, which is marked
    /// and counts as live, and loses the others and its blocks, whose free cells will be found
    /// again `[alloc.why.one-cell]`. It keeps cells that no sweep would find: those that were born
    /// marked, and those of objects that are never collected.
    pub fn keep_cells(&self, heap: &Heap) {
        live::note_handed_out(self.unshown.take());
        self.report_freed(heap);
        self.for_each_buffer(|buffer| {
            buffer.drop_blocks(heap, |_| {});
            let rest = buffer.rest();
            if !rest.is_empty()
                && let Some(cell) = heap.cell_at(rest.start)
            {
                let cell_bytes = buffer.cell_bytes();
                let first = cell.index.0;
                let mut end = first + (rest.len() / cell_bytes) as u32;
                if !cell.header.is_uncollectable() && !cell.bits.is_marked(CellIndex(end - 1)) {
                    // They are no objects: nobody is to find them dead.
                    cell.bits.set_range(first + 1..end, true, true, false);
                    self.take_back(heap, rest.len() - cell_bytes);
                    if end > first + 1 {
                        buffer.owes_sample.store(false, Relaxed);
                    }
                    end = first + 1;
                    buffer.limit.store(rest.start + cell_bytes, Relaxed);
                }
                heap.note_marked(cell.block, cell.header);
                let bytes = cell.bits.mark_range(first..end) as usize * cell_bytes;
                heap.state.marked_bytes.fetch_add(bytes, Relaxed);
            }
        });
    }

    /// Gives up the cells that it holds and the blocks they come from: they are free, and
    /// everybody's. Called by its thread in a critical section, or when there is no such thread any
    /// more.
    pub fn let_go(&self, heap: &Heap) {
        let mut inner = heap.inner();
        self.report_freed(heap);
        self.for_each_buffer(|buffer| {
            let number = self.begin_counting();
            self.count_buffer(buffer);
            self.end_counting(number);
            let rest = buffer.rest();
            buffer.limit.store(buffer.cursor.load(Relaxed), Relaxed);
            if !rest.is_empty() {
                buffer.owes_sample.store(false, Relaxed);
            }
            buffer.drop_blocks(heap, |block| inner.note_free_cell(heap, block));
            // In a frozen block the cells stay as they are until it is unfrozen, since no one would
            // get them. While marking is under way the sweep finds them, but those of objects that
            // are never collected, which are freed as such objects are.
            if let Some(cell) = heap.cell_at(rest.start).filter(|_| !rest.is_empty())
                && !cell.header.is_frozen()
            {
                let cell_bytes = buffer.cell_bytes();
                if !heap.state.marking.load(Relaxed) {
                    let first = cell.index.0;
                    // What comes back was zeroed but its block no longer counts as fresh, so it is
                    // zeroed again when handed out.
                    cell.header.fresh.store(0, Relaxed);
                    let cells = first..first + (rest.len() / cell_bytes) as u32;
                    cell.bits.set_range(cells, true, true, false);
                    inner.note_free_cell(heap, cell.block);
                    self.take_back(heap, rest.len());
                } else if cell.header.is_uncollectable() {
                    rest.step_by(cell_bytes)
                        .for_each(|free| inner.deferred_frees.note(heap, Address(free), None));
                }
            }
        });
        drop(inner);
        // However little it is: others may end as soon, and what none of them reports is nothing.
        let unreported = self.unreported.take();
        heap.state.allocated_since_cycle.fetch_add(unreported, Relaxed);
        live::note_handed_out(self.unshown.take() + unreported);
    }

    /// In a copy of the process, in which nobody allocates: the cells that it holds are free, and
    /// no word leads to them.
    pub fn forget_cells(&self, heap: &Heap) {
        self.for_each_buffer(|buffer| {
            let rest = buffer.rest();
            if let Some(cell) = heap.cell_at(rest.start).filter(|_| !rest.is_empty()) {
                let end = cell.index.0 + (rest.len() / buffer.cell_bytes()) as u32;
                cell.bits.set_range(cell.index.0..end, true, true, false);
            }
        });
    }

    /// The thread has ended, after [`Local::let_go`]: its typed buffers are given back. When nobody
    /// finds it in the registry any more, who may be adding up its [`Local::totals`].
    pub fn give_back_typed(&self) {
        let typed = self.typed.swap(0, Relaxed);
        if typed != 0 {
            map::release(Address(typed), TYPED_BYTES);
        }
    }
}

#[cfg(test)]
#[path = "buffer_tests.rs"]
pub(crate) mod tests;
