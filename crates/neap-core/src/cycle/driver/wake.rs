//! Waking the collector's thread, and starting it when it is first wanted.
//!
//! Invariant: a reason to wake that comes while the thread is busy is seen before it sleeps: it
//! reads the count of reasons before it looks for work, and sleeps on that count. Any thread wakes
//! it, outside pauses; it sleeps here itself.

use core::ffi::c_void;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence,
};

use crate::cycle::limits;
use crate::cycle::policy::idle;
use crate::heap::HEAP;
use crate::heap::classes::LARGEST_SMALL;
use crate::sync::function::AtomicFunction;
use crate::sys::own_thread::{self, Start};
use crate::sys::{clock, futex, thread};

/// Counts reasons to wake; the thread sleeps on it, unless there is [`SHARED`].
static OWN: AtomicU32 = AtomicU32::new(0);
/// The same in memory that another process can count up, too. Null: there is none.
static SHARED: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Whether there is the thread. Written by who starts it.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// When the thread last went to sleep, by [`clock::now_ns`]. Written by it.
static SLEPT_AT_NS: AtomicU64 = AtomicU64::new(0);
/// When the thread was woken last, by the same clock. Written by who wakes it.
static WOKEN_AT_NS: AtomicU64 = AtomicU64::new(0);
/// Who finds it woken no longer ago than this need not wake it again for the same. Larger: a cycle
/// begins later where who wakes it loses its processor before it does; smaller: more system calls.
const JUST_NS: u64 = 1_000_000;
/// The processor on which the thread was woken last. Written by who wakes it.
static WOKEN_ON: AtomicUsize = AtomicUsize::new(usize::MAX);
/// What the thread runs; it stands above this file.
static BUFFERS: AtomicFunction<Start> = AtomicFunction::none();

/// Makes the word that the thread sleeps on, if it is not to be its own.
pub type MakeWord = fn() -> Option<&'static AtomicU32>;

/// Makes [`SHARED`] before the thread is started.
static WORD: AtomicFunction<MakeWord> = AtomicFunction::none();

/// Answers who asks the process for a snapshot; it stands above this file.
static ANSWER: AtomicFunction<fn()> = AtomicFunction::none();

/// Says what the thread runs, who makes the word that it sleeps on, and who answers those that wake
/// it by this word. Once, at start-up.
pub fn install(run: Start, word: MakeWord, answer: fn()) {
    BUFFERS.set(Some(run));
    WORD.set(Some(word));
    ANSWER.set(Some(answer));
}

/// Answers who asks the process for a snapshot, if somebody does. On the collector's thread, which
/// has no lock then, between the steps of a cycle or of none.
pub fn answer() {
    if let Some(answer) = ANSWER.get() {
        answer();
    }
}

#[allow(unsafe_code)]
fn wakes() -> &'static AtomicU32 {
    // SAFETY: null, or a word that lives for ever.
    unsafe { SHARED.load(Acquire).as_ref() }.unwrap_or(&OWN)
}

/// Whether the thread has slept for so long, or was never started.
fn has_slept(ms: u64) -> bool {
    clock::now_ns().saturating_sub(SLEPT_AT_NS.load(Relaxed)) >= ms * 1_000_000
}

/// There is something to do. Outside pauses, on a thread of the program. False if the thread cannot
/// be started.
pub fn wake() -> bool {
    WOKEN_ON.store(thread::processor(), Relaxed);
    // With the one in `start`: either this finds the word that is made there, or the thread, which
    // begins afterwards, finds the reason.
    fence(SeqCst);
    let wakes = wakes();
    wakes.fetch_add(1, Release);
    if RUNNING.load(Acquire) {
        futex::wake_shared(wakes, 1);
        WOKEN_AT_NS.store(clock::now_ns(), Relaxed);
        return true;
    }
    ensure()
}

/// The same for what another thread was about to wake it for: it may not have come to that yet.
pub fn wake_again() -> bool {
    clock::now_ns().saturating_sub(WOKEN_AT_NS.load(Relaxed)) < JUST_NS || wake()
}

/// The thread sleeps until it is woken, or is about to. Written by it, and taken back by [`freed`].
static SLEEPS_ON: AtomicBool = AtomicBool::new(false);
/// The thread was woken by [`freed`].
static FREED: AtomicBool = AtomicBool::new(false);
/// When [`is_worth_it`] was asked first, by the clock.
static ASKED_NS: AtomicU64 = AtomicU64::new(0);
/// A program with a small heap that collects for so long has the thread, which `neap heap` asks.
/// Larger: more programs end without it.
const LONG_LIVED_NS: u64 = 1_000_000_000;

/// Whether the thread is worth waking, or starting, after a stopped cycle. To sweep it is, unless
/// it slept less than `between_ms`; a small heap is swept by the program itself, and has the thread
/// from a cycle on that was asked for (`is_asked`). And one that is large enough to be collected
/// when the program is idle has to be seen once. Where memory goes back after a number of cycles,
/// each is worth it.
pub fn is_worth_it(between_ms: u64, is_asked: bool) -> bool {
    if HEAP.state.stamps_cycles() {
        return true;
    }
    if SLEEPS_ON.load(Relaxed) && HEAP.state.taken_bytes.load(Relaxed) >= idle::WORTH_BYTES {
        return true;
    }
    if !has_slept(between_ms) {
        return false;
    }
    if RUNNING.load(Relaxed) || is_asked || !limits::is_heap_small() {
        return true;
    }
    let now_ns = clock::now_ns();
    let first = ASKED_NS.compare_exchange(0, now_ns, Relaxed, Relaxed);
    first.is_err_and(|asked_ns| now_ns - asked_ns >= LONG_LIVED_NS)
}

/// The program freed so many bytes by itself: where nothing else would wake the thread, it has to
/// see what is to be given back. It looks again by itself then, as long as there is some. Outside
/// pauses and critical sections.
#[inline]
pub fn freed(bytes: usize) {
    if bytes > LARGEST_SMALL && SLEEPS_ON.load(Relaxed) {
        freed_while_it_sleeps();
    }
}

#[cold]
fn freed_while_it_sleeps() {
    // Else a cycle wakes it when it is time.
    if RUNNING.load(Acquire) && !HEAP.state.stamps_cycles() && SLEEPS_ON.swap(false, Relaxed) {
        FREED.store(true, Relaxed);
        wake();
    }
}

/// The thread is about to look whether there is memory to be given back: what is freed later has
/// to wake it. Whether it was woken for that: then it looks again in any case, else a program that
/// uses and frees the same memory time after time would wake it each time.
pub fn before_last_look() -> bool {
    SLEEPS_ON.store(true, Relaxed);
    FREED.swap(false, Relaxed)
}

/// Makes sure that there is the thread. False if it cannot be started: no memory, or no more
/// threads for this user.
pub fn ensure() -> bool {
    if RUNNING.load(Acquire) || RUNNING.swap(true, AcqRel) {
        return true;
    }
    let started = BUFFERS.get().is_some_and(start);
    RUNNING.store(started, Release);
    started
}

fn start(run: Start) -> bool {
    if let Some(word) = WORD.get().and_then(|make| make()) {
        SHARED.store(core::ptr::from_ref(word).cast_mut(), Release);
    }
    fence(SeqCst);
    own_thread::start(run, core::ptr::null_mut::<c_void>())
}

/// Reasons to wake so far. On the collector's thread, before it looks for work.
pub fn reasons() -> u32 {
    wakes().load(Acquire)
}

/// The processor on which the thread was woken last, if it was since this was asked.
pub fn take_woken_on() -> usize {
    WOKEN_ON.swap(usize::MAX, Relaxed)
}

/// Sleeps until there are more reasons than the `seen` ones, or for so long. On the collector's
/// thread.
pub fn sleep(seen: u32, longest_ms: Option<u64>) {
    SLEPT_AT_NS.store(clock::now_ns(), Relaxed);
    SLEEPS_ON.store(longest_ms.is_none(), Relaxed);
    futex::wait_shared(wakes(), seen, longest_ms.map(|ms| ms * 1_000_000));
}

/// In the child of a `fork`: the thread does not exist.
pub fn after_fork() {
    RUNNING.store(false, Relaxed);
    SHARED.store(core::ptr::null_mut(), Relaxed);
}

/// As if there were the thread, and it slept until it is woken.
#[cfg(test)]
pub fn as_if_it_slept() {
    RUNNING.store(true, Release);
    before_last_look();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_again_wakes_it_once_a_millisecond() {
        // As if there were the thread.
        RUNNING.store(true, Release);
        let began_ns = clock::now_ns();
        assert!(wake());
        let before = reasons();
        for _ in 0..1000 {
            assert!(wake_again());
        }
        let woken = u64::from(reasons() - before);
        assert!(woken <= (clock::now_ns() - began_ns) / JUST_NS, "{woken}");
        WOKEN_AT_NS.store(clock::now_ns() - JUST_NS, Relaxed);
        wake_again();
        assert_eq!(u64::from(reasons() - before), woken + 1);
    }
}
