//! What the processor can do beyond what every one of its kind does, and the system lets it do.
//!
//! Asked once, and remembered. Called from any thread, also between stop and resume.

cpufeatures::new!(avx, "avx");
cpufeatures::new!(avx2, "avx2");
cpufeatures::new!(avx512f, "avx512f");

/// Registers of 32 bytes.
pub fn has_avx() -> bool {
    avx::get()
}

/// Instructions for whole numbers in them.
pub fn has_avx2() -> bool {
    avx2::get()
}

/// Registers of 64 bytes, and twice as many.
pub fn has_avx512f() -> bool {
    avx512f::get()
}
