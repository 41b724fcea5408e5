//! Functions of libc, besides `pthread_sigmask` and `sigaction`, by which a thread could block the
//! stop signal, or take it for itself, or under `mprotect` SIGSEGV; for front ends to export in
//! libc's stead.
//!
//! Invariant: none of them leaves the stop signal blocked or waits for it, and each does what
//! libc's does for all other signals. What cannot be stood before is met elsewhere: a thread that
//! begins with the signal blocked lets it through when it is attached. Called by program threads,
//! also in signal handlers.
//!
//! # Safety
//! libc's functions are called by their own types, with what the caller gave or a copy of it.
//! Contexts are those of the caller, and the word of their mask is all that is written.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use libc::{sighandler_t, sigset_t, ucontext_t};

use crate::runtime::interposed::signals::{self, without_open_ones};
use crate::runtime::interposed::{kernel_stacks, program_handlers};
use crate::sys::protection::fault;
use crate::world::blocked;

macro_rules! real {
    ($($name:ident: fn($($type:ty),*) -> $result:ty;)*) => {
        /// libc's own.
        mod real {
            use super::*;
            use crate::sync::function::AtomicFunction;
            use crate::sys::libc_function::libc_function;

            $(pub fn $name() -> unsafe extern "C" fn($($type),*) -> $result {
                type Real = unsafe extern "C" fn($($type),*) -> $result;
                static KNOWN: AtomicFunction<Real> = AtomicFunction::none();
                const NAME: &str = concat!(stringify!($name), "\0");
                // SAFETY: the name ends in its only zero; libc's function of it has this type.
                unsafe {
                    let name = core::ffi::CStr::from_bytes_with_nul_unchecked(NAME.as_bytes());
                    libc_function(name, &KNOWN)
                }
            })*

        }
    };
}

real! {
    sighold: fn(c_int) -> c_int;
    sigset: fn(c_int, sighandler_t) -> sighandler_t;
    sigblock: fn(c_int) -> c_int;
    sigsetmask: fn(c_int) -> c_int;
    sigwait: fn(*const sigset_t, *mut c_int) -> c_int;
    signalfd: fn(c_int, *const sigset_t, c_int) -> c_int;
    setcontext: fn(*const ucontext_t) -> c_int;
    swapcontext: fn(*mut ucontext_t, *const ucontext_t) -> c_int;
    siglongjmp: fn(*mut Jump, c_int) -> c_int;
    __longjmp_chk: fn(*mut Jump, c_int) -> c_int;
}

/// glibc's `jmp_buf`, `sigjmp_buf` and what `longjmp` is given.
#[repr(C)]
pub struct Jump {
    registers: [usize; 8],
    mask_was_saved: c_int,
    mask: sigset_t,
}

/// Called at start-up: finds those that programs of today call, so that the first call may be in a
/// signal's handler. The others a libc to come may not have.
pub fn initialize() {
    real::sigwait();
    real::signalfd();
    real::setcontext();
    real::swapcontext();
    real::siglongjmp();
    real::__longjmp_chk();
}

/// What `sigset` takes and gives for a signal that is blocked.
const SIG_HOLD: sighandler_t = 2;

/// As sighold(3).
pub fn sighold(signal: c_int) -> c_int {
    if signals::stays_open(signal) {
        return 0;
    }
    // SAFETY: any number will do.
    unsafe { real::sighold()(signal) }
}

/// As sigset(3).
///
/// # Safety
/// As sigset(3).
pub unsafe fn sigset(signal: c_int, wanted: sighandler_t) -> sighandler_t {
    if !signals::stays_open(signal) {
        let installed = program_handlers::installed_for(wanted);
        // SAFETY: the caller's promise; a stub is a handler too.
        return program_handlers::wanted_for(unsafe { real::sigset()(signal, installed) });
    }
    // SAFETY: structures of ours; the handler is the program's.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = wanted;
        let new = if wanted == SIG_HOLD { core::ptr::null() } else { &raw const new };
        match signals::sigaction(signal, new, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// The mask of BSD's functions without the signals that no thread may block.
fn open(mask: c_int) -> c_int {
    signals::open_ones().fold(mask, |mask, signal| match u32::try_from(signal - 1) {
        Ok(bit) if bit < c_int::BITS => mask & !(1 << bit),
        _ => mask,
    })
}

/// As sigblock(3).
pub fn sigblock(mask: c_int) -> c_int {
    // SAFETY: any mask will do.
    unsafe { real::sigblock()(open(mask)) }
}

/// As sigsetmask(3).
pub fn sigsetmask(mask: c_int) -> c_int {
    // SAFETY: any mask will do.
    unsafe { real::sigsetmask()(open(mask)) }
}

/// As sigwait(3): the stop signal is nobody's to wait for.
///
/// # Safety
/// As sigwait(3).
pub unsafe fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    blocked::waiting([set as usize, signal as usize], || {
        // SAFETY: the caller's promise.
        unsafe { real::sigwait()(&without_open_ones(&*set), signal) }
    })
}

/// As signalfd(2), likewise.
///
/// # Safety
/// As signalfd(2).
pub unsafe fn signalfd(file: c_int, set: *const sigset_t, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match set.as_ref() {
            Some(set) => real::signalfd()(file, &without_open_ones(set), flags),
            None => real::signalfd()(file, set, flags),
        }
    }
}

/// Lets the stop signal through in a context that is about to be entered, has its stack writable
/// for the kernel, and gives the address of libc's function that enters it: `swapcontext` if
/// `swaps`, else `setcontext`.
///
/// # Safety
/// The context is one that the function may be called with.
pub unsafe extern "C" fn before_context(context: *mut ucontext_t, swaps: bool) -> *const c_void {
    // SAFETY: the caller's promise; a context that is right already may be one to read only.
    unsafe {
        let mask = &raw mut (*context).uc_sigmask;
        fault::let_through_by(&*mask);
        for signal in signals::open_ones() {
            if libc::sigismember(mask, signal) == 1 {
                libc::sigdelset(mask, signal);
            }
        }
        kernel_stacks::keep_stack((*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize);
    }
    if swaps { real::swapcontext() as *const c_void } else { real::setcontext() as *const c_void }
}

/// The same for a jump, for `__longjmp_chk` if `checks`, else for `siglongjmp`, which has other
/// names in libc.
///
/// # Safety
/// The function may be called with it.
pub unsafe extern "C" fn before_jump(jump: *mut Jump, checks: bool) -> *const c_void {
    // SAFETY: the caller's promise; where no mask was saved there may be none in memory.
    unsafe {
        if (*jump).mask_was_saved != 0 {
            fault::let_through_by(&(*jump).mask);
            for signal in signals::open_ones() {
                libc::sigdelset(&raw mut (*jump).mask, signal);
            }
        }
    }
    if checks {
        real::__longjmp_chk() as *const c_void
    } else {
        real::siglongjmp() as *const c_void
    }
}

/// Defines these functions. In a library that programs load before libc, once.
#[macro_export]
macro_rules! masks {
    () => {
        use core::ffi::c_int;
        use libc::{sighandler_t, sigset_t, ucontext_t};
        use $crate::api::masks;

        /// As libc's `sighold`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sighold(signal: c_int) -> c_int {
            masks::sighold(signal)
        }

        /// As libc's `sigset`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sigset(signal: c_int, wanted: sighandler_t) -> sighandler_t {
            // SAFETY: the caller calls it as libc's.
            unsafe { masks::sigset(signal, wanted) }
        }

        /// As libc's `sigblock`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sigblock(mask: c_int) -> c_int {
            masks::sigblock(mask)
        }

        /// As libc's `sigsetmask`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sigsetmask(mask: c_int) -> c_int {
            masks::sigsetmask(mask)
        }

        /// As libc's `sigwait`.
        #[unsafe(no_mangle)]
        pub extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { masks::sigwait(set, signal) }
        }

        /// As libc's `signalfd`.
        #[unsafe(no_mangle)]
        pub extern "C" fn signalfd(file: c_int, set: *const sigset_t, flags: c_int) -> c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { masks::signalfd(file, set, flags) }
        }

        /// As libc's `setcontext`. libc's own has to find the caller's registers: a jump, not a
        /// call.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn setcontext(context: *const ucontext_t) -> c_int {
            core::arch::naked_asm!(
                "push rdi",
                "xor esi, esi",
                "call {before}",
                "pop rdi",
                "jmp rax",
                before = sym masks::before_context,
            );
        }

        /// As libc's `swapcontext`. It saves where its caller goes on: a jump, not a call.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn swapcontext(left: *mut ucontext_t, entered: *const ucontext_t) -> c_int {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                "mov rdi, rsi",
                "mov esi, 1",
                "call {before}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                before = sym masks::before_context,
            );
        }

        $crate::jumps!(siglongjmp 0, longjmp 0, _longjmp 0, __longjmp_chk 1);
    };
}

/// Defines functions that jump to a mask: each name with what [`before_jump`] is to be told. libc's
/// own goes on with the caller's stack: a jump, not a call.
#[macro_export]
macro_rules! jumps {
    ($($name:ident $checks:literal),*) => {$(
        /// As libc's function of this name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name(jump: *mut masks::Jump, value: c_int) -> c_int {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "sub rsp, 8",
                concat!("mov esi, ", $checks),
                "call {before}",
                "add rsp, 8",
                "pop rsi",
                "pop rdi",
                "jmp rax",
                before = sym masks::before_jump,
            );
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::stop_signal;

    #[test]
    fn a_jump_is_as_glibc_has_it() {
        assert_eq!(core::mem::offset_of!(Jump, mask_was_saved), 64);
        assert_eq!(core::mem::offset_of!(Jump, mask), 72);
    }

    #[test]
    fn bsds_masks_leave_the_stop_signal_out() {
        let bit = 1 << (stop_signal::masked() - 1);
        assert_eq!((open(-1), open(bit), open(5)), (!bit, 0, 5));
    }
}
