//! The last thread of a program ends: libc would end the process with it, were threads of ours not
//! threads to libc too. So we do, as libc does, by `exit(0)` on that thread.
//!
//! Invariant `[world.rule.last-thread]`: who ends lists itself, then asks whether the first thread
//! has ended, by `pthread_exit`, and if so looks at all threads; the process is ended only where
//! each of them is one of ours, or listed. Who is attached is taken off the list: numbers come
//! again. Where another one is left, the collector's thread looks again until it is gone. Called by
//! `attach.rs`, on a thread behind its last destructor and on one that begins, and by the
//! collector's thread.
//!
//! # Safety
//! Calls libc's `exit`, as libc itself would there.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::*};

use super::mutator::Mutator;
use super::{registry, stop_signal};
use crate::sync::function::AtomicFunction;
use crate::sys::{own_thread, signal, thread};
use rustix::fs::{Mode, OFlags, RawDir};

/// The last threads that ended, which may be there still: all that end at a time, or the process
/// stands. The first one stays there until the process ends, and is known otherwise. 0: none.
static ENDING: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];
/// How many ended.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The first thread is among them, and not attached.
static FIRST_ENDED: AtomicBool = AtomicBool::new(false);
/// Somebody ends the process.
static EXITS: AtomicBool = AtomicBool::new(false);
/// Looks again so often while threads end, or one of ours has not said yet that it is one.
const MOST_LOOKS: usize = 1000;
/// The collector's thread looks so often. Larger: a process ends later; smaller: more system calls
/// in one that goes on without its first thread.
const LOOK_MS: u64 = 250;
/// Wakes that thread; it stands above this file.
static WAKE: AtomicFunction<fn()> = AtomicFunction::none();

/// Says how the collector's thread is woken. Once, at start-up.
pub fn install(wake: fn()) {
    WAKE.set(Some(wake));
}

fn is_ending(id: i32) -> bool {
    let is_first = FIRST_ENDED.load(SeqCst) && thread::is_main(id);
    is_first || ENDING.iter().any(|ending| ending.load(SeqCst) == id)
}

/// The calling thread, with this id, is attached: who had that before is gone.
pub fn begun(own: i32) {
    for ending in ENDING.iter().filter(|ending| ending.load(Relaxed) == own) {
        let _ = ending.compare_exchange(own, 0, SeqCst, Relaxed);
    }
    if FIRST_ENDED.load(SeqCst) && thread::is_main(own) {
        // By one of its last destructors; it ends after that.
        FIRST_ENDED.store(false, SeqCst);
    }
}

/// The calling thread ends, and is attached no more.
pub fn ended() {
    let own = thread::current();
    // First of all: of two that end at a time the later one sees the other here.
    ENDING[COUNT.fetch_add(1, SeqCst) % ENDING.len()].store(own, SeqCst);
    if thread::is_main(own) {
        FIRST_ENDED.store(true, SeqCst);
    }
    if !FIRST_ENDED.load(SeqCst) {
        return;
    }
    if !is_last() {
        // Without threads of ours libc ends the process.
        if own_thread::is_any()
            && let Some(wake) = WAKE.get()
        {
            wake();
        }
    } else if !EXITS.swap(true, SeqCst) {
        exit();
    }
}

fn exit() -> ! {
    // SAFETY: no other thread of the program is left.
    unsafe { libc::exit(0) }
}

extern "C" fn exit_there(_: *mut c_void) -> *mut c_void {
    signal::unblock_for_program(stop_signal::number());
    exit()
}

/// The first thread has ended and others have, but one was left that will not say so: a thread of
/// libc's, one that was never attached, or one of so many that ended at a time that it is listed no
/// more. On the collector's thread, time after time: ends the process once they are gone, and says
/// when to look again, in milliseconds.
pub fn look_again() -> Option<u64> {
    if !FIRST_ENDED.load(SeqCst) || EXITS.load(SeqCst) {
        return None;
    }
    let is_ours = |mutator: &Mutator| own_thread::is_own(mutator.thread.load(Relaxed) as i32);
    let is_over = registry::lock().iter().all(is_ours) && is_last();
    if is_over && !EXITS.swap(true, SeqCst) {
        // What the program wants called at its end needs a stack as its own threads have.
        if own_thread::start_for_program(exit_there, core::ptr::null_mut()) {
            return None;
        }
        EXITS.store(false, SeqCst);
    }
    Some(LOOK_MS)
}

/// Whether all threads but ours are ending. One that ends meanwhile may have made another where
/// nobody looks any more, so then all are looked at again.
fn is_last() -> bool {
    for _ in 0..MOST_LOOKS {
        let (count, mut others) = (COUNT.load(SeqCst), false);
        let mut gone = ENDING.each_ref().map(|ending| ending.load(SeqCst));
        let is_known = for_each_thread(|id| {
            others |= !is_ending(id) && !own_thread::is_own(id);
            gone.iter_mut().filter(|listed| **listed == id).for_each(|listed| *listed = 0);
        });
        let has_changed = COUNT.load(SeqCst) != count || own_thread::is_any_beginning();
        if !is_known || !has_changed {
            if is_known {
                forget(&gone);
            }
            return is_known && !others;
        }
        thread::yield_now();
    }
    false
}

/// Takes threads that are gone off the list, each from its place unless another one has it now:
/// their numbers come again, of threads that are never attached, too.
fn forget(gone: &[i32; ENDING.len()]) {
    for (ending, gone) in ENDING.iter().zip(gone).filter(|(_, gone)| **gone != 0) {
        let _ = ending.compare_exchange(*gone, 0, SeqCst, Relaxed);
    }
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
