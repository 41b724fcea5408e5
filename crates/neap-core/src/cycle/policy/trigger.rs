//! When to collect: after as much was allocated as the last cycle found live, times the growth
//! factor, and at least a floor.
//!
//! Pure. Inputs are the heap's own byte counts.

/// What the user set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Bytes allocated per live byte before the next cycle. Larger: fewer cycles, more memory.
    pub growth: f64,
    /// Bytes allocated before a cycle at least, for each of up to four threads. Larger: fewer
    /// cycles in small programs, more memory; 0: [`AUTOMATIC_FLOOR`] times the growth factor, by
    /// what cycles cost.
    pub min_trigger: usize,
    /// Cycles that cost the program too much of its time come more rarely, until so many bytes may
    /// be allocated between two of them. Larger: fewer of them, more memory; 0: their cost does not
    /// count.
    pub busy_trigger: usize,
    /// The hard limit on the heap, `usize::MAX` for none.
    pub max_bytes: usize,
    /// From here on memory is worth more than time, `usize::MAX` for none.
    pub soft_bytes: usize,
}

/// The share of the time that a program may spend in stops before its heap is given more room than
/// the user's growth says, and below which it gets less.
pub const FAIR_SHARE: f64 = 0.25;
/// The growth factor is multiplied by no less and no more than this.
const ADAPTION: (f64, f64) = (0.75, 2.0);
/// A heap with this much live gets no more than the user's growth says, however much it stops;
/// smaller ones more, as the square root of how much smaller they are.
const LARGE_BYTES: f64 = 200e6;
/// The floor, or the most that it may be, is multiplied by the number of threads that allocate, up
/// to this: stopping them all costs more.
const HIGHEST_FLOOR: usize = 4;
/// What the growth factor is multiplied by while the heap grows. Larger: fewer cycles on the way
/// up; smaller: a lower peak.
pub const WHILE_GROWING: f64 = 0.5;
/// The same where cycles run beside the program on a processor that it leaves free.
pub const WHILE_GROWING_BESIDE: f64 = 0.25;
/// A heap whose live part grows by that much of itself in a whole room is growing.
const GROWING: f64 = 0.25;

/// The growth factor for a program that lately spent `share` (0 to 1) of its time in stops: memory
/// is spent where it buys time. In the spirit of Kirisame, Shenoy and Panchekha, "Optimal heap
/// limits for reducing browser memory use" (OOPSLA 2022), where the room also grows with what
/// collecting costs and with the square root of what is live. A heap that is still growing gets the
/// part of it that `growing` says: its size is about to be the program's peak.
pub fn adapted_growth(growth: f64, live_bytes: usize, share: f64, growing: Option<f64>) -> f64 {
    let most = libm::sqrt(LARGE_BYTES / live_bytes.max(1) as f64).clamp(1.0, ADAPTION.1);
    let wanted = (share / FAIR_SHARE).clamp(ADAPTION.0, most);
    growth * growing.unwrap_or(wanted)
}

/// Of what the heap holds in any case the program is given this part at least before the next cycle
/// `[cycle.why.spare]`. Larger: more cycles where the live part shrank; smaller: what does not fit
/// into the gaps makes the heap larger than it was.
const SPARE_LEFT: usize = 2;
/// So much of it is in blocks of sizes that are not asked for now. Larger: more cycles in small
/// programs; smaller: more memory in them.
const IN_GAPS: usize = 2 << 20;

/// A byte that no cycle scans counts for the threshold as this part of one that is scanned: it is
/// what a cycle costs that memory is spent on. Larger: less memory and more cycles where much is
/// pointer-free.
const LEAF_WEIGHS: usize = 4;
/// The same for a byte of static data, of a registered range or of a stack, which every cycle reads
/// in the order of addresses. Larger: less memory and more cycles where much is outside the heap.
pub const ROOTS_WEIGH: usize = 4;

/// What a cycle found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Bytes live.
    pub bytes: usize,
    /// What they count for in the threshold.
    pub weight: usize,
    /// Bytes that the heap holds beside them, less [`IN_GAPS`].
    pub spare: usize,
}

impl Live {
    /// So many bytes, of which `scanned` are scanned in a cycle.
    pub fn new(bytes: usize, scanned: usize) -> Self {
        let scanned = scanned.min(bytes);
        Self { bytes, weight: scanned + (bytes - scanned) / LEAF_WEIGHS, spare: 0 }
    }

    /// The same in a heap that holds so many bytes.
    pub fn with_held(self, held: usize) -> Self {
        Self { spare: held.saturating_sub(self.bytes).saturating_sub(IN_GAPS), ..self }
    }

    /// The same with so many bytes of roots read beside them.
    pub fn with_roots(self, root_bytes: usize) -> Self {
        Self { weight: self.weight + root_bytes / ROOTS_WEIGH, ..self }
    }
}

/// Whether a heap with `live_bytes` is growing, whose live part lately gained `gained` bytes with
/// each byte allocated, and where `room` bytes would be allocated before the next cycle. Not by how
/// much it gained since the last one: with less room it gains less, and would count as growing
/// after every second cycle.
pub fn is_growing(live_bytes: usize, gained: f64, room: usize) -> bool {
    gained * room as f64 > live_bytes as f64 * GROWING
}

/// The share with a new cycle taken in: half of it is the last cycle's.
pub fn smoothed_share(share: f64, stopped_ns: u64, elapsed_ns: u64) -> f64 {
    let now =
        if elapsed_ns == 0 { share } else { (stopped_ns as f64 / elapsed_ns as f64).min(1.0) };
    (share + now) / 2.0
}

/// What is allocated between two cycles at least, in bytes, where the user does not say: cycles
/// that cost next to nothing come often, as those of heaps that hold next to nothing do. Larger:
/// fewer cycles in small programs, more memory.
const AUTOMATIC_FLOOR: core::ops::RangeInclusive<usize> = 256 << 10..=2 << 20;
/// The program is to have so many times as much of its processors' time as cycles cost, as far as
/// `busy_trigger` allows.
const FAIR_MULTIPLE: usize = 16;
/// No threshold is smaller.
const SMALLEST: usize = 64 << 10;

impl Settings {
    /// How many bytes may be allocated after a cycle that found so much live, in a program that
    /// spends `share` of its time in stops, before the next one begins; `growing` is what it
    /// gets of that while the live part grows, `mutators` how many threads allocate, `least` what
    /// they allocate in the time that a cycle costs, 0 if that is not known. The heap is not to
    /// grow beyond the soft limit, but cycles are not to take more than half of the time. Near the
    /// hard limit it is half of what is left, so that several cycles try before the limit refuses.
    pub fn threshold(
        &self,
        live: Live,
        share: f64,
        growing: Option<f64>,
        mutators: usize,
        least: usize,
    ) -> usize {
        let growth = adapted_growth(self.growth, live.weight, share, growing);
        let floor = self.floor(mutators, least);
        // Near a limit more growth is not what was asked for.
        let floor_of_one = self.floor_at_growth_of_one(1, least);
        let busy = least.saturating_mul(FAIR_MULTIPLE).min(self.busy_trigger);
        let by_growth = (live.weight as f64 * growth) as usize;
        let wanted = by_growth.max(floor).max(busy).max(live.spare / SPARE_LEFT);
        let below_soft = self.soft_bytes.saturating_sub(live.bytes);
        let room = self.max_bytes.saturating_sub(live.bytes);
        let below_hard = (room / 2).max(floor_of_one.max(least).min(room));
        wanted.min(below_soft.max(least).max(floor_of_one)).min(below_hard).max(SMALLEST)
    }

    /// What so many threads may allocate between two cycles at least, which allocate `least` bytes
    /// in the time that a cycle costs; 0 if that is not known.
    pub fn floor(&self, mutators: usize, least: usize) -> usize {
        let floor = self.floor_at_growth_of_one(mutators, least);
        if self.min_trigger == 0 { (floor as f64 * self.growth) as usize } else { floor }
    }

    fn floor_at_growth_of_one(&self, mutators: usize, least: usize) -> usize {
        let threads = mutators.clamp(1, HIGHEST_FLOOR);
        let (lowest, highest) = AUTOMATIC_FLOOR.into_inner();
        match (self.min_trigger, least) {
            (0, least) => least.saturating_mul(FAIR_MULTIPLE).clamp(lowest, highest * threads),
            (set, _) => set.saturating_mul(threads),
        }
    }

    /// How much may be allocated at most before a cycle, which is due after `threshold`, if little
    /// of it is in memory: in a limited heap no more than half of what the limits leave.
    pub fn latest(&self, threshold: usize, live_bytes: usize) -> usize {
        let room = self.max_bytes.min(self.soft_bytes).saturating_sub(live_bytes);
        threshold.saturating_mul(MOST_POSTPONED).min(room / 2).max(threshold)
    }
}

/// A cycle is put off, where little of what was allocated is in memory, until so many times the
/// threshold. Larger: fewer cycles in programs that never touch most of what they allocate, and
/// more metadata for objects that nobody wants; more memory too, if all of it is touched
/// afterwards.
const MOST_POSTPONED: usize = 8;

/// A cycle is put off only where no more than this part of what was handed out is in memory. What
/// is handed out again is zeroed and so touched whole: where much is touched, memory comes to all
/// that the program ever had at once. Larger: more cycles in programs that touch a part; smaller:
/// more memory in them.
const SPARSE: usize = 4;

/// Whether so little of the `handed_out` bytes is in memory that a cycle may be put off.
pub fn is_sparse(resident: usize, handed_out: usize) -> bool {
    resident <= handed_out / SPARSE
}

/// How much will be in memory when `more` bytes are allocated, if as much of them is touched as of
/// the `handed_out` bytes now, of which `resident` are in memory.
pub fn resident_after(resident: usize, handed_out: usize, more: usize) -> usize {
    let touched = resident as f64 / handed_out.max(1) as f64;
    resident.saturating_add((touched * more as f64) as usize)
}

/// What is left of a threshold for allocation after `born_marked` bytes were allocated during the
/// cycle and kept unseen: most of them are garbage, and the heap is meant to hold the threshold
/// above what is live, not above what was kept. At least a quarter of it, so that cycles do not
/// follow each other without a pause.
pub fn after_floating(threshold: usize, born_marked: usize) -> usize {
    threshold.saturating_sub(born_marked).max(threshold / 4)
}

/// How much may be allocated before a concurrent cycle begins, so that it ends about when the
/// threshold is reached: what was allocated while the last one ran, and a quarter more, is kept
/// free for this one, but never more than three quarters of the threshold, nor less than an eighth.
pub fn concurrent_start(threshold: usize, allocated_during_last: usize) -> usize {
    let reserve = allocated_during_last.saturating_add(allocated_during_last / 4);
    threshold - reserve.clamp(threshold / 8, threshold / 4 * 3)
}

/// What a small heap may be allocated while a cycle is under way before threads help with it.
const LEAST_BESIDE: usize = 8 << 20;

/// Beyond this much allocation a thread helps with the cycle that is under way, or waits for it:
/// the heap does not grow without bound because marking is slow. With `live_bytes` live the heap
/// then holds an eighth more than it would if the world were stopped. And since `due`, when the
/// cycle began, no more is allocated than an eighth of the `marked_bytes` of the last: nearly all
/// of it is kept until the next one, which has as much more to mark, and so on.
pub fn stall_at(threshold: usize, live_bytes: usize, due: usize, marked_bytes: usize) -> usize {
    let eighth = threshold.saturating_add(live_bytes) / 8;
    threshold.saturating_add(eighth).min(due.saturating_add((marked_bytes / 8).max(LEAST_BESIDE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_that_stays_in_any_case_is_room() {
        let settings = Settings { soft_bytes: 64 * MIB, ..free() };
        let room = |live: Live| settings.threshold(live, FAIR_SHARE, None, 1, 0);
        let live = Live::new(8 * MIB, 8 * MIB);
        assert_eq!(room(live.with_held(20 * MIB)), 8 * MIB, "growth says more");
        assert_eq!(room(live.with_held(48 * MIB)), 19 * MIB);
        assert_eq!(room(live.with_held(400 * MIB)), 56 * MIB, "a limit is nearer");
        assert_eq!(live.with_held(MIB).spare, 0);
    }

    #[test]
    fn what_is_not_scanned_and_what_is_outside_the_heap_weighs_less() {
        let live = Live::new(10 * MIB, 2 * MIB).with_roots(100 * MIB);
        assert_eq!(live, Live { bytes: 10 * MIB, weight: 29 * MIB, spare: 0 });
    }

    /// No limits.
    fn free() -> Settings {
        Settings {
            growth: 1.0,
            min_trigger: 4 * MIB,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        }
    }

    #[test]
    fn thresholds_by_table() {
        let free = free();
        let tight = Settings { max_bytes: 64 * MIB, ..free };
        let soft = Settings { soft_bytes: 64 * MIB, ..free };
        let half = Settings { growth: 0.5, ..free };
        for (settings, live, threshold) in [
            (free, 0, 4 * MIB),
            (free, 100 * MIB, 100 * MIB),
            (half, 100 * MIB, 50 * MIB),
            (half, MIB, 4 * MIB),
            (tight, 20 * MIB, 20 * MIB),
            (tight, 50 * MIB, 7 * MIB),
            (tight, 62 * MIB, 2 * MIB),
            (tight, 80 * MIB, 64 << 10),
            (soft, 20 * MIB, 20 * MIB),
            (soft, 50 * MIB, 14 * MIB),
            (soft, 80 * MIB, 4 * MIB),
        ] {
            assert_eq!(
                settings.threshold(Live::new(live, live), FAIR_SHARE, None, 1, 0),
                threshold,
                "{settings:?} {live}"
            );
        }
    }

    #[test]
    fn the_floor_that_nobody_set_is_what_cycles_cost() {
        const KIB: usize = 1 << 10;
        let settings = Settings { min_trigger: 0, ..free() };
        for (least, floor) in [
            (0, 256 * KIB),
            (1, 256 * KIB),
            (16 * KIB, 256 * KIB),
            (64 * KIB, MIB),
            (MIB, 2 * MIB),
            (usize::MAX, 2 * MIB),
        ] {
            let live = Live::new(MIB / 8, MIB / 8);
            assert_eq!(settings.threshold(live, FAIR_SHARE, None, 1, least), floor, "{least}");
        }
        assert_eq!(settings.floor(2, 64 * KIB), MIB, "as many allocate the faster");
        assert_eq!(settings.floor(2, MIB), 4 * MIB);
        assert_eq!(Settings { growth: 0.5, ..settings }.floor(2, MIB), 2 * MIB);
        assert_eq!(Settings { min_trigger: 4096, ..settings }.floor(2, MIB), 8192);
        let soft = Settings { growth: 100.0, soft_bytes: MIB, ..settings };
        let live = Live::new(MIB, MIB);
        assert_eq!(soft.threshold(live, FAIR_SHARE, None, 1, 64 * KIB), MIB, "a limit is nearer");
    }

    #[test]
    fn pointer_free_bytes_count_for_less_but_limits_count_them() {
        let weight = |bytes, scanned| Live::new(bytes, scanned).weight;
        assert_eq!(
            [weight(100, 100), weight(100, 0), weight(100, 60), weight(50, 60)],
            [100, 25, 70, 50]
        );
        let settings = Settings {
            growth: 1.0,
            min_trigger: MIB,
            busy_trigger: 0,
            max_bytes: 100 * MIB,
            soft_bytes: usize::MAX,
        };
        let threshold = |live| settings.threshold(live, FAIR_SHARE, None, 1, 0);
        assert_eq!(threshold(Live::new(40 * MIB, 0)), 10 * MIB);
        assert_eq!(threshold(Live::new(96 * MIB, 0)), 2 * MIB);
    }

    #[test]
    fn a_concurrent_cycle_begins_as_early_as_the_last_one_needed() {
        for (threshold, during, start) in [
            (80 * MIB, 0, 70 * MIB),
            (80 * MIB, 16 * MIB, 60 * MIB),
            (80 * MIB, 500 * MIB, 20 * MIB),
            (80 * MIB, usize::MAX, 20 * MIB),
        ] {
            assert_eq!(concurrent_start(threshold, during), start);
        }
        assert_eq!(
            [0, 30 * MIB, 500 * MIB].map(|kept| after_floating(80 * MIB, kept)),
            [80 * MIB, 50 * MIB, 20 * MIB]
        );
    }

    #[test]
    fn threads_help_before_much_is_born_beside_a_cycle() {
        for (threshold, live, due, marked, stall) in [
            (80, 80, 70, 80, 80),
            (80, 80, 20, 160, 40),
            (80, 16, 70, 1000, 92),
            (4, 0, 3, 0, 4),
            (100, 100, 10, 16, 18),
        ] {
            let stall_at = stall_at(threshold * MIB, live * MIB, due * MIB, marked * MIB);
            assert_eq!(stall_at / MIB, stall, "{threshold} {live} {due} {marked}");
        }
        assert_eq!(stall_at(usize::MAX, 1, usize::MAX, 1), usize::MAX);
    }

    #[test]
    fn memory_that_nobody_touches_puts_cycles_off_as_far_as_limits_allow() {
        let free = Settings {
            growth: 1.0,
            min_trigger: MIB,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        };
        for (settings, threshold, live, latest) in [
            (free, 64 * MIB, 64 * MIB, 512 * MIB),
            (free, usize::MAX, 0, usize::MAX),
            (Settings { max_bytes: 264 * MIB, ..free }, 64 * MIB, 64 * MIB, 100 * MIB),
            (Settings { soft_bytes: 164 * MIB, ..free }, 64 * MIB, 64 * MIB, 64 * MIB),
        ] {
            assert_eq!(settings.latest(threshold, live), latest, "{settings:?} {threshold}");
        }
        assert_eq!(resident_after(10 * MIB, 40 * MIB, 80 * MIB), 30 * MIB);
        assert_eq!(resident_after(MIB, 0, usize::MAX), usize::MAX);
        assert!(is_sparse(10 * MIB, 40 * MIB) && !is_sparse(11 * MIB, 40 * MIB));
        assert!(!is_sparse(MIB, 0));
    }

    #[test]
    fn threads_raise_the_floor() {
        let settings = Settings {
            growth: 1.0,
            min_trigger: 4 * MIB,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        };
        for (mutators, floor) in [(0, 4), (1, 4), (2, 8), (100, 16)] {
            assert_eq!(
                settings.threshold(Live::new(0, 0), 0.0, None, mutators, 0),
                floor * MIB,
                "{mutators}"
            );
        }
        let absurd = Settings { min_trigger: usize::MAX, ..settings };
        assert!(absurd.threshold(Live::new(0, 0), 0.0, None, 2, 0) >= usize::MAX / 2);
    }

    #[test]
    fn a_program_that_stops_much_gets_more_room_and_one_that_stops_little_less() {
        for (share, growth) in [(0.0, 0.75), (0.2, 0.8), (0.25, 1.0), (0.4, 1.6), (0.9, 2.0)] {
            assert!(
                (adapted_growth(1.0, 50_000_000, share, None) - growth).abs() < 1e-9,
                "{share}"
            );
            assert_eq!(adapted_growth(2.0, 50_000_000, share, Some(0.25)), 0.5);
        }
        for (live_bytes, most) in
            [(0, 2.0), (128_000_000, 1.25), (200_000_000, 1.0), (4_000_000_000, 1.0)]
        {
            assert!((adapted_growth(1.0, live_bytes, 0.9, None) - most).abs() < 1e-9);
        }
        assert!(is_growing(100, 0.3, 100) && !is_growing(100, 0.2, 100));
        assert!(is_growing(100, 0.2, 200) && is_growing(0, 1.0, 1) && !is_growing(0, 0.0, 1));
        let mut share = 0.0;
        for _ in 0..20 {
            share = smoothed_share(share, 30, 100);
        }
        assert!((share - 0.3).abs() < 1e-3);
        assert_eq!(smoothed_share(0.5, 10, 0), 0.5);
    }

    #[test]
    fn limits_leave_the_program_half_of_the_time() {
        let free = Settings {
            growth: 1.0,
            min_trigger: MIB,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: 64 * MIB,
        };
        let both = Settings { max_bytes: 80 * MIB, ..free };
        for (settings, live, least, threshold) in [
            (free, 60 * MIB, 10 * MIB, 10 * MIB),
            (free, 60 * MIB, 100 * MIB, 60 * MIB),
            (free, 20 * MIB, 100 * MIB, 20 * MIB),
            (both, 60 * MIB, 10 * MIB, 10 * MIB),
            (both, 60 * MIB, 15 * MIB, 15 * MIB),
            (both, 60 * MIB, 100 * MIB, 20 * MIB),
        ] {
            assert_eq!(
                settings.threshold(Live::new(live, live), FAIR_SHARE, None, 1, least),
                threshold,
                "{live} {least}"
            );
        }
    }

    #[test]
    fn cycles_that_cost_much_come_more_rarely_up_to_a_bound() {
        let settings = Settings {
            growth: 1.0,
            min_trigger: 4 * MIB,
            busy_trigger: 64 * MIB,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        };
        let tight = Settings { max_bytes: 40 * MIB, ..settings };
        for (settings, live, least, threshold) in [
            (settings, MIB, MIB / 4, 4 * MIB),
            (settings, MIB, MIB, 16 * MIB),
            (settings, MIB, 100 * MIB, 64 * MIB),
            (settings, 200 * MIB, 100 * MIB, 200 * MIB),
            (Settings { busy_trigger: 0, ..settings }, MIB, 100 * MIB, 4 * MIB),
            (tight, 20 * MIB, 2 * MIB, 10 * MIB),
        ] {
            assert_eq!(
                settings.threshold(Live::new(live, live), FAIR_SHARE, None, 1, least),
                threshold,
                "{live} {least}"
            );
        }
    }

    #[test]
    fn a_program_with_a_steady_live_size_keeps_to_its_growth() {
        let settings = Settings {
            growth: 1.0,
            min_trigger: 4 * MIB,
            busy_trigger: 0,
            max_bytes: usize::MAX,
            soft_bytes: usize::MAX,
        };
        let (mut heap, live) = (0, 30 * MIB);
        for _ in 0..10 {
            heap = live + settings.threshold(Live::new(live, live), FAIR_SHARE, None, 1, 0);
        }
        assert_eq!(heap, 60 * MIB);
    }
}
