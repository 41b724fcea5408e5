//! Calls a function of the program so that an exception that leaves it ends here, and not in the
//! frames of the library.
//!
//! Invariant: the assembly's frame is the only one between the function and what caught its
//! exception. A forced unwinding, which is how pthread_exit(3) and cancellation leave a thread, is
//! let through. Called on any thread, also with the world stopped: it takes no lock.
//!
//! The frame's personality routine (the Itanium C++ ABI's "Exception Handling", level I) says of
//! every exception that it is handled here, and sends control to the landing pad, which begins and
//! ends the catch in the C++ library where there is one, so that std::uncaught_exceptions() counts
//! right, and deletes the exception otherwise.
//!
//! # Safety
//!
//! Assembly with a personality routine, which the unwinder calls as the Itanium C++ ABI says. The
//! frame owns nothing, so leaving it by an exception leaves nothing undone; a caught exception is
//! ours to delete.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

const SEARCH_PHASE: c_int = 1;
const FORCED: c_int = 8;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE_UNWIND: c_int = 8;
/// DWARF's number of rax.
const FIRST_REGISTER: c_int = 0;

/// What the assembly is handed: it reads the words by their offsets.
#[repr(C)]
struct Call {
    function: usize,
    words: [usize; 4],
    result: usize,
}

unsafe extern "C" {
    fn neap_call_guarded(call: *mut Call) -> c_int;
    static neap_guard_landing: u8;
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_DeleteException(exception: *mut c_void);
}

core::arch::global_asm!(
    ".pushsection .text.neap_call_guarded,\"ax\",@progbits",
    ".globl neap_call_guarded",
    ".hidden neap_call_guarded",
    ".type neap_call_guarded, @function",
    ".weak __cxa_begin_catch",
    ".weak __cxa_end_catch",
    "neap_call_guarded:",
    ".cfi_startproc",
    ".cfi_personality 0x1b, {personality}",
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    "mov rbx, rdi",
    "mov rdi, qword ptr [rbx + 8]",
    "mov rsi, qword ptr [rbx + 16]",
    "mov rdx, qword ptr [rbx + 24]",
    "mov rcx, qword ptr [rbx + 32]",
    "call qword ptr [rbx]",
    "mov qword ptr [rbx + 40], rax",
    "xor eax, eax",
    "2:",
    "pop rbx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_adjust_cfa_offset 8",
    ".globl neap_guard_landing",
    ".hidden neap_guard_landing",
    "neap_guard_landing:",
    "mov rdi, rax",
    "mov rax, qword ptr [rip + __cxa_begin_catch@GOTPCREL]",
    "test rax, rax",
    "jz 3f",
    "call rax",
    "call qword ptr [rip + __cxa_end_catch@GOTPCREL]",
    "mov eax, 1",
    "jmp 2b",
    "3:",
    "call {delete}",
    "mov eax, 1",
    "jmp 2b",
    ".cfi_endproc",
    ".size neap_call_guarded, . - neap_call_guarded",
    ".popsection",
    personality = sym personality,
    delete = sym delete,
);

extern "C" fn delete(exception: *mut c_void) {
    // SAFETY: the unwinder handed the exception to the landing pad, which owns it now.
    unsafe { _Unwind_DeleteException(exception) };
}

/// Called by the unwinder at the guard's frame.
extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & FORCED != 0 {
        return CONTINUE_UNWIND;
    }
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    // SAFETY: in the phase that cleans up, for the frame that said it has the handler.
    unsafe {
        _Unwind_SetGR(context, FIRST_REGISTER, exception as usize);
        _Unwind_SetIP(context, &raw const neap_guard_landing as usize);
    }
    INSTALL_CONTEXT
}

/// Calls `function` with the words; gives what it gave, of which only as much means something as
/// its own result has bits. None if an exception left it, which is dropped then.
///
/// # Safety
/// `function` is a function that can be called with so many words or fewer, in registers.
#[inline]
pub unsafe fn call(function: usize, words: [usize; 4]) -> Option<usize> {
    let mut call = Call { function, words, result: 0 };
    // SAFETY: the caller's promise.
    let thrown = unsafe { neap_call_guarded(&raw mut call) } != 0;
    (!thrown).then_some(call.result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering::*};

    static DELETED: AtomicUsize = AtomicUsize::new(0);

    /// `_Unwind_Exception`.
    #[repr(C, align(16))]
    struct Exception {
        class: u64,
        cleanup: extern "C" fn(c_int, *mut Exception),
        private: [usize; 2],
    }
    extern "C" fn cleanup(_reason: c_int, exception: *mut Exception) {
        // SAFETY: it came from Box::into_raw.
        drop(unsafe { Box::from_raw(exception) });
        DELETED.fetch_add(1, Relaxed);
    }
    unsafe extern "C" {
        fn _Unwind_RaiseException(exception: *mut Exception) -> c_int;
    }
    core::arch::global_asm!(
        ".pushsection .text",
        "neap_test_throw:",
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsi",
        "call {raise}",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        ".popsection",
        raise = sym _Unwind_RaiseException,
    );
    unsafe extern "C" {
        static neap_test_throw: u8;
    }
    extern "C" fn sum(first: &AtomicUsize, second: usize, third: usize, fourth: usize) -> usize {
        first.fetch_add(second, Relaxed);
        third * 10 + fourth
    }

    #[test]
    fn exceptions_end_here_and_calls_return() {
        let count = AtomicUsize::new(2);
        // SAFETY: a function of four words.
        let result =
            unsafe { call(sum as *const () as usize, [&raw const count as usize, 3, 4, 5]) };
        assert_eq!(result, Some(45));
        assert_eq!(count.load(Relaxed), 5);
        for turn in 1..=3 {
            let exception = Box::into_raw(Box::new(Exception {
                class: 0x4e45_4150_5445_5354,
                cleanup,
                private: [0; 2],
            }));
            // SAFETY: a function of two words that raises the second.
            let result =
                unsafe { call(&raw const neap_test_throw as usize, [0, exception as usize, 0, 0]) };
            assert_eq!(result, None);
            assert_eq!(DELETED.load(Relaxed), turn);
        }
    }
}
