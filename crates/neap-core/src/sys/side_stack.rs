//! Stacks beside the threads' own, for work that needs more of one than a caller on a small stack
//! has: a thread or a fiber may have 16 KiB in all.
//!
//! Assumes x86-64. Invariant `[sys.inv.little-stack]`: on a program's stack the library uses no
//! more than 4 KiB in all; what needs more runs here. On the one that is kept for the collector
//! there is one thread at a time, which holds the collector's lock, or starts the collector; what
//! runs there does not unwind. [`off`] goes back to the stack that was left, below what it had in
//! use, for functions of the program, which may look at where they stand. Where a host stops the
//! threads, only those are used where no stop finds a thread: the collector's, and [`Kept`] ones in
//! critical sections.
//!
//! Each lies between two pages that nobody can touch, so it is a mapping of its own: a thread that
//! is stopped on one is scanned up to the end of the mapping, and must not be scanned on into a
//! neighbour's, which may go away meanwhile.
//!
//! # Safety
//! A stack is memory that nobody else uses while a function stands on it.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use rustix::io::Errno;

use super::process::valgrind;
use super::{map, thread};
use crate::addr::{Address, PAGE_BYTES};

/// Memory is taken as it is used. Much more in a build without optimization, as programs with the
/// crate `neap` have it while they are developed: there the tables are made on the stack.
const BYTES: usize = if cfg!(debug_assertions) { 4 << 20 } else { 256 << 10 };
/// What the ABI lets a function use below the stack pointer.
const RED_ZONE: usize = 128;

/// One past the highest address of the collector's; 0 until it is made.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// Where the stack that was left for it ends; 0 while nobody is on it.
static LEFT_AT: AtomicUsize = AtomicUsize::new(0);
/// Stands there until the stack was left.
const CLAIMED: usize = 1;

/// Makes the collector's: at start-up, since a cycle that a refusal of memory causes wants it too.
/// Without memory for it all runs where the caller stands.
pub fn prepare() {
    if TOP.load(Relaxed) == 0
        && let Ok((memory, _)) = make()
    {
        map::name(memory, BYTES, c"neap: stack");
        TOP.store(memory.0 + BYTES, Relaxed);
    }
}

/// The lowest address of a new stack, and what valgrind knows it by.
fn make() -> Result<(Address, valgrind::Stack), Errno> {
    let guarded = map::reserve(BYTES + 2 * PAGE_BYTES, PAGE_BYTES)?;
    let memory = guarded.add(PAGE_BYTES);
    map::commit(memory, BYTES).inspect_err(|_| release(memory))?;
    Ok((memory, valgrind::Stack::registered(memory.0..memory.0 + BYTES)))
}

fn release(memory: Address) {
    map::release(Address(memory.0 - PAGE_BYTES), BYTES + 2 * PAGE_BYTES);
}

/// Runs `f` on the collector's stack. Under the collector's lock, or before there are cycles.
pub fn on<R>(f: impl FnOnce() -> R) -> R {
    let top = TOP.load(Relaxed);
    if top == 0 || LEFT_AT.compare_exchange(0, CLAIMED, Acquire, Relaxed).is_err() {
        return here(f);
    }
    let result = switched(top, &LEFT_AT, f);
    LEFT_AT.store(0, Release);
    result
}

/// The same at start-up, without the lock: a cycle that another thread begins meanwhile runs where
/// that thread stands.
pub fn on_at_start<R>(f: impl FnOnce() -> R) -> R {
    if STAYS.load(Relaxed) { here(f) } else { on(f) }
}

/// Somebody else looks at where threads stand.
static STAYS: AtomicBool = AtomicBool::new(false);

/// From now on [`on_new`] and [`on_at_start`] stay where the caller stands: who stops the threads
/// takes what lies between them and the end of their own stacks for roots.
pub fn stay() {
    STAYS.store(true, Relaxed);
}

/// Runs `f` on a stack that is made for this once: for what is done seldom, without a lock.
pub fn on_new<R>(f: impl FnOnce() -> R) -> R {
    if STAYS.load(Relaxed) {
        return here(f);
    }
    let Ok((memory, known)) = make() else { return here(f) };
    let result = switched(memory.0 + BYTES, &AtomicUsize::new(0), f);
    known.deregister();
    release(memory);
    result
}

/// A stack for who comes again and again, one at a time: made when it is wanted first, and kept.
pub struct Kept(AtomicUsize);

impl Kept {
    /// Not made yet.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Runs `f` on it; not at all if there is no memory for one. In a critical section, since a
    /// host would take what lies between it and the end of the caller's own for roots.
    pub fn on<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        if self.0.load(Relaxed) == 0 {
            let (memory, _) = make().ok()?;
            map::name(memory, BYTES, c"neap: stack");
            self.0.store(memory.0 + BYTES, Relaxed);
        }
        Some(switched(self.0.load(Relaxed), &AtomicUsize::new(0), f))
    }
}

/// Runs `f` where the caller stands, in a frame of its own: what `f` has room for is not taken from
/// the stack of a caller that runs it elsewhere.
#[inline(never)]
fn here<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Runs `f` on the stack that [`on`] left; where it is, if the caller is not on the collector's
/// stack.
pub fn off<R>(f: impl FnOnce() -> R) -> R {
    let top = TOP.load(Relaxed);
    if top.wrapping_sub(thread::stack_pointer()) > BYTES {
        return f();
    }
    switched((LEFT_AT.load(Relaxed) - RED_ZONE) & !15, &AtomicUsize::new(0), f)
}

/// Calls `f` with the stack pointer at `top`, and puts where it was into `left`.
fn switched<R, F: FnOnce() -> R>(top: usize, left: &AtomicUsize, f: F) -> R {
    struct Call<R, F> {
        function: Option<F>,
        result: Option<R>,
    }
    extern "C" fn call<R, F: FnOnce() -> R>(data: *mut c_void) {
        // SAFETY: the address of the `Call` below, which outlives this call.
        let call = unsafe { &mut *data.cast::<Call<R, F>>() };
        call.result = call.function.take().map(|function| function());
    }
    let mut data = Call { function: Some(f), result: None };
    let function: extern "C" fn(*mut c_void) = call::<R, F>;
    // SAFETY: `top` is the aligned end of memory that nobody uses; the stack pointer is kept in a
    // register that the callee keeps, and put back. A panic in `call` ends the process.
    unsafe {
        core::arch::asm!(
            "mov r12, rsp",
            "mov [{left}], rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            left = in(reg) left.as_ptr(),
            top = in(reg) top,
            function = in(reg) function,
            in("rdi") &raw mut data,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    match data.result {
        Some(result) => result,
        None => super::print::fatal(format_args!("a function on the side stack did not return")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread::stack_pointer;

    #[test]
    fn there_and_back_again() {
        prepare();
        let outside = stack_pointer();
        let (inside, back, sum) = on(|| {
            let inside = stack_pointer();
            let room = core::hint::black_box([1_u8; 100_000]);
            let back = off(stack_pointer);
            (inside, back, room.iter().map(|byte| *byte as usize).sum::<usize>())
        });
        assert!(inside.abs_diff(outside) > BYTES / 2 || inside > outside);
        let top = TOP.load(Relaxed);
        assert!((top - BYTES..top).contains(&inside));
        assert!(back.abs_diff(outside) < 4096, "{back:#x} {outside:#x}");
        assert_eq!(sum, 100_000);
        assert!(off(stack_pointer).abs_diff(outside) < 4096);
    }

    #[test]
    fn one_that_is_kept_is_the_same_again() {
        let (kept, outside) = (Kept::new(), stack_pointer());
        let [first, second] = [(); 2].map(|()| kept.on(stack_pointer).unwrap());
        assert!(first.abs_diff(second) < 4096 && first.abs_diff(outside) > 4096);
        assert!(stack_pointer().abs_diff(outside) < 4096);
    }

    #[cfg(not(miri))]
    #[test]
    fn a_stack_is_a_mapping_of_its_own() {
        use crate::sys::process::mappings::mapping_of;
        // Others of the collector's lie beside it, as its mark stacks do.
        let pages = || [(); 8].map(|()| map::allocate(PAGE_BYTES).unwrap());
        let before = pages();
        prepare();
        let collectors = on(|| mapping_of(stack_pointer())).unwrap();
        let new = on_new(|| {
            let after = pages();
            let own = mapping_of(stack_pointer());
            after.into_iter().for_each(|page| map::release(page, PAGE_BYTES));
            own
        });
        assert_eq!((collectors.len(), new.unwrap().len()), (BYTES, BYTES));
        before.into_iter().for_each(|page| map::release(page, PAGE_BYTES));
    }

    #[test]
    fn who_is_not_on_it_stays_where_it_is() {
        prepare();
        let (elsewhere, here, new) = on(|| {
            let other = std::thread::spawn(|| (off(stack_pointer), stack_pointer()));
            let (elsewhere, here) = other.join().unwrap();
            (elsewhere, here, on_new(stack_pointer))
        });
        assert!(elsewhere.abs_diff(here) < 4096, "{elsewhere:#x} {here:#x}");
        let top = TOP.load(Relaxed);
        assert!(!(top - BYTES..top).contains(&new));
    }
}
