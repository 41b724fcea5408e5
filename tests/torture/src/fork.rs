//! Forks: the child checks its graph, goes on for a while, forks again now and then, and exits; the
//! parent waits for it.
//!
//! Invariant: the child uses its own graph only, since other threads may have been in the midst of
//! theirs. A child that fails or hangs fails the parent. Called by workers.

use crate::referrers::monitors;
use crate::worker::Worker;
use crate::{ensure, fail};
use neap_core::api;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Forks in a chain at most.
const MOST_GENERATIONS: u32 = 3;
/// Seconds after which a child counts as hanging.
const CHILD_SECONDS: u32 = 60;
/// Forks of this process.
pub static FORKS: AtomicU64 = AtomicU64::new(0);

/// Forks; returns in the parent, when the child is done.
pub fn fork(worker: &mut Worker) {
    if worker.generation >= MOST_GENERATIONS {
        return;
    }
    let operations = worker.random.u64(50..600);
    let blocked = worker.random.bool();
    // SAFETY: the child runs nothing that depends on other threads: the collector and malloc see to
    // themselves.
    match unsafe { libc::fork() } {
        -1 => {}
        0 => child(worker, operations),
        child => {
            FORKS.fetch_add(1, Relaxed);
            let wait = || {
                let mut status = 0;
                // SAFETY: waits for our own child.
                while unsafe { libc::waitpid(child, &mut status, 0) } == -1 {
                    let error = std::io::Error::last_os_error();
                    ensure!(
                        error.raw_os_error() == Some(libc::EINTR),
                        "cannot wait for a child: {error}"
                    );
                }
                status
            };
            let status = if blocked { api::blocked(wait) } else { wait() };
            if libc::WIFSIGNALED(status) {
                fail!("a forked child ended by signal {}", libc::WTERMSIG(status));
            }
            ensure!(
                libc::WEXITSTATUS(status) == 0,
                "a forked child failed with status {}",
                libc::WEXITSTATUS(status)
            );
        }
    }
}

fn child(worker: &mut Worker, operations: u64) -> ! {
    // SAFETY: asks for a signal that ends a child that hangs.
    unsafe { libc::alarm(CHILD_SECONDS) };
    worker.generation += 1;
    monitors::in_child();
    worker.graph.sweep_check(&mut worker.random);
    worker.run(operations);
    worker.audit();
    // SAFETY: ends the process; nothing of the parent's is run.
    unsafe { libc::_exit(0) }
}
