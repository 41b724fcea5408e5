//! The runs of finalizers that a thread is in because a collection of its own found some, so that
//! they seldom nest: what a finalizer's own allocations find is left to the run around it, but for
//! the second such collection, and within that run the fourth, and so on, as in libgc. So it is
//! with what else of the program's is called for what a collection found, and may collect.
//!
//! Invariant: each thread has its own account of them, which ends with it, and no other thread
//! writes to it. A run that was left by a jump or an exception looks like one under way, unless the
//! stack is above it, which is why runs nest at all. A finalizer may go on on another stack, above,
//! where its run looks left, or on another thread, so a run that ends may be on no account any
//! more. Called outside collections, on the thread that runs finalizers.

use crate::core_api::embedding;

/// What is known of the calling thread's runs. All zero: it is in none.
#[derive(Clone, Copy)]
struct Account {
    /// Where the stack was when the innermost run began.
    frame: usize,
    /// How many are under way, as far as is known.
    level: u32,
    /// Collections since then that left it to that run.
    left_to_it: u32,
}

/// Runs this deep leave 2^16 collections to themselves, and deeper ones no more.
const DEEPEST: u32 = 16;

impl Account {
    const NONE: Self = Self { frame: 0, level: 0, left_to_it: 0 };

    fn own() -> Self {
        let [frame, counts] = embedding::thread_words();
        Self { frame, level: (counts >> 32) as u32, left_to_it: counts as u32 }
    }

    fn keep(self) {
        let counts = (self.level as usize) << 32 | self.left_to_it as usize;
        embedding::set_thread_words([self.frame, counts]);
    }
}

/// A run that may begin.
pub struct Run {
    /// The thread that it began on.
    thread: usize,
    /// What the account said of the run around it.
    around: Account,
}

fn this_thread() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as usize }
}

/// A run of this thread, unless it is to be left to the one around it.
#[inline(never)]
fn begin() -> Option<Run> {
    let local = 0_u8;
    begin_at(core::hint::black_box(&raw const local) as usize)
}

/// The same where the stack is at `here`.
fn begin_at(here: usize) -> Option<Run> {
    let mut around = Account::own();
    // We may be called from an allocation inside a finalizer, whose frames lie below.
    if here >= around.frame {
        around = Account::NONE;
    }
    if around.level != 0 {
        let left = around.left_to_it + 1;
        if left < 1 << around.level.min(DEEPEST) {
            Account { left_to_it: left, ..around }.keep();
            return None;
        }
    }
    Account { frame: here, level: around.level + 1, left_to_it: 0 }.keep();
    Some(Run { thread: this_thread(), around: Account { left_to_it: 0, ..around } })
}

/// Does this as a run of this thread, unless it is to be left to the one around it.
pub fn unless_within(does: impl FnOnce()) {
    if let Some(run) = begin() {
        does();
        run.end();
    }
}

impl Run {
    /// It is over, and so is what the account says of runs within it: those were left.
    pub fn end(self) {
        if self.thread == this_thread() && Account::own().level > self.around.level {
            self.around.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_api as api;
    use std::sync::Barrier;
    use std::thread;

    const HERE: usize = 1 << 20;

    fn on_new_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            let attached = || {
                api::attach_thread(None);
                let result = body();
                api::detach_thread();
                result
            };
            scope.spawn(attached).join().unwrap()
        })
    }

    /// Whether collections in finalizers of the innermost run, which is the outermost too, are left
    /// to it: but for every second one.
    fn are_left() -> bool {
        let first = begin_at(HERE / 2).is_none();
        let second = begin_at(HERE / 2);
        let nested = second.is_some();
        second.into_iter().for_each(Run::end);
        first && nested && begin_at(HERE / 2).is_none()
    }

    #[test]
    fn however_many_threads_are_in_runs_another_one_begins_its_own() {
        const THREADS: usize = 20;
        let all_run = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    api::attach_thread(None);
                    let run = begin_at(HERE);
                    all_run.wait();
                    assert!(run.is_some() && are_left());
                    run.unwrap().end();
                    api::detach_thread();
                });
            }
        });
    }

    #[test]
    fn runs_that_were_left_are_noticed() {
        on_new_thread(|| {
            begin_at(HERE).unwrap();
            let second = begin_at(HERE).unwrap();
            assert!(are_left());
            assert!(begin_at(HERE / 2).is_some(), "and left");
            second.end();
            assert!(begin_at(HERE / 4).is_some(), "in no run, whatever the one within it was");
        });
    }

    #[test]
    fn a_run_that_looked_left_ends_without_a_trace_on_its_thread_or_on_others() {
        on_new_thread(|| {
            let outer = begin_at(HERE / 2).unwrap();
            begin_at(HERE).unwrap().end();
            let (has_begun, has_ended) = (Barrier::new(2), Barrier::new(2));
            let other = || {
                let own = begin_at(HERE).unwrap();
                has_begun.wait();
                has_ended.wait();
                assert!(are_left());
                own.end();
            };
            thread::scope(|scope| {
                scope.spawn(|| on_new_thread(other));
                has_begun.wait();
                outer.end();
                has_ended.wait();
            });
            begin_at(HERE).unwrap();
            assert!(are_left());
        });
    }

    #[test]
    fn a_run_that_ends_on_another_thread_leaves_that_threads_alone() {
        on_new_thread(|| {
            let run = begin_at(HERE).unwrap();
            on_new_thread(|| {
                let own = begin_at(HERE).unwrap();
                run.end();
                assert!(are_left());
                own.end();
                assert!(begin_at(HERE / 2).is_some());
            });
            assert!(are_left());
        });
    }
}
