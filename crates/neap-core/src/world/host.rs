//! The world of a host that stops its threads itself, such as a language's runtime: four functions
//! of the host, and the threads that it does not know stopped by signal as in any process.
//!
//! Invariant `[world.rule.host]`: the host's stop reaches its threads at any instruction, so in its
//! signal handler it asks [`Host::may_stop`] first. A thread in a critical section is let go on and
//! stops itself when the section ends; a thread that has no mutator yet, or none any more, and
//! takes a lock of the collector other than the registry's blocks signals over that
//! ([`undisturbed`](crate::sys::signal::undisturbed)). Set once; its functions are called by the
//! thread that drives a stop, the late stop by the thread that was asked.
//!
//! # Safety
//!
//! Calls the host's own functions on the threads and at the moments that they were given for, and
//! shares their table, which never changes.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::mutator::{Asker, Mutator};
use super::registry::Registry;
use super::{Standing, Stopped, World, current, stop};
use crate::sys::program_call::{self, Lost};
use crate::sys::side_stack;

/// Told of a range of roots: lowest address, one past the highest, and what the host was handed for
/// it.
pub type Visit = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void);

/// What a host supplies.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Host {
    /// Stops the host's threads but the caller's; 0 if they stand. Else none does.
    pub stop: unsafe extern "C" fn(*mut c_void) -> core::ffi::c_int,
    /// Lets them go on.
    pub resume: unsafe extern "C" fn(*mut c_void),
    /// Names the roots of the host and of all its threads, the caller's included.
    pub roots: unsafe extern "C" fn(Visit, *mut c_void, *mut c_void),
    /// The calling thread, which was let go on by [`Host::may_stop`], stops now.
    pub stop_late: unsafe extern "C" fn(*mut c_void),
    /// Whether the calling thread is one of the host's, which can stop the others. Asked on the
    /// collector's thread too, which no host knows, but some can be stopped by.
    pub is_own_thread: unsafe extern "C" fn(*mut c_void) -> core::ffi::c_int,
    /// Handed to each of them.
    pub environment: *mut c_void,
}

// SAFETY: functions that may be called from any thread, and a pointer that only they use.
unsafe impl Sync for Host {}

/// Address of the host's [`Host`], which is never freed; 0 if there is none.
static HOST: AtomicUsize = AtomicUsize::new(0);

/// The host, if the world is one's.
#[inline]
pub fn get() -> Option<&'static Host> {
    // SAFETY: 0 or what `set` was given.
    unsafe { (HOST.load(Acquire) as *const Host).as_ref() }
}

/// The world is this host's from now on; false if it is one's already. While no stop is under way
/// and none can begin.
pub fn set(host: &'static Host) -> bool {
    side_stack::stay();
    HOST.compare_exchange(0, core::ptr::from_ref(host) as usize, AcqRel, Acquire).is_ok()
}

impl Host {
    /// In the host's signal handler: whether the thread may be stopped where it stands, and in
    /// which stop, [`NO_STOP`] if it is none of ours. If not, it is asked to stop late, as soon as
    /// it may.
    pub fn may_stop() -> Option<u32> {
        let epoch = stop::under_way();
        if let Some(mutator) = current::get() {
            if mutator.defers_stop(Asker::Host) {
                return None;
            }
            if let Some(epoch) = epoch {
                // Release: who stops the world reads our runs after seeing this.
                mutator.obeyed.store(epoch, Release);
            }
        }
        Some(epoch.unwrap_or(NO_STOP))
    }

    /// In the host's signal handler, after the host let the thread go that `stopped` was said to:
    /// waits for the end of the stop, so that all go on together. A host may wake them one by one,
    /// and where there are more threads than processors each that goes on at once may take the
    /// processor of the one that is to wake the others.
    pub fn go_on(stopped: u32) {
        if !stopped.is_multiple_of(2) {
            stop::wait_a_while(stopped, LONGEST_WAIT_NS);
        }
    }

    /// Calls one of the host's functions that are handed the environment alone.
    fn call(&self, what: &str, lost: Lost, function: usize) -> Option<usize> {
        let words = [self.environment as usize, 0, 0, 0];
        // SAFETY: the host's own function, on the threads and at the moments that it is for.
        unsafe { program_call::call(what, lost, function, words) }
    }

    pub(super) fn stop_late(&self) {
        // On a thread that it asked to stop.
        self.call("host's function that stops late", Lost::Nothing, self.stop_late as usize);
    }
}

/// Even, as no stop is numbered, and not 0, which a C host takes for a no.
const NO_STOP: u32 = 2;
/// Threads wait no longer for each other: should the host stop them anew meanwhile, they cannot
/// hear it where they wait. Longer: more is lost then; shorter: a host with hundreds of threads may
/// not have woken all.
const LONGEST_WAIT_NS: u64 = 5_000_000;

impl World for Host {
    fn stops_under_loader_lock(&self) -> bool {
        false
    }

    fn may_be_stopped_here(&self) -> bool {
        let asked = "host's function that knows its threads";
        let answer = self.call(asked, Lost::Nothing, self.is_own_thread as usize);
        answer.is_some_and(|answer| answer as core::ffi::c_int != 0)
    }

    fn stop(&self, registry: &mut Registry, own: Option<&Mutator>) -> Option<Stopped> {
        let epoch = stop::begin();
        let what = "host's function that stops its threads";
        let stop = || self.call(what, Lost::Nothing, self.stop as usize);
        match side_stack::off(stop) {
            Some(status) if status as core::ffi::c_int == 0 => {
                stop::stop_the_rest(registry, own, epoch);
                Some(Stopped(Standing(PhantomData)))
            }
            _ => {
                stop::end();
                None
            }
        }
    }

    fn stops_one_by_one(&self) -> bool {
        false
    }

    fn stops_for_collector(&self) -> bool {
        self.may_be_stopped_here()
    }

    fn resume(&self, _: Stopped) -> u64 {
        let what = "host's function that lets its threads go on";
        self.call(what, Lost::Nothing, self.resume as usize);
        stop::end()
    }

    fn names_roots_of(&self, mutator: &Mutator, _: &Stopped) -> bool {
        let is_own = current::get().is_some_and(|own| core::ptr::eq(own, mutator));
        let epoch = stop::under_way().unwrap_or(0);
        is_own || (mutator.obeyed.load(Relaxed) == epoch && mutator.asked.load(Relaxed) != epoch)
    }

    fn for_each_root(
        &self,
        own: Option<&Mutator>,
        _: &Stopped,
        visit: &mut dyn FnMut(Range<usize>),
    ) {
        // What lies below the position on the caller's stack is the collector's own.
        let position = own.map_or(0, |own| own.position.load(Relaxed));
        let mut named = |range: Range<usize>| {
            let start = if range.contains(&position) { position } else { range.start };
            visit(start..range.end);
        };
        let mut visitor: &mut dyn FnMut(Range<usize>) = &mut named;
        let tell: Visit = tell;
        let words = [tell as usize, (&raw mut visitor) as usize, self.environment as usize, 0];
        let what = "host's function that names roots";
        // SAFETY: the host's own function, between its stop and its resume; `tell` gets back what
        // we hand over, which lives that long.
        side_stack::off(|| unsafe {
            program_call::call(what, Lost::Roots, self.roots as usize, words)
        });
    }
}

unsafe extern "C" fn tell(low: *const c_void, high: *const c_void, visitor: *mut c_void) {
    let (low, high) = ((low as usize).next_multiple_of(8), high as usize & !7);
    if low < high {
        // SAFETY: `for_each_root` handed this over, and is still running.
        unsafe { (*visitor.cast::<&mut dyn FnMut(Range<usize>)>())(low..high) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(_: *mut c_void) {}
    unsafe extern "C" fn stands(_: *mut c_void) -> core::ffi::c_int {
        0
    }
    unsafe extern "C" fn yes(_: *mut c_void) -> core::ffi::c_int {
        1
    }
    unsafe extern "C" fn two_ranges(visit: Visit, visitor: *mut c_void, _: *mut c_void) {
        // SAFETY: what we were handed; nobody reads the ranges.
        unsafe {
            visit(0x1003 as *const c_void, 0x1026 as *const c_void, visitor);
            visit(0x2000 as *const c_void, 0x2000 as *const c_void, visitor);
        }
    }

    #[test]
    fn roots_are_named_in_whole_words_and_empty_ranges_left_out() {
        let host = Host {
            stop: stands,
            resume: nothing,
            roots: two_ranges,
            stop_late: nothing,
            is_own_thread: yes,
            environment: core::ptr::null_mut(),
        };
        let mut seen = Vec::new();
        host.for_each_root(None, &Stopped(Standing(PhantomData)), &mut |range| seen.push(range));
        assert_eq!(seen, vec![0x1008..0x1020]);
        assert!(host.may_be_stopped_here());
    }
}
