//! An installation of Neap made for one test, with a libgc.so.1 that only says whose it is, and
//! another libgc beside it.
//!
//! Invariant: each test has its own folder; the built `neap` is copied into it, since it finds the
//! library from where it is itself. Shared by the tests of `neap run`, and of what looks at
//! processes.

#![allow(dead_code, reason = "no test uses all of it")]

use neap_record::live::{BUCKETS, PAGE_MAGIC, PAGE_NAME, PAGE_WORDS, head};
use neap_record::{Cycle, Live};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use tempfile::TempDir;

/// Says whose the library is, and whose `pthread_create` is in effect.
pub const CLIENT: &str = r#"
#include <stdio.h>
#include <stdlib.h>
const char *whose(void);
int main(int count, char **words) {
    const char *growth = getenv("NEAP_GROWTH");
    printf("%s %s %s %d\n", whose(), words[0], growth ? growth : "-", count);
    return count > 1 ? atoi(words[1]) : 0;
}
"#;

pub struct Place(pub TempDir);

impl Place {
    /// `neap/` is an installation of Neap, `system/` has the other libgc.
    pub fn new() -> Place {
        let place = Place(TempDir::new().unwrap());
        for folder in ["neap/bin", "neap/lib/neap", "system"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        std::fs::copy(env!("CARGO_BIN_EXE_neap"), place.path("neap/bin/neap")).unwrap();
        let shared = ["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"];
        let neap =
            "int pthread_create(void) { return 0; } const char *whose(void) { return \"neap\"; }";
        place.cc(neap, "neap/lib/neap/libgc.so.1", &shared);
        let system = "const char *whose(void) { return \"system\"; }";
        place.cc(system, "system/libgc.so.1", &shared);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn cc(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let input = self.path("input.c");
        std::fs::write(&input, source).unwrap();
        let mut command = Command::new("cc");
        command.current_dir(self.0.path()).args(["-fno-builtin", "-Wl,--no-as-needed", "input.c"]);
        assert!(
            command.args(["-o", name]).args(flags).status().expect("cc is installed").success()
        );
        self.path(name)
    }

    pub fn client(&self) -> PathBuf {
        self.cc(CLIENT, "client", &["-Lsystem", "-l:libgc.so.1", "-Wl,-rpath,$ORIGIN/system"])
    }

    pub fn script(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    pub fn neap(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.path("neap/bin/neap"));
        command.args(words).env_remove("LD_LIBRARY_PATH").env_remove("LD_PRELOAD");
        command.env_remove("NEAP_GROWTH").current_dir(self.0.path()).output().unwrap()
    }

    /// Runs; standard output without its line end, given that all went well.
    pub fn says(&self, words: &[&str]) -> String {
        let output = self.neap(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).trim_end().to_owned()
    }

    /// Runs; exit status and standard error.
    pub fn fails(&self, words: &[&str]) -> (i32, String) {
        let output = self.neap(words);
        assert_eq!(text(&output.stdout), "");
        (output.status.code().unwrap(), text(&output.stderr))
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// An empty page, of nobody.
pub fn page() -> OwnedFd {
    let mut words = [0_u64; PAGE_WORDS];
    words[head::MAGIC] = PAGE_MAGIC;
    words[head::LIVE] = Live::COUNT as u64;
    words[head::CYCLE] = Cycle::COUNT as u64;
    words[head::BUCKETS] = BUCKETS as u64;
    let page = memfd_create(PAGE_NAME, MemfdFlags::CLOEXEC).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    File::from(page.try_clone().unwrap()).write_all(&bytes).unwrap();
    page
}

/// Makes a page that of a process.
pub fn show(page: OwnedFd, process: u32) {
    let number = u64::from(process).to_ne_bytes();
    File::from(page).write_all_at(&number, head::PROCESS as u64 * 8).unwrap();
}

/// A process with an empty page.
pub fn process_with_a_page() -> Child {
    let page = page();
    let child = Command::new("sleep").arg("60").stdout(page.try_clone().unwrap()).spawn().unwrap();
    show(page, child.id());
    child
}
