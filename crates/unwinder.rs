//! Has `unwinder.c` linked into a shared library. Shared by the build scripts of both.

use std::env;

/// Called by a build script.
pub fn find_unwinder_when_needed() {
    println!("cargo::rerun-if-changed=../unwinder.c");
    // By hand, and not into archives: a program that links one has an unwinder.
    let mut build = cc::Build::new();
    build.file("../unwinder.c").warnings(true).cargo_metadata(false);
    build.compile("neap_unwinder");
    println!("cargo::rustc-link-search=native={}", env::var("OUT_DIR").expect("cargo sets it"));
    // Whole, since it comes ahead of the Rust libraries that ask for it: so the linker finds no use
    // for libgcc_s.
    println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=neap_unwinder");
}
