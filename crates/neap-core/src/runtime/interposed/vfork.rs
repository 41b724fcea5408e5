//! vfork(2): until it returns in the parent, the code that runs on the thread's stack and with its
//! thread-local data is the child's.
//!
//! Invariant: the child begins no blocked region: it may be killed in its wait, and the thread that
//! goes on would count as blocked for ever. Called from any thread, and with what it made, from its
//! child.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::errno;
use crate::world::current;

/// The system call.
pub const NUMBER: c_int = libc::SYS_vfork as c_int;

/// The calling thread is about to make a child; whether it is one itself.
pub extern "C" fn begins() -> bool {
    current::get().is_some_and(|mutator| mutator.has_child_on_it.swap(true, Relaxed))
}

/// The child is gone, or was not made; gives what vfork gives, of what the kernel said. With what
/// [`begins`] gave: children of the child may have been under way when it ended.
pub extern "C" fn is_over(result: isize, is_child: bool) -> c_int {
    if let Some(mutator) = current::get() {
        mutator.has_child_on_it.store(is_child, Relaxed);
    }
    if result < 0 {
        errno::set_error(-result as c_int);
        return -1;
    }
    result as c_int
}

/// Defines libc's `vfork`. In a library that programs load before libc, once.
#[macro_export]
macro_rules! vfork_function {
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
    };
}
