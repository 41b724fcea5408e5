//! A variable that the program may write past its setter, and what of it the core was told last.
//!
//! Invariant: who handed a value over finds it in the variable afterwards, or hands over again, so
//! the last one counts. Called by threads of the program, world running, outside collections:
//! options need the collector's lock.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The value of a variable that was handed over last. Written by who hands over.
pub struct HandedOver(AtomicUsize);

impl HandedOver {
    /// With what is in force before anybody says anything.
    pub const fn new(first: usize) -> Self {
        Self(AtomicUsize::new(first))
    }

    /// Has `apply` hand over what `read` finds in the variable.
    pub fn hand_over(&self, read: impl Fn() -> usize, apply: impl Fn(usize)) {
        loop {
            let value = read();
            self.0.store(value, Relaxed);
            apply(value);
            if read() == value {
                break;
            }
        }
    }

    /// The same, if the variable holds something else than what was handed over.
    pub fn hand_over_if_changed(&self, read: impl Fn() -> usize, apply: impl Fn(usize)) {
        if self.0.load(Relaxed) != read() {
            self.hand_over(read, apply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    #[test]
    fn a_change_is_handed_over_once_and_what_changes_meanwhile_too() {
        let (variable, applied) = (AtomicUsize::new(3), RefCell::new(Vec::new()));
        let handed_over = HandedOver::new(3);
        let look = |meanwhile: usize| {
            handed_over.hand_over_if_changed(
                || variable.load(Relaxed),
                |value| {
                    applied.borrow_mut().push(value);
                    variable.store(meanwhile, Relaxed);
                },
            );
        };
        look(0);
        variable.store(5, Relaxed);
        look(7);
        look(0);
        assert_eq!(*applied.borrow(), [5, 7]);
    }
}
