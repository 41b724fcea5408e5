//! What a thread that allocates does at a refill while a cycle is under way, by how much has been
//! allocated: nothing, a piece of marking, or a wait.
//!
//! Invariant: pure. The more was allocated, the longer the wait: the heap has a bound, and only who
//! is at twice the mark waits for all of a cycle that takes long. Called by mutators.

use core::time::Duration;

/// What is to be done at a refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The thread goes on.
    Nothing,
    /// It marks a piece, if there is anything to do, and does not sleep: it would wait for a
    /// processor afterwards.
    Assists,
    /// It marks or waits for so long.
    Waits(Duration),
    /// It marks or waits until the cycle has ended.
    UntilOver,
}

/// A piece of marking takes so long. Larger: less to hand over; smaller: a stop, and the program,
/// wait less for it.
pub const PIECE_NS: u64 = 200_000;
/// The wait that comes first. Larger: longer operations; smaller: the heap grows further.
const FIRST_WAIT: Duration = Duration::from_millis(1);
/// From so many eighths above the mark on, each eighth makes the wait longer by this factor.
const LONGER_FROM: usize = 4;
const LONGER: u32 = 4;
/// From so many on it lasts until the cycle is over.
const UNTIL_OVER_FROM: usize = 8;

impl Stall {
    /// With so many bytes allocated, where the mark is `stall_at`.
    pub fn at(allocated: usize, stall_at: usize) -> Self {
        let Some(above) = allocated.checked_sub(stall_at) else { return Self::Nothing };
        match above / (stall_at / 8).max(1) {
            0 => Self::Assists,
            eighths if eighths < LONGER_FROM => Self::Waits(FIRST_WAIT),
            eighths if eighths < UNTIL_OVER_FROM => {
                Self::Waits(FIRST_WAIT * LONGER.pow((eighths - LONGER_FROM + 1) as u32))
            }
            _ => Self::UntilOver,
        }
    }

    /// Whether a thread that came to wait has waited for long enough, after so much time.
    pub fn is_over(self, waited: Duration) -> bool {
        match self {
            Self::Nothing | Self::Assists => true,
            Self::Waits(longest) => waited >= longest,
            Self::UntilOver => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_was_allocated_the_longer_the_wait() {
        let milliseconds = |ms| Stall::Waits(Duration::from_millis(ms));
        for (allocated, expected) in [
            (0, Stall::Nothing),
            (799, Stall::Nothing),
            (800, Stall::Assists),
            (899, Stall::Assists),
            (900, milliseconds(1)),
            (1199, milliseconds(1)),
            (1200, milliseconds(4)),
            (1300, milliseconds(16)),
            (1400, milliseconds(64)),
            (1500, milliseconds(256)),
            (1600, Stall::UntilOver),
            (usize::MAX, Stall::UntilOver),
        ] {
            assert_eq!(Stall::at(allocated, 800), expected, "{allocated}");
        }
        assert_eq!(Stall::at(7, 0), Stall::Waits(Duration::from_millis(256)));
        assert_eq!(Stall::at(usize::MAX, usize::MAX), Stall::Assists);
    }

    #[test]
    fn who_has_waited_for_long_enough_goes_on() {
        let waits = Stall::Waits(Duration::from_millis(4));
        assert!(
            !waits.is_over(Duration::from_millis(3)) && waits.is_over(Duration::from_millis(4))
        );
        assert!(Stall::Assists.is_over(Duration::ZERO) && Stall::Nothing.is_over(Duration::ZERO));
        assert!(!Stall::UntilOver.is_over(Duration::MAX));
    }
}
