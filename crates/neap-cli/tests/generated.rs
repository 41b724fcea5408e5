//! Completions in the shells that read them, and pages of the manual as the programs that show them
//! read them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// What `neap completions` prints, in a file of a new folder.
fn completions(shell: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_neap")).args(["completions", shell]).output().unwrap();
    std::fs::write(folder.path().join("completions"), output.stdout).unwrap();
    folder
}

/// What a line becomes that is typed at bash's prompt, as the words of the command; `keys` are
/// typed behind it: a tab completes, escape and a star put all there is to choose from in the line.
fn typed(setup: &str, line: &str, keys: &str) -> String {
    let folder = completions("bash");
    for name in ["pagoda", "clients"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let mut bash = Command::new("bash")
        .args(["--norc", "--noprofile", "-i"])
        .current_dir(folder.path())
        .env("INPUTRC", "/dev/null")
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let script = format!(
        "{setup}\nsource ./completions\nneap() {{ echo \"became: $*\"; }}\n{line}{keys}\nexit\n"
    );
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let became = text.lines().find_map(|line| line.strip_prefix("became: "));
    became.unwrap_or_else(|| panic!("{line}: {text}")).to_owned()
}

const ALL: &str = "\x1b*";

#[test]
fn bash_offers_the_values_of_an_option() {
    let watches = "none auto pagemap fork mprotect snapshot";
    assert_eq!(typed("", "neap run --watch ", ALL), format!("run --watch {watches}"));
    assert_eq!(typed("", "neap run --watch=", ALL), format!("run --watch={watches}"));
    for (line, became) in [
        ("neap run --wat", "run --watch"),
        ("neap run --watch pa", "run --watch pagemap"),
        ("neap run --watch=pa", "run --watch=pagemap"),
        ("neap run --max-heap=cg", "run --max-heap=cgroup"),
        ("neap run --harden=t", "run --harden=true"),
        ("neap run --growth=1 --log=cy", "run --growth=1 --log=cycles"),
        ("neap run --stats=pag", "run --stats=pagoda"),
        ("neap run --growth pag", "run --growth pag"),
        ("neap completions fi", "completions fish"),
    ] {
        assert_eq!(typed("", line, "\t"), became, "{line}");
    }
    // The next word is no value of this one.
    let offered = typed("", "neap run --harden ", ALL);
    assert!(offered.contains("--watch") && !offered.contains("true"), "{offered}");
}

#[test]
fn bash_takes_what_follows_two_dashes_for_another_command() {
    assert_eq!(typed("", "neap run -- readlin", "\t"), "run -- readlink");
    assert_eq!(typed("", "neap run --watch=none -- readlink pag", "\t"), {
        "run --watch=none -- readlink pagoda"
    });
    // As bash-completion's function: it completes the line from that word on.
    let function = "_command_offset() { COMPREPLY=(\"from-$1\"); }";
    assert_eq!(typed(function, "neap run -- readlink ", "\t"), "run -- readlink from-3");
}

#[test]
fn bash_completion_completes_the_line_of_the_program() {
    let library = "/usr/share/bash-completion/bash_completion";
    if !Path::new(library).exists() {
        return skip("bash-completion is not installed");
    }
    let setup = format!("source {library}; complete -W 'left right' readlink");
    assert_eq!(typed(&setup, "neap run --growth=1 -- readlin", "\t"), {
        "run --growth=1 -- readlink"
    });
    assert_eq!(typed(&setup, "neap run --growth=1 -- readlink r", "\t"), {
        "run --growth=1 -- readlink right"
    });
    assert_eq!(typed(&setup, "neap run --watch=pa", "\t"), "run --watch=pagemap");
}

#[test]
fn fish_offers_the_values_of_an_option() {
    if Command::new("fish").arg("--version").output().is_err() {
        return skip("fish is not installed");
    }
    let folder = completions("fish");
    let offered = |line: &str| {
        let script = format!("source completions; complete -C '{line}'");
        let output = Command::new("fish")
            .args(["--no-config", "-c", &script])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(offered("neap run --watch pag"), "pagemap");
    assert_eq!(offered("neap run --watch=pag"), "--watch=pagemap");
    assert_eq!(offered("neap run --harden=t"), "--harden=true");
}

/// What a program says of each page of the manual, which it reads as the last of its arguments.
fn said_of_pages(program: &str, arguments: &[&str], said: fn(Output) -> String) {
    let folder = TempDir::new().unwrap();
    let neap = Command::new(env!("CARGO_BIN_EXE_neap")).arg("manual").arg(folder.path()).status();
    assert!(neap.unwrap().success());
    let mut pages = 0;
    for page in std::fs::read_dir(folder.path()).unwrap() {
        let page = page.unwrap().path();
        let mut reader = Command::new(program);
        reader.args(arguments).arg(&page).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
        assert_eq!(said(reader.output().unwrap()), "", "{}", page.display());
        pages += 1;
    }
    assert!(pages > 10, "{pages} pages");
}

#[test]
fn man_has_no_warnings_for_the_pages() {
    if Command::new("man").arg("--version").output().is_err() {
        return skip("man is not installed");
    }
    said_of_pages("man", &["--warnings", "--local-file"], |output| {
        assert!(output.stdout.len() > 100, "a page was shown");
        String::from_utf8_lossy(&output.stderr).into_owned()
    });
}

#[test]
fn mandoc_has_no_warnings_for_the_pages() {
    if Command::new("mandoc").stdin(Stdio::null()).output().is_err() {
        return skip("mandoc is not installed");
    }
    // The pages have no date, so that one source gives the same ones on any day.
    said_of_pages("mandoc", &["-T", "lint", "-W", "warning"], |output| {
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter(|line| !line.contains("missing date")).collect()
    });
}

fn skip(reason: &str) {
    println!("# SKIP {reason}");
}
