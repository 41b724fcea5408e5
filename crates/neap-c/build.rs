//! Has the shared library linked.

#[path = "../shared_library.rs"]
mod shared_library;

fn main() {
    shared_library::link("libneap.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
