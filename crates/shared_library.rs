//! How both shared libraries are linked. Shared by their build scripts.

use std::env;

/// Called by a build script, with the name that programs are linked with.
pub fn link(soname: &str) {
    argument(&format!("-Wl,-soname,{soname}"));
    // Its threads and signal handlers outlive a `dlclose`.
    argument("-Wl,-z,nodelete");
    // Which the standard library would ask for.
    argument("-lc");
    order_functions();
    find_unwinder_when_needed();
}

fn argument(argument: &str) {
    println!("cargo::rustc-cdylib-link-arg={argument}");
}

/// Puts the functions that programs call side by side, so that a process has few pages of the
/// library's code in memory: `tools/text-order/order.py` makes the list.
fn order_functions() {
    // lld, which Rust brings, and GNU ld know what INSERT means; others do not. Where another is
    // chosen in a way that does not show here, TEXT_ORDER=0 leaves the order out.
    println!("cargo::rerun-if-env-changed=TEXT_ORDER");
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").expect("cargo sets it");
    let is_other = |name: &&str| flags.contains(&format!("fuse-ld={name}"));
    let is_refused = env::var("TEXT_ORDER").is_ok_and(|value| value == "0");
    if is_refused || ["gold", "mold", "wild"].iter().any(is_other) {
        return;
    }
    println!("cargo::rerun-if-changed=text-order.ld");
    let folder = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    argument(&format!("-T{folder}/text-order.ld"));
}

/// Has `unwinder.c` linked into the library.
fn find_unwinder_when_needed() {
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
