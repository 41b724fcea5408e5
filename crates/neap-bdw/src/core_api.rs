//! What this crate uses of the core: the one place that names it. And the one rule on sizes that the ABI adds.
//!
//! Invariant: an object of more than 8 bytes is aligned to 16, as in Boehm's collector, whatever its size. The core aligns to 16 what has a size
//! that is a multiple of 16; but programs allocate the beginning of a type with a stricter alignment than that part needs (ECL
//! does), and their compilers rely on it. Called from everywhere in this crate; the thread rules are those of `neap_core::api`.

pub use neap_core::api::*;

/// The size to ask for. Huge sizes stay huge, and are refused by the core.
#[inline(always)]
const fn aligned(bytes: usize) -> usize {
    if bytes <= 8 { bytes } else { bytes.saturating_add(15) & !15 }
}

/// As the core's.
#[inline(always)]
pub fn allocate(bytes: usize, kind: Kind) -> *mut u8 {
    neap_core::api::allocate(aligned(bytes), kind)
}

/// As the core's.
#[inline(always)]
pub fn allocate_typed(bytes: usize, layout: LayoutId) -> *mut u8 {
    neap_core::api::allocate_typed(aligned(bytes), layout)
}

/// As the core's.
///
/// # Safety
/// As the core's.
pub unsafe fn reallocate(object: *mut u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { neap_core::api::reallocate(object, aligned(bytes)) }
}

/// Bytes of the cell that a request of `bytes` gets.
pub fn cell_bytes(bytes: usize) -> usize {
    neap_core::api::cell_bytes(aligned(bytes))
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn sizes_are_rounded_to_what_keeps_alignment() {
        for (asked, given) in [(0, 0), (1, 1), (8, 8), (9, 16), (16, 16), (17, 32), (72, 80)] {
            assert_eq!(aligned(asked), given);
        }
        assert!(aligned(usize::MAX) > 1 << 62);
    }
}
