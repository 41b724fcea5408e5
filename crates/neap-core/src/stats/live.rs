//! The figures that can be looked at from outside while the program runs: words of ours, and of one
//! page that `observe` makes a shared one as soon as there is something to see.
//!
//! Invariant: every figure is kept in words of ours, and written to the page too once there is one;
//! so nothing is lost of what is counted before, and a page that a forked child shares with its
//! parent for a moment, or that is made while another thread writes, is right with the next write.
//! Writing is a plain store to memory, on no fast path. Each function says who calls it.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

use neap_record::live::{
    BUCKETS, BUCKETS_AT, CYCLE_AT, LIVE_AT, PAGE_MAGIC, PAGE_WORDS, bucket, head, place,
};
use neap_record::{Cycle, Live};

use super::KEPT;
use crate::sync::function::AtomicFunction;

/// The words of a page.
pub type Words = [AtomicU64; PAGE_WORDS];

/// All figures.
static OWN: Words = [const { AtomicU64::new(0) }; PAGE_WORDS];
/// The page that shows them; null where there is none.
static PAGE: AtomicPtr<Words> = AtomicPtr::new(core::ptr::null_mut());
/// Makes the page; none from then on.
static MAKE: AtomicFunction<fn()> = AtomicFunction::none();

/// Who hands out so many bytes makes the page. Larger: more programs start without; smaller: more
/// can be looked at.
const WORTH_A_PAGE: u64 = 512 << 10;

macro_rules! at {
    ($figure:literal) => {
        const { LIVE_AT + place(Live::FIGURES, $figure) }
    };
}

/// The page, if there is one.
#[allow(unsafe_code)]
fn page() -> Option<&'static Words> {
    // SAFETY: null, or a page that `use_page` was promised to live for ever.
    unsafe { PAGE.load(Acquire).as_ref() }
}

/// Has `make` called once, by who notes that [`WORTH_A_PAGE`] was handed out, begins a cycle or
/// makes a thread. At start-up.
pub fn make_when_wanted(make: fn()) {
    MAKE.set(Some(make));
}

/// Has the page made if there is none. By who is about to make a thread, and by one that no stop
/// waits for yet: its number is high, and where there are several threads the kernel makes room for
/// such a number only after 10 to 30 ms, in which the caller cannot be stopped.
#[inline]
pub fn want_page() {
    if MAKE.is_set() {
        make_page();
    }
}

#[cold]
fn make_page() {
    if let Some(make) = MAKE.set(None) {
        make();
    }
}

/// Makes `page` the one that shows all figures, with a head of its own. On the thread that
/// [`make_when_wanted`] chose, and in the child of a `fork`.
pub fn use_page(page: &'static Words, process: u64, began_unix_ns: u64) {
    for (shown, figure) in page.iter().zip(&OWN) {
        shown.store(figure.load(Relaxed), Relaxed);
    }
    let head: [(usize, u64); 7] = [
        (head::PROCESS, process),
        (head::LIVE, Live::COUNT as u64),
        (head::CYCLE, Cycle::COUNT as u64),
        (head::BUCKETS, BUCKETS as u64),
        (head::SEQUENCE, 0),
        (head::BEGAN, began_unix_ns),
        (head::STOPS_BEFORE, OWN[at!("pause_count")].load(Relaxed)),
    ];
    for (word, value) in head {
        page[word].store(value, Relaxed);
    }
    // Last: who sees it sees the rest.
    page[head::MAGIC].store(PAGE_MAGIC, Release);
    PAGE.store(core::ptr::from_ref(page).cast_mut(), Release);
}

/// There is no page any more: in the child of a `fork` that gets none of its own.
pub fn use_no_page() {
    PAGE.store(core::ptr::null_mut(), Release);
}

fn set(place: usize, value: u64) {
    OWN[place].store(value, Relaxed);
    if let Some(page) = page() {
        page[place].store(value, Relaxed);
    }
}

/// By threads side by side. Gives the sum.
fn add(place: usize, count: u64) -> u64 {
    let sum = OWN[place].fetch_add(count, Relaxed) + count;
    if let Some(page) = page() {
        page[place].fetch_max(sum, Relaxed);
    }
    sum
}

/// Adds to what was handed out. By the thread that got it, now and then, or with it stopped.
pub fn note_handed_out(bytes: usize) {
    if KEPT && bytes > 0 && add(at!("handed_out_bytes"), bytes as u64) >= WORTH_A_PAGE {
        want_page();
    }
}

/// Bytes of blocks in use, and of address range usable. Under the heap's lock.
pub fn set_used(bytes: usize) {
    if !KEPT {
        return;
    }
    set(at!("used_bytes"), bytes as u64);
}

/// Bytes of address range made usable. Under the heap's lock.
pub fn set_reserved(bytes: usize) {
    if !KEPT {
        return;
    }
    set(at!("reserved_bytes"), bytes as u64);
}

/// Mutators. Under the registry's lock.
pub fn set_threads(count: usize) {
    if !KEPT {
        return;
    }
    set(at!("threads"), count as u64);
}

/// The phase of the cycle under way. Under the collector's lock.
pub fn set_phase(phase: u64) {
    if !KEPT {
        return;
    }
    want_page();
    set(at!("phase"), phase);
}

/// A stop is over. By who drove it.
pub fn note_stop(ns: u64) {
    if !KEPT {
        return;
    }
    add(BUCKETS_AT + bucket(ns), 1);
    add(at!("pause_count"), 1);
    add(at!("pause_total_ns"), ns);
    set(at!("pause_max_ns"), OWN[at!("pause_max_ns")].load(Relaxed).max(ns));
}

/// A cycle is over. By who drove it, one at a time.
pub fn note_cycle(cycle: &Cycle) {
    if !KEPT {
        return;
    }
    for words in [Some(&OWN), page()].into_iter().flatten() {
        let sequence = &words[head::SEQUENCE];
        let before = sequence.load(Relaxed);
        sequence.store(before | 1, Relaxed);
        core::sync::atomic::fence(Release);
        for (word, value) in words[CYCLE_AT..].iter().zip(cycle.values()) {
            word.store(value, Relaxed);
        }
        sequence.store((before | 1) + 1, Release);
    }
    set(at!("cycles"), cycle.number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::live::Page;

    #[test]
    fn what_is_written_is_what_readers_find() {
        static SHARED: Words = [const { AtomicU64::new(0) }; PAGE_WORDS];
        note_handed_out(100);
        note_stop(77);
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
        assert!(read.stops_before >= 1 && read.live.pause_count > read.stops_before);
        assert!(read.live.handed_out_bytes >= 123);
        let cycle = read.cycle.unwrap();
        assert_eq!((cycle.number, cycle.live_bytes, read.live.cycles), (9, 11, 9));
        assert!(read.stops[bucket(5000)] >= 1 && read.live.pause_max_ns >= 5000);
    }
}
