//! Knowing that marking is done: when no marker is active, there is no work anywhere.
//!
//! Invariant `[mark.inv.done]`: a marker is active while it holds work, gives up being active only
//! when its stack and its own deque are empty, and becomes active again *before* it tries to steal.
//! So when the count is 0, no marker holds work, every deque is empty, and neither can change.
//! Model-checked in `tests/loom_marking.rs`.

use crate::sync::atomic::{AtomicUsize, Ordering::*};

/// The number of active markers.
pub struct Done {
    active: AtomicUsize,
}

impl Done {
    /// Nobody is active.
    pub fn new() -> Self {
        Self { active: AtomicUsize::new(0) }
    }

    /// The caller has, or is about to look for, work.
    pub fn become_active(&self) {
        self.active.fetch_add(1, SeqCst);
    }

    /// The caller has no work. True if nobody has.
    pub fn become_idle(&self) -> bool {
        self.active.fetch_sub(1, SeqCst) == 1
    }

    /// How many have work, as a hint.
    #[inline(always)]
    pub fn active(&self) -> usize {
        self.active.load(Relaxed)
    }

    /// Nobody has work.
    pub fn is_done(&self) -> bool {
        self.active.load(SeqCst) == 0
    }
}

impl Default for Done {
    fn default() -> Self {
        Self::new()
    }
}
