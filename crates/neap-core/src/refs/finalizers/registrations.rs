//! Registrations by the address of their object: a list for every 256 bytes of heap, so that those
//! of one object are found by looking at a few, and the cycle meets them in the order of the mark
//! bits.
//!
//! Invariant `[refs.inv.lists]`: mutators put entries at the front of a list by compare-and-swap
//! and make entries void; only the cycle, one thread for each piece, takes them out. Both happen at
//! the same time. A mutator looks at a list in a critical section only: what the cycle takes out
//! stays readable until the next stop (`slab`), so no lock is needed.
//!
//! # Safety
//!
//! Makes references to entries and pieces from addresses that other threads may just have taken
//! out. Their memory is never unmapped and holds atomics only.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use super::slab::{self, Entry, Own};
use crate::addr::{Address, CHUNK_BYTES, PAGE_BYTES};
use crate::heap::HEAP;
use crate::refs::NoMemory;
use crate::sys::map;

/// Bytes of heap that share a list. Smaller: shorter lists; larger: less memory for their heads.
const LIST_BYTES: usize = 256;
const LISTS: usize = CHUNK_BYTES / LIST_BYTES;
/// Lists between the one that is walked and the one that is fetched. Larger: hides longer
/// latencies; smaller: what was fetched is still there.
const AHEAD: usize = 4;
/// An object's address is a multiple of 8: the low bits say what kind of registration an entry is.
const KIND_MASK: usize = 7;

/// The lists of one chunk of heap. Zeroed memory is one without entries.
#[repr(C)]
struct Piece {
    lists: [AtomicUsize; LISTS],
    /// An entry may have data that are an object. Set by mutators, asked by the cycle.
    has_data: AtomicBool,
    /// An entry may be there. As above.
    used: AtomicBool,
}

/// What the cycle decides about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stays.
    Keep,
    /// It is taken out and let go.
    Drop,
    /// It is taken out; somebody else lets it go.
    TakeOut,
}

/// One set of registrations.
pub(crate) struct Registry {
    /// Address of the table of pieces, one word for each chunk of the reservation; 0 while there is
    /// none.
    table: AtomicUsize,
    /// Registrations of what is no heap object: tests' numbers.
    outside: AtomicUsize,
}

/// The object of an entry's first word.
pub(crate) fn object_of(word: usize) -> usize {
    word & !KIND_MASK
}

/// The kind in an entry's first word; 0: void.
pub(crate) fn kind_of(word: usize) -> usize {
    word & KIND_MASK
}

fn entry_at(address: usize) -> Option<&'static Entry> {
    // SAFETY: 0 or an entry, whose memory is never unmapped and holds atomics only.
    unsafe { (address as *const Entry).as_ref() }
}

/// The entry at an address that a list or [`Registry::walk`] gave.
pub(crate) fn entry(address: usize) -> &'static Entry {
    // SAFETY: as above; who keeps addresses of entries got them from references.
    unsafe { &*(address as *const Entry) }
}

/// Makes zeroed memory, which is what the word's reader takes for empty, and publishes its address
/// in `word`, unless somebody was faster.
fn publish(word: &AtomicUsize, bytes: usize) -> Result<usize, NoMemory> {
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    let memory = map::allocate(bytes).map_err(|_| NoMemory)?;
    match word.compare_exchange(0, memory.0, AcqRel, Acquire) {
        Ok(_) => Ok(memory.0),
        Err(other) => {
            map::release(memory, bytes);
            Ok(other)
        }
    }
}

impl Registry {
    pub(crate) const fn new() -> Self {
        Self { table: AtomicUsize::new(0), outside: AtomicUsize::new(0) }
    }

    fn piece_word(&self, table: usize, chunk: usize) -> &AtomicUsize {
        // SAFETY: the table has a word for each chunk of the reservation, and is never unmapped.
        unsafe { &*(table as *const AtomicUsize).add(chunk) }
    }

    fn piece(&self, chunk: usize) -> Option<&'static Piece> {
        let table = self.table.load(Acquire);
        if table == 0 {
            return None;
        }
        // SAFETY: 0 or a piece, which is never unmapped.
        unsafe { (self.piece_word(table, chunk).load(Acquire) as *const Piece).as_ref() }
    }

    /// Where the list of an object begins; `None` where there is none yet.
    fn list(&self, object: usize) -> Option<(&AtomicUsize, Option<&'static Piece>)> {
        let offset = Address(object).offset_from(HEAP.base());
        if offset >= HEAP.reserved() {
            return Some((&self.outside, None));
        }
        let piece = self.piece(offset / CHUNK_BYTES)?;
        Some((&piece.lists[offset % CHUNK_BYTES / LIST_BYTES], Some(piece)))
    }

    fn list_to_add(
        &self,
        object: usize,
    ) -> Result<(&AtomicUsize, Option<&'static Piece>), NoMemory> {
        if let Some(list) = self.list(object) {
            return Ok(list);
        }
        let mut table = self.table.load(Acquire);
        if table == 0 {
            table = publish(&self.table, HEAP.reserved() / CHUNK_BYTES * size_of::<usize>())?;
        }
        let chunk = Address(object).offset_from(HEAP.base()) / CHUNK_BYTES;
        publish(self.piece_word(table, chunk), size_of::<Piece>())?;
        self.list(object).ok_or(NoMemory)
    }

    /// Registers. In a critical section of the thread that owns `own`; `data` is what the cycle
    /// keeps alive.
    pub(crate) fn add(
        &self,
        own: &Own,
        object: usize,
        kind: usize,
        function: usize,
        data: usize,
    ) -> Result<&'static Entry, NoMemory> {
        debug_assert!(kind_of(object) == 0 && kind != 0 && kind <= KIND_MASK);
        let (list, piece) = self.list_to_add(object)?;
        let entry = slab::take(own)?;
        entry.function.store(function, Relaxed);
        entry.data.store(data, Relaxed);
        entry.object.store(object | kind, Relaxed);
        let mut first = list.load(Relaxed);
        loop {
            entry.next.store(first, Relaxed);
            let address = core::ptr::from_ref(entry) as usize;
            match list.compare_exchange_weak(first, address, SeqCst, Relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        // After the entry is there: who takes a flag back looks at the lists afterwards, so one of
        // the two sees the other.
        if let Some(piece) = piece {
            if !piece.used.load(SeqCst) {
                piece.used.store(true, SeqCst);
            }
            if HEAP.contains(data) && !piece.has_data.load(SeqCst) {
                piece.has_data.store(true, SeqCst);
            }
        }
        Ok(entry)
    }

    /// The object's entries that are not void, newest first. In a critical section.
    pub(crate) fn of(&self, object: usize) -> Entries {
        let next = self.list(object).map_or(0, |(list, _)| list.load(Acquire));
        Entries { object, next, void: 0 }
    }

    /// How many pieces there are to walk.
    pub(crate) fn pieces(&self) -> usize {
        1 + HEAP.committed() / CHUNK_BYTES
    }

    /// Decides about every entry of one piece; void ones are let go. By the cycle, one thread for
    /// each piece; mutators may register meanwhile.
    pub(crate) fn walk(&self, piece: usize, mut decide: impl FnMut(&'static Entry) -> Verdict) {
        let Some(chunk) = piece.checked_sub(1) else {
            return walk_list(&self.outside, &mut slab::LettingGo::new(), &mut decide);
        };
        let Some(piece) = self.piece(chunk) else { return };
        if !piece.used.swap(false, SeqCst) {
            return;
        }
        let mut used = false;
        let mut letting_go = slab::LettingGo::new();
        for (index, list) in piece.lists.iter().enumerate() {
            if let Some(ahead) = piece.lists.get(index + AHEAD) {
                slab::prefetch_list(ahead.load(Relaxed));
            }
            if list.load(SeqCst) != 0 {
                walk_list(list, &mut letting_go, &mut decide);
                used |= list.load(Relaxed) != 0;
            }
        }
        if used {
            piece.used.store(true, SeqCst);
        }
    }

    /// Calls `f` with every entry that is not void of the pieces where an entry's data may be an
    /// object. By the cycle, before it takes entries out.
    pub(crate) fn for_each_with_data(&self, mut f: impl FnMut(&Entry)) {
        for piece in 0..self.pieces() {
            match piece.checked_sub(1).map(|chunk| self.piece(chunk)) {
                None => each(&self.outside, &mut f),
                Some(Some(piece)) if piece.has_data.swap(false, SeqCst) => {
                    for list in &piece.lists {
                        each(list, |entry| {
                            if HEAP.contains(entry.data.load(Relaxed)) {
                                piece.has_data.store(true, Relaxed);
                                f(entry);
                            }
                        });
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// In the child of a `fork`: a thread that is not there may have added an entry and not said so
    /// yet, or have taken a flag back and not looked at all entries. The next cycle finds out.
    pub(crate) fn in_child(&self) {
        for piece in (1..self.pieces()).filter_map(|piece| self.piece(piece - 1)) {
            for flag in [&piece.used, &piece.has_data] {
                // What is not written stays shared with the parent.
                if !flag.load(Relaxed) {
                    flag.store(true, Relaxed);
                }
            }
        }
    }

    /// Calls `f` with every entry that is not void. In a critical section or by the cycle; entries
    /// that are added meanwhile may be missed.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&'static Entry)) {
        each(&self.outside, &mut f);
        for chunk in 1..self.pieces() {
            let Some(piece) = self.piece(chunk - 1) else { continue };
            if piece.used.load(Acquire) {
                piece.lists.iter().for_each(|list| each(list, &mut f));
            }
        }
    }
}

/// See [`Registry::of`].
pub(crate) struct Entries {
    object: usize,
    /// Address of the next entry to look at.
    next: usize,
    /// How many void ones were passed.
    void: usize,
}

impl Iterator for Entries {
    type Item = &'static Entry;

    fn next(&mut self) -> Option<&'static Entry> {
        loop {
            let entry = entry_at(self.next)?;
            self.next = entry.next.load(Acquire);
            let word = entry.object.load(Acquire);
            self.void += (kind_of(word) == 0) as usize;
            if object_of(word) == self.object && kind_of(word) != 0 {
                return Some(entry);
            }
        }
    }
}

impl Drop for Entries {
    /// Only a cycle takes void ones out, so it is due the sooner the more of them are passed: who
    /// registers and takes back at one object again and again would pass more each time.
    fn drop(&mut self) {
        if self.void > 0 {
            HEAP.state.passed_bytes.fetch_add(self.void * size_of::<Entry>(), Relaxed);
        }
    }
}

fn each(list: &AtomicUsize, mut f: impl FnMut(&'static Entry)) {
    let mut next = list.load(Acquire);
    while let Some(entry) = entry_at(next) {
        if kind_of(entry.object.load(Acquire)) != 0 {
            f(entry);
        }
        next = entry.next.load(Acquire);
    }
}

/// Makes an entry void, so that the cycle lets it go; false if it was.
pub(crate) fn void(entry: &Entry, word: usize) -> bool {
    kind_of(word) != 0
        && entry.object.compare_exchange(word, object_of(word), AcqRel, Relaxed).is_ok()
}

fn walk_list(
    list: &AtomicUsize,
    letting_go: &mut slab::LettingGo,
    decide: &mut impl FnMut(&'static Entry) -> Verdict,
) {
    let first = list.load(Acquire);
    let mut before: Option<&Entry> = None;
    let mut at = first;
    while let Some(entry) = entry_at(at) {
        let next = entry.next.load(Acquire);
        let is_void = kind_of(entry.object.load(Acquire)) == 0;
        let verdict = if is_void { Verdict::Drop } else { decide(entry) };
        if verdict == Verdict::Keep {
            // All before the first that stays are taken out at once.
            if before.is_none() && at != first {
                take_front(list, first, at);
            }
            before = Some(entry);
        } else {
            if let Some(before) = before {
                before.next.store(next, Release);
            }
            if verdict == Verdict::Drop {
                letting_go.add(entry);
            }
        }
        at = next;
    }
    if before.is_none() && first != 0 {
        take_front(list, first, 0);
    }
}

/// Takes the entries from `first`, which was the list's first when it was looked at, to the one
/// before `next` out; mutators may have put others before them.
fn take_front(list: &AtomicUsize, first: usize, next: usize) {
    let Err(mut at) = list.compare_exchange(first, next, AcqRel, Acquire) else { return };
    while let Some(entry) = entry_at(at) {
        at = entry.next.load(Acquire);
        if at == first {
            entry.next.store(next, Release);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::kind::Kind;
    use crate::refs::{CLEANERS, DISCLAIMERS, FINALIZERS};

    #[test]
    fn entries_are_found_made_void_and_taken_out() {
        let (registry, own) = (Registry::new(), Own::new(0));
        for number in 1..=100 {
            registry.add(&own, number % 10 * 8, 1, number, 0).unwrap();
        }
        let functions = |object| -> Vec<usize> {
            registry.of(object).map(|entry| entry.function.load(Relaxed)).collect()
        };
        assert_eq!(functions(24), [93, 83, 73, 63, 53, 43, 33, 23, 13, 3]);
        let entry = registry.of(24).nth(1).unwrap();
        assert!(void(entry, 24 | 1) && !void(entry, 24 | 1) && !void(entry, 24));
        assert_eq!(functions(24).len(), 9);
        registry.walk(0, |entry| match object_of(entry.object.load(Relaxed)) {
            24 => Verdict::Keep,
            _ => Verdict::Drop,
        });
        assert_eq!(functions(24).len(), 9);
        let mut left = 0;
        registry.for_each(|_| left += 1);
        assert_eq!(left, 9);
    }

    #[test]
    fn walking_while_others_register_loses_nothing() {
        const EACH: usize = 20_000;
        let registry = Registry::new();
        let mut taken = 0;
        std::thread::scope(|scope| {
            let adders: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let own = Own::new(0);
                        for number in 0..EACH {
                            registry.add(&own, number % 7 * 8, 1 + number % 2, 0, 0).unwrap();
                        }
                    })
                })
                .collect();
            while !adders.iter().all(|adder| adder.is_finished()) {
                // Keeps one kind, and so takes entries out at the front, in the middle and at the
                // end.
                registry.walk(0, |entry| match kind_of(entry.object.load(Relaxed)) {
                    1 => {
                        taken += 1;
                        Verdict::TakeOut
                    }
                    _ => Verdict::Keep,
                });
            }
        });
        let mut left = [0, 0];
        registry.for_each(|entry| left[kind_of(entry.object.load(Relaxed)) - 1] += 1);
        assert_eq!((left[0] + taken, left[1]), (3 * EACH / 2, 3 * EACH / 2), "[refs.inv.lists]");
    }

    /// As a thread leaves it that another one's fork interrupts in [`Registry::add`], and the
    /// cycle's in [`Registry::for_each_with_data`].
    #[test]
    fn a_child_of_fork_finds_entries_whose_flags_are_not_set() {
        let own = Own::new(0);
        HEAP.reserve(16 << 20).unwrap();
        let (block, _) =
            HEAP.inner().large_block(&HEAP, Kind::Leaf, NO_LAYOUT, 50_000, true).unwrap();
        HEAP.inner().publish_large(&HEAP, block);
        let object = HEAP.address(block).0;
        let registries =
            [&FINALIZERS.registry, &CLEANERS.registry, &DISCLAIMERS.registry].map(|registry| {
                registry.add(&own, object, 1, 0, object).unwrap();
                let piece = registry.list(object).and_then(|(_, piece)| piece).unwrap();
                piece.used.store(false, Relaxed);
                piece.has_data.store(false, Relaxed);
                registry
            });
        crate::refs::in_child();
        for registry in registries {
            let (mut with_data, mut walked) = (0, 0);
            registry.for_each_with_data(|_| with_data += 1);
            for piece in 0..registry.pieces() {
                registry.walk(piece, |_| {
                    walked += 1;
                    Verdict::Keep
                });
            }
            assert_eq!((with_data, walked), (1, 1));
        }
    }

    /// Registering and taking back at one object costs more each time until a cycle comes by.
    #[test]
    fn void_entries_that_are_passed_make_a_cycle_due() {
        let (registry, own) = (Registry::new(), Own::new(0));
        let passed = || HEAP.state.passed_bytes.load(Relaxed) / size_of::<Entry>();
        let before = passed();
        for _ in 0..100 {
            let added = registry.add(&own, 1 << 40, 1, 0, 0).unwrap();
            assert!(registry.of(1 << 40).next().is_some_and(|entry| core::ptr::eq(entry, added)));
            void(added, 1 << 40 | 1);
            assert!(registry.of(1 << 40).next().is_none());
        }
        assert_eq!(passed() - before, 100 * 101 / 2);
        HEAP.state.take_freed();
        assert_eq!(passed(), 0);
    }
}
