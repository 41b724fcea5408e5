//! The program's handlers of signals, each behind a stub of ours: a handler runs as an ordinary
//! mutator, also where its signal came in a blocked region.
//!
//! Invariant `[world.rule.handlers]`: what the front ends' functions about signals install is a
//! stub, which always leads to the same handler. So an action is exchanged in one step, by the
//! kernel, and no lock is needed: not in a handler, not in the child of a `vfork`, which shares our
//! memory and not our actions. Stubs are given out once and never taken back; a program that has
//! more handlers than there are stubs has no waits that are blocked regions from then on. Called by
//! program threads, also in their handlers.
//!
//! # Safety
//! Stubs in assembly, and a table of what each leads to: the address of a function that the program
//! named as a handler, called as the kernel called the stub.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::sync::function::function_at;
use crate::sys::signal::{self, Handler};
use crate::world::{blocked, current};

/// Handlers at most; programs have few. As many as the assembly below makes stubs.
const MOST: usize = 256;
/// Bytes of a stub.
const STUB_BYTES: usize = 16;

static HANDLERS: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

// The fourth argument is the stub's number; the kernel passes three.
core::arch::global_asm!(
    ".pushsection .text.neap_handler_stubs,\"ax\",@progbits",
    ".globl neap_handler_stubs",
    ".hidden neap_handler_stubs",
    ".type neap_handler_stubs, @function",
    ".balign 16",
    "neap_handler_stubs:",
    ".cfi_startproc",
    ".set neap_handler_stub_number, 0",
    ".rept 256",
    ".balign 16",
    "mov ecx, neap_handler_stub_number",
    "jmp {call}",
    ".set neap_handler_stub_number, neap_handler_stub_number + 1",
    ".endr",
    ".balign 16",
    ".cfi_endproc",
    ".size neap_handler_stubs, . - neap_handler_stubs",
    ".popsection",
    call = sym call,
);

unsafe extern "C" {
    static neap_handler_stubs: u8;
}

fn stubs() -> usize {
    &raw const neap_handler_stubs as usize
}

/// The handler of a stub, called on the thread that the signal came to.
extern "C" fn call(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void, stub: usize) {
    // SAFETY: the program named this function as a handler. One that takes less leaves the rest.
    let handler = unsafe { function_at::<Handler>(HANDLERS[stub].load(Acquire)) };
    match current::get() {
        Some(mutator) => {
            let before = mutator.interrupted_position.load(Relaxed);
            // SAFETY: who calls the stub has it from the kernel, or calls it as the kernel does.
            let stack = unsafe { signal::alternate_stack_below(context) };
            let mut is_inner = false;
            if let Some(stack) = &stack {
                // SAFETY: as above, and the kernel's context is there.
                let interrupted = unsafe { signal::interrupted_position(context) };
                // Another handler was interrupted, on a stack of its own or on this one.
                is_inner = mutator.handler_stack().contains(&interrupted);
                if !stack.contains(&interrupted) {
                    // Before the thread runs for others, and until the next handler: it stands on
                    // this stack up to the return to the kernel.
                    mutator.interrupted_position.store(interrupted, Relaxed);
                }
            }
            blocked::outside(mutator, || {
                if let Some(stack) = &stack {
                    mutator.note_handler_stack(stack);
                }
                handler(number, info, context);
                // The handler may have detached its thread.
                if is_inner && current::get().is_some_and(|now| core::ptr::eq(now, mutator)) {
                    mutator.interrupted_position.store(before, Relaxed);
                }
            })
        }
        None => handler(number, info, context),
    }
}

/// What to install for what the program wants installed: a stub for a handler; the same for what is
/// no handler (`SIG_DFL`, `SIG_IGN`, `SIG_HOLD`, `SIG_ERR`), for a stub, and where there is no stub
/// left.
pub fn installed_for(wanted: usize) -> usize {
    const SIG_HOLD: usize = 2;
    if wanted <= SIG_HOLD || wanted == libc::SIG_ERR || number_of(wanted).is_some() {
        return wanted;
    }
    for (number, handler) in HANDLERS.iter().enumerate() {
        let known = match handler.compare_exchange(0, wanted, AcqRel, Acquire) {
            Ok(_) => wanted,
            Err(known) => known,
        };
        if known == wanted {
            return stubs() + number * STUB_BYTES;
        }
    }
    blocked::begin_no_waits();
    wanted
}

/// What the program wanted installed, where this is.
pub fn wanted_for(installed: usize) -> usize {
    number_of(installed).map_or(installed, |number| HANDLERS[number].load(Acquire))
}

/// The number of the stub at an address, if one is there.
fn number_of(address: usize) -> Option<usize> {
    let number = address.checked_sub(stubs())? / STUB_BYTES;
    (number < MOST && address == stubs() + number * STUB_BYTES).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_has_one_stub_and_what_is_none_has_none() {
        let [first, second] = [0x1000, 0x2000].map(installed_for);
        assert!(first != 0x1000 && first != second);
        assert_eq!((installed_for(0x1000), installed_for(second)), (first, second));
        assert_eq!((wanted_for(first), wanted_for(second)), (0x1000, 0x2000));
        for value in [libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR] {
            assert_eq!((installed_for(value), wanted_for(value)), (value, value));
        }
        assert_eq!(wanted_for(first + 1), first + 1);
    }

    #[test]
    fn more_handlers_than_stubs_are_noticed() {
        assert!(blocked::waits_are_regions());
        let installed: Vec<_> = (0..MOST).map(|one| installed_for(0x1000 + one)).collect();
        assert!(blocked::waits_are_regions());
        assert!(installed.iter().all(|one| number_of(*one).is_some()));
        assert_eq!(installed_for(0x9000), 0x9000);
        assert!(!blocked::waits_are_regions());
    }

    #[test]
    fn stubs_hand_the_kernels_arguments_on() {
        static SEEN: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
            SEEN.store(number as usize + info as usize + context as usize, Relaxed);
        }
        installed_for(0x1000);
        let stub = installed_for(handler as *const () as usize);
        // SAFETY: a stub is a function of this type.
        let stub = unsafe { function_at::<Handler>(stub) };
        stub(5, 0x100 as *mut _, 0x2000 as *mut _);
        assert_eq!(SEEN.load(Relaxed), 0x2105);
    }
}
