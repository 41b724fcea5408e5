//! Compiles `programs/start.c`, by which every program is started, and leaves it in `OUT_DIR`.
//!
//! Linked statically, so that it is smaller than what it starts and needs no library path; where
//! the C library cannot be had so, as any other program. Called by cargo.

use std::path::Path;

const SOURCE: &str = "programs/start.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let folder = std::env::var_os("OUT_DIR").expect("cargo says where");
    let program = Path::new(&folder).join("start");
    let compile = |how: &[&str]| {
        let mut compiler = cc::Build::new().get_compiler().to_command();
        compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra"]).args(how);
        compiler.arg(SOURCE).arg("-o").arg(&program).status().is_ok_and(|status| status.success())
    };
    assert!(compile(&["-static"]) || compile(&[]), "{SOURCE} cannot be compiled");
}
