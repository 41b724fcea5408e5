//! Blocked regions: the thread waits for something else and touches no heap, so a stop neither
//! signals it nor waits for it.
//!
//! Invariant `[world.inv.blocked]`: a mutator leaves its region only while no stop that is about it
//! is under way. It says *running* and then reads the epoch; who stops the world makes the epoch
//! odd and then reads what the mutator says. All four are sequentially consistent, so one of the
//! two sees the other: either the mutator goes back to waiting, or it is asked by signal like any
//! running thread. A [suspended](super::suspension) one leaves only when it is resumed, by the same
//! argument.
//!
//! A region ends also where it is not returned from: its frame is unwound (the thread is cancelled,
//! ends in a handler, throws), or a handler of the program's jumps out of it, which has left the
//! region before it began ([`outside`]). `errno` stays as it was. Called by mutators, also in their
//! signal handlers.
//!
//! # Safety
//!
//! A frame in assembly, and the function that unwinders call for it. What it runs lives in the
//! frame of its caller.

#![allow(unsafe_code)]

#[cfg(not(miri))]
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::*};

use super::mutator::{Activity, Mutator};
use super::{current, host, stop};
use crate::sys::futex;
use crate::sys::thread::{self, CalleeSaved};

/// Runs `f` in a blocked region of the calling thread.
pub fn blocked<R>(mutator: &Mutator, f: impl FnOnce() -> R) -> R {
    thread::with_registers_spilled(|position| blocked_at(mutator, position, f))
}

/// The same for a mutator whose registers are spilled above `position`: what its stack holds below
/// is no root.
pub fn blocked_at<R>(mutator: &Mutator, position: usize, f: impl FnOnce() -> R) -> R {
    if mutator.activity() == Activity::Blocked {
        return f();
    }
    mutator.position.store(position, Relaxed);
    mutator.set_activity(Activity::Blocked);
    let result = frame::run(f);
    leave(mutator);
    result
}

/// Waits begin no regions any more.
static NO_WAITS: AtomicBool = AtomicBool::new(false);

/// From now on no [`waiting`] begins a region: a handler of the program's may run that does not
/// leave it.
pub fn begin_no_waits() {
    NO_WAITS.store(true, SeqCst);
}

/// Whether none has said so.
#[inline]
pub fn waits_are_regions() -> bool {
    !NO_WAITS.load(Relaxed)
}

/// Runs `f`, which waits and touches nothing of the heap, in a blocked region
/// (`[world.rule.waiting]`) where the calling thread may be in one: it has a mutator, is in the
/// program's code, and is not who stops the world. What a stop must find although `f` alone has it,
/// in registers or below the region's position, stands in `kept`. Under a host's world no region is
/// begun: the host stops its threads wherever they are.
#[inline]
pub fn waiting<R, const N: usize>(kept: [usize; N], f: impl FnOnce() -> R) -> R {
    match current::get() {
        Some(mutator)
            if mutator.is_at_ease()
                && !mutator.has_child_on_it.load(Relaxed)
                && host::get().is_none()
                && waits_are_regions()
                && !stop::is_driven_by(mutator) =>
        {
            let kept = core::hint::black_box(&kept);
            let result = blocked(mutator, f);
            core::hint::black_box(kept);
            result
        }
        _ => f(),
    }
}

/// Runs `f`, a handler of the program's for a signal, as an ordinary mutator, wherever the signal
/// came: it may touch the heap. What it interrupted goes on in the region that it was in.
pub fn outside(mutator: &'static Mutator, f: impl FnOnce()) {
    // A host's handler must run at once, so that its stop is answered.
    let may_wait = host::get().is_none();
    let was_blocked = may_wait && mutator.activity() == Activity::Blocked;
    let position = mutator.position.load(Relaxed);
    let registers = kept_registers(mutator);
    if was_blocked {
        leave(mutator);
    } else if may_wait {
        stop::wait_if_standing(mutator);
    }
    f();
    // The handler may have detached its thread.
    if current::get().is_some_and(|now| core::ptr::eq(now, mutator)) {
        // It was interrupted in a region, or on the way into one.
        keep_registers(mutator, &registers);
        mutator.position.store(position, Relaxed);
        if was_blocked {
            mutator.set_activity(Activity::Blocked);
        }
    }
}

/// Inside a blocked region, runs `f` as an ordinary mutator; the part of the stack that the region
/// protected stays protected.
pub fn unblocked<R>(mutator: &Mutator, f: impl FnOnce() -> R) -> R {
    if mutator.activity() == Activity::Running {
        return f();
    }
    let position = mutator.position.load(Relaxed);
    let registers = kept_registers(mutator);
    leave(mutator);
    let result = f();
    keep_registers(mutator, &registers);
    mutator.position.store(position, Relaxed);
    mutator.set_activity(Activity::Blocked);
    result
}

/// Begins a region that [`end`] ends, for callers that cannot wrap it. What is live lies above
/// `position` or in `registers`, which nothing else keeps while the caller goes on. Inside another
/// region it changes nothing.
pub fn begin(mutator: &Mutator, position: usize, registers: &CalleeSaved) {
    if mutator.activity() == Activity::Blocked {
        return;
    }
    keep_registers(mutator, registers);
    mutator.position.store(position, Relaxed);
    mutator.set_activity(Activity::Blocked);
}

/// Ends the region that the calling thread is in; outside it changes nothing.
pub fn end(mutator: &Mutator) {
    if mutator.activity() == Activity::Blocked {
        leave(mutator);
        keep_registers(mutator, &CalleeSaved::default());
    }
}

/// What [`begin`] was given for the region that the calling thread is in. Another one that begins
/// and ends inside it, where it is left for a while, has its own there.
fn kept_registers(mutator: &Mutator) -> CalleeSaved {
    core::array::from_fn(|index| mutator.blocked_registers[index].load(Relaxed))
}

fn keep_registers(mutator: &Mutator, registers: &CalleeSaved) {
    for (kept, register) in mutator.blocked_registers.iter().zip(registers) {
        kept.store(*register, Relaxed);
    }
}

fn leave(mutator: &Mutator) {
    loop {
        mutator.set_activity(Activity::Running);
        if mutator.is_suspended() {
            mutator.set_activity(Activity::Blocked);
            futex::wait(&mutator.suspended, 1, None);
            continue;
        }
        let Some(epoch) =
            stop::under_way_for(mutator).filter(|epoch| mutator.obeyed.load(Relaxed) != *epoch)
        else {
            return;
        };
        mutator.set_activity(Activity::Blocked);
        stop::wait_for_resume(epoch);
    }
}

/// The frame that the inside of a region runs in: unwinders call `unwound` when they come by it.
#[cfg(not(miri))]
mod frame {
    use core::ffi::c_void;

    use super::*;

    core::arch::global_asm!(
        ".pushsection .text.neap_run_blocked,\"ax\",@progbits",
        ".globl neap_run_blocked",
        ".hidden neap_run_blocked",
        ".type neap_run_blocked, @function",
        "neap_run_blocked:",
        ".cfi_startproc",
        // DW_EH_PE_pcrel and DW_EH_PE_sdata4.
        ".cfi_personality 0x1b, {unwound}",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        ".size neap_run_blocked, . - neap_run_blocked",
        ".popsection",
        unwound = sym unwound,
    );

    unsafe extern "C" {
        fn neap_run_blocked(function: extern "C" fn(*mut c_void), argument: *mut c_void);
    }

    /// What is run, and what it gives.
    struct Run<F, R> {
        f: Option<F>,
        result: Option<R>,
    }

    extern "C" fn run_it<F: FnOnce() -> R, R>(run: *mut c_void) {
        // SAFETY: `run` hands its own over, and waits.
        let run = unsafe { &mut *run.cast::<Run<F, R>>() };
        run.result = run.f.take().map(|f| f());
    }

    pub fn run<F: FnOnce() -> R, R>(f: F) -> R {
        let mut run = Run { f: Some(f), result: None };
        // SAFETY: it calls the function with the argument.
        unsafe { neap_run_blocked(run_it::<F, R>, (&raw mut run).cast()) };
        match run.result {
            Some(result) => result,
            None => unreachable!("what returns has run"),
        }
    }

    const CLEANUP_PHASE: c_int = 2;
    const CONTINUE_UNWIND: c_int = 8;

    /// A personality routine (Itanium C++ ABI): the region is left before anything of the program's
    /// runs, its cleanup handlers and destructors.
    extern "C" fn unwound(
        _version: c_int,
        actions: c_int,
        _class: u64,
        _exception: *mut c_void,
        _context: *mut c_void,
    ) -> c_int {
        if actions & CLEANUP_PHASE != 0
            && let Some(mutator) = current::get()
            && mutator.activity() == Activity::Blocked
        {
            leave(mutator);
        }
        CONTINUE_UNWIND
    }
}

/// miri unwinds nothing.
#[cfg(miri)]
mod frame {
    pub fn run<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}
