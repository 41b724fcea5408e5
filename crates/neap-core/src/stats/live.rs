//! The figures that can be looked at from outside while the program runs: words of one page, which
//! `observe` makes a shared one.
//!
//! Invariant: words hold what is so, never a difference to something else, except for
//! `handed_out_bytes` and the counts of stops; so a page that a forked child shares with its parent
//! for a moment is right again with the next write. Writing is a plain store to memory, on no fast
//! path. Each function says who calls it.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use neap_record::live::{
    BUCKETS, BUCKETS_AT, CYCLE_AT, LIVE_AT, PAGE_MAGIC, PAGE_WORDS, bucket, head, place,
};
use neap_record::{Cycle, Live};

use super::KEPT;

/// The words of a page.
pub type Words = [AtomicU64; PAGE_WORDS];

/// What is written to until there is a shared page, and where none can be had.
static OWN: Words = [const { AtomicU64::new(0) }; PAGE_WORDS];
/// The page in use; null stands for [`OWN`].
static PAGE: AtomicPtr<Words> = AtomicPtr::new(core::ptr::null_mut());

macro_rules! at {
    ($figure:literal) => {
        const { LIVE_AT + place(Live::FIGURES, $figure) }
    };
}

/// The page in use.
#[allow(unsafe_code)]
pub fn page() -> &'static Words {
    // SAFETY: null, or a page that `use_page` was promised to live for ever.
    unsafe { PAGE.load(Relaxed).as_ref() }.unwrap_or(&OWN)
}

/// Makes `page` the one in use, with what the old one held and a head of its own. On the only
/// thread that uses the collector: at start-up, and in the child of a `fork`.
pub fn use_page(page: &'static Words, process: u64, began_unix_ns: u64) {
    for (new, old) in page.iter().zip(self::page()) {
        new.store(old.load(Relaxed), Relaxed);
    }
    let head: [(usize, u64); 6] = [
        (head::PROCESS, process),
        (head::LIVE, Live::COUNT as u64),
        (head::CYCLE, Cycle::COUNT as u64),
        (head::BUCKETS, BUCKETS as u64),
        (head::SEQUENCE, 0),
        (head::BEGAN, began_unix_ns),
    ];
    for (word, value) in head {
        page[word].store(value, Relaxed);
    }
    // Last: who sees it sees the rest.
    page[head::MAGIC].store(PAGE_MAGIC, Release);
    PAGE.store(core::ptr::from_ref(page).cast_mut(), Release);
}

/// Goes back to the page that nobody else sees: in the child of a `fork` that gets no page of its
/// own.
pub fn use_own_page() {
    PAGE.store(core::ptr::null_mut(), Release);
}

/// Adds to what was handed out. By the thread that got it, now and then.
pub fn note_handed_out(bytes: usize) {
    if !KEPT {
        return;
    }
    page()[at!("handed_out_bytes")].fetch_add(bytes as u64, Relaxed);
}

/// Bytes of blocks in use, and of address range usable. Under the heap's lock.
pub fn set_used(bytes: usize) {
    if !KEPT {
        return;
    }
    page()[at!("used_bytes")].store(bytes as u64, Relaxed);
}

/// Bytes of address range made usable. Under the heap's lock.
pub fn set_reserved(bytes: usize) {
    if !KEPT {
        return;
    }
    page()[at!("reserved_bytes")].store(bytes as u64, Relaxed);
}

/// Mutators. Under the registry's lock.
pub fn set_threads(count: usize) {
    if !KEPT {
        return;
    }
    page()[at!("threads")].store(count as u64, Relaxed);
}

/// The phase of the cycle under way. Under the collector's lock.
pub fn set_phase(phase: u64) {
    if !KEPT {
        return;
    }
    page()[at!("phase")].store(phase, Relaxed);
}

/// A stop is over. By who drove it.
pub fn note_stop(ns: u64) {
    if !KEPT {
        return;
    }
    let page = page();
    page[BUCKETS_AT + bucket(ns)].fetch_add(1, Relaxed);
    page[at!("pause_count")].fetch_add(1, Relaxed);
    page[at!("pause_total_ns")].fetch_add(ns, Relaxed);
    page[at!("pause_max_ns")].fetch_max(ns, Relaxed);
}

/// A cycle is over. By who drove it, one at a time.
pub fn note_cycle(cycle: &Cycle) {
    if !KEPT {
        return;
    }
    let page = page();
    let sequence = &page[head::SEQUENCE];
    let before = sequence.load(Relaxed);
    sequence.store(before | 1, Relaxed);
    core::sync::atomic::fence(Release);
    for (word, value) in page[CYCLE_AT..].iter().zip(cycle.values()) {
        word.store(value, Relaxed);
    }
    sequence.store((before | 1) + 1, Release);
    page[at!("cycles")].store(cycle.number, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::live::Page;

    #[test]
    fn what_is_written_is_what_readers_find() {
        static SHARED: Words = [const { AtomicU64::new(0) }; PAGE_WORDS];
        note_handed_out(100);
        use_page(&SHARED, 42, 7);
        note_handed_out(23);
        set_used(1 << 20);
        set_threads(3);
        set_phase(2);
        note_stop(5000);
        note_cycle(&Cycle { number: 9, live_bytes: 11, ..Cycle::default() });
        let bytes: Vec<u8> =
            SHARED.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let read = Page::decode(&bytes).unwrap();
        assert_eq!((read.process, read.began_unix_ns), (42, 7));
        // Other tests of the process write as well.
        assert!(read.live.handed_out_bytes >= 123);
        let cycle = read.cycle.unwrap();
        assert_eq!((cycle.number, cycle.live_bytes, read.live.cycles), (9, 11, 9));
        assert!(read.stops[bucket(5000)] >= 1 && read.live.pause_max_ns >= 5000);
    }
}
