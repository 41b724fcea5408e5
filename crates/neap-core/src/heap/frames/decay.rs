//! When free memory goes back to the system: after it lay unused for as long as the user set, by
//! time or by cycles, in steps that keep the lock short.
//!
//! Pure: time comes in as milliseconds, cycles as their count. Driven by the collector's thread.

use core::time::Duration;

/// Memory is given back for so long while the lock is held once. Larger: fewer hand-overs; smaller:
/// shorter waits for threads that allocate.
pub const STEP: Duration = Duration::from_micros(100);

/// For how long memory stays unused.
#[derive(Clone, Copy)]
pub enum Decay {
    /// So many milliseconds; 0 means that it goes back at once.
    Milliseconds(u64),
    /// So many cycles, from 1.
    Cycles(u64),
}

impl Decay {
    /// Memory freed at or before this stamp is due, if any is.
    pub fn due_before(self, now: u64) -> Option<u64> {
        match self {
            Decay::Milliseconds(decay) | Decay::Cycles(decay) => now.checked_sub(decay),
        }
    }

    /// How long the collector's thread may sleep until memory can be due again; None when there is
    /// none that will be, or a cycle wakes it.
    pub fn next_look_ms(self, dirty_free_frames: usize) -> Option<u64> {
        match self {
            Decay::Milliseconds(ms) if dirty_free_frames > 0 => Some((ms / 4).clamp(10, 10_000)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_due_once_it_is_old_enough() {
        for (now, decay, due) in
            [(500, 1000, None), (1000, 1000, Some(0)), (5000, 1000, Some(4000)), (7, 0, Some(7))]
        {
            assert_eq!(Decay::Milliseconds(decay).due_before(now), due);
        }
    }

    #[test]
    fn by_cycles_time_means_nothing() {
        let decay = Decay::Cycles(3);
        assert_eq!((decay.due_before(2), decay.due_before(7)), (None, Some(4)));
        assert_eq!(decay.next_look_ms(5), None);
    }

    #[test]
    fn nothing_to_give_means_nothing_to_wake_for() {
        assert_eq!(Decay::Milliseconds(1000).next_look_ms(0), None);
        assert_eq!(Decay::Milliseconds(1000).next_look_ms(5), Some(250));
        assert_eq!(Decay::Milliseconds(0).next_look_ms(5), Some(10));
    }
}
