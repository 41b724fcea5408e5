//! What a shared library or archive needs in place of Rust's standard library, a fifth of it: what
//! becomes of a panic. The standard library takes locks and memory there.
//!
//! Invariant: a panic ends the process, so nothing unwinds, and the personality routine that the
//! parts of the standard library name which are left (where they are not optimized together with
//! all else) is never called. Used by front ends with their feature `lean`.

/// Defines both; once in a front end.
#[macro_export]
macro_rules! without_standard_library {
    () => {
        #[panic_handler]
        fn panicked(information: &core::panic::PanicInfo<'_>) -> ! {
            $crate::api::panicked(information)
        }

        // Another one, of the program's, comes first where a program has one.
        core::arch::global_asm!(
            ".weak rust_eh_personality",
            ".hidden rust_eh_personality",
            "rust_eh_personality: ud2"
        );
    };
}
