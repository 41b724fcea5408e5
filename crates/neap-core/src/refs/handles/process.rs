//! The handles of the process, in terms of objects, and what a cycle does with them.
//!
//! Invariant `[refs.inv.read]`: a read of a weak handle has the object's address in a register
//! before it looks at the phase of the cycle and then at the slot again. If a stop came before
//! that, the slot has changed or the mark says whether the object lives; if one comes later, the
//! address is a root. So it gives an object that lives, or null. Writes happen in critical
//! sections, so a stop never sees a slot written whose segment is not known to be. Called from any
//! thread; the cycle's part by the cycle.
//!
//! # Safety
//!
//! An empty assembly block that the compiler moves no access across, so that a weak read's address
//! is in a register before the phase is read. It reads and writes nothing.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::*, fence};

use super::domain::{DomainId, Freed, Space};
use super::handle::{Compared, Handle, HandleError};
use super::segment::{Class, Segment};
use super::slot::{Kind, Word};
use super::{ephemeron, per_thread, retargeted, weak};
use crate::heap::HEAP;
use crate::heap::state::reference_processing;
use crate::refs::marking::{Beside, Marking};
use crate::sys::futex;
use crate::world::attach;
use crate::world::mutator::Mutator;

/// All slots of the process.
#[cfg(not(loom))]
pub(crate) static SPACE: Space = Space::new();
/// As above; loom's atomics are not made at compile time. No model uses it.
#[cfg(loom)]
pub(crate) static SPACE: std::sync::LazyLock<Space> = std::sync::LazyLock::new(Space::new);

/// How long a reader sleeps before it looks again whether a cycle has decided.
const LOOK_NS: u64 = 1_000_000;

/// The object that a target names; 0 for none.
#[inline(always)]
pub(crate) fn object(target: u64) -> usize {
    match target {
        0 => 0,
        target => HEAP.base().0 + (target as usize - 1) * 8,
    }
}

/// What names an object in a slot; None if the address is no multiple of 8 in the heap. Zero names
/// none.
#[inline(always)]
pub(crate) fn target(object: usize) -> Option<u64> {
    let offset = object.wrapping_sub(HEAP.base().0);
    if offset < HEAP.committed() && offset.is_multiple_of(8) {
        Some(offset as u64 / 8 + 1)
    } else {
        (object == 0).then_some(0)
    }
}

/// What went wrong, as far as this module can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// See [`HandleError`].
    Handle(HandleError),
    /// The address is none of an object.
    NotAnObject,
}

impl From<HandleError> for Error {
    fn from(error: HandleError) -> Self {
        Self::Handle(error)
    }
}

fn target_or_error(object: usize) -> Result<u64, Error> {
    target(object).ok_or(Error::NotAnObject)
}

/// Has the address in a register here, where the stack scan of a stop sees it.
#[inline(always)]
fn pin(object: usize) -> usize {
    let mut address = object;
    // SAFETY: no instruction. Not `nomem`, so that no load moves across it either.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) address, options(nostack, preserves_flags));
    }
    address
}

#[inline(always)]
fn in_cache<R>(f: impl FnOnce(&super::handle::Cache) -> Result<R, Error>) -> Result<R, Error> {
    let mutator = attach::current();
    let _critical = mutator.critical();
    let record = per_thread::of(mutator).ok_or(HandleError::NoMemory)?;
    f(&record.cache)
}

/// A new handle of `kind`, which is none of ephemerons, to an object or (0) to none.
#[inline]
pub fn allocate(domain: DomainId, kind: Kind, object: usize) -> Result<Handle, Error> {
    let target = target_or_error(object)?;
    if kind == Kind::Ephemeron {
        return Err(HandleError::WrongKind.into());
    }
    in_cache(|cache| Ok(SPACE.allocate(cache, domain, kind, target, 0)?))
}

/// A new ephemeron.
pub fn allocate_ephemeron(domain: DomainId, key: usize, value: usize) -> Result<Handle, Error> {
    let (key, value) = (target_or_error(key)?, target_or_error(value)?);
    if key == 0 {
        return Err(Error::NotAnObject);
    }
    in_cache(|cache| Ok(SPACE.allocate(cache, domain, Kind::Ephemeron, key, value)?))
}

/// Frees a handle of any kind.
#[inline]
pub fn free(handle: Handle) -> Result<(), Error> {
    in_cache(|cache| {
        note_freed(SPACE.free_handle(cache, handle)?);
        Ok(())
    })
}

/// A slot of this kind does not lead to these targets any more.
#[inline]
fn note_retargeted(kind: Kind, targets: [u64; 2]) {
    if !kind.is_strong() {
        retargeted::note(targets.map(object));
    }
}

fn note_freed(freed: Freed) {
    note_retargeted(freed.word.kind(), [freed.word.target(), freed.value]);
}

/// The kind of a handle.
pub fn kind(handle: Handle) -> Result<Kind, Error> {
    Ok(SPACE.kind(handle)?)
}

/// What a reader may do with the object that a weak slot names, while a cycle may be processing
/// references.
#[derive(PartialEq, Eq)]
enum Verdict {
    Lives,
    Dead,
    /// The cycle has not decided yet.
    Wait(u32),
    /// It went on meanwhile.
    Again,
}

/// `phase` was read after the object's address was in a register.
#[inline(always)]
fn verdict(kind: Kind, phase: u32, object: usize) -> Verdict {
    match phase == reference_processing::NO || kind.is_strong() || object == 0 {
        true => Verdict::Lives,
        false => verdict_beside_cycle(kind, phase, object),
    }
}

/// The same while a cycle is processing references. `[refs.inv.followed]`: a mark alone says little
/// while it marks, since what the object leads to may not be marked yet.
#[inline(never)]
fn verdict_beside_cycle(kind: Kind, phase: u32, object: usize) -> Verdict {
    use reference_processing::*;
    let is_marked = HEAP.is_marked(object);
    // Who sees a mark of a later phase sees that phase: [`begin_marking`].
    fence(Acquire);
    if HEAP.state.reference_processing.load(Relaxed) != phase {
        return Verdict::Again;
    }
    let tracks = kind == Kind::WeakLong;
    match phase {
        FOLLOWING => Verdict::Wait(phase),
        RESURRECTING if tracks => Verdict::Wait(phase),
        _ if is_marked => Verdict::Lives,
        // An ephemeron may keep it.
        EPHEMERONS => Verdict::Wait(phase),
        SHORT | FINALIZERS if tracks => Verdict::Wait(phase),
        _ => Verdict::Dead,
    }
}

/// The object of a handle, or 0: it is null, or its object died. Takes no lock. While a cycle
/// follows ephemerons, who asks for an object that is not marked yet waits; while it decides about
/// resurrected ones, who asks by a handle that tracks them.
#[inline]
pub fn get(handle: Handle) -> Result<usize, Error> {
    loop {
        let (segment, index, word) = SPACE.look_up(handle)?;
        if word.kind() == Kind::Ephemeron {
            return Err(HandleError::WrongKind.into());
        }
        let address = pin(object(word.target()));
        if !word.kind().is_strong() {
            HEAP.state.note_revealed();
        }
        let phase = HEAP.state.reference_processing.load(Acquire);
        if segment.slot(index).load(Acquire) != word.0 {
            continue;
        }
        match verdict(word.kind(), phase, address) {
            Verdict::Lives => return Ok(address),
            Verdict::Dead => return Ok(0),
            Verdict::Wait(phase) => wait_for_cycle(phase),
            Verdict::Again => {}
        }
    }
}

/// Readers that sleep until a cycle has decided, or are about to.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);

#[cold]
fn wait_for_cycle(phase: u32) {
    SLEEPERS.fetch_add(1, SeqCst);
    futex::wait(&HEAP.state.reference_processing, phase, Some(LOOK_NS));
    SLEEPERS.fetch_sub(1, Relaxed);
}

/// Key and value of an ephemeron; two zeros if the key died.
pub fn get_ephemeron(handle: Handle) -> Result<(usize, usize), Error> {
    loop {
        let pair = ephemeron::look_up(&SPACE, handle)?;
        let key = pin(object(pair.key.target()));
        let value = pin(object(pair.value.target()));
        HEAP.state.note_revealed();
        let phase = HEAP.state.reference_processing.load(Acquire);
        if !pair.is_unchanged() || pair.value.generation() != pair.key.generation() {
            continue;
        }
        if key == 0 {
            return Ok((0, 0));
        }
        match verdict(Kind::Ephemeron, phase, key) {
            Verdict::Dead => return Ok((0, 0)),
            Verdict::Wait(phase) => wait_for_cycle(phase),
            Verdict::Again => {}
            // What the value reaches may be unmarked until the cycle has been there: nobody may
            // have it before, or could hide some of that from the cycle.
            Verdict::Lives => match verdict(Kind::Value, phase, value) {
                Verdict::Wait(phase) => wait_for_cycle(phase),
                Verdict::Again => {}
                Verdict::Lives | Verdict::Dead => return Ok((key, value)),
            },
        }
    }
}

/// Makes the handle refer to another object, or to none.
pub fn set(handle: Handle, object: usize) -> Result<(), Error> {
    let target = target_or_error(object)?;
    let _critical = attach::current().critical();
    let word = SPACE.set(handle, target)?;
    note_retargeted(word.kind(), [word.target(), 0]);
    Ok(())
}

/// The same if it refers to `expected`; whether it did. An object that died is not what anybody
/// expects.
pub fn compare_and_set(handle: Handle, expected: usize, object: usize) -> Result<bool, Error> {
    let (expected, target) = (target_or_error(expected)?, target_or_error(object)?);
    let _critical = attach::current().critical();
    let compared = SPACE.compare_and_set(handle, expected, target)?;
    if let Compared::Set(kind) = compared {
        note_retargeted(kind, [expected, 0]);
    }
    Ok(matches!(compared, Compared::Set(_)))
}

/// Gives an ephemeron another value; false if its key died.
pub fn set_ephemeron(handle: Handle, value: usize) -> Result<bool, Error> {
    let value = target_or_error(value)?;
    let _critical = attach::current().critical();
    let held = ephemeron::set(&SPACE, handle, None, value)?;
    note_retargeted(Kind::Ephemeron, [held.unwrap_or(0), 0]);
    Ok(held.is_some())
}

/// The same if the value is `expected`; whether it was.
pub fn compare_and_set_ephemeron(
    handle: Handle,
    expected: usize,
    value: usize,
) -> Result<bool, Error> {
    let (expected, value) = (target_or_error(expected)?, target_or_error(value)?);
    let _critical = attach::current().critical();
    let is_set = ephemeron::set(&SPACE, handle, Some(expected), value)? == Some(expected);
    if is_set {
        note_retargeted(Kind::Ephemeron, [expected, 0]);
    }
    Ok(is_set)
}

/// Opens a domain; None without memory, or when 65,536 are open.
pub fn open_domain() -> Option<DomainId> {
    let _critical = attach::current().critical();
    SPACE.open()
}

/// Closes a domain and frees all its handles; gives how many. None if it is not open.
pub fn close_domain(domain: DomainId) -> Option<usize> {
    let mutator = attach::current();
    SPACE.close(domain, || mutator.critical(), note_freed)
}

/// Looking at the slots of more segments than this takes longer than a second stop.
const MANY_SEGMENTS: u32 = 16;

/// Whether there have been so many handles at once that processing them takes a while.
pub(crate) fn are_many() -> bool {
    SPACE.buckets.count() > MANY_SEGMENTS
}

/// The calling thread, or one that a `fork` left behind, ends: others may allocate from its
/// segments.
pub fn detach(mutator: &Mutator) {
    if let Some(record) = per_thread::existing(mutator) {
        record.cache.leave_all(&SPACE);
    }
}

/// Marks what strong handles refer to, of segments that this cycle has not scanned since they were
/// written to. The cycle calls it with the world running, so that the last stop finds few such
/// segments; or only in a stop.
pub fn trace_strong<M: Marking>(marking: &mut M) {
    let cycle = HEAP.state.cycles.load(Relaxed) + 1;
    for segment in SPACE.buckets.of_class(Class::Strong) {
        // Acquire: what was written before it was set is seen; what is written later sets it again.
        let dirty = segment.dirty.load(Relaxed) != 0 && segment.dirty.swap(0, AcqRel) != 0;
        if !dirty && segment.scanned_in.load(Relaxed) == cycle {
            continue;
        }
        segment.scanned_in.store(cycle, Relaxed);
        strong_of(segment, |object| marking.mark(object));
    }
}

/// Calls `f` with what each strong handle of a segment refers to.
fn strong_of(segment: &Segment, mut f: impl FnMut(usize)) {
    for index in segment.used() {
        let word = Word(segment.slot(index).load(Acquire));
        if word.kind().is_strong() && word.target() != 0 {
            f(object(word.target()));
        }
    }
}

/// Calls `f` with what each strong handle refers to, whatever cycles have scanned. World stopped,
/// or in a copy of it.
pub fn for_each_strong(mut f: impl FnMut(usize)) {
    SPACE.buckets.of_class(Class::Strong).for_each(|segment| strong_of(segment, &mut f));
}

/// Whether a weak handle or an ephemeron leads to an object that is not marked. After marking,
/// world stopped.
pub(crate) fn any_weak_dies<M: Marking>(marking: &M) -> bool {
    [Class::Weak, Class::Pair]
        .into_iter()
        .any(|class| weak::any_dies(&SPACE, class, marking, &object))
}

/// What the cycle has scanned counts no more: marking begins anew, in the child of a `fork`, or
/// because a snapshot did not do.
pub fn forget_scanned() {
    for segment in SPACE.buckets.of_class(Class::Strong) {
        segment.dirty.store(1, Relaxed);
    }
}

/// Follows ephemerons until nothing more is reached `[refs.inv.followed]`. When all other marking
/// is done; the world may run once [`set_progress`] was told `EPHEMERONS`, for then nobody is given
/// an object that is not marked, or that leads to one.
pub(crate) fn follow_ephemerons<M: Marking>(marking: &mut M, beside: Beside) {
    for steps in 0.. {
        let mut marks = false;
        let changed = ephemeron::follow(&SPACE, marking, &object, steps, || {
            if beside == Beside::Program && !marks {
                begin_marking(reference_processing::FOLLOWING);
            }
            marks = true;
        });
        if marks {
            marking.drain();
            if beside == Beside::Program {
                set_progress(reference_processing::EPHEMERONS);
            }
        }
        if !changed {
            return;
        }
    }
}

/// Says that what is marked from here on may not be scanned yet. Nobody waits for that.
fn begin_marking(phase: u32) {
    HEAP.state.reference_processing.store(phase, Relaxed);
    fence(Release);
}

/// Decides about ephemerons and weak handles. After [`follow_ephemerons`], before finalizers; the
/// world may run once [`set_progress`] was told `SHORT`.
pub(crate) fn process_short<M: Marking>(marking: &M) {
    ephemeron::expire(&SPACE, marking, &object);
    weak::expire(&SPACE, Class::Weak, Kind::Weak, marking, &object);
}

/// Decides about handles that track resurrection, when finalizers have marked what they keep. As
/// above, with `LONG`.
pub(crate) fn process_long<M: Marking>(marking: &M) {
    weak::expire(&SPACE, Class::Weak, Kind::WeakLong, marking, &object);
}

/// Says how far reference processing is, and wakes who waits for it. By the cycle.
pub fn set_progress(phase: u32) {
    HEAP.state.reference_processing.store(phase, SeqCst);
    // Before any mark that is set from here on.
    fence(Release);
    // Who is not counted yet finds the phase changed and does not sleep.
    if SLEEPERS.load(SeqCst) != 0 {
        futex::wake(&HEAP.state.reference_processing, i32::MAX as u32);
    }
}
