//! Which frames of the committed chunks are free, and which of the free ones still hold memory of
//! the system.
//!
//! Invariant `[heap.inv.frames]`: a frame is free here exactly when it is no block's first
//! frame and no block's further one. A free frame that is not dirty reads as zero. Pure
//! bookkeeping under the heap's lock: but for [`giving_back`] nothing here makes a system call.

mod bounds;
mod chunk_rows;
pub mod closed;
pub mod decay;
pub mod giving_back;
pub mod watched;

use self::bounds::Bounds;
use crate::addr::{CHUNK_FRAMES, Frame};
use crate::sys::meta_vec::{MetaVec, NoMemory};

/// A bit for each frame of a chunk.
pub type Mask = u128;
const ALL: Mask = Mask::MAX;
const _: () = assert!(CHUNK_FRAMES == Mask::BITS as usize);

/// What the objects of a chunk hold: pointer-free ones are kept apart, so that they need no
/// watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// Objects that are scanned.
    Scanned = 0,
    /// Pointer-free objects.
    Leaf = 1,
}

#[derive(Clone, Copy)]
struct Chunk {
    free: Mask,
    /// What the frames in use hold; of a free chunk, what they held last.
    content: Content,
    /// Whether the write watch knows the chunk.
    registered: bool,
    /// Frames whose writes the watch reports; all others count as written. See [`watched`].
    protected: Mask,
    /// See [`closed`]; means nothing where `protected` is not set.
    closed: Mask,
    /// First frames of blocks that were lent; some may have been let go since.
    lent: Mask,
    /// Touched since the system last gave or took it.
    dirty: Mask,
    /// Frames that nothing is ever put into, so that who leaves a neighbour meets no object.
    guards: Mask,
    /// When a frame of it was last freed, by the caller's stamp.
    freed_at: u64,
}

impl Chunk {
    /// Whether frames of `content` may be taken from it.
    fn suits(&self, content: Content) -> bool {
        self.free != 0 && (self.content == content || self.is_unused())
    }

    fn is_unused(&self) -> bool {
        self.free | self.guards == ALL
    }

    fn is_scanned(&self) -> bool {
        self.content == Content::Scanned && !self.is_unused()
    }
}

/// The frames that a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first of them.
    pub first: Frame,
    /// All of them read as zero.
    pub fresh: bool,
}

/// How many frames of a chunk are never used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guards {
    /// At its begin.
    pub first: usize,
    /// At its end.
    pub last: usize,
}

/// Free frames of all committed chunks.
pub struct Frames {
    chunks: MetaVec<Chunk>,
    bounds: Bounds,
    taken: usize,
    /// Of these, those of chunks whose objects are scanned.
    scanned: usize,
    dirty_free: usize,
    /// Some may be closed.
    any_closed: bool,
}

fn mask(from: usize, count: usize) -> Mask {
    if count == CHUNK_FRAMES { ALL } else { ((1 << count) - 1) << from }
}

/// The frames of a row, chunk by chunk.
fn by_chunk(first: Frame, count: usize) -> impl Iterator<Item = (usize, Mask)> {
    let (mut frame, end) = (first.0 as usize, first.0 as usize + count);
    core::iter::from_fn(move || {
        let place = frame % CHUNK_FRAMES;
        let here = (CHUNK_FRAMES - place).min(end - frame);
        let index = frame / CHUNK_FRAMES;
        frame += here;
        (here > 0).then(|| (index, mask(place, here)))
    })
}

/// The lowest place where `count` bits are set in a row.
fn fit(free: Mask, count: usize) -> Option<usize> {
    // Bit i of `runs` says that `have` bits from i on are set; doubling `have` takes log(count)
    // steps.
    let (mut runs, mut have) = (free, 1);
    while have < count && runs != 0 {
        let step = have.min(count - have);
        runs &= runs >> step;
        have += step;
    }
    (runs != 0).then(|| runs.trailing_zeros() as usize)
}

/// How many bits in a row are set around one that is.
fn row_around(free: Mask, place: usize) -> usize {
    let from_here = (!(free >> place)).trailing_zeros();
    let before = (!(free << (CHUNK_FRAMES - 1 - place))).leading_zeros();
    (from_here + before) as usize - 1
}

impl Frames {
    /// No chunk yet.
    pub const fn new() -> Self {
        Self {
            chunks: MetaVec::new(),
            bounds: Bounds::new(),
            taken: 0,
            scanned: 0,
            dirty_free: 0,
            any_closed: false,
        }
    }

    /// Committed chunks.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Frames in use.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Frames in use by objects that are scanned, dead ones that are not swept yet included.
    pub fn scanned(&self) -> usize {
        self.scanned
    }

    /// Free frames that still hold memory.
    pub fn dirty_free(&self) -> usize {
        self.dirty_free
    }

    /// Frames that hold memory, in use or not.
    pub fn resident(&self) -> usize {
        self.taken + self.dirty_free
    }

    /// Chunks that must be committed before a request of `count` frames can be met at the end.
    pub fn chunks_wanted(&self, count: usize) -> usize {
        let trailing = if count >= CHUNK_FRAMES {
            self.chunks.iter().rev().take_while(|chunk| chunk.free == ALL).count()
        } else {
            0
        };
        count.div_ceil(CHUNK_FRAMES) - trailing.min(count / CHUNK_FRAMES)
    }

    /// Adds a chunk of fresh memory at the end, with so many guards at its begin and its end. An
    /// object that takes all of a chunk is never put into one with guards.
    pub fn add_chunk(&mut self, guards: Guards) -> Result<(), NoMemory> {
        let guards = mask(0, guards.first) | !(ALL >> guards.last);
        self.bounds.try_reserve()?;
        self.chunks.try_push(Chunk {
            free: !guards,
            guards,
            content: Content::Scanned,
            registered: false,
            protected: 0,
            closed: 0,
            lent: 0,
            dirty: 0,
            freed_at: 0,
        })?;
        self.bounds.add_chunk();
        Ok(())
    }

    /// Takes `count` frames in a row for a content, the lowest that fit; None if there are none.
    pub fn take(&mut self, count: usize, content: Content) -> Option<Taken> {
        if count > CHUNK_FRAMES {
            return self.take_chunks(count, content);
        }
        let chunks = &self.chunks;
        let (index, place) =
            self.bounds.find(count, content, |index| fit(chunks[index].free, count))?;
        let frames = mask(place, count);
        let fresh = self.occupy(index, frames, content);
        if count > 1 {
            self.chunks[index].protected &= !frames;
        }
        Some(Taken { first: Frame((index * CHUNK_FRAMES + place) as u32), fresh })
    }

    fn take_chunks(&mut self, count: usize, content: Content) -> Option<Taken> {
        let (whole, rest) = (count / CHUNK_FRAMES, count % CHUNK_FRAMES);
        let wanted = count.div_ceil(CHUNK_FRAMES);
        let index = self.row_of_chunks(whole, rest, content)?;
        let mut fresh = true;
        for place in 0..wanted {
            let frames = if place < whole { ALL } else { mask(0, rest) };
            fresh &= self.occupy(index + place, frames, content);
            self.chunks[index + place].protected &= !frames;
        }
        Some(Taken { first: Frame((index * CHUNK_FRAMES) as u32), fresh })
    }

    fn occupy(&mut self, index: usize, frames: Mask, content: Content) -> bool {
        let chunk = &mut self.chunks[index];
        let dirty = chunk.dirty & frames;
        chunk.content = content;
        self.bounds.note_taken(index, content);
        chunk.free &= !frames;
        chunk.dirty |= frames;
        let count = frames.count_ones() as usize;
        self.taken += count;
        self.scanned += if content == Content::Scanned { count } else { 0 };
        self.dirty_free -= dirty.count_ones() as usize;
        dirty == 0
    }

    /// Takes exactly these frames if they are all free: for an object that grows in place, all of
    /// which the caller unprotects. Says whether they are fresh.
    pub fn take_at(&mut self, first: Frame, count: usize, content: Content) -> Option<bool> {
        self.dirty_at(first, count, content)?;
        let mut fresh = true;
        for (index, frames) in by_chunk(first, count) {
            fresh &= self.occupy(index, frames, content);
        }
        Some(fresh)
    }

    /// How many of these frames are not fresh; None if one of them is in use, or not to be had
    /// for a content.
    fn dirty_at(&self, first: Frame, count: usize, content: Content) -> Option<usize> {
        let mut dirty = 0;
        for (index, frames) in by_chunk(first, count) {
            let chunk = self.chunks.get(index)?;
            if !chunk.suits(content) || chunk.free & frames != frames {
                return None;
            }
            dirty += (chunk.dirty & frames).count_ones() as usize;
        }
        Some(dirty)
    }

    /// Chunks to be committed at the end before [`Frames::take_at`] can take these frames; None
    /// if they would not do, since some of those before are in use, or used before where they are
    /// to be fresh.
    pub fn chunks_wanted_at(
        &self,
        first: Frame,
        count: usize,
        content: Content,
        only_fresh: bool,
    ) -> Option<usize> {
        let committed = (self.chunks.len() * CHUNK_FRAMES).saturating_sub(first.0 as usize);
        let beyond = count.saturating_sub(committed);
        let dirty = self.dirty_at(first, count - beyond, content)?;
        (dirty == 0 || !only_fresh).then(|| beyond.div_ceil(CHUNK_FRAMES))
    }

    /// Gives frames back, to be used again as they are.
    pub fn give_back(&mut self, first: Frame, count: usize, stamp: u64) {
        let mut frame = first;
        let end = first.0 as usize + count;
        while (frame.0 as usize) < end {
            let here = (CHUNK_FRAMES - frame.in_chunk()).min(end - frame.0 as usize);
            let chunk = &mut self.chunks[frame.chunk()];
            let frames = mask(frame.in_chunk(), here);
            debug_assert_eq!(chunk.free & frames, 0);
            chunk.free |= frames;
            let row = row_around(chunk.free, frame.in_chunk());
            let anybodys = [Content::Scanned, Content::Leaf];
            let contents = if chunk.is_unused() { &anybodys[..] } else { &[chunk.content] };
            self.bounds.note_row(frame.chunk(), row, contents);
            chunk.freed_at = stamp;
            self.taken -= here;
            self.scanned -= if chunk.content == Content::Scanned { here } else { 0 };
            self.dirty_free += here;
            frame = frame.add(here);
        }
    }

    /// The next free frames at or after `from` that hold memory and were freed at or before
    /// `before`: they count as clean from now on. The caller gives them back to the system
    /// before it lets the lock go.
    pub fn next_to_clean(&mut self, from: Frame, before: u64) -> Option<(Frame, usize)> {
        for index in from.chunk()..self.chunks.len() {
            let chunk = &mut self.chunks[index];
            let behind = if index == from.chunk() { ALL << from.in_chunk() } else { ALL };
            let idle = chunk.free & chunk.dirty & behind;
            if idle == 0 || chunk.freed_at > before {
                continue;
            }
            let place = idle.trailing_zeros() as usize;
            let count =
                (!(idle >> place)).trailing_zeros().min((CHUNK_FRAMES - place) as u32) as usize;
            chunk.dirty &= !mask(place, count);
            // What comes back from the system reads as written.
            chunk.protected &= !mask(place, count);
            self.dirty_free -= count;
            return Some((Frame((index * CHUNK_FRAMES + place) as u32), count));
        }
        None
    }

    /// Takes back what [`Frames::next_to_clean`] said of these frames: the system did not take
    /// their memory.
    pub fn keep_dirty(&mut self, first: Frame, count: usize) {
        self.chunks[first.chunk()].dirty |= mask(first.in_chunk(), count);
        self.dirty_free += count;
    }

    /// Whether nothing of a chunk is in use or holds memory.
    pub fn is_clean(&self, chunk: usize) -> bool {
        self.chunks[chunk].is_unused() && self.chunks[chunk].dirty == 0
    }

    /// Whether all of a chunk holds memory.
    pub fn is_whole(&self, chunk: usize) -> bool {
        self.chunks[chunk].dirty | self.chunks[chunk].guards == ALL
    }

    /// Whether a frame holds memory, as far as is known: it was used since it was given back.
    pub fn is_dirty(&self, frame: Frame) -> bool {
        self.chunks[frame.chunk()].dirty >> frame.in_chunk() & 1 != 0
    }

    /// Whether a frame is one that nothing is ever put into.
    pub fn is_guard(&self, frame: Frame) -> bool {
        self.chunks[frame.chunk()].guards >> frame.in_chunk() & 1 != 0
    }

    /// Whether a frame is free.
    pub fn is_free(&self, frame: Frame) -> bool {
        self.chunks[frame.chunk()].free >> frame.in_chunk() & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Content::*;
    use super::*;

    pub(super) fn with_chunks(count: usize) -> Frames {
        let mut frames = Frames::new();
        (0..count).for_each(|_| frames.add_chunk(Guards::default()).unwrap());
        frames
    }

    #[test]
    fn requests_take_the_lowest_fit_and_come_back() {
        let mut frames = with_chunks(2);
        assert_eq!(frames.take(100, Scanned).unwrap().first, Frame(0));
        assert_eq!(frames.take(100, Scanned).unwrap().first, Frame(128));
        assert_eq!(frames.take(28, Scanned).unwrap().first, Frame(100));
        assert_eq!(frames.take(29, Scanned), None);
        frames.give_back(Frame(0), 100, 5);
        let again = frames.take(3, Scanned).unwrap();
        assert_eq!((again.first, again.fresh), (Frame(0), false));
        assert_eq!(frames.taken(), 3 + 100 + 28);
        assert_eq!(frames.dirty_free(), 97);
    }

    /// What bounds a search never hides a place that would do.
    #[test]
    fn hints_and_longest_rows_are_bounds() {
        let mut frames = with_chunks(6);
        let (mut taken, mut state) = (Vec::new(), 0x5eed_u64);
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..if cfg!(miri) { 200 } else { 20_000 } {
            let content = if random(3) == 0 { Leaf } else { Scanned };
            let most = if random(4) == 0 { 150 } else { 12 };
            let count = 1 + random(most);
            if random(2) == 0 || taken.is_empty() {
                taken.extend(frames.take(count, content).map(|one| (one.first, count)));
            } else {
                let (first, count) = taken.swap_remove(random(taken.len()));
                frames.give_back(first, count, 0);
            }
            for (index, chunk) in frames.chunks.iter().enumerate() {
                for content in [Scanned, Leaf].into_iter().filter(|&one| chunk.suits(one)) {
                    let rows = (0..CHUNK_FRAMES).filter(|place| chunk.free >> place & 1 != 0);
                    let longest = rows.map(|place| row_around(chunk.free, place)).max();
                    assert!(frames.bounds.allow(index, longest.unwrap(), content));
                }
            }
        }
    }

    #[test]
    fn large_requests_span_chunks() {
        let mut frames = with_chunks(3);
        let one = frames.take(1, Scanned).unwrap();
        let large = frames.take(200, Scanned).unwrap();
        assert_eq!((large.first, large.fresh), (Frame(128), true));
        assert_eq!(frames.take(57, Scanned).unwrap().first, Frame(1));
        assert_eq!(frames.take(129, Scanned), None);
        assert_eq!((frames.chunks_wanted(129), frames.chunks_wanted(1)), (2, 1));
        frames.give_back(large.first, 200, 0);
        assert_eq!(frames.chunks_wanted(300), 1);
        frames.give_back(one.first, 1, 0);
        assert_eq!(frames.taken(), 57);
    }

    #[test]
    fn old_free_frames_are_cleaned_once() {
        let mut frames = with_chunks(1);
        frames.take(10, Scanned).unwrap();
        frames.give_back(Frame(2), 3, 100);
        assert_eq!(frames.next_to_clean(Frame(0), 99), None);
        assert_eq!(frames.next_to_clean(Frame(0), 100), Some((Frame(2), 3)));
        assert_eq!(frames.next_to_clean(Frame(0), 100), None);
        assert!(!frames.is_clean(0));
        frames.keep_dirty(Frame(2), 3);
        assert_eq!(frames.next_to_clean(Frame(0), 100), Some((Frame(2), 3)));
        assert_eq!(frames.take(3, Scanned).unwrap(), Taken { first: Frame(2), fresh: true });
        frames.give_back(Frame(0), 10, 0);
        while frames.next_to_clean(Frame(0), 100).is_some() {}
        assert!(frames.is_clean(0));
    }

    #[test]
    fn fits_are_found_bit_by_bit() {
        for (free, count, place) in [
            (0b1011_u128, 2, Some(0)),
            (0b1101, 2, Some(2)),
            (0b101, 2, None),
            (ALL, 128, Some(0)),
            (ALL << 1, 127, Some(1)),
        ] {
            assert_eq!(fit(free, count), place);
        }
    }

    #[test]
    fn growing_in_place_takes_only_free_neighbours() {
        let mut frames = with_chunks(1);
        frames.take(4, Scanned).unwrap();
        assert_eq!(frames.take_at(Frame(4), 2, Scanned), Some(true));
        assert_eq!(frames.take_at(Frame(5), 2, Scanned), None);
        assert_eq!(frames.take_at(Frame(127), 2, Scanned), None, "there is no chunk behind");
        assert_eq!(frames.chunks_wanted_at(Frame(127), 130, Scanned, true), Some(2));
        assert_eq!(frames.chunks_wanted_at(Frame(3), 130, Scanned, true), None);
        frames.give_back(Frame(4), 2, 0);
        assert_eq!(frames.chunks_wanted_at(Frame(4), 5, Scanned, true), None, "two are dirty");
        assert_eq!(frames.chunks_wanted_at(Frame(4), 5, Scanned, false), Some(0));
    }

    #[test]
    fn pointer_free_frames_keep_to_their_own_chunks() {
        let mut frames = with_chunks(4);
        assert_eq!(frames.take(1, Scanned).unwrap().first, Frame(0));
        assert_eq!(frames.take(1, Leaf).unwrap().first, Frame(128));
        assert_eq!(frames.take(1, Scanned).unwrap().first, Frame(1));
        assert_eq!((frames.taken(), frames.scanned()), (3, 2));
        assert_eq!(frames.take(100, Scanned).unwrap().first, Frame(2));
        assert_eq!(frames.take(100, Scanned).unwrap().first, Frame(256));
        frames.give_back(Frame(128), 1, 0);
        assert_eq!(
            frames.take(28, Scanned).unwrap().first,
            Frame(128),
            "a free chunk is anybody's"
        );
        assert_eq!((frames.taken(), frames.scanned()), (230, 230));
    }
}
