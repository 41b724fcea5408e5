//! The live page: a page of shared memory in which a running program keeps its figures, for whoever
//! looks at them from outside.
//!
//! Words of eight bytes in the machine's order: a head that says how long the parts are, the
//! figures of [`Live`], those of the last [`Cycle`] under a sequence number, and the histogram of
//! stops. Figures and buckets are only added at the ends of their parts, so that readers and
//! programs of different versions understand each other.
//!
//! Invariant: a page is whole at any moment but for the cycle, which is whole when its sequence
//! number is even and the same before and after. Pure; the program's side writes the words
//! (`stats/live.rs` of the core), readers copy the page and decode the copy.

use alloc::vec::Vec;

use crate::figures::{Cycle, Figure, Live};

/// Bytes of the page.
pub const PAGE_BYTES: usize = 4096;
/// Words of the page.
pub const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// The name under which the page's memory is found among a process's open files.
pub const PAGE_NAME: &str = "neap-live";
/// The first word: `NEAPLIVE`.
pub const PAGE_MAGIC: u64 = u64::from_le_bytes(*b"NEAPLIVE");

/// Words of the head, by place.
pub mod head {
    /// [`PAGE_MAGIC`](super::PAGE_MAGIC).
    pub const MAGIC: usize = 0;
    /// The process, as it knows itself.
    pub const PROCESS: usize = 1;
    /// How many figures of [`Live`](crate::Live) there are.
    pub const LIVE: usize = 2;
    /// How many of [`Cycle`](crate::Cycle).
    pub const CYCLE: usize = 3;
    /// How many buckets.
    pub const BUCKETS: usize = 4;
    /// Odd while the cycle is being written.
    pub const SEQUENCE: usize = 5;
    /// When the page was made, nanoseconds since 1970.
    pub const BEGAN: usize = 6;
    /// How many stops there had been by then: those of the parent, in the child of a `fork`.
    pub const STOPS_BEFORE: usize = 7;
    /// Words of the head.
    pub const WORDS: usize = 8;
}

/// The phases of a cycle, as `phase` numbers them.
pub const PHASES: [&str; 6] = ["idle", "protect", "roots", "mark", "remark", "references"];

/// The histogram's steps to a doubling.
const STEPS: usize = 8;
/// Buckets of the histogram.
pub const BUCKETS: usize = 40 * STEPS;
/// Where the figures of [`Live`] begin.
pub const LIVE_AT: usize = head::WORDS;
/// Where those of the last cycle begin.
pub const CYCLE_AT: usize = LIVE_AT + Live::COUNT;
/// Where the buckets begin.
pub const BUCKETS_AT: usize = CYCLE_AT + Cycle::COUNT;
const _: () = assert!(BUCKETS_AT + BUCKETS <= PAGE_WORDS);

/// The bucket of a duration in nanoseconds: eight to each doubling, so that a percentile is at most
/// an eighth off.
pub const fn bucket(ns: u64) -> usize {
    let ns = if ns < STEPS as u64 { STEPS as u64 } else { ns };
    let doubling = 63 - ns.leading_zeros() as usize;
    let bucket = (doubling - 3) * STEPS + (ns >> (doubling - 3)) as usize % STEPS;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The duration that none of a bucket reaches, nanoseconds. The last bucket has no such end.
pub const fn upper(bucket: usize) -> u64 {
    ((STEPS + bucket % STEPS + 1) as u64) << (bucket / STEPS)
}

/// A duration that `part` (0 to 1) of the durations in a histogram do not exceed, rounded up to its
/// bucket's end but never beyond the longest; None where there are none. The one way in which
/// everything that tells of stops works percentiles out.
pub fn percentile(counts: impl Iterator<Item = u64> + Clone, max: u64, part: f64) -> Option<u64> {
    // A page may come from anybody, and say that there were more than can be counted.
    let count = counts.clone().fold(0_u64, u64::saturating_add);
    let exact = count as f64 * part;
    let whole = exact as u64;
    let wanted = whole.saturating_add(u64::from((whole as f64) < exact)).max(1);
    let mut seen = 0_u64;
    counts.enumerate().find_map(|(bucket, count)| {
        seen = seen.saturating_add(count);
        // The last bucket has no end.
        let end = if bucket >= BUCKETS - 1 { max } else { upper(bucket).min(max) };
        (seen >= wanted).then_some(end)
    })
}

/// The place of a figure among those of its declaration; does not compile where there is none of
/// this name.
pub const fn place(figures: &[Figure], name: &str) -> usize {
    let mut index = 0;
    while index < figures.len() {
        if same(figures[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("no figure has this name")
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// What a page said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The process, as it knows itself (in a container that may be another number than outside).
    pub process: u64,
    /// When the page was made, nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// How many stops there had been by then.
    pub stops_before: u64,
    /// The figures.
    pub live: Live,
    /// The last cycle; None when it was just being written.
    pub cycle: Option<Cycle>,
    /// Stops by bucket.
    pub stops: Vec<u64>,
}

/// Why bytes are no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAPage;

impl Page {
    /// Reads a copy of a page. Whoever made it looks at the sequence number again: the cycle counts
    /// where that has not changed.
    pub fn decode(bytes: &[u8]) -> Result<Page, NotAPage> {
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let head = words.get(..head::WORDS).ok_or(NotAPage)?;
        if head[head::MAGIC] != PAGE_MAGIC {
            return Err(NotAPage);
        }
        let mut at = head::WORDS;
        let mut part = |place: usize| {
            let count = usize::try_from(head[place]).map_err(|_| NotAPage)?;
            let end = at.checked_add(count).ok_or(NotAPage)?;
            let values = words.get(at..end).ok_or(NotAPage)?;
            at = end;
            Ok(values)
        };
        let live = Live::from_values(part(head::LIVE)?);
        let cycle = Cycle::from_values(part(head::CYCLE)?);
        let stops = part(head::BUCKETS)?.to_vec();
        Ok(Page {
            process: head[head::PROCESS],
            began_unix_ns: head[head::BEGAN],
            stops_before: head[head::STOPS_BEFORE],
            live,
            cycle: head[head::SEQUENCE].is_multiple_of(2).then_some(cycle),
            stops,
        })
    }

    /// A duration that `part` (0 to 1) of the stops since `before` (an earlier page, or none) did
    /// not exceed, rounded up to its bucket's end but never beyond the longest; None without stops.
    pub fn percentile(&self, before: Option<&Page>, part: f64) -> Option<u64> {
        let since = |bucket: usize| {
            let before = before.and_then(|page| page.stops.get(bucket)).copied().unwrap_or(0);
            self.stops[bucket].saturating_sub(before)
        };
        percentile((0..self.stops.len()).map(since), self.live.pause_max_ns, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of so many figures, with what they hold.
    fn page(live: usize, cycle: usize, sequence: u64) -> Vec<u8> {
        let mut words = vec![0; PAGE_WORDS];
        words[head::MAGIC] = PAGE_MAGIC;
        words[head::PROCESS] = 77;
        words[head::STOPS_BEFORE] = 5;
        words[head::LIVE] = live as u64;
        words[head::CYCLE] = cycle as u64;
        words[head::BUCKETS] = BUCKETS as u64;
        words[head::SEQUENCE] = sequence;
        for index in 0..live {
            words[head::WORDS + index] = 100 + index as u64;
        }
        for index in 0..cycle {
            words[head::WORDS + live + index] = 200 + index as u64;
        }
        let stops = head::WORDS + live + cycle;
        words[stops + bucket(1000)] = 99;
        words[stops + bucket(50_000)] = 1;
        words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
    }

    #[test]
    fn pages_of_this_and_other_versions_are_read() {
        for (live, cycle) in
            [(Live::COUNT, Cycle::COUNT), (5, 3), (Live::COUNT + 4, Cycle::COUNT + 9)]
        {
            let page = Page::decode(&page(live, cycle, 2)).unwrap();
            assert_eq!((page.process, page.live.used_bytes), (77, 101));
            assert_eq!(page.stops_before, 5);
            assert_eq!(page.cycle.unwrap().ended_ns, 201);
            assert_eq!(page.live.pause_max_ns != 0, live >= Live::COUNT);
            assert_eq!(page.stops[bucket(1000)], 99);
        }
        assert_eq!(Page::decode(&page(5, 3, 1)).unwrap().cycle, None);
    }

    #[test]
    fn more_stops_than_can_be_counted_are_counted_all_the_same() {
        let all = [u64::MAX, 1, u64::MAX];
        assert_eq!(percentile(all.into_iter(), 7, 0.5), Some(7));
        assert_eq!(percentile(all.into_iter(), 1 << 20, 1.0), Some(upper(0)));
    }

    #[test]
    fn other_bytes_are_none() {
        assert_eq!(Page::decode(&[]), Err(NotAPage));
        assert_eq!(Page::decode(&[0; PAGE_BYTES]), Err(NotAPage));
        let mut cut = page(5, 3, 0);
        cut[head::BUCKETS * 8 + 4] = 255;
        assert_eq!(Page::decode(&cut), Err(NotAPage));
    }

    #[test]
    fn percentiles_of_all_stops_and_of_later_ones() {
        let mut now = Page::decode(&page(Live::COUNT, Cycle::COUNT, 0)).unwrap();
        now.live.pause_max_ns = 51_000;
        let near = |found: Option<u64>, exact: u64| {
            let found = found.unwrap();
            assert!(found >= exact && found <= exact + exact / 8, "{found} {exact}");
        };
        near(now.percentile(None, 0.5), 1000);
        near(now.percentile(None, 1.0), 50_000);
        let before = now.clone();
        assert_eq!(now.percentile(Some(&before), 0.5), None);
        now.stops[bucket(7_000)] += 1;
        near(now.percentile(Some(&before), 0.01), 7_000);
    }

    #[test]
    fn figures_are_found_by_name() {
        const CYCLES: usize = place(Live::FIGURES, "cycles");
        assert_eq!(Live::FIGURES[CYCLES].name, "cycles");
    }
}
