//! Gives the library the name programs were linked with, and compiles the variadic printing
//! functions, which Rust cannot define.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    println!("cargo::rerun-if-changed=src/printing.c");
    cc::Build::new().file("src/printing.c").warnings(true).compile("neap_bdw_printing");
}
