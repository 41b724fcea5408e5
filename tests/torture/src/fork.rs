//! Forks: the child checks its graph, goes on for a while, forks again now and then, and exits; the
//! parent waits for it.
//!
//! Invariant: the child uses its own graph only, since other threads may have been in the midst of
//! theirs. A child that fails or hangs fails the parent; it has no more than six descendants to
//! wait for, so that one which does not end in its time hangs. Called by workers.

use crate::referrers::monitors;
use crate::worker::Worker;
use crate::{ensure, fail};
use neap_core::api;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Forks in a chain at most.
const MOST_GENERATIONS: u32 = 3;
/// Forks of one child at most.
const MOST_OF_A_CHILD: u32 = 2;
/// Seconds after which a child counts as hanging: many on a machine that does much else.
const CHILD_SECONDS: u32 = 200;
/// Forks of this process, if it is a child.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Forks of the first process and of all that come from it, in memory that they share.
pub fn forks() -> &'static AtomicU64 {
    static SHARED: OnceLock<&'static AtomicU64> = OnceLock::new();
    SHARED.get_or_init(|| {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at a place that the kernel chooses.
        let page = unsafe { libc::mmap(core::ptr::null_mut(), 4096, protection, flags, -1, 0) };
        ensure!(page != libc::MAP_FAILED, "no memory for the count of forks");
        // SAFETY: zeros, aligned, and never unmapped.
        unsafe { &*page.cast() }
    })
}

/// Forks; returns in the parent, when the child is done.
pub fn fork(worker: &mut Worker) {
    let enough = worker.generation > 0 && OWN.fetch_add(1, Relaxed) >= MOST_OF_A_CHILD;
    if enough || worker.generation >= MOST_GENERATIONS {
        return;
    }
    let operations = worker.random.u64(50..600);
    let blocked = worker.random.bool();
    let counted = forks();
    // SAFETY: the child runs nothing that depends on other threads: the collector and malloc see to
    // themselves.
    match unsafe { libc::fork() } {
        -1 => {}
        0 => child(worker, operations),
        child => {
            counted.fetch_add(1, Relaxed);
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
    OWN.store(0, Relaxed);
    monitors::in_child();
    worker.graph.sweep_check(&mut worker.random);
    worker.run(operations);
    worker.audit();
    // SAFETY: ends the process; nothing of the parent's is run.
    unsafe { libc::_exit(0) }
}
