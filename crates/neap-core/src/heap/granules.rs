//! Which granules of the committed chunks are free, and which of the free ones still hold memory of
//! the system.
//!
//! Invariant `[heap.inv.granules]`: a granule is free here exactly when it is no block's first
//! granule and no block's further one. A free granule that is not dirty reads as zero. Pure
//! bookkeeping under the heap's lock: it makes no system call and touches no object.

mod bounds;
pub mod decay;
pub mod inward;
pub mod watched;

use self::bounds::Bounds;
use crate::addr::{CHUNK_GRANULES, Granule};
use crate::sys::meta_vec::{MetaVec, NoMemory};

type Mask = u128;
const ALL: Mask = Mask::MAX;
const _: () = assert!(CHUNK_GRANULES == Mask::BITS as usize);

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
    /// What the granules in use hold; of a free chunk, what they held last.
    content: Content,
    /// Whether the write watch knows the chunk.
    registered: bool,
    /// Granules whose writes the watch reports; all others count as written. See [`watched`].
    armed: Mask,
    /// See [`inward`]; means nothing where `armed` is not set.
    inward: Mask,
    /// Touched since the system last gave or took it.
    dirty: Mask,
    /// When a granule of it was last freed, in the caller's milliseconds.
    freed_at_ms: u64,
}

impl Chunk {
    /// Whether granules of `content` may be taken from it.
    fn suits(&self, content: Content) -> bool {
        self.free != 0 && (self.content == content || self.free == ALL)
    }

    fn is_scanned(&self) -> bool {
        self.content == Content::Scanned && self.free != ALL
    }
}

/// The granules that a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first of them.
    pub first: Granule,
    /// All of them read as zero.
    pub fresh: bool,
}

/// Free granules of all committed chunks.
pub struct Granules {
    chunks: MetaVec<Chunk>,
    bounds: Bounds,
    taken: usize,
    /// Of these, those of chunks whose objects are scanned.
    scanned: usize,
    dirty_free: usize,
}

fn mask(from: usize, count: usize) -> Mask {
    if count == CHUNK_GRANULES { ALL } else { ((1 << count) - 1) << from }
}

/// The granules of a row, chunk by chunk.
fn by_chunk(first: Granule, count: usize) -> impl Iterator<Item = (usize, Mask)> {
    let (mut granule, end) = (first.0 as usize, first.0 as usize + count);
    core::iter::from_fn(move || {
        let place = granule % CHUNK_GRANULES;
        let here = (CHUNK_GRANULES - place).min(end - granule);
        let index = granule / CHUNK_GRANULES;
        granule += here;
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
    let before = (!(free << (CHUNK_GRANULES - 1 - place))).leading_zeros();
    (from_here + before) as usize - 1
}

impl Granules {
    /// No chunk yet.
    pub const fn new() -> Self {
        Self { chunks: MetaVec::new(), bounds: Bounds::new(), taken: 0, scanned: 0, dirty_free: 0 }
    }

    /// Committed chunks.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Granules in use.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Granules in use by objects that are scanned, dead ones that are not swept yet included.
    pub fn scanned(&self) -> usize {
        self.scanned
    }

    /// Free granules that still hold memory.
    pub fn dirty_free(&self) -> usize {
        self.dirty_free
    }

    /// Granules that hold memory, in use or not.
    pub fn resident(&self) -> usize {
        self.taken + self.dirty_free
    }

    /// Chunks that must be committed before a request of `count` granules can be met at the end.
    pub fn chunks_wanted(&self, count: usize) -> usize {
        let trailing = if count >= CHUNK_GRANULES {
            self.chunks.iter().rev().take_while(|chunk| chunk.free == ALL).count()
        } else {
            0
        };
        count.div_ceil(CHUNK_GRANULES) - trailing.min(count / CHUNK_GRANULES)
    }

    /// Adds a chunk of fresh memory at the end.
    pub fn add_chunk(&mut self) -> Result<(), NoMemory> {
        self.bounds.try_reserve()?;
        self.chunks.try_push(Chunk {
            free: ALL,
            content: Content::Scanned,
            registered: false,
            armed: 0,
            inward: 0,
            dirty: 0,
            freed_at_ms: 0,
        })?;
        self.bounds.add_chunk();
        Ok(())
    }

    /// Takes `count` granules in a row for a content, the lowest that fit; None if there are none.
    pub fn take(&mut self, count: usize, content: Content) -> Option<Taken> {
        if count > CHUNK_GRANULES {
            return self.take_chunks(count, content);
        }
        let chunks = &self.chunks;
        let (index, place) =
            self.bounds.find(count, content, |index| fit(chunks[index].free, count))?;
        let fresh = self.occupy(index, mask(place, count), content);
        Some(Taken { first: Granule((index * CHUNK_GRANULES + place) as u32), fresh })
    }

    fn take_chunks(&mut self, count: usize, content: Content) -> Option<Taken> {
        let (whole, rest) = (count / CHUNK_GRANULES, count % CHUNK_GRANULES);
        let wanted = count.div_ceil(CHUNK_GRANULES);
        let fits = |chunks: &[Chunk]| {
            chunks[..whole].iter().all(|chunk| chunk.free == ALL)
                && chunks[whole..].iter().all(|chunk| {
                    chunk.suits(content) && chunk.free & mask(0, rest) == mask(0, rest)
                })
        };
        let index = self.chunks.windows(wanted).position(fits)?;
        let mut fresh = true;
        for place in 0..wanted {
            fresh &= self.occupy(
                index + place,
                if place < whole { ALL } else { mask(0, rest) },
                content,
            );
        }
        Some(Taken { first: Granule((index * CHUNK_GRANULES) as u32), fresh })
    }

    fn occupy(&mut self, index: usize, granules: Mask, content: Content) -> bool {
        let chunk = &mut self.chunks[index];
        let dirty = chunk.dirty & granules;
        chunk.content = content;
        self.bounds.note_taken(index, content);
        chunk.free &= !granules;
        chunk.dirty |= granules;
        if granules.count_ones() > 1 {
            chunk.armed &= !granules;
        }
        let count = granules.count_ones() as usize;
        self.taken += count;
        self.scanned += if content == Content::Scanned { count } else { 0 };
        self.dirty_free -= dirty.count_ones() as usize;
        dirty == 0
    }

    /// Takes exactly these granules if they are all free: for an object that grows in place. Says
    /// whether they are fresh.
    pub fn take_at(&mut self, first: Granule, count: usize, content: Content) -> Option<bool> {
        self.dirty_at(first, count, content)?;
        let mut fresh = true;
        for (index, granules) in by_chunk(first, count) {
            fresh &= self.occupy(index, granules, content);
        }
        Some(fresh)
    }

    /// How many of these granules are not fresh; None if one of them is in use, or not to be had
    /// for a content.
    fn dirty_at(&self, first: Granule, count: usize, content: Content) -> Option<usize> {
        let mut dirty = 0;
        for (index, granules) in by_chunk(first, count) {
            let chunk = self.chunks.get(index)?;
            if !chunk.suits(content) || chunk.free & granules != granules {
                return None;
            }
            dirty += (chunk.dirty & granules).count_ones() as usize;
        }
        Some(dirty)
    }

    /// Chunks to be committed at the end before [`Granules::take_at`] can take these granules; None
    /// if they would not do, since some of those before are in use, or used before where they are
    /// to be fresh.
    pub fn chunks_wanted_at(
        &self,
        first: Granule,
        count: usize,
        content: Content,
        only_fresh: bool,
    ) -> Option<usize> {
        let committed = (self.chunks.len() * CHUNK_GRANULES).saturating_sub(first.0 as usize);
        let beyond = count.saturating_sub(committed);
        let dirty = self.dirty_at(first, count - beyond, content)?;
        (dirty == 0 || !only_fresh).then(|| beyond.div_ceil(CHUNK_GRANULES))
    }

    /// Gives granules back, to be used again as they are.
    pub fn give_back(&mut self, first: Granule, count: usize, now_ms: u64) {
        let mut granule = first;
        let end = first.0 as usize + count;
        while (granule.0 as usize) < end {
            let here = (CHUNK_GRANULES - granule.in_chunk()).min(end - granule.0 as usize);
            let chunk = &mut self.chunks[granule.chunk()];
            let granules = mask(granule.in_chunk(), here);
            debug_assert_eq!(chunk.free & granules, 0);
            chunk.free |= granules;
            let row = row_around(chunk.free, granule.in_chunk());
            let anybodys = [Content::Scanned, Content::Leaf];
            let contents = if chunk.free == ALL { &anybodys[..] } else { &[chunk.content] };
            self.bounds.note_row(granule.chunk(), row, contents);
            chunk.freed_at_ms = now_ms;
            self.taken -= here;
            self.scanned -= if chunk.content == Content::Scanned { here } else { 0 };
            self.dirty_free += here;
            granule = granule.add(here);
        }
    }

    /// The next free granules at or after chunk `from` that hold memory and were freed before
    /// `before_ms`: they count as clean from now on. The caller gives them back to the system
    /// before it lets the lock go. Also says the chunk to go on from.
    pub fn next_to_clean(
        &mut self,
        from: usize,
        before_ms: u64,
    ) -> Option<(Granule, usize, usize)> {
        for index in from..self.chunks.len() {
            let chunk = &mut self.chunks[index];
            let idle = chunk.free & chunk.dirty;
            if idle == 0 || chunk.freed_at_ms > before_ms {
                continue;
            }
            let place = idle.trailing_zeros() as usize;
            let count =
                (!(idle >> place)).trailing_zeros().min((CHUNK_GRANULES - place) as u32) as usize;
            chunk.dirty &= !mask(place, count);
            // What comes back from the system reads as written.
            chunk.armed &= !mask(place, count);
            self.dirty_free -= count;
            return Some((Granule((index * CHUNK_GRANULES + place) as u32), count, index));
        }
        None
    }

    /// Takes back what [`Granules::next_to_clean`] said of these granules: the system did not take
    /// their memory.
    pub fn keep_dirty(&mut self, first: Granule, count: usize) {
        self.chunks[first.chunk()].dirty |= mask(first.in_chunk(), count);
        self.dirty_free += count;
    }

    /// Whether nothing of a chunk is in use or holds memory.
    pub fn is_clean(&self, chunk: usize) -> bool {
        self.chunks[chunk].free == ALL && self.chunks[chunk].dirty == 0
    }

    /// Whether all of a chunk holds memory.
    pub fn is_whole(&self, chunk: usize) -> bool {
        self.chunks[chunk].dirty == ALL
    }

    /// Whether a granule is free.
    pub fn is_free(&self, granule: Granule) -> bool {
        self.chunks[granule.chunk()].free >> granule.in_chunk() & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Content::*;
    use super::*;

    fn with_chunks(count: usize) -> Granules {
        let mut granules = Granules::new();
        (0..count).for_each(|_| granules.add_chunk().unwrap());
        granules
    }

    #[test]
    fn requests_take_the_lowest_fit_and_come_back() {
        let mut granules = with_chunks(2);
        assert_eq!(granules.take(100, Scanned).unwrap().first, Granule(0));
        assert_eq!(granules.take(100, Scanned).unwrap().first, Granule(128));
        assert_eq!(granules.take(28, Scanned).unwrap().first, Granule(100));
        assert_eq!(granules.take(29, Scanned), None);
        granules.give_back(Granule(0), 100, 5);
        let again = granules.take(3, Scanned).unwrap();
        assert_eq!((again.first, again.fresh), (Granule(0), false));
        assert_eq!(granules.taken(), 3 + 100 + 28);
        assert_eq!(granules.dirty_free(), 97);
    }

    /// What bounds a search never hides a place that would do.
    #[test]
    fn hints_and_longest_rows_are_bounds() {
        let mut granules = with_chunks(6);
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
                taken.extend(granules.take(count, content).map(|one| (one.first, count)));
            } else {
                let (first, count) = taken.swap_remove(random(taken.len()));
                granules.give_back(first, count, 0);
            }
            for (index, chunk) in granules.chunks.iter().enumerate() {
                for content in [Scanned, Leaf].into_iter().filter(|&one| chunk.suits(one)) {
                    let rows = (0..CHUNK_GRANULES).filter(|place| chunk.free >> place & 1 != 0);
                    let longest = rows.map(|place| row_around(chunk.free, place)).max();
                    assert!(granules.bounds.allow(index, longest.unwrap(), content));
                }
            }
        }
    }

    #[test]
    fn large_requests_span_chunks() {
        let mut granules = with_chunks(3);
        let one = granules.take(1, Scanned).unwrap();
        let large = granules.take(200, Scanned).unwrap();
        assert_eq!((large.first, large.fresh), (Granule(128), true));
        assert_eq!(granules.take(57, Scanned).unwrap().first, Granule(1));
        assert_eq!(granules.take(129, Scanned), None);
        assert_eq!((granules.chunks_wanted(129), granules.chunks_wanted(1)), (2, 1));
        granules.give_back(large.first, 200, 0);
        assert_eq!(granules.chunks_wanted(300), 1);
        granules.give_back(one.first, 1, 0);
        assert_eq!(granules.taken(), 57);
    }

    #[test]
    fn old_free_granules_are_cleaned_once() {
        let mut granules = with_chunks(1);
        granules.take(10, Scanned).unwrap();
        granules.give_back(Granule(2), 3, 100);
        assert_eq!(granules.next_to_clean(0, 99), None);
        assert_eq!(granules.next_to_clean(0, 100), Some((Granule(2), 3, 0)));
        assert_eq!(granules.next_to_clean(0, 100), None);
        assert!(!granules.is_clean(0));
        granules.keep_dirty(Granule(2), 3);
        assert_eq!(granules.next_to_clean(0, 100), Some((Granule(2), 3, 0)));
        assert_eq!(granules.take(3, Scanned).unwrap(), Taken { first: Granule(2), fresh: true });
        granules.give_back(Granule(0), 10, 0);
        while granules.next_to_clean(0, 100).is_some() {}
        assert!(granules.is_clean(0));
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
        let mut granules = with_chunks(1);
        granules.take(4, Scanned).unwrap();
        assert_eq!(granules.take_at(Granule(4), 2, Scanned), Some(true));
        assert_eq!(granules.take_at(Granule(5), 2, Scanned), None);
        assert_eq!(granules.take_at(Granule(127), 2, Scanned), None, "there is no chunk behind");
        assert_eq!(granules.chunks_wanted_at(Granule(127), 130, Scanned, true), Some(2));
        assert_eq!(granules.chunks_wanted_at(Granule(3), 130, Scanned, true), None);
        granules.give_back(Granule(4), 2, 0);
        assert_eq!(granules.chunks_wanted_at(Granule(4), 5, Scanned, true), None, "two are dirty");
        assert_eq!(granules.chunks_wanted_at(Granule(4), 5, Scanned, false), Some(0));
    }

    #[test]
    fn pointer_free_granules_keep_to_their_own_chunks() {
        let mut granules = with_chunks(4);
        assert_eq!(granules.take(1, Scanned).unwrap().first, Granule(0));
        assert_eq!(granules.take(1, Leaf).unwrap().first, Granule(128));
        assert_eq!(granules.take(1, Scanned).unwrap().first, Granule(1));
        assert_eq!((granules.taken(), granules.scanned()), (3, 2));
        assert_eq!(granules.take(100, Scanned).unwrap().first, Granule(2));
        assert_eq!(granules.take(100, Scanned).unwrap().first, Granule(256));
        granules.give_back(Granule(128), 1, 0);
        assert_eq!(
            granules.take(28, Scanned).unwrap().first,
            Granule(128),
            "a free chunk is anybody's"
        );
        assert_eq!((granules.taken(), granules.scanned()), (230, 230));
    }
}
