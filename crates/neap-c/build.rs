//! Gives the shared library the name that programs are linked with, and keeps it loaded: its
//! threads and signal handler outlive a `dlclose`.

#[path = "../unwinder.rs"]
mod unwinder;

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libneap.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
    // Which the standard library would ask for.
    println!("cargo::rustc-cdylib-link-arg=-lc");
    unwinder::find_unwinder_when_needed();
}
