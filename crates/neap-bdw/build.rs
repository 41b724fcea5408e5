//! Has the library linked, and compiles the variadic printing functions, which Rust cannot define.

#[path = "../shared_library.rs"]
mod shared_library;

fn main() {
    shared_library::link("libgc.so.1");
    println!("cargo::rerun-if-changed=src/printing.c");
    cc::Build::new().file("src/printing.c").warnings(true).compile("neap_bdw_printing");
}
