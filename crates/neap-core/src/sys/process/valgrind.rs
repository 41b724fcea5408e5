//! What valgrind is asked, whether it runs the process, and told: which memory is a stack, which
//! values are all right.
//!
//! It takes a step of the stack pointer of less than 2 MiB for growth of the stack, and all that
//! lies between for memory that nobody wrote or that is gone, unless both ends lie on different
//! stacks that it knows.
//!
//! Assumes x86-64. The requests are valgrind's (valgrind.h, "client requests"): instructions that
//! do nothing on a processor. Called from any thread.
//!
//! # Safety
//! Of a processor's registers the requests change only the one that holds the answer.

#![allow(unsafe_code)]

use core::ops::Range;

/// `VG_USERREQ__RUNNING_ON_VALGRIND`, `…__STACK_REGISTER` and `…__STACK_DEREGISTER`.
const IS_HERE: usize = 0x1001;
const REGISTER: usize = 0x1501;
const DEREGISTER: usize = 0x1502;
/// memcheck's `VG_USERREQ__MAKE_MEM_DEFINED`.
const MAKE_DEFINED: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16 | 2;

/// Whether the process runs under valgrind.
pub fn is_here() -> bool {
    request([IS_HERE, 0, 0, 0, 0, 0]) != 0
}

/// The same value, of which memcheck knows now that it does not depend on memory that nobody wrote.
/// To it what is marked because of a word does, and with that what is free afterwards, if the word
/// does; and a conservative marker looks at such words.
pub fn defined(mut value: [usize; 2]) -> [usize; 2] {
    request([MAKE_DEFINED, &raw mut value as usize, size_of_val(&value), 0, 0, 0]);
    value
}

/// A stack that valgrind knows by this number; 0 without valgrind.
pub struct Stack(usize);

impl Stack {
    /// Tells of the stack at these addresses.
    pub fn registered(addresses: Range<usize>) -> Self {
        Self(request([REGISTER, addresses.start, addresses.end, 0, 0, 0]))
    }

    /// It is a stack no more.
    pub fn deregister(self) {
        request([DEREGISTER, self.0, 0, 0, 0, 0]);
    }
}

/// valgrind's answer to a request; 0 without valgrind.
fn request(request: [usize; 6]) -> usize {
    let mut answer = 0;
    if cfg!(miri) {
        return answer;
    }
    // SAFETY: turns a register once around and exchanges one with itself; valgrind reads `request`.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") &raw const request,
            inlateout("rdx") answer,
            out("rdi") _,
            options(nostack),
        );
    }
    answer
}
