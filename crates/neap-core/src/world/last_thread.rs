//! The last thread of a program ends: libc would end the process with it, were threads of ours not
//! threads to libc too. So we do, as libc does, by `exit(0)` on that thread.
//!
//! Invariant `[world.rule.last-thread]`: who ends lists itself and then looks at all threads, and
//! the process is ended only where each of them is one of ours, or listed. That is looked for only
//! after the first thread has ended by `pthread_exit`: until then it is no question. Called by
//! `attach.rs`, on a thread behind its last destructor.
//!
//! # Safety
//! Calls libc's `exit`, as libc itself would there.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use crate::sys::{own_thread, thread};
use rustix::fs::{Mode, OFlags, RawDir};

/// Threads that end and may be there still. More at a time may leave the process standing.
static ENDING: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];
/// The first thread is among those that ended.
static FIRST_ENDED: AtomicBool = AtomicBool::new(false);
/// Somebody ends the process.
static EXITS: AtomicBool = AtomicBool::new(false);
/// Looks again so often for a thread of ours that has not said yet that it is one.
const MOST_LOOKS: usize = 1000;

/// The calling thread ends, and is attached no more.
pub fn ended() {
    let own = thread::current();
    if thread::is_main(own) {
        FIRST_ENDED.store(true, SeqCst);
    }
    if !FIRST_ENDED.load(SeqCst) {
        return;
    }
    let is_free = |place: &&AtomicI32| place.compare_exchange(0, own, SeqCst, SeqCst).is_ok();
    // Before the others are looked at: of two that end at a time one sees the other here.
    if ENDING.iter().find(is_free).is_some() && is_last() && !EXITS.swap(true, SeqCst) {
        // SAFETY: no other thread of the program is left.
        unsafe { libc::exit(0) }
    }
}

/// Whether all threads but ours are ending.
fn is_last() -> bool {
    for _ in 0..MOST_LOOKS {
        let before = ENDING.each_ref().map(|ending| ending.load(SeqCst));
        let (mut others, mut seen) = (false, [false; 64]);
        let was_read = for_each_thread(|id| {
            if let Some(place) = before.iter().position(|ending| *ending == id) {
                seen[place] = true;
            } else {
                let ends = ENDING.iter().any(|ending| ending.load(SeqCst) == id);
                others |= !ends && !own_thread::is_own(id);
            }
        });
        if !was_read {
            return false;
        }
        if !others {
            return true;
        }
        // Those that are gone leave their places; their numbers may come again.
        for ((ending, id), seen) in ENDING.iter().zip(before).zip(seen) {
            if id != 0 && !seen {
                let _ = ending.compare_exchange(id, 0, SeqCst, SeqCst);
            }
        }
        if !own_thread::is_any_beginning() {
            return false;
        }
        thread::yield_now();
    }
    false
}

/// Calls `f` with the id of each thread of the process; false where that cannot be found out.
fn for_each_thread(mut f: impl FnMut(i32)) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::open(c"/proc/self/task", flags, Mode::empty()) else {
        return false;
    };
    let mut room = [const { MaybeUninit::<u8>::uninit() }; 2048];
    let mut entries = RawDir::new(folder, &mut room);
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return false };
        if let Some(id) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
            f(id);
        }
    }
    true
}

/// In the child of a `fork`, whose first thread is the one that forked.
pub fn after_fork() {
    ENDING.iter().for_each(|place| place.store(0, Relaxed));
    FIRST_ENDED.store(false, Relaxed);
    EXITS.store(false, Relaxed);
}
