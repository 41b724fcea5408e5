//! `neap run --compare` as a user meets it: small C programs that behave differently by whose
//! libgc they got, and keep a log of their runs.
//!
//! Invariant: what a test wants to see is something that only the right run, or the right order of
//! runs, can have caused. The library in Neap's place writes a summary if it was called, as Neap
//! does.

mod place;

use place::{Place, text};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// In Neap's place: 7 cycles, 1.25 ms.
const NEAP: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int pthread_create(void) { return 0; }
static void summary(void) {
    FILE *file = getenv("NEAP_SUMMARY") ? fopen(getenv("NEAP_SUMMARY"), "w") : 0;
    if (!file) return;
    fputs("{\"cycles\":7,\"pauses_ms\":{\"count\":9,\"max\":1.25}}\n", file);
    fclose(file);
}
const char *whose(void) {
    static int known;
    if (!known++) atexit(summary);
    return "neap";
}"#;

/// `is_neap`, and `run`, the number of this run from 1; the log gets a line for it.
const HEAD: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
const char *whose(void);
static int is_neap, run;
static void begin(void) {
    const char *growth = getenv("NEAP_GROWTH"), *other = getenv("NEAP_IDLE");
    char line[256];
    FILE *log = fopen("log", "a+");
    is_neap = !strcmp(whose(), "neap");
    rewind(log);
    for (run = 1; fgets(line, sizeof line, log); run++) {}
    fprintf(log, "%s growth=%s idle=%s\n", whose(), growth ? growth : "", other ? other : "");
    fclose(log);
}
"#;

const LINKED: [&str; 3] = ["-Lsystem", "-l:libgc.so.1", "-Wl,-rpath,$ORIGIN/system"];

/// A place with `client`, whose `main` does this after `begin`.
fn place(body: &str) -> Place {
    let place = Place::new();
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"];
    place.cc(NEAP, "neap/lib/neap/libgc.so.1", &shared);
    client(&place, body, &LINKED);
    std::fs::create_dir(place.path("temporary")).unwrap();
    place
}

fn client(place: &Place, body: &str, flags: &[&str]) {
    let source = format!("{HEAD}\nint main(int count, char **words) {{ begin();\n{body}\n}}\n");
    place.cc(&source, "client", flags);
}

fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new(place.path("neap/bin/neap"));
    command.arg("run").args(words).current_dir(place.0.path()).stdin(Stdio::null());
    for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD", "NEAP_GROWTH", "NEAP_SUMMARY", "NEAP_STATS"] {
        command.env_remove(variable);
    }
    command.env("TMPDIR", place.path("temporary"));
    command
}

/// Runs; exit status, standard output, standard error. Nothing temporary may be left.
fn compared(place: &Place, words: &[&str]) -> (i32, String, String) {
    let output = command(place, words).output().unwrap();
    seen(place, output)
}

fn seen(place: &Place, output: Output) -> (i32, String, String) {
    assert_eq!(temporary(place), 0);
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn temporary(place: &Place) -> usize {
    std::fs::read_dir(place.path("temporary")).unwrap().count()
}

fn log(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The words of the row that begins with these.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no row {name} in:\n{table}")).split_whitespace().collect()
}

/// The figures of a row: libgc's, Neap's.
fn numbers(table: &str, name: &str) -> [f64; 2] {
    let found: Vec<f64> = row(table, name).iter().filter_map(|word| word.parse().ok()).collect();
    [found[0], found[1]]
}

#[test]
fn runs_take_turns_and_options_are_for_neap_only() {
    let place = place("puts(words[1]); fputs(\"an error\\n\", stderr);");
    let mut command =
        command(&place, &["--compare", "--growth=0.5", "--", "./client", "a word", "b"]);
    // Nothing of Neap's reaches libgc's runs, wherever it comes from.
    command.env("NEAP_IDLE", "9").env("LD_LIBRARY_PATH", place.path("neap/lib/neap"));
    let (status, table, errors) = seen(&place, command.output().unwrap());
    assert_eq!(status, 0, "{table}{errors}");
    let both = ["system growth= idle=", "neap growth=0.5 idle=9"];
    assert_eq!(log(&place), [both, both, both].concat());
    assert!(table.starts_with("./client 'a word' b\nMedians of 3 runs"), "{table}");
    assert_eq!(row(&table, "same output"), ["yes"]);
    assert_eq!(row(&table, "exit status"), ["0", "0"]);
    assert_eq!(row(&table, "cycles"), ["–", "7"]);
    assert_eq!(row(&table, "longest stop"), ["–", "1.2", "ms"]);
    assert!(numbers(&table, "peak memory").iter().all(|mb| *mb > 0.1), "{table}");
    assert_eq!(errors.matches("an error\n").count(), 2, "in the first round: {errors}");
    assert!(errors.contains("round 3 of 3: libgc ") && !errors.contains("input"), "{errors}");
}

#[test]
fn rounds_say_how_often() {
    let place = place("return 0;");
    let (status, table, _) = compared(&place, &["--compare", "--rounds", "1", "./client"]);
    assert_eq!((status, log(&place).len()), (0, 2));
    assert!(table.contains("One run on each."), "{table}");
    assert_eq!(compared(&place, &["--compare", "--rounds=5", "--", "./client"]).0, 0);
    assert_eq!(log(&place).len(), 12);
    for wrong in [&["--rounds=0", "--compare"][..], &["--rounds=101", "--compare"], &["--rounds=2"]]
    {
        assert_eq!(compared(&place, &[wrong, &["--", "./client"]].concat()).0, 2, "{wrong:?}");
    }
    assert_eq!(log(&place).len(), 12);
}

#[test]
fn different_output_is_found_and_shown() {
    let place = place("puts(\"first\"); printf(\"it is %s\\n\", run == 6 ? whose() : \"x\");");
    let (status, table, _) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!(status, 1);
    assert_eq!(row(&table, "same output"), ["no"]);
    let wanted = "first in line 2:\n  libgc  \"it is x\\n\"\n  Neap   \"it is neap\\n\"\n";
    assert!(table.contains(wanted), "{table}");
}

#[test]
fn a_program_that_prints_something_else_each_time_is_said_to_be_so() {
    let place = place("printf(\"%d\\n\", run);");
    let (status, table, _) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!(status, 1);
    assert!(table.contains("differs from run to run on libgc too"), "{table}");
}

#[test]
fn large_output_is_compared_whole() {
    let place = place(
        "for (int i = 0; i < 3000000; i++) puts(\"0123456789\");
        if (is_neap) putchar('x');",
    );
    let (status, table, _) = compared(&place, &["--compare", "--rounds=1", "--", "./client"]);
    assert_eq!(status, 1);
    assert!(table.contains("first in line 3000001:\n  libgc  (it ends before)\n"), "{table}");
}

#[test]
fn exit_statuses_count() {
    let place = place("return 3;");
    let (status, table, _) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!((status, row(&table, "exit status")), (0, vec!["3", "3"]));
    client(&place, "return is_neap ? 4 : 3;", &LINKED);
    let (status, table, _) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!((status, row(&table, "exit status")), (1, vec!["3", "4"]));
    assert_eq!(row(&table, "same output"), ["yes"]);
}

#[test]
fn a_program_that_dies_on_one_of_them_ends_the_comparison() {
    let place = place("if (run == 4) raise(SIGSEGV);");
    let (status, table, errors) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!((status, table.as_str(), log(&place).len()), (1, "", 4));
    let wanted = "./client was ended by SIGSEGV (signal 11) on Neap, in round 2 of 3";
    assert!(errors.contains(wanted), "{errors}");
    client(&place, "if (!is_neap) abort();", &LINKED);
    let (status, _, errors) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!(status, 1);
    assert!(errors.contains("SIGABRT (signal 6) on libgc, in round 1"), "{errors}");
}

#[test]
fn programs_that_do_not_use_libgc_have_nothing_to_compare() {
    let place = place("return 0;");
    let (status, _, errors) = compared(&place, &["--compare", "--", "true"]);
    assert_eq!(status, 2);
    assert!(errors.contains("does not use libgc"), "{errors}");
    // It could, by its looks, and does not.
    let source = "#include <stdio.h>\nint main(void) { puts(\"libgc.so.1\"); return 0; }";
    place.cc(source, "looks", &[]);
    for words in [&["--compare", "--", "./looks"], &["--compare", "--any", "true"]] {
        let (status, table, errors) = compared(&place, words);
        assert_eq!((status, table.as_str()), (2, ""), "{words:?}");
        assert!(errors.contains("did not use libgc when it ran on Neap"), "{errors}");
    }
    place.script("wrapper", "#!/bin/sh\nexec ./client\n", 0o755);
    assert_eq!(compared(&place, &["--compare", "--any", "--", "./wrapper"]).0, 0);
}

#[test]
fn without_a_summary_the_figures_are_not_known() {
    let place = place("puts(\"x\"); fflush(stdout); _exit(0);");
    let (status, table, _) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!((status, row(&table, "cycles")), (0, vec!["–", "–"]));
    assert!(table.contains("Neap wrote no summary"), "{table}");
}

#[test]
fn there_has_to_be_a_libgc_that_is_not_neap() {
    let place = place("return 0;");
    let library = place.path("system/libgc.so.1");
    std::fs::copy(place.path("neap/lib/neap/libgc.so.1"), &library).unwrap();
    let (status, _, errors) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!(status, 2);
    assert!(errors.contains("is Neap too"), "{errors}");
    // Needed by its path, so that no other is found.
    place.cc("const char *whose(void) { return \"x\"; }", "libgc.so.1", &["-shared", "-fPIC"]);
    client(&place, "return 0;", &["./libgc.so.1"]);
    std::fs::remove_file(place.path("libgc.so.1")).unwrap();
    let (status, _, errors) = compared(&place, &["--compare", "--", "./client"]);
    assert_eq!(status, 2);
    assert!(errors.contains("this system has none"), "{errors}");
    assert_eq!(log(&place).len(), 0);
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let place = place("return 0;");
    for other in ["--top", "--show", "--stats=file", "--summary=file"] {
        let (status, _, errors) = compared(&place, &["--compare", other, "--", "./client"]);
        assert_eq!(status, 2, "{other}");
        assert!(errors.contains(other.split('=').next().unwrap()), "{errors}");
    }
    let mut with_variable = command(&place, &["--compare", "--", "./client"]);
    let (status, _, errors) =
        seen(&place, with_variable.env("NEAP_STATS", "file").output().unwrap());
    assert_eq!(status, 2);
    assert!(errors.contains("NEAP_STATS"), "{errors}");
    assert_eq!(log(&place).len(), 0);
}

#[test]
fn every_run_reads_a_file_from_where_it_stood() {
    let place = place("return 0;");
    std::fs::write(place.path("input"), "skipped\nread\n").unwrap();
    // The program tells by its output what it read; `sh` reads a line before.
    let wanted = "#!/bin/sh\nneap=$1; shift; { read -r line; \"$neap\" \"$@\"; } <input\n";
    let script = place.script("with-input", wanted, 0o755);
    client(
        &place,
        "char line[9] = {0}; fgets(line, sizeof line, stdin);
        FILE *seen = fopen(\"seen\", \"a\"); fprintf(seen, \"%s|%d\\n\", line, getchar());
        fclose(seen);",
        &LINKED,
    );
    let mut by_shell = Command::new(script);
    by_shell.arg(place.path("neap/bin/neap")).args(["run", "--compare", "--", "./client"]);
    let output = by_shell.current_dir(place.0.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("standard input"));
    let seen = || std::fs::read_to_string(place.path("seen")).unwrap();
    assert_eq!(seen(), "read\n|-1\n".repeat(6));
    // A pipe cannot be given to each.
    std::fs::remove_file(place.path("seen")).unwrap();
    let mut piped = command(&place, &["--compare", "--rounds=1", "--", "./client"]);
    let mut child = piped.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"text\n").unwrap();
    let errors = text(&child.wait_with_output().unwrap().stderr);
    assert!(errors.contains("standard input is a pipe"), "{errors}");
    assert_eq!(seen(), "|-1\n".repeat(2));
}

#[test]
fn memory_is_the_programs_own() {
    let place = place("return 0;");
    // What reads them whole would count them as the program's, were it not for the care taken.
    for (name, mib) in [("libfirst.so", 20), ("libsecond.so", 14)] {
        let source = format!("const char large[{mib} << 20] = {{1}};");
        place.cc(&source, name, &["-shared", "-fPIC"]);
    }
    let large = ["-L.", "-lfirst", "-lsecond", "-Wl,-rpath,$ORIGIN"];
    client(&place, "return 0;", &[&LINKED[..], &large].concat());
    let (_, table, errors) = compared(&place, &["--compare", "--rounds=1", "--", "./client"]);
    assert!(numbers(&table, "peak memory").iter().all(|mb| *mb < 6.0), "{table}{errors}");
    client(
        &place,
        "if (is_neap) { char *block = malloc(64 << 20); memset(block, 1, 64 << 20); }
        return 0;",
        &[&LINKED[..], &large].concat(),
    );
    let (_, table, _) = compared(&place, &["--compare", "--rounds=1", "--", "./client"]);
    let [libgc, neap] = numbers(&table, "peak memory");
    assert!(libgc < 6.0 && (64.0..72.0).contains(&neap), "{table}");
}

#[test]
fn processor_time_is_that_of_children_too() {
    let place = place(
        "if (is_neap && !fork()) while (clock() < CLOCKS_PER_SEC / 4) {}
        wait(0); usleep(run == 1 ? 300000 : 0);",
    );
    let (_, table, _) = compared(&place, &["--compare", "--rounds=1", "--", "./client"]);
    let [libgc, neap] = numbers(&table, "processor time");
    assert!(libgc < 0.1 && (0.2..2.0).contains(&neap), "{table}");
    assert!(numbers(&table, "wall time")[0] >= 0.3, "{table}");
}

#[test]
fn what_a_run_leaves_behind_is_ended() {
    let place = place(
        "if (!fork()) { FILE *file = fopen(\"left\", \"a\"); fprintf(file, \"%d\\n\", getpid());
        fclose(file); close(1); close(2); for (;;) pause(); }
        while (access(\"left\", F_OK)) usleep(1000);",
    );
    assert_eq!(compared(&place, &["--compare", "--rounds=1", "--", "./client"]).0, 0);
    assert!(all_gone(&place, "left"));
}

#[test]
fn an_interrupt_ends_everything_at_once() {
    let place = place(
        "signal(SIGINT, SIG_IGN); signal(SIGTERM, SIG_IGN); fork();
        FILE *file = fopen(\"left\", \"a\"); fprintf(file, \"%d\\n\", getpid()); fclose(file);
        for (;;) pause();",
    );
    for signal in [2, 15] {
        // What runs the tests may ignore the signals, as a shell's `&` does.
        let mut plain = Command::new("env");
        plain.args(["--default-signal=INT", "--default-signal=TERM"]);
        plain.arg(place.path("neap/bin/neap")).args(["run", "--compare", "--", "./client"]);
        plain.env("TMPDIR", place.path("temporary")).current_dir(place.0.path());
        let mut child = plain.stdin(Stdio::null()).spawn().unwrap();
        let started = || {
            let text = std::fs::read_to_string(place.path("left")).unwrap_or_default();
            text.lines().count() == 2
        };
        assert!(within_seconds(20, started), "both processes of the program run");
        let signal_word = format!("-{signal}");
        Command::new("kill").arg(signal_word).arg(child.id().to_string()).status().unwrap();
        let mut status = None;
        let ended = || {
            status = child.try_wait().unwrap();
            status.is_some()
        };
        let has_ended = within_seconds(20, ended);
        // The program's processes go with it.
        let _ = child.kill();
        assert!(has_ended);
        assert_eq!(status.unwrap().signal(), Some(signal));
        assert!(all_gone(&place, "left"));
        assert_eq!(temporary(&place), 0);
        std::fs::remove_file(place.path("left")).unwrap();
    }
}

fn within_seconds(count: u64, mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(count) {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Whether the processes whose numbers are in the file are gone, or about to be.
fn all_gone(place: &Place, file: &str) -> bool {
    let numbers = std::fs::read_to_string(place.path(file)).unwrap();
    assert!(!numbers.is_empty());
    // One that was killed and not yet reaped by its new parent has no memory any more.
    let is_gone = |number: &str| {
        let maps = std::fs::read(Path::new("/proc").join(number).join("maps"));
        maps.map_or(true, |bytes| bytes.is_empty())
    };
    within_seconds(20, || numbers.lines().all(is_gone))
}
