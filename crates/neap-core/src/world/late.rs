//! Obeying a stop that was put off until the end of a critical section.
//!
//! Invariant: who was asked in a critical section obeys when it leaves the outermost one, before
//! anything else. [`obey`] is what [`Mutator`] calls there, and stands above it: by a function that
//! is installed at start-up.

#[cfg(debug_assertions)]
use super::current;
use super::mutator::{Asker, Mutator};
use super::{host, mutator, stop, suspension};

/// Has critical sections end so. Called once, at start-up.
pub fn install() {
    mutator::set_late(obey);
    #[cfg(debug_assertions)]
    crate::rank::set_may_be_stopped(|| current::get().is_some_and(Mutator::may_be_stopped));
}

/// `askers` are bits of [`Asker`].
fn obey(mutator: &Mutator, askers: u8) {
    if askers & Asker::Signal as u8 != 0 {
        stop::obey(mutator);
    }
    if askers & Asker::Host as u8 != 0
        && let Some(host) = host::get()
    {
        host.stop_late();
    }
    suspension::stand(mutator);
}
