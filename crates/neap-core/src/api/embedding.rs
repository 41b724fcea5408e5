//! The surface for embedders that know more of their program than most: coroutines, ephemerons of
//! their own, memory that they account for themselves, regions that begin and end in two calls.
//!
//! Invariant: as [`crate::api`]. Called by front ends from mutators.

use core::ffi::c_void;
use core::ops::Range;
use core::sync::atomic::{AtomicI32, Ordering::*};

use crate::addr::{FRAME_BYTES, Frame};
use crate::cycle::driver::{collect, disabling, handshake, holding, watch_in_use};
use crate::cycle::phases::when_marked;
use crate::cycle::report::thread_events;
use crate::cycle::schedule::{self, Due};
use crate::heap::HEAP;
use crate::heap::blocks::header::State;
use crate::runtime::interposed::kernel_stacks;
use crate::runtime::{self, allocation};
use crate::sys::{map, thread, unwind};
use crate::world::{blocked, correction, current, registry, suspension};

pub use crate::cycle::report::root_callback::RootCallback;
pub use crate::cycle::report::thread_events::ThreadCallback;
pub use crate::runtime::allocation::RefusalCallback;
pub use crate::runtime::at_fork::set_in_child;
pub use crate::runtime::set_at_start;
pub use crate::sys::process::variables::variable;
pub use crate::sys::thread::CalleeSaved;
pub use crate::watch::choose::Watching;
pub use crate::world::correction::StackCorrector;

/// Shown the stack position of each thread that stands, as a variable that it may change, and the
/// thread as `pthread_t`: the thread's stack is read from there on. Called in pauses, on a thread
/// of the program; must not allocate or lock. A front end that sets it says that the program takes
/// part in cycles.
pub fn set_stack_corrector(corrector: Option<StackCorrector>) {
    correction::set(corrector);
}

/// Called in the last pause of every cycle when all that is reachable is marked, and again until it
/// names nothing new. Must not allocate or lock. A front end that sets it says that the program
/// takes part in cycles.
pub fn set_when_marked(callback: Option<RootCallback>) {
    when_marked::set(callback);
}

/// Told of each thread that stands for a cycle, and that is about to go on, as `pthread_t`: in
/// pauses, on a thread of the program; must not allocate or lock. A front end that sets it says
/// that the program takes part in cycles.
pub fn set_thread_callback(callback: Option<ThreadCallback>) {
    thread_events::set(callback);
}

/// Whether memory that the heap gets from now on is executable; false if the system refuses such.
/// Before the start it is all of it.
pub fn set_executable(executable: bool) -> bool {
    map::set_executable(executable)
}

/// Threads that mark at most, the one that collects included.
pub fn markers() -> usize {
    runtime::markers()
}

/// How many more cycles than one are run before an allocation is refused.
pub fn set_retries(retries: usize) {
    allocation::set_retries(retries);
}

/// The next cycle begins when the heap has grown by `begins` bytes since the last one, if not
/// before, and who allocates waits for it from `ends` on.
pub fn bring_cycle_forward(begins: usize, ends: usize) {
    schedule::bring_forward(&Due { begins, ends });
}

/// Notes whether the program was told that the calling thread is registered; false if it had been
/// told the same. Who is not attached is not registered.
pub fn announce(registered: bool) -> bool {
    current::get().is_some_and(|own| own.announced.swap(registered, Relaxed) != registered)
}

/// Leaves a function of the front end, by which a thread of the program begins, out of the stacks
/// of allocation sites.
pub fn leave_out_of_stacks(begins: extern "C" fn(*mut c_void) -> *mut c_void) {
    unwind::leave_out(begins as *const () as usize);
}

/// Whether it was.
pub fn is_announced() -> bool {
    current::get().is_some_and(|own| own.announced.load(Relaxed))
}

/// Two words that the front end keeps for the calling thread: zeros at first, as where it is not
/// attached. They end with the attachment.
pub fn thread_words() -> [usize; 2] {
    let words = current::get().map(|own| &own.front_end);
    words.map_or([0; 2], |words| words.each_ref().map(|word| word.load(Relaxed)))
}

/// Keeps them; does nothing where the thread is not attached.
pub fn set_thread_words(words: [usize; 2]) {
    if let Some(own) = current::get() {
        own.front_end.iter().zip(words).for_each(|(own, word)| own.store(word, Relaxed));
    }
}

/// Says where the calling thread's alternate signal stack lies, until it says otherwise; an empty
/// range for none.
pub fn set_handler_stack(stack: Range<usize>) {
    let mutator = runtime::mutator();
    let _critical = mutator.critical();
    kernel_stacks::keep(&stack);
    mutator.note_handler_stack(&stack);
    mutator.declared_handler_stack.store(true, Relaxed);
}

/// Whether the calling thread is the one that the program began with. In the child of a fork by
/// another thread none is.
pub fn is_first_thread() -> bool {
    current::get().map_or_else(
        || thread::is_first(thread::current()),
        |mutator| mutator.is_first.load(Relaxed),
    )
}

/// Says where the stack begins that another thread runs on, given as `pthread_t`; also in callbacks
/// with the world stopped. Whether that is the program's first thread; `None` if there is no such
/// thread.
pub fn set_stack_base_of(thread: usize, base: usize) -> Option<bool> {
    runtime::mutator();
    kernel_stacks::keep_stack(base);
    // Nothing reads stacks meanwhile but who waits for this.
    registry::with(|registry| {
        let mutator = registry.iter().find(|one| one.control_block.load(Relaxed) == thread)?;
        mutator.stack_low.store(0, Relaxed);
        mutator.stack_base.store(base, Relaxed);
        Some(mutator.is_first.load(Relaxed))
    })
}

/// Has a thread that was announced, given as `pthread_t`, stand until [`resume_thread`]; it does on
/// return. It may be the caller. Nothing happens to others.
pub fn suspend_thread(thread: usize) {
    let mutator = runtime::mutator();
    holding::hold();
    suspension::suspend(thread);
    holding::release();
    suspension::stand(mutator);
}

/// Lets it go on, however often it was suspended.
pub fn resume_thread(thread: usize) {
    suspension::resume(thread);
}

/// Whether it stands, or will when it leaves its blocked region.
pub fn is_thread_suspended(thread: usize) -> bool {
    suspension::is_suspended(thread)
}

/// A cycle begins and runs beside the program, unless one does; where none can, it is over on
/// return.
pub fn begin_cycle() {
    if !handshake::request(true) {
        super::collect();
    }
}

/// How the program's writes are tracked for cycles that run beside it; `Watching::None` where none
/// do.
pub fn watching() -> Watching {
    runtime::initialize();
    watch_in_use::watching()
}

/// Called with the bytes asked for when the system refused memory for them, on the thread that
/// asked, outside locks.
pub fn set_refusal_callback(callback: Option<RefusalCallback>) {
    allocation::set_refusal(callback);
}

/// The calling thread is in a blocked region until [`end_blocked`]; nested ones count as one. What
/// is live lies above `position` on its stack or in `registers`.
pub fn begin_blocked(position: usize, registers: &CalleeSaved) {
    blocked::begin(runtime::mutator(), position, registers);
}

/// Ends [`begin_blocked`]; ignored without one.
pub fn end_blocked() {
    blocked::end(runtime::mutator());
}

/// Waits for the end of the cycle under way, if there is one. Who is called in it, or holds it off,
/// does not wait, nor does a thread that could not stop a host's.
pub fn finish_under_way() {
    runtime::initialize();
    collect::finish_under_way();
}

/// Has a thread that comes by an allocation call what [`set_after_cycle`](super::set_after_cycle)
/// set, as if a cycle had ended.
pub fn call_after_cycle_later() {
    handshake::tell_end();
}

/// Waits for the end of the cycle under way, if there is one, and disables collections. Where they
/// are disabled already, or this thread holds them off, it does not wait.
pub fn finish_and_disable() {
    runtime::initialize();
    collect::finish_and_disable();
}

/// As [`hold_collections`](super::hold_collections), once the cycle under way, if there is one, has
/// ended. As above who disabled collections or holds them off does not wait, and where cycles
/// follow each other too fast one may be under way all the same: [`marks_are_whole`] says it. No
/// finalizer runs here: the next allocation tells of the end.
pub fn finish_and_hold() {
    runtime::complete_start();
    collect::finish_and_hold();
}

/// Whether marks are as the last cycle left them; not from where the next one has cleared them, or
/// goes on from them, to its end, nor after one that was given up. Who holds collections off may
/// see them go, but not come back.
pub fn marks_are_whole() -> bool {
    HEAP.state.marks.load(Acquire).is_multiple_of(2)
}

/// Whether the calling thread holds collections off, as who has stopped the world does, and none is
/// under way: marks stay as the last one left them until it lets go. Not for who is called in one.
pub fn is_held_idle() -> bool {
    holding::is_held_idle()
}

/// Collections are disabled also while `count`, which the program may write, is not 0. Once.
pub fn disabled_while(count: &'static AtomicI32) {
    disabling::follow(count);
}

/// The program counted up what [`disabled_while`] was given: no first or last stop of a cycle is
/// being taken on return, but for a caller that is called in it.
pub fn settle_disabled() {
    disabling::settle();
}

/// The program counted it down.
pub fn tell_enabled() {
    disabling::tell_enabled();
}

/// Counts bytes as handed out since the last cycle that the heap did not hand out.
pub fn note_allocated(bytes: usize) {
    let mutator = runtime::mutator();
    let _critical = mutator.critical();
    mutator.local.count(0, bytes as u64);
    HEAP.state.allocated_since_cycle.fetch_add(bytes, Relaxed);
}

/// Counts bytes as freed by the program since the last cycle that it did not free.
pub fn note_freed(bytes: usize) {
    let _critical = runtime::mutator().critical();
    let _inner = HEAP.inner();
    HEAP.state.note_freed(bytes, false);
}

/// What a part of the heap is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A block of objects.
    Objects,
    /// Free memory.
    Free,
    /// Free, and the system has its memory.
    GivenBack,
}

/// Calls `f` with each block of objects and each row of free memory of the heap, by rising
/// addresses and without gaps. `f` must not allocate, lock or use the heap.
pub fn for_each_part(mut f: impl FnMut(Range<usize>, Use)) {
    let _critical = current::get().map(|mutator| mutator.critical());
    let inner = HEAP.inner();
    let end = HEAP.committed() / FRAME_BYTES;
    let use_of = |index: usize| {
        let frame = Frame(index as u32);
        match (inner.frames.is_free(frame), inner.frames.is_dirty(frame)) {
            (true, true) => Use::Free,
            (true, false) => Use::GivenBack,
            (false, _) => Use::Objects,
        }
    };
    let mut from = 0;
    while from < end {
        let what = use_of(from);
        let header = HEAP.header(Frame(from as u32));
        let to = match (what, header.state()) {
            (Use::Objects, State::Small | State::Large) => from + header.span().max(1) as usize,
            // Taken, and about to become a block.
            (Use::Objects, State::Free) => from + 1,
            _ => (from..end).find(|next| use_of(*next) != what).unwrap_or(end),
        };
        let base = HEAP.base().0;
        f(base + from * FRAME_BYTES..base + to.min(end) * FRAME_BYTES, what);
        from = to;
    }
}

/// The block of objects that an address lies in: how many of its objects there are, and how many of
/// them are marked; None outside. Marks that are being set meanwhile may be missed.
pub fn objects_and_marks_of_block(address: usize) -> Option<(usize, usize)> {
    let mut found = None;
    for_each_part(|part, what| {
        if what == Use::Objects && part.contains(&address) {
            found = Some(part);
        }
    });
    let part = found?;
    let first = Frame(((part.start - HEAP.base().0) / FRAME_BYTES) as u32);
    let (mut objects, mut marked) = (0, 0);
    HEAP.for_each_object(first, HEAP.header(first), |index, _| {
        objects += 1;
        marked += HEAP.bits(first).is_marked(index) as usize;
    });
    Some((objects, marked))
}

/// Bytes of the smallest block of objects, which others are multiples of.
pub const BLOCK_BYTES: usize = FRAME_BYTES;

/// Whether a pointer one past the end of an object keeps it from now on, for a byte that it has
/// more; before the start of the library the option `past_end` says so.
pub fn keep_past_end(keeps: bool) {
    runtime::initialize();
    HEAP.state.past_end.store(keeps as usize, Relaxed);
}

/// Whether a pointer one past the end of an object keeps it, for a byte that it has more.
pub fn keeps_past_end() -> bool {
    runtime::initialize();
    HEAP.state.past_end.load(Relaxed) & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{futex, thread};
    use core::sync::atomic::{AtomicBool, AtomicUsize};

    static TURNS: AtomicUsize = AtomicUsize::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_suspended_thread_stands_until_it_is_resumed_and_stops_go_on_meanwhile() {
        runtime::initialize();
        let (send, receive) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            runtime::mutator();
            assert!(announce(true) && !announce(true) && is_announced());
            send.send(thread::control_block()).unwrap();
            while !OVER.load(Relaxed) {
                let _critical = runtime::mutator().critical();
                TURNS.fetch_add(1, Relaxed);
            }
        });
        let number = receive.recv().unwrap();
        for _ in 0..50 {
            assert!(!is_thread_suspended(number));
            suspend_thread(number);
            suspend_thread(number);
            assert!(is_thread_suspended(number));
            let turns = TURNS.load(Relaxed);
            crate::api::with_stopped_world(|| {});
            futex::sleep(200_000);
            assert_eq!(TURNS.load(Relaxed), turns);
            resume_thread(number);
            while TURNS.load(Relaxed) == turns {
                std::thread::yield_now();
            }
        }
        OVER.store(true, Relaxed);
        other.join().unwrap();
        suspend_thread(number);
        assert!(!is_thread_suspended(number), "it has ended");
        suspend_thread(thread::control_block());
        assert!(!is_thread_suspended(thread::control_block()), "it was not announced");
    }
}
