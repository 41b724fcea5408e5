//! Sleeping until a word changes, and waking who sleeps: futex(2), private to the process but for
//! the two that say so.
//!
//! Assumes Linux ≥ 2.6.22. Safe in a signal handler: rustix makes the call itself, so `errno` is
//! untouched.

use core::sync::atomic::AtomicU32;
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// Sleeps while `word` is `expected`, at most `timeout_ns`; may wake for no reason, so the caller
/// looks again. False: timed out.
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> bool {
    wait_as(Flags::PRIVATE, word, expected, timeout_ns)
}

fn wait_as(flags: Flags, word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> bool {
    let timeout = timeout_ns.map(|ns| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    futex::wait(word, flags, expected, timeout.as_ref()) != Err(rustix::io::Errno::TIMEDOUT)
}

/// As [`wait`], where the word lies in memory that processes share.
pub fn wait_shared(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>) -> bool {
    wait_as(Flags::empty(), word, expected, timeout_ns)
}

/// As [`wake`], where the word lies in memory that processes share.
pub fn wake_shared(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::empty(), count);
}

/// Sleeps for so long, or less where a signal is handled meanwhile.
pub fn sleep(ns: u64) {
    let never = AtomicU32::new(0);
    wait(&never, 0, Some(ns));
}

/// Sleeps for as long as a thread needs that was just woken: who goes from one hold of a lock to
/// the next would have it back first, time after time.
pub fn let_woken_run() {
    sleep(20_000);
}

/// Wakes at most `count` of those who sleep on `word`.
pub fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::PRIVATE, count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::*;

    #[test]
    fn a_changed_word_does_not_sleep() {
        assert!(wait(&AtomicU32::new(1), 2, None));
    }

    #[test]
    fn time_runs_out() {
        assert!(!wait(&AtomicU32::new(1), 1, Some(1_000_000)));
    }

    #[test]
    fn wake_ends_a_wait() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Acquire) == 0 {
                    wait(&word, 0, None);
                }
            });
            word.store(1, Release);
            wake(&word, 1);
        });
    }
}
