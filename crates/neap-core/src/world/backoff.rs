//! Whether a stop tries without signals first: where that failed lately it waits for nothing, and
//! it is tried again after twice as many stops each time.
//!
//! Pure. Part of the registry, so under its lock.

/// Stops at most that send signals at once before it is tried again.
const LONGEST: u32 = 64;

/// What came of asking without signals.
pub(super) struct Backoff {
    /// Stops to come that send signals at once.
    left: u32,
    /// How many it will be after the next failure.
    next: u32,
}

impl Backoff {
    /// Nothing was tried yet.
    pub(super) const fn new() -> Self {
        Self { left: 0, next: 1 }
    }

    /// A stop begins: whether it is to be tried.
    pub(super) fn is_there(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    /// It was tried, and all came by or not.
    pub(super) fn note(&mut self, all_came: bool) {
        if all_came {
            self.next = 1;
        } else {
            self.left = self.next;
            self.next = (self.next * 2).min(LONGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_double_the_wait_and_a_success_ends_it() {
        let mut backoff = Backoff::new();
        for wait in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(backoff.is_there());
            backoff.note(false);
            assert_eq!((0..).take_while(|_| !backoff.is_there()).count(), wait);
        }
        backoff.note(true);
        assert!(backoff.is_there());
        backoff.note(false);
        assert_eq!((0..).take_while(|_| !backoff.is_there()).count(), 1);
    }
}
