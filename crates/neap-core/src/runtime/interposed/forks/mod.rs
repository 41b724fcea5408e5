//! Children of which the handlers of `pthread_atfork` are not told: those of vfork(2), and others
//! that have a copy of the heap.
//!
//! Invariant: each function does what libc's does as far as the program can see. Called from any
//! thread.

pub mod untold;
pub mod vfork;

/// Defines libc's `vfork` and `_Fork`. In a library that programs load before libc, once.
#[doc(hidden)]
#[macro_export]
macro_rules! forks {
    () => {
        /// As libc's `vfork`. The child returns first, and uses the stack from there on: nothing
        /// of this call is kept there, and what is needed in registers that the kernel leaves
        /// alone.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn vfork() -> core::ffi::c_int {
            core::arch::naked_asm!(
                "sub rsp, 8",
                "call {begins}",
                "add rsp, 8",
                "movzx esi, al",
                "pop rdi",
                "mov eax, {number}",
                "syscall",
                "push rdi",
                "test rax, rax",
                "jz 2f",
                "sub rsp, 8",
                "mov rdi, rax",
                "call {is_over}",
                "add rsp, 8",
                "2:",
                "ret",
                number = const $crate::api::vfork::NUMBER,
                begins = sym $crate::api::vfork::begins,
                is_over = sym $crate::api::vfork::is_over,
            );
        }

        /// As libc's `_Fork`.
        #[unsafe(no_mangle)]
        pub extern "C" fn _Fork() -> core::ffi::c_int {
            // SAFETY: the caller calls it as libc's.
            unsafe { $crate::api::untold_forks::fork() }
        }
    };
}
