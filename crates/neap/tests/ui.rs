//! What must not compile, with what the compiler says of it.

/// Each file of `ui/` is a program that is unsound, or leaks, and is refused.
#[test]
fn what_must_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/allowed*.rs");
    cases.compile_fail("tests/ui/refused_*.rs");
}
