//! Large roots under the write watch: static data, registered ranges and deep stacks are read while
//! the program runs, and a stop reads again only the pages of them that were written since.
//!
//! Invariant `[cycle.inv.watched-roots]`: each word of an protected page was read after the page
//! was protected last, or the page will be reported. A range that the watch does not answer for,
//! because it was mapped anew or never known to it, is read whole. A full cycle remembers nothing
//! of the one before: a range is protected when it first lists it. A minor one goes on where the
//! last cycle ended: what unwritten pages lead to was marked then, and marks stay. Used by the
//! collector's thread while the world runs, and by who drives a stop; neither allocates nor locks
//! in one.

use core::ops::Range;

use super::root_pages::{Pages, Piece, divide, protect};
use crate::cycle::policy::generation::Generation;
use crate::sys::meta_vec::MetaVec;
use crate::watch::Watch;
use crate::world::roots::ranges::Span;

/// What is protected of the roots.
pub struct WrittenRoots {
    protected: MetaVec<Pages>,
    /// What was protected at the reading before; while one is under way.
    before: MetaVec<Pages>,
    /// Whole mappings that the watch was told of by us: what somebody else's watch answers for
    /// would be told to either. Kept over cycles, since to ask for a mapping takes long: one that
    /// the program makes, and watches itself, at the place of one that is gone is taken for it.
    registered: MetaVec<Pages>,
    /// Where a part ended that could not be protected: the next part of that root is not tried.
    refused_end: usize,
    piece: Option<Piece>,
    /// Where the furthest piece ends of which not all parts were read: what was reported of it is
    /// reported no more.
    abandoned_end: usize,
    /// What of the piece has to be read.
    unread: MetaVec<Span>,
}

impl WrittenRoots {
    /// Nothing is protected.
    pub const fn new() -> Self {
        Self {
            protected: MetaVec::new(),
            before: MetaVec::new(),
            registered: MetaVec::new(),
            refused_end: 0,
            piece: None,
            abandoned_end: 0,
            unread: MetaVec::new(),
        }
    }

    /// A cycle begins.
    pub fn begin(&mut self, generation: Generation) {
        if generation == Generation::Full {
            self.protected.clear();
        }
    }

    /// All roots are about to be given to [`Self::read_running`]. What is not given is no root any
    /// more.
    pub fn begin_reading(&mut self) {
        core::mem::swap(&mut self.protected, &mut self.before);
        self.protected.clear();
        (self.refused_end, self.piece, self.abandoned_end) = (0, None, 0);
    }

    /// Calls `read` with the parts of `range` that a reading with the world running has to read:
    /// all of a root that is not protected yet, after protecting it; of others what was written
    /// since the last reading, which is protected again. The caller keeps the range mapped
    /// meanwhile, and has objects that it marks stay.
    pub fn read_running(
        &mut self,
        watch: &mut dyn Watch,
        range: Range<usize>,
        read: &mut dyn FnMut(Range<usize>),
    ) {
        self.read_part_running(watch, Span::of(&range), range, read);
    }

    /// The same of a part of a piece of a root, of which all is protected with the first part:
    /// parts come one after the other, and between two of them the caller may let go of the range.
    /// Where that is another one then, so that some of it was not read, a stop reads all of it.
    pub fn read_part_running(
        &mut self,
        watch: &mut dyn Watch,
        piece: Span,
        part: Range<usize>,
        read: &mut dyn FnMut(Range<usize>),
    ) {
        if part.start == piece.start {
            self.begin_piece(watch, piece);
        }
        let Some(begun) = self.piece.filter(|begun| begun.span == piece) else {
            return read(part);
        };
        match begun.is_unread {
            true => read(part.clone()),
            false => self.unread.iter().for_each(|unread| {
                let unread = unread.start.max(part.start)..unread.end.min(part.end);
                if !unread.is_empty() {
                    read(unread);
                }
            }),
        }
        if part.end == piece.end {
            self.piece = None;
            if begun.is_protected {
                self.note_protected(Pages::of(&piece.range()));
            }
        }
    }

    /// Protects a piece of a root, and notes what of it has to be read after that.
    fn begin_piece(&mut self, watch: &mut dyn Watch, span: Span) {
        let (range, pages) = (span.range(), Pages::of(&span.range()));
        let left_end = self.piece.map_or(0, |left| left.span.end);
        self.abandoned_end = self.abandoned_end.max(left_end);
        self.unread.clear();
        self.piece = Some(Piece { span, is_protected: false, is_unread: true });
        if !pages.may_be_protected(watch) {
            return;
        }
        if pages.start == self.refused_end {
            self.refused_end = pages.end;
            return;
        }
        let (mut is_protected, mut has_room) = (true, true);
        let Self { before, unread, registered, .. } = self;
        let mut note = |part: Range<usize>| has_room &= unread.try_push(Span::of(&part)).is_ok();
        // Of a stack the end of which moved, what was protected before is a part.
        divide(before, pages.range(), &mut |part, known| {
            if !known || watch.take_written(&part, &mut note).is_err() {
                is_protected &= protect(registered, watch, Pages::of(&part));
                note(part);
            }
        });
        note(range.start..pages.start);
        note(pages.end..range.end);
        let is_unread = !has_room || span.start < self.abandoned_end;
        self.piece = Some(Piece { span, is_protected, is_unread });
        if !is_protected {
            self.refused_end = pages.end;
        }
    }

    /// Parts of a root that come one after the other are one.
    fn note_protected(&mut self, pages: Pages) {
        match self.protected.last_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            // Without memory for it a stop reads it whole.
            _ => _ = self.protected.try_push(pages),
        }
    }

    /// The same between two readings: calls `read` only with what was written of a root, or a part
    /// of one, that is protected, which is protected again.
    pub fn read_again(
        &self,
        watch: &mut dyn Watch,
        range: &Range<usize>,
        read: &mut dyn FnMut(Range<usize>),
    ) {
        let pages = Pages::of(range);
        let protected = self.protected.iter().any(|protected| protected.contain(pages));
        if protected
            && !pages.range().is_empty()
            && watch.take_written(&pages.range(), read).is_err()
        {
            // Some pages may have been protected again and not reported. A stop finds that the
            // watch does not know them, or they are read here.
            read(pages.range());
        }
    }

    /// The same for a stack, which may have grown since it was read: what is not protected yet is
    /// protected and read, if it is much.
    pub fn read_grown(
        &mut self,
        watch: &mut dyn Watch,
        range: &Range<usize>,
        read: &mut dyn FnMut(Range<usize>),
    ) {
        let mut grown = None;
        divide(&self.protected, Pages::of(range).range(), &mut |part, protected| {
            if !protected {
                // One, since a stack grows at its end.
                grown = grown.or(Some(Pages::of(&part)).filter(|new| new.may_be_protected(watch)));
            } else if watch.take_written(&part, read).is_err() {
                read(part);
            }
        });
        if let Some(pages) = grown
            && protect(&mut self.registered, watch, pages)
        {
            read(pages.range());
            self.note_protected(pages);
        }
    }

    /// Calls `read` with the parts of `range` that are not protected: what a first stop has to
    /// read, since a last one follows.
    pub fn read_unprotected(&self, range: Range<usize>, read: &mut dyn FnMut(Range<usize>)) {
        divide(&self.protected, range, &mut |part, protected| {
            if !protected {
                read(part);
            }
        });
    }

    /// Calls `read` with the parts of `range` that have to be read in a stop, of all threads or of
    /// the one whose stack it is.
    pub fn read_stopped(
        &self,
        watch: &mut dyn Watch,
        range: Range<usize>,
        read: &mut dyn FnMut(Range<usize>),
    ) {
        divide(&self.protected, range, &mut |part, protected| {
            if !protected || watch.written(&part, read).is_err() {
                read(part);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(unsafe_code)]

    use super::super::root_pages::LEAST_BYTES;
    use super::*;
    use crate::addr::{Address, PAGE_BYTES};
    use crate::check::skip;
    use crate::sys::map;
    use crate::watch::pagemap::Pagemap;

    const BYTES: usize = 64 * PAGE_BYTES;
    /// Where the tests' root begins: not at a page.
    const BEFORE: usize = 1000;

    struct Tried {
        roots: WrittenRoots,
        watch: Pagemap,
        memory: Address,
    }

    impl Tried {
        /// None where the system does not watch.
        fn new() -> Option<Self> {
            let watch = Pagemap::open().ok()?;
            // A mapping of its own: not one with what tests beside this one have.
            let outside = map::reserve(BYTES + 2 * PAGE_BYTES, PAGE_BYTES).unwrap();
            let memory = outside.add(PAGE_BYTES);
            map::commit(memory, BYTES).unwrap();
            Some(Self { roots: WrittenRoots::new(), watch, memory })
        }

        fn root(&self) -> Range<usize> {
            self.memory.0 + BEFORE..self.memory.0 + BYTES - 8
        }

        fn store(&self, page: usize) {
            // SAFETY: the test's own memory.
            unsafe { ((self.memory.0 + page * PAGE_BYTES + 8) as *mut u8).write_volatile(1) };
        }

        /// A reading beside the program, with one root or none: how many bytes of it were read.
        fn running(&mut self, root: Option<&Range<usize>>) -> usize {
            let mut bytes = 0;
            self.roots.begin_reading();
            if let Some(range) = root {
                let read = &mut |part: Range<usize>| bytes += part.len();
                self.roots.read_running(&mut self.watch, range.clone(), read);
            }
            bytes
        }

        /// What a stop reads, sorted.
        fn stopped(&mut self, range: Range<usize>) -> Vec<Range<usize>> {
            let mut parts = Vec::new();
            self.roots.read_stopped(&mut self.watch, range, &mut |part| parts.push(part));
            parts.retain(|part| !part.is_empty());
            parts.sort_by_key(|part| part.start);
            parts
        }

        fn page(&self, page: usize) -> Range<usize> {
            let start = self.memory.0 + page * PAGE_BYTES;
            start..start + PAGE_BYTES
        }

        /// The beginning and the end of the root, which are not whole pages.
        fn edges(&self) -> [Range<usize>; 2] {
            let root = self.root();
            [root.start..self.page(1).start, self.page(63).start..root.end]
        }
    }

    #[test]
    fn a_stop_reads_what_was_written_and_what_is_no_whole_page() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let root = tried.root();
        (0..64).for_each(|page| tried.store(page));
        assert_eq!(tried.running(Some(&root)), root.len());
        let [first, last] = tried.edges();
        assert_eq!(tried.stopped(root.clone()), [first.clone(), last.clone()]);
        tried.store(5);
        tried.store(6);
        let written = tried.page(5).start..tried.page(6).end;
        assert_eq!(tried.stopped(root.clone()), [first.clone(), written.clone(), last.clone()]);
        // Beside the program they are read and protected again.
        assert_eq!(tried.running(Some(&root)), first.len() + written.len() + last.len());
        assert_eq!(tried.stopped(root.clone()), [first, last]);
        tried.store(7);
        let mut again = 0;
        tried.roots.read_again(&mut tried.watch, &root, &mut |part| again += part.len());
        assert_eq!((again, tried.stopped(root.clone()).len()), (PAGE_BYTES, 2));
        // A part of a root, as what is no root at all.
        tried.store(9);
        for (part, written) in [(tried.page(8).start..tried.page(16).end, 1), (0..BYTES, 0)] {
            let mut again = 0;
            tried.roots.read_again(&mut tried.watch, &part, &mut |part| again += part.len());
            assert_eq!(again, written * PAGE_BYTES);
        }
        let mut unprotected = 0;
        tried.roots.read_unprotected(root.clone(), &mut |part| unprotected += part.len());
        assert_eq!(unprotected, tried.edges().iter().map(Range::len).sum());
        tried.store(7);
        // A part of it: a stack that has become shorter.
        let part = tried.page(6).start + 8..root.end;
        let found = tried.stopped(part.clone());
        assert_eq!(found[..2], [part.start..tried.page(6).end, tried.page(7)]);
        // And more than it.
        let more = tried.memory.0..tried.memory.0 + BYTES;
        assert_eq!(tried.stopped(more.clone())[0], more.start..tried.page(1).start);
    }

    #[test]
    fn a_piece_is_read_in_parts_and_protected_with_the_last() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let (root, middle) = (tried.root(), tried.page(40).start);
        let read_part = |tried: &mut Tried, piece: &Range<usize>, part: Range<usize>| {
            let mut bytes = 0;
            let read = &mut |part: Range<usize>| bytes += part.len();
            tried.roots.read_part_running(&mut tried.watch, Span::of(piece), part, read);
            bytes
        };
        tried.roots.begin_reading();
        assert_eq!(read_part(&mut tried, &root, root.start..middle), middle - root.start);
        tried.store(3);
        assert_eq!(tried.stopped(root.clone())[0], root, "not all is read yet");
        assert_eq!(read_part(&mut tried, &root, middle..root.end), root.end - middle);
        let [first, last] = tried.edges();
        assert_eq!(tried.stopped(root.clone()), [first.clone(), tried.page(3), last]);
        // The first part asks about both. What has the second part then is another piece.
        tried.store(50);
        tried.roots.begin_reading();
        assert_eq!(read_part(&mut tried, &root, root.start..middle), first.len() + PAGE_BYTES);
        let other = middle - 8..root.end;
        assert_eq!(read_part(&mut tried, &other, middle..root.end), root.end - middle);
        assert_eq!(tried.stopped(root.clone())[0], root);
        // One that begins there is not asked about what was reported of the first.
        tried.running(Some(&root));
        tried.store(50);
        tried.roots.begin_reading();
        assert_eq!(read_part(&mut tried, &root, root.start..middle), first.len());
        let other = middle..root.end;
        assert_eq!(read_part(&mut tried, &other, other.clone()), other.len());
    }

    #[test]
    fn of_a_stack_that_grew_or_shrank_only_what_is_new_is_read() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        (0..64).for_each(|page| tried.store(page));
        let base = tried.memory.0 + BYTES;
        let stack = |tried: &Tried, page| tried.page(page).start + 8..base;
        let [deep, deeper] = [32, 16].map(|page| stack(&tried, page));
        tried.running(Some(&deep));
        tried.store(40);
        assert_eq!(tried.running(Some(&deeper)), deeper.len() - deep.len() + 2 * PAGE_BYTES - 8);
        assert_eq!(tried.running(Some(&deep)), PAGE_BYTES - 8);
        let new = deeper.start..tried.page(33).start;
        assert_eq!(tried.stopped(deeper.clone()).first(), Some(&new));
        // Between two readings.
        tried.store(50);
        let mut parts = Vec::new();
        tried.roots.read_grown(&mut tried.watch, &deeper, &mut |part| parts.push(part));
        assert_eq!(parts, [tried.page(50), tried.page(17).start..tried.page(33).start]);
        tried.store(20);
        let written = [deeper.start..tried.page(17).start, tried.page(20)];
        assert_eq!(tried.stopped(deeper.clone()), written);
        // One more page is left to the stop.
        let (next, mut parts) = (stack(&tried, 15), Vec::new());
        tried.roots.read_grown(&mut tried.watch, &next, &mut |part| parts.push(part));
        assert_eq!(parts, [tried.page(20)]);
    }

    #[test]
    fn what_is_no_root_any_more_is_read_whole_when_it_is_one_again() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let root = tried.root();
        tried.running(Some(&root));
        tried.running(None);
        assert_eq!(tried.stopped(root.clone())[0], root);
        tried.running(Some(&root));
        tried.roots.begin(Generation::Full);
        assert_eq!(tried.stopped(root.clone()), [root], "a full cycle begins with nothing");
    }

    #[test]
    fn a_minor_cycle_reads_what_was_written_since_the_last_cycle_read_it() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let root = tried.root();
        (0..64).for_each(|page| tried.store(page));
        tried.running(Some(&root));
        // What a last stop has read is not protected again.
        tried.store(7);
        tried.stopped(root.clone());
        tried.store(9);
        tried.roots.begin(Generation::Minor);
        let edges: usize = tried.edges().iter().map(Range::len).sum();
        assert_eq!(tried.running(Some(&root)), edges + 2 * PAGE_BYTES);
    }

    #[test]
    fn memory_that_was_mapped_anew_is_read_whole() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let root = tried.root();
        tried.running(Some(&root));
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let (place, protection) =
            (tried.page(9).start as *mut _, ProtFlags::READ | ProtFlags::WRITE);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: a page of the test's own memory is replaced, which nobody else uses.
        unsafe { mmap_anonymous(place, PAGE_BYTES, protection, flags) }.unwrap();
        let read: usize = tried.stopped(root.clone()).iter().map(Range::len).sum();
        assert!(read >= root.len(), "{read}");
        // The next reading has the watch know it.
        assert!(tried.running(Some(&root)) >= root.len());
        let edges = tried.edges();
        assert_eq!(tried.stopped(root), edges);
    }

    #[test]
    fn protection_that_comes_and_goes_hides_no_write() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let root = tried.root();
        (0..64).for_each(|page| tried.store(page));
        tried.running(Some(&root));
        let protect = |range: Range<usize>, flags| {
            // SAFETY: the test's own memory.
            unsafe { rustix::mm::mprotect(range.start as *mut _, range.len(), flags) }.unwrap();
        };
        use rustix::mm::MprotectFlags;
        protect(tried.page(3), MprotectFlags::READ);
        protect(tried.page(3), MprotectFlags::READ | MprotectFlags::WRITE);
        let [first, last] = tried.edges();
        assert_eq!(tried.stopped(root.clone()), [first.clone(), last.clone()]);
        tried.store(3);
        let written = tried.page(3);
        assert_eq!(tried.stopped(root), [first, written, last]);
    }

    #[test]
    fn shared_memory_and_small_roots_are_read_whole() {
        let Some(mut tried) = Tried::new() else { return skip("no pagemap watch") };
        let small = tried.memory.0..tried.memory.0 + LEAST_BYTES / 2;
        let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, BYTES as u64).unwrap();
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let (none, protection) = (core::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: memory of the test's own.
        let shared = unsafe { mmap(none, BYTES, protection, MapFlags::SHARED, &file, 0) }.unwrap();
        let shared = shared as usize..shared as usize + BYTES;
        for range in [small, shared] {
            assert_eq!(tried.running(Some(&range)), range.len());
            assert_eq!(tried.stopped(range.clone()), [range]);
        }
    }

    /// Who asks it protects anew, and would be told what we are not.
    #[test]
    fn what_another_watch_answers_for_is_read_whole() {
        let Some(mut tried) = Tried::new() else { return skip("no write watch") };
        let mut theirs = Pagemap::open().unwrap();
        theirs.register(&(tried.memory.0..tried.memory.0 + BYTES)).unwrap();
        let (root, mut read) = (tried.root(), 0);
        tried.roots.begin_reading();
        tried.roots.read_running(&mut tried.watch, root.clone(), &mut |part| read += part.len());
        assert_eq!(read, root.len());
        tried.store(5);
        theirs.take_written(&(tried.memory.0..tried.memory.0 + BYTES), &mut |_| {}).unwrap();
        let mut stopped = 0;
        tried.roots.read_stopped(&mut tried.watch, root.clone(), &mut |part| stopped += part.len());
        assert_eq!(stopped, root.len(), "[cycle.inv.watched-roots]");
    }
}
