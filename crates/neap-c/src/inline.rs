//! What the inline allocation of `neap_inline.h` needs to know: where a thread finds its buffers.
//!
//! Invariant: [`neap_inline_1`] is the offset, relative to the thread pointer, of a word that is 0
//! or the address of the thread's buffers as the header describes them. It is the offset of a word
//! that is always 0 until the collector has started, and for ever if objects get a byte that they
//! did not ask for: then every allocation is a call. So a program whose header and library disagree
//! about buffers would have to ask for another symbol: change its number with them, and leave this
//! one pointing at the zero word. Written by the first allocation; read by every thread of the
//! program.

use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use neap_core::api;

/// The word's offset. A program not built as position-independent code has its own copy of it,
/// which is the one that counts.
#[unsafe(no_mangle)]
pub static neap_inline_1: AtomicIsize = AtomicIsize::new(0);

static SETTLED: AtomicBool = AtomicBool::new(false);

core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".globl neap_zero_word",
    ".hidden neap_zero_word",
    ".type neap_zero_word, @object",
    ".size neap_zero_word, 8",
    ".balign 8",
    "neap_zero_word:",
    ".zero 8",
    ".popsection",
);

fn zero_word_offset() -> isize {
    let offset: isize;
    // SAFETY: loads the word's offset, which the dynamic linker put into the global offset table.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr [rip + neap_zero_word@GOTTPOFF]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    offset
}

/// Stores through the global offset table, so that the program's copy is what is written.
fn publish(offset: isize) {
    // SAFETY: the table's entry is the address of an aligned word, written atomically.
    unsafe {
        core::arch::asm!(
            "mov {place}, qword ptr [rip + neap_inline_1@GOTPCREL]",
            "mov qword ptr [{place}], {offset}",
            place = out(reg) _,
            offset = in(reg) offset,
            options(nostack, preserves_flags)
        );
    }
}

/// At load: no thread has buffers.
pub fn on_load() {
    publish(zero_word_offset());
}

/// Lets inline allocation begin, if it may. The collector has started.
#[inline(always)]
pub fn settle() {
    if !SETTLED.load(Relaxed) {
        settle_once();
    }
}

#[cold]
fn settle_once() {
    if !api::is_initialized() {
        return;
    }
    // With the option `past_end` a request takes a byte more than it says.
    if api::usable_bytes(8) == 8 {
        publish(api::thread_word_offset());
    }
    SETTLED.store(true, Relaxed);
}
