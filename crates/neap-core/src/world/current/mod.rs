//! Which mutator the calling thread is: a thread-local word, in the initial-exec model, so that
//! reading it is two instructions; and a second one, for allocation that nobody has to be told of.
//!
//! Invariant: the word is 0 or the address of a mutator that lives as long as the thread is
//! attached. Rust cannot name the model, hence the assembly. The two words are the library's whole
//! demand on static thread-local space, so the library can also be opened with `dlopen`.
//!
//! # Safety
//!
//! Assembly that reads and writes two thread-local words of this library, at the offset that the
//! dynamic linker worked out. The address in the first is 0 or that of a mutator which lives while
//! its thread is attached.

#![allow(unsafe_code)]

use crate::world::mutator::Mutator;

core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".globl neap_thread_word",
    ".hidden neap_thread_word",
    ".type neap_thread_word, @object",
    ".size neap_thread_word, 8",
    ".balign 8",
    "neap_thread_word:",
    ".zero 8",
    ".globl neap_buffers_word",
    ".hidden neap_buffers_word",
    ".type neap_buffers_word, @object",
    ".size neap_buffers_word, 8",
    "neap_buffers_word:",
    ".zero 8",
    ".popsection",
);

/// Where the word of [`with_buffers`] lies relative to the thread pointer; the same in every
/// thread. What `neap_inline.h` adds to `fs`.
#[inline(always)]
pub fn buffers_offset() -> isize {
    let offset: isize;
    // SAFETY: loads the word's offset, which the dynamic linker put into the global offset table.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr [rip + neap_buffers_word@GOTTPOFF]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    offset
}

#[inline(always)]
fn offset() -> isize {
    let offset: isize;
    // SAFETY: loads the word's offset, which the dynamic linker put into the global offset table.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr [rip + neap_thread_word@GOTTPOFF]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    offset
}

/// The calling thread's mutator, if it is attached.
#[inline(always)]
pub fn get() -> Option<&'static Mutator> {
    let address: *const Mutator;
    // SAFETY: reads this thread's word.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr fs:[{}]", out(reg) address, in(reg) offset(),
            options(readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: 0 or a mutator that lives while its thread is attached.
    unsafe { address.as_ref() }
}

/// The calling thread's mutator, if it may hand out cells of its buffers without telling anybody:
/// not while requests are recorded.
#[inline(always)]
pub fn with_buffers() -> Option<&'static Mutator> {
    let address: *const Mutator;
    // SAFETY: reads this thread's word.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr fs:[{}]", out(reg) address, in(reg) buffers_offset(),
            options(readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: as for `get`.
    unsafe { address.as_ref() }
}

/// Makes `mutator` (0: none) what [`with_buffers`] gives the calling thread: none, or its own.
pub fn set_with_buffers(mutator: usize) {
    // SAFETY: writes this thread's word.
    unsafe {
        core::arch::asm!(
            "mov qword ptr fs:[{}], {}", in(reg) buffers_offset(), in(reg) mutator,
            options(nostack, preserves_flags)
        );
    }
}

/// Makes `mutator` (0: none) the calling thread's.
pub fn set(mutator: usize) {
    // SAFETY: writes this thread's word.
    unsafe {
        core::arch::asm!(
            "mov qword ptr fs:[{}], {}", in(reg) offset(), in(reg) mutator,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_word() {
        std::thread::spawn(|| {
            assert!(get().is_none());
            set(4096);
            assert_eq!(core::ptr::from_ref(get().unwrap()) as usize, 4096);
            std::thread::spawn(|| assert!(get().is_none())).join().unwrap();
            set(0);
        })
        .join()
        .unwrap();
    }
}
