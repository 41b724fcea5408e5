//! Monitors: every object can be locked, recursively, waited on and notified. A thin lock word
//! beside the heap; an inflated monitor once threads meet or wait.
//!
//! Invariant `[refs.inv.monitor]`: an object whose monitor a thread is in is on that thread's list,
//! which is a root; list and lock word change together in a critical section, so a stop sees both
//! or neither. A thread that sleeps for an inflated monitor is counted among its users, in the
//! critical section in which it found the lock word to lead there, and an inflated monitor is given
//! up only in a stop, idle and without users, or when a cycle finds its object dead. So nobody
//! sleeps on one that became another's. Called from any thread; waiting is done in blocked regions,
//! which no stop waits for.
//!
//! # Safety
//!
//! Reaches the calling thread's own record in a critical section, and those of all threads with the
//! world stopped: in neither case does anybody else use them. A stored callback has the type that
//! it was stored with.

#![allow(unsafe_code)]

use crate::sys::clock::Instant;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

use super::inflated::Inflated;
use super::lock_table;
use super::lock_word::Lock;
use super::object_lock::{ObjectLock, Tried, deflate};
use super::records::Records;
use crate::refs::handles::per_thread::{self, ThreadRefs};
use crate::refs::handles::process::target;
use crate::refs::marking::Marking;
use crate::sync::function::AtomicFunction;
use crate::sys::{futex, print};
use crate::world::mutator::Mutator;
use crate::world::{Stopped, attach, blocked, registry};

static RECORDS: Records = Records::new();

/// Why an operation on a monitor did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorError {
    /// The address is none of an object.
    NotAnObject,
    /// There is no memory for the monitor, or the thread is in it 2^32 - 1 times.
    NoMemory,
    /// The calling thread is not in it.
    NotOwner,
}

/// Idle monitors that are deflated in one stop at most: a stop should be short.
const DEFLATED_AT_ONCE: usize = 1000;
/// For ever, as a time.
const EVER_NS: u64 = u64::MAX >> 2;

/// How long an operation may wait: since when, and nanoseconds.
#[derive(Clone, Copy)]
struct Deadline(Option<(Instant, u64)>);

impl Deadline {
    fn new(timeout_ns: Option<u64>) -> Self {
        Self(timeout_ns.map(|ns| (Instant::now(), ns)))
    }

    /// Nanoseconds that are left; None if none are.
    fn left(&self) -> Option<u64> {
        let Some((began, allowed)) = self.0 else { return Some(EVER_NS) };
        let passed = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        allowed.checked_sub(passed).filter(|left| *left > 0)
    }
}

/// The calling thread, and the object's lock.
struct Place {
    mutator: &'static Mutator,
    record: &'static ThreadRefs,
    lock: ObjectLock<'static>,
}

#[inline(always)]
fn place(object: usize) -> Result<Place, MonitorError> {
    if target(object).is_none_or(|target| target == 0) {
        return Err(MonitorError::NotAnObject);
    }
    let mutator = attach::current();
    let (Some(record), Some(word)) = (per_thread::of(mutator), lock_table::of(object)) else {
        return Err(MonitorError::NoMemory);
    };
    let thread = mutator.thread.load(Relaxed);
    Ok(Place { mutator, record, lock: ObjectLock { word, records: &RECORDS, thread, object } })
}

impl Place {
    /// Makes room on the list of monitors that the thread is in. In a critical section.
    #[inline(always)]
    fn reserve(&self) -> Result<(), MonitorError> {
        // SAFETY: this thread's record, in a critical section.
        unsafe { self.record.held() }.try_reserve(1).map_err(|_| MonitorError::NoMemory)
    }

    /// The thread is in the monitor. There is room on the list. In the same critical section as the
    /// change that made it so.
    #[inline(always)]
    fn note_entered(&self) {
        // SAFETY: this thread's record, in a critical section.
        unsafe { self.record.held() }.push(self.lock.object);
    }

    /// The thread is out. As above.
    #[inline(always)]
    fn note_left(&self) {
        // SAFETY: as above.
        unsafe { self.record.held() }.remove(self.lock.object);
    }

    /// Enters if that needs no waiting. In a critical section.
    #[inline(always)]
    fn try_enter(&self) -> Result<bool, MonitorError> {
        self.reserve()?;
        match self.lock.try_enter() {
            Tried::Entered => {
                self.note_entered();
                Ok(true)
            }
            Tried::Again => Ok(true),
            Tried::Busy => Ok(false),
            Tried::NoMemory => Err(MonitorError::NoMemory),
        }
    }

    /// Runs what waits at a monitor, of which the thread is counted as a user. A handler may fork
    /// meanwhile, and the child has to count it again.
    fn waiting<R>(&self, monitor: &Inflated, sleeps: bool, waits: impl FnOnce() -> R) -> R {
        let note = core::ptr::from_ref(monitor) as usize | usize::from(sleeps);
        let before = self.record.waits_at.swap(note, Relaxed);
        let result = waits();
        self.record.waits_at.store(before, Relaxed);
        result
    }

    /// Waits for an inflated monitor, of which the calling thread is counted as a user, and enters
    /// it `depth` times. False if the time is over. In no critical section.
    fn wait_for(
        &self,
        monitor: &Inflated,
        deadline: Deadline,
        depth: u32,
    ) -> Result<bool, MonitorError> {
        let sleep = |word: &AtomicU32, expected: u32, ns: u64| {
            blocked::blocked(self.mutator, || {
                futex::wait(word, expected, Some(ns));
            });
        };
        // The object is this thread's argument and used below, so its frame keeps it while it is
        // not on the list.
        let locked = self.waiting(monitor, true, || monitor.lock(|| deadline.left(), sleep));
        let _critical = self.mutator.critical();
        monitor.users.fetch_sub(1, SeqCst);
        if !locked {
            return Ok(false);
        }
        if let Err(error) = self.reserve() {
            monitor.unlock();
            return Err(error);
        }
        // Read now: in the child of a `fork` by a handler the thread has another.
        let thread = self.mutator.thread.load(Relaxed);
        ObjectLock { thread, ..self.lock }.now_in(monitor, depth);
        self.note_entered();
        Ok(true)
    }

    /// Frees the monitor if a thread is in it that was left in the parent of a `fork` between
    /// entering it and noting that it had. In no critical section.
    #[cold]
    fn forget_left_over(&self) -> bool {
        if !IS_CHILD.load(Relaxed) {
            return false;
        }
        let lock = self.lock.lock();
        let Lock::Thin { thread, .. } = lock else { return false };
        let exists = registry::with(|all| all.iter().any(|one| one.thread.load(Relaxed) == thread));
        !exists && self.lock.free_from(lock)
    }

    #[cold]
    fn enter_slowly(&self, timeout_ns: Option<u64>) -> Result<bool, MonitorError> {
        let deadline = Deadline::new(timeout_ns);
        self.lock.spin();
        let monitor = {
            let _critical = self.mutator.critical();
            if self.try_enter()? {
                return Ok(true);
            }
            self.lock.use_inflated().ok_or(MonitorError::NoMemory)?
        };
        self.wait_for(monitor, deadline, 1)
    }
}

/// Enters the monitor of the object that starts at `object`, once more if the thread is in it.
/// False if another thread was in it for all of `timeout_ns`; None waits for ever, 0 not at all.
#[inline]
pub fn enter(object: usize, timeout_ns: Option<u64>) -> Result<bool, MonitorError> {
    let place = place(object)?;
    let entered = || {
        let _critical = place.mutator.critical();
        place.try_enter()
    };
    let entered = entered()? || place.forget_left_over() && entered()?;
    if entered || timeout_ns == Some(0) { Ok(entered) } else { place.enter_slowly(timeout_ns) }
}

/// Leaves it, as often as it was entered.
#[inline]
pub fn exit(object: usize) -> Result<(), MonitorError> {
    let place = place(object)?;
    let _critical = place.mutator.critical();
    if place.lock.exit().ok_or(MonitorError::NotOwner)? {
        place.note_left();
    }
    Ok(())
}

/// Leaves the monitor, waits to be notified, and enters it as often as before. False if
/// `timeout_ns` went by; it is entered all the same. May return true without a notification.
pub fn wait(object: usize, timeout_ns: Option<u64>) -> Result<bool, MonitorError> {
    let place = place(object)?;
    let deadline = Deadline::new(timeout_ns);
    let waiting = {
        let _critical = place.mutator.critical();
        if !place.lock.is_in() {
            return Err(MonitorError::NotOwner);
        }
        let waiting = place.lock.leave_to_wait().ok_or(MonitorError::NoMemory)?;
        place.note_left();
        waiting
    };
    let sequence = &waiting.monitor.sequence;
    let notified = place.waiting(waiting.monitor, false, || {
        while sequence.load(SeqCst) == waiting.sequence {
            let Some(ns) = deadline.left() else { return false };
            blocked::blocked(place.mutator, || futex::wait(sequence, waiting.sequence, Some(ns)));
        }
        true
    });
    // There was room on the list before, and nothing else was entered since.
    place.wait_for(waiting.monitor, Deadline(None), waiting.depth)?;
    Ok(notified)
}

/// Lets one thread that waits go on once the caller has left the monitor, or all.
pub fn notify(object: usize, all: bool) -> Result<(), MonitorError> {
    let place = place(object)?;
    let _critical = place.mutator.critical();
    if !place.lock.is_in() {
        return Err(MonitorError::NotOwner);
    }
    place.lock.notify(all);
    Ok(())
}

/// Told of a monitor that a thread was in when it ended, with the kernel's id of the thread.
pub type ForgottenCallback = fn(object: usize, thread: u32);
static ON_FORGOTTEN: AtomicFunction<ForgottenCallback> = AtomicFunction::none();

/// Sets who is told; a line on standard error otherwise.
pub fn set_forgotten_callback(callback: ForgottenCallback) {
    ON_FORGOTTEN.set(Some(callback));
}

fn tell_forgotten(object: usize, thread: u32) {
    match ON_FORGOTTEN.get() {
        None => print::message(format_args!(
            "thread {thread} ended in the monitor of the object at {object:#x}; it is left for it"
        )),
        Some(callback) => callback(object, thread),
    }
}

/// The calling thread ends: what it forgot to leave is told and left for it.
pub fn detach(mutator: &Mutator) {
    let Some(record) = per_thread::existing(mutator) else { return };
    let last = || {
        let _critical = mutator.critical();
        // SAFETY: this thread's record, in a critical section.
        unsafe { record.held() }.last().copied()
    };
    while let Some(object) = last() {
        tell_forgotten(object, mutator.thread.load(Relaxed));
        while last() == Some(object) && exit(object).is_ok() {}
        if last() == Some(object) {
            // The program has freed it: there is no monitor any more.
            let _critical = mutator.critical();
            // SAFETY: as above.
            let held = unsafe { record.held() };
            while held.remove(object) {}
        }
    }
}

/// Marks the objects whose monitors somebody is in.
pub(crate) fn trace_held<M: Marking>(marking: &mut M, _: &Stopped) {
    for record in per_thread::all() {
        // SAFETY: the world is stopped.
        for &object in unsafe { record.held() }.iter() {
            marking.mark(object);
        }
    }
}

/// Gives up the monitors of dead objects. When all marks are final; the world may run, since nobody
/// reaches these objects. In the monitor of one that the program has freed a thread may still be:
/// it is the next object's, and given up when it is idle.
pub(crate) fn process_references<M: Marking>(marking: &M) {
    for number in RECORDS.all() {
        let object = RECORDS.get(number).object.load(Acquire);
        // In this order: what comes to lie there meanwhile is marked when it is allocated.
        if object != 0 && marking.container(object).is_some() && !marking.is_marked(object) {
            give_up(number, object);
        }
    }
}

/// Where the last stop ended looking for idle monitors.
static NEXT_IDLE: AtomicU32 = AtomicU32::new(0);

/// Deflates some idle monitors. World stopped.
pub fn deflate_idle() {
    let all = RECORDS.all();
    let (mut deflated, mut looked) = (0, 0);
    let mut number = NEXT_IDLE.load(Relaxed);
    while deflated < DEFLATED_AT_ONCE && looked < all.len().min(DEFLATED_AT_ONCE * 4) {
        number = if number < all.end { number } else { 0 };
        let monitor = RECORDS.get(number);
        let object = monitor.object.load(Relaxed);
        if object != 0 && monitor.is_idle() {
            give_up(number, object);
            deflated += 1;
        }
        looked += 1;
        number += 1;
    }
    NEXT_IDLE.store(number, Relaxed);
}

fn give_up(number: u32, object: usize) {
    deflate(&RECORDS, lock_table::of(object), number);
}

/// How many monitors are inflated.
pub fn inflated() -> usize {
    RECORDS.in_use()
}

/// This process is the child of a `fork`.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// In the child of a `fork`: the only thread, whose mutator is `own`, is in its monitors under its
/// new id, and waits where it did if its handler forked; nobody is in any other, or waits.
pub fn after_fork(own: Option<&Mutator>) {
    IS_CHILD.store(true, Relaxed);
    let mine = own.and_then(per_thread::existing);
    // SAFETY: this thread's record, and no stop can come.
    let kept: &[usize] = mine.map_or(&[], |mine| unsafe { mine.held() });
    for &object in kept {
        rewrite(object, |_, depth| Lock::Thin { thread: FORKING, depth });
    }
    for record in
        per_thread::all().filter(|record| !mine.is_some_and(|mine| core::ptr::eq(mine, *record)))
    {
        // SAFETY: no other thread exists.
        let held = unsafe { record.held() };
        // It may have been leaving one that the forking thread is in. The words tell, since looking
        // for each of these among those takes time by the product of their numbers.
        for &object in held.iter() {
            rewrite(object, |thread, depth| match thread {
                FORKING => Lock::Thin { thread, depth },
                _ => Lock::Free,
            });
        }
        held.clear();
    }
    for number in RECORDS.all() {
        RECORDS.get(number).after_fork(0);
    }
    if let Some(own) = own {
        let thread = own.thread.load(Relaxed);
        for &object in kept {
            if let Some(number) = rewrite(object, |_, depth| Lock::Thin { thread, depth }) {
                RECORDS.get(number).after_fork(thread);
            }
        }
    }
    let note = mine.map_or(0, |mine| mine.waits_at.load(Relaxed));
    let waits_at = |monitor: &Inflated| core::ptr::from_ref(monitor) as usize == note & !1;
    if let Some(number) = RECORDS.all().find(|number| waits_at(RECORDS.get(*number))) {
        RECORDS.get(number).count_in_child(note & 1 != 0);
    }
}

/// In a lock word, while a child sees to its monitors: the thread that forked. The kernel gives no
/// thread this number.
const FORKING: u32 = 0;

/// Changes the lock word of an object, by the thread that is in its monitor and how often, if it is
/// thin. Gives the number of an inflated one.
fn rewrite(object: usize, change: impl FnOnce(u32, u32) -> Lock) -> Option<u32> {
    let word = lock_table::of(object)?;
    match Lock::from_word(word.load(Relaxed)) {
        Lock::Thin { thread, depth } => word.store(change(thread, depth).word(), Relaxed),
        Lock::Inflated(number) => return Some(number),
        Lock::Free => {}
    }
    None
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
