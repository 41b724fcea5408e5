//! That a pointer stays in memory as long as somebody has borrowed what it leads to.
//!
//! Invariant: who gives out a reference into collected memory has named here the place of the
//! pointer that it followed. The reference borrows that place, so the place is there until the
//! reference is used no more. To the compiler somebody else may look at it at any time: it cannot
//! keep only what it read behind the pointer, text of a `String` say, which is freed with the
//! object that owns it, nor leave out a leaked box with the pointer. A place that is in collected
//! memory itself was got at through another, which was named before. Called by any thread.
//!
//! # Safety
//!
//! Runs no instruction.

#![allow(unsafe_code)]

use core::ptr::from_ref;

/// From here on somebody else may look at this place, as long as it is there.
#[inline(always)]
pub fn seen<T>(place: &T) {
    // Without `readonly`, whose addresses the compiler takes for forgotten.
    #[cfg(not(miri))]
    // SAFETY: a comment.
    unsafe {
        core::arch::asm!(
            "/* {} */", in(reg) from_ref(place).cast::<()>(), options(nostack, preserves_flags)
        );
    }
    #[cfg(miri)]
    let _ = from_ref(place);
}
