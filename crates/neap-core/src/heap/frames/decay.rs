//! When free memory goes back to the system: after it lay unused for the time the user set, in
//! steps that keep the lock short.
//!
//! Pure: time comes in as milliseconds. Driven by the collector's thread.

/// Ranges given back while the lock is held once. Larger: fewer hand-overs; smaller: shorter waits
/// for allocating threads.
pub const STEP_RANGES: usize = 8;

/// Memory freed at or before this time is due, if any is. `decay_ms` of 0 means at once.
pub fn due_before(now_ms: u64, decay_ms: u64) -> Option<u64> {
    now_ms.checked_sub(decay_ms)
}

/// How long the collector's thread may sleep until memory can be due again; None when there is none
/// that will be.
pub fn next_look_ms(decay_ms: u64, dirty_free_frames: usize) -> Option<u64> {
    (dirty_free_frames > 0).then(|| (decay_ms / 4).clamp(10, 10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_due_once_it_is_old_enough() {
        for (now, decay, due) in
            [(500, 1000, None), (1000, 1000, Some(0)), (5000, 1000, Some(4000)), (7, 0, Some(7))]
        {
            assert_eq!(due_before(now, decay), due);
        }
    }

    #[test]
    fn nothing_to_give_means_nothing_to_wake_for() {
        assert_eq!(next_look_ms(1000, 0), None);
        assert_eq!(next_look_ms(1000, 5), Some(250));
        assert_eq!(next_look_ms(0, 5), Some(10));
    }
}
