//! When a program that allocates next to nothing is collected all the same: what it dropped goes
//! back to the system, though it never gets to the trigger.
//!
//! Invariant `[cycle.rule.idle]`: no cycle for a program that has not run since the last one, none
//! while it allocates, none where there is little to gain; and they come at growing distances of
//! time. Pure: time, bytes and processor time come in with each look. Owned by the collector's
//! thread.

/// What a look sees.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Milliseconds of the collector's clock.
    pub ms: u64,
    /// Cycles completed.
    pub cycles: u64,
    /// Bytes handed out since the last of them.
    pub allocated_bytes: usize,
    /// Bytes of memory that the heap has.
    pub resident_bytes: usize,
    /// Processor time of the process without the collector's thread.
    pub program_ns: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A cycle; [`Idle::collected`] is to be called after it.
    Collect,
    /// Nothing, for so many milliseconds.
    Wait(u64),
    /// Nothing until a cycle.
    Sleep,
}

/// A heap with less memory is left alone. Larger: fewer programs are disturbed; smaller: more
/// memory comes back.
pub const WORTH_BYTES: usize = 16 << 20;
/// Who allocates more between two looks is not idle.
const BUSY_BYTES: usize = 256 << 10;
/// Less processor time than this since the last cycle is the noise of reading two clocks: the
/// program has not run.
const STILL_NS: u64 = 3_000;
/// Cycles of an idle program are no further apart than this.
const LONGEST_MS: u64 = 120_000;
/// And take no more than this part of the time, but for the first one.
const COST_PART: u64 = 10;

/// What is remembered from look to look.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    cycles: u64,
    allocated_bytes: usize,
    /// Since when the program has been quiet, or when it was collected last.
    from_ms: u64,
    /// How long it has to be quiet from then on.
    wait_ms: u64,
    /// Its processor time after the last cycle for this reason; None if it was busy since.
    settled_ns: Option<u64>,
}

impl Idle {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self { cycles: 0, allocated_bytes: 0, from_ms: 0, wait_ms: 0, settled_ns: None }
    }

    /// Looks. `after_ms` is what the user set, 0 for never.
    pub fn look(&mut self, now: &Now, after_ms: u64) -> Verdict {
        if after_ms == 0 || now.resident_bytes < WORTH_BYTES {
            return Verdict::Sleep;
        }
        let busy = now.cycles != self.cycles
            || now.allocated_bytes.saturating_sub(self.allocated_bytes) >= BUSY_BYTES;
        (self.cycles, self.allocated_bytes) = (now.cycles, now.allocated_bytes);
        if busy {
            (self.from_ms, self.wait_ms, self.settled_ns) = (now.ms, after_ms, None);
        }
        let due_ms = self.from_ms + self.wait_ms;
        if now.ms < due_ms {
            return Verdict::Wait(due_ms - now.ms);
        }
        let ran = |since: u64| now.program_ns.saturating_sub(since) >= STILL_NS;
        if self.settled_ns.is_none_or(ran) {
            return Verdict::Collect;
        }
        self.wait_longer(now.ms, 0);
        Verdict::Wait(self.wait_ms)
    }

    /// The cycle that [`Verdict::Collect`] asked for is over, or could not be run; `now` is from
    /// after it, `took_ms` the processor time that it took.
    pub fn collected(&mut self, now: &Now, took_ms: u64) -> u64 {
        (self.cycles, self.allocated_bytes) = (now.cycles, now.allocated_bytes);
        self.settled_ns = Some(now.program_ns);
        self.wait_longer(now.ms, took_ms);
        self.wait_ms
    }

    fn wait_longer(&mut self, now_ms: u64, took_ms: u64) {
        self.from_ms = now_ms;
        self.wait_ms = (self.wait_ms * 2).max(took_ms * COST_PART).min(LONGEST_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::*;
    use super::*;

    const AFTER: u64 = 2000;

    fn now(ms: u64) -> Now {
        Now { ms, cycles: 7, allocated_bytes: 0, resident_bytes: 1 << 30, program_ns: 0 }
    }

    #[test]
    fn a_quiet_program_is_collected_once_and_again_only_if_it_ran() {
        let mut idle = Idle::new();
        assert_eq!(idle.look(&now(100), AFTER), Wait(2000));
        assert_eq!(idle.look(&now(1000), AFTER), Wait(1100));
        assert_eq!(idle.look(&now(2100), AFTER), Collect);
        let after = Now { cycles: 8, ..now(2200) };
        assert_eq!(idle.collected(&after, 10), 4000);
        assert_eq!(idle.look(&Now { ms: 6200, ..after }, AFTER), Wait(8000));
        let ran = Now { ms: 14_200, program_ns: STILL_NS, ..after };
        assert_eq!(idle.look(&ran, AFTER), Collect);
        assert_eq!(idle.collected(&ran, 5000), 50_000, "a costly cycle is not repeated soon");
        assert_eq!(idle.look(&Now { ms: 64_200, ..ran }, AFTER), Wait(100_000));
        assert_eq!(idle.look(&Now { ms: 164_200, ..ran }, AFTER), Wait(LONGEST_MS));
    }

    #[test]
    fn allocation_and_the_programs_own_cycles_begin_the_wait_anew() {
        let mut idle = Idle::new();
        idle.look(&now(0), AFTER);
        let more = Now { allocated_bytes: BUSY_BYTES, ..now(1900) };
        assert_eq!(idle.look(&more, AFTER), Wait(2000));
        let little = Now { allocated_bytes: BUSY_BYTES * 2 - 1, ..now(3900) };
        assert_eq!(idle.look(&little, AFTER), Collect, "so little is idle");
        idle.collected(&Now { cycles: 8, allocated_bytes: 0, ..little }, 0);
        assert_eq!(idle.look(&Now { cycles: 9, ..now(5000) }, AFTER), Wait(2000));
    }

    #[test]
    fn small_heaps_and_those_who_say_never_are_left_alone() {
        let mut idle = Idle::new();
        let small = Now { resident_bytes: WORTH_BYTES - 1, ..now(0) };
        for ms in [0, 10_000, 100_000] {
            assert_eq!(idle.look(&Now { ms, ..small }, AFTER), Sleep);
            assert_eq!(idle.look(&now(ms), 0), Sleep);
        }
    }
}
