//! What the experiments need before they can run: programs built, peers installed. Says what is
//! missing and how to get it, or gets it.
//!
//! Whether a peer is there is found by compiling and linking a line against it, not by asking a
//! package manager, so that a peer built by hand counts too. Main thread, before anything is
//! measured.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::experiment::{Experiment, Library};

/// A library that programs are compiled against.
struct Peer {
    library: Library,
    header: &'static str,
    link: &'static str,
    package: &'static str,
}

const PEERS: [Peer; 3] = [
    Peer { library: Library::Libgc, header: "gc.h", link: "-lgc", package: "libgc-dev" },
    Peer {
        library: Library::Mimalloc,
        header: "mimalloc.h",
        link: "-lmimalloc",
        package: "libmimalloc-dev",
    },
    Peer {
        library: Library::Jemalloc,
        header: "jemalloc/jemalloc.h",
        link: "-ljemalloc",
        package: "libjemalloc-dev",
    },
];

/// A runtime with a compiler of its own.
struct Runtime {
    library: Library,
    /// Commands that have to run.
    commands: &'static [&'static str],
    /// Their argument, with which they do nothing but say their version.
    asked: &'static str,
    packages: &'static [&'static str],
    /// What builds its programs.
    target: &'static str,
}

const RUNTIMES: [Runtime; 4] = [
    Runtime {
        library: Library::Mono,
        commands: &["mono", "mcs"],
        asked: "--version",
        packages: &["mono-runtime", "mono-mcs"],
        target: "mono",
    },
    Runtime {
        library: Library::Java,
        commands: &["java", "javac"],
        asked: "--version",
        packages: &["openjdk-17-jdk-headless"],
        target: "java",
    },
    Runtime {
        library: Library::Druntime,
        commands: &["ldc2"],
        asked: "--version",
        packages: &["ldc"],
        target: "druntime",
    },
    Runtime {
        library: Library::Go,
        commands: &["go"],
        asked: "version",
        packages: &["golang-go"],
        target: "go",
    },
];

impl Runtime {
    fn is_there(&self) -> bool {
        self.commands.iter().all(|command| {
            Command::new(command)
                .arg(self.asked)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    }

    /// Builds its programs; why it cannot take part, if it cannot.
    fn prepare(&self, root: &Path, install: bool) -> Result<Option<String>, String> {
        if !self.is_there() && install {
            self.packages.iter().try_for_each(|package| install_package(package))?;
        }
        if !self.is_there() {
            let (name, packages) = (self.library.name(), self.packages.join(" "));
            return Ok(Some(format!(
                "{name} is not installed: packages {packages} (--install installs them)"
            )));
        }
        make(root, self.target).map(|()| None)
    }
}

/// Builds what the experiments need. Answers the libraries that cannot take part, by name, with the
/// reason.
pub fn prepare(
    root: &Path,
    chosen: &[Experiment],
    install: bool,
) -> Result<BTreeMap<&'static str, String>, String> {
    let uses = |library: Library| {
        chosen
            .iter()
            .flat_map(|experiment| &experiment.contestants)
            .any(|contestant| contestant.library == library)
    };
    let has_clients = chosen.iter().any(|experiment| experiment.name == "clients");
    let mut unavailable = BTreeMap::new();
    for peer in &PEERS {
        // libgc's header is what our own drop-in is compiled against too.
        if !(uses(peer.library) || peer.library == Library::Libgc) || is_there(peer)? {
            continue;
        }
        if install {
            install_package(peer.package)?;
        }
        if !install || !is_there(peer)? {
            let name = peer.library.name();
            unavailable.insert(
                name,
                format!(
                    "{name} is not installed: package {} (--install installs it)",
                    peer.package
                ),
            );
        }
    }
    if has_clients && install {
        run_install(&[root.join("tests/clients/install.sh").to_string_lossy().into_owned()])?;
    }
    if let Some(reason) = unavailable.get(Library::Libgc.name()) {
        return Err(format!("the benchmark programs cannot be built: {reason}"));
    }
    make(root, "libgc")?;
    for (library, target) in [
        (Library::Mimalloc, "mimalloc"),
        (Library::Jemalloc, "jemalloc"),
        (Library::Glibc, "glibc"),
    ] {
        if uses(library) && !unavailable.contains_key(library.name()) {
            make(root, target)?;
        }
    }
    for runtime in RUNTIMES.iter().filter(|runtime| uses(runtime.library)) {
        if let Some(reason) = runtime.prepare(root, install)? {
            unavailable.insert(runtime.library.name(), reason);
        }
    }
    if uses(Library::NeapInline) {
        let missing = ["include/neap.h", "lib/libneap.so"]
            .into_iter()
            .find(|file| !root.join("build").join(file).exists());
        match missing {
            Some(file) => {
                unavailable.insert(
                    Library::NeapInline.name(),
                    format!("build/{file} is missing: `make build` makes it"),
                );
            }
            None => make(root, "neap")?,
        }
    }
    Ok(unavailable)
}

/// Builds the suite's programs in D.
pub fn d_programs(root: &Path) -> Result<(), String> {
    if let Some(file) = ["bin/neap", "lib/libneapd.a"]
        .into_iter()
        .find(|file| !root.join("build").join(file).exists())
    {
        return Err(format!(
            "build/{file} is missing: `make build` makes it, the latter where ldc2 is installed \
             (Debian's package is ldc)"
        ));
    }
    make(root, "d")
}

fn is_there(peer: &Peer) -> Result<bool, String> {
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-", "-o", "/dev/null", peer.link])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| {
            format!("cannot start the C compiler `cc` ({error}); Debian's package is gcc")
        })?;
    if let Some(mut input) = compiler.stdin.take() {
        // A compiler that fails before it has read everything breaks the pipe; its exit status
        // tells.
        let _ = writeln!(input, "#include <{}>\nint main(void) {{ return 0; }}", peer.header);
    }
    let status =
        compiler.wait().map_err(|error| format!("cannot wait for the C compiler: {error}"))?;
    Ok(status.success())
}

fn make(root: &Path, target: &str) -> Result<(), String> {
    let output = Command::new("make")
        .args(["--no-print-directory", "-C"])
        .arg(root.join("bench"))
        .arg(target)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `make` ({error}); Debian's package is make"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "building the benchmark programs failed (make -C bench {target}):\n{}",
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Installs a package, after fetching the lists of packages where that is what was missing.
fn install_package(package: &str) -> Result<(), String> {
    let install = apt_command(&["install", "-y", "--no-install-recommends", package], is_root());
    if run_install(&install).is_ok() {
        return Ok(());
    }
    run_install(&apt_command(&["update"], is_root()))?;
    run_install(&install)
}

/// Debian's package tool: through sudo for anybody but root.
fn apt_command(arguments: &[&str], root: bool) -> Vec<String> {
    let words: &[&str] = if root { &["apt-get"] } else { &["sudo", "apt-get"] };
    words.iter().chain(arguments).map(|&word| word.to_owned()).collect()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

fn run_install(words: &[String]) -> Result<(), String> {
    let text = words.join(" ");
    eprintln!("installing: {text}");
    let (program, arguments) = words.split_first().ok_or("nothing to install")?;
    let status = Command::new(program)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot start `{text}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{text}` failed: {status}")) }
}

/// The client cases that are timed: a folder under tests/clients whose `run` says `Timed.` in its
/// opening comment.
pub fn timed_clients(root: &Path) -> Vec<String> {
    let mut cases: Vec<String> = std::fs::read_dir(root.join("tests/clients"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("run")).is_ok_and(|text| is_timed(&text))
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    cases.sort();
    cases
}

fn is_timed(script: &str) -> bool {
    script
        .lines()
        .take_while(|line| line.starts_with('#'))
        .any(|line| line.trim_end().ends_with("Timed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_does_not_exist_is_missed() {
        let peer = Peer {
            library: Library::Libgc,
            header: "stdio.h",
            link: "-lno_such_library_here",
            package: "none",
        };
        assert_eq!(is_there(&peer), Ok(false));
        let peer = Peer {
            library: Library::Libgc,
            header: "no_such_header.h",
            link: "-lc",
            package: "none",
        };
        assert_eq!(is_there(&peer), Ok(false));
        let peer =
            Peer { library: Library::Libgc, header: "stdio.h", link: "-lc", package: "none" };
        assert_eq!(is_there(&peer), Ok(true));
    }

    #[test]
    fn a_runtime_that_does_not_exist_is_missed() {
        let runtime = |commands| Runtime {
            library: Library::Mono,
            commands,
            asked: "--version",
            packages: &["none"],
            target: "none",
        };
        assert!(!runtime(&["no-such-command-here"]).is_there());
        assert!(!runtime(&["sh", "false"]).is_there());
        let reason = runtime(&["false"]).prepare(Path::new("/"), false);
        assert!(reason.is_ok_and(|reason| reason.is_some_and(|reason| reason.contains("none"))));
    }

    #[test]
    fn only_root_goes_without_sudo() {
        assert_eq!(apt_command(&["install", "a"], true).join(" "), "apt-get install a");
        assert_eq!(apt_command(&["update"], false).join(" "), "sudo apt-get update");
    }

    #[test]
    fn timed_clients_are_those_that_say_so() {
        assert!(is_timed("#!/bin/sh\n# Trees, one thread. Timed.\n. lib.sh\n"));
        assert!(!is_timed("#!/bin/sh\n# Weak tables.\necho Timed.\n"));
        let folder = tempfile::tempdir().expect("a folder");
        for (case, text) in [("b", "# Timed.\n"), ("a", "# x. Timed.\n"), ("c", "# other\n")] {
            let case = folder.path().join("tests/clients").join(case);
            std::fs::create_dir_all(&case).expect("made");
            std::fs::write(case.join("run"), text).expect("written");
        }
        assert_eq!(timed_clients(folder.path()), ["a", "b"]);
        assert!(timed_clients(&folder.path().join("none")).is_empty());
    }
}
