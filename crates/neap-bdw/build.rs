//! Gives the library the name programs were linked with, and compiles the variadic printing
//! functions, which Rust cannot define.

#[path = "../unwinder.rs"]
mod unwinder;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgc.so.1");
    // Its threads run on when the plug-in that brought it is unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=src/printing.c");
    // Which the standard library would ask for.
    println!("cargo::rustc-cdylib-link-arg=-lc");
    unwinder::find_unwinder_when_needed();
    cc::Build::new().file("src/printing.c").warnings(true).compile("neap_bdw_printing");
}
