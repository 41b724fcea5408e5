//! What the inline allocation of `neap_inline.h` needs to know: where a thread finds its buffers.
//!
//! Invariant: [`neap_inline_1`] and [`neap_inline_2`] are offsets, relative to the thread pointer,
//! of a word that is 0 or the address of the thread's buffers as the header describes them. Each is
//! the offset of a word that is always 0 until the collector has started, and for ever the one of
//! the two that is for the other setting of `past_end`: then every allocation is a call. So a
//! program whose header and library disagree about buffers would have to ask for another symbol:
//! take a new number with them, and leave these pointing at the zero word. Written by the first
//! allocation; read by every thread of the program.

use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use neap_core::api;

/// The word's offset, for objects that get what is asked for. A program not built as
/// position-independent code has its own copy of it, which is the one that counts.
#[unsafe(no_mangle)]
pub static neap_inline_1: AtomicIsize = AtomicIsize::new(0);

/// The same, for objects that get a byte more: the option `past_end`.
#[unsafe(no_mangle)]
pub static neap_inline_2: AtomicIsize = AtomicIsize::new(0);

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

/// Stores an offset through the global offset table, so that the program's copy is what is written.
macro_rules! publish {
    ($place:literal, $offset:expr) => {
        // SAFETY: the table's entry is the address of an aligned word, written atomically.
        unsafe {
            core::arch::asm!(
                concat!("mov {place}, qword ptr [rip + ", $place, "@GOTPCREL]"),
                "mov qword ptr [{place}], {offset}",
                place = out(reg) _,
                offset = in(reg) $offset,
                options(nostack, preserves_flags)
            );
        }
    };
}

/// At load: no thread has buffers.
pub fn on_load() {
    publish!("neap_inline_1", zero_word_offset());
    publish!("neap_inline_2", zero_word_offset());
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
    let offset = api::thread_word_offset();
    if api::embedding::keeps_past_end() {
        publish!("neap_inline_2", offset);
    } else {
        publish!("neap_inline_1", offset);
    }
    SETTLED.store(true, Relaxed);
}
