//! `neap run` as a user meets it: small C programs that use libgc in each of the ways that programs
//! do.

mod place;

use place::{CLIENT, Place, shown, text};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

#[test]
fn a_program_gets_neaps_library_and_its_own_name() {
    let place = Place::new();
    let client = place.client();
    let plain = Command::new(&client).output().unwrap();
    assert!(text(&plain.stdout).starts_with("system "), "without neap it finds the other one");
    assert_eq!(place.says(&["run", "--", "./client"]), "neap ./client - 1");
    assert_eq!(place.says(&["run", "./client"]), "neap ./client - 1");
}

#[test]
fn options_become_variables_and_are_checked_first() {
    let place = Place::new();
    place.client();
    assert_eq!(place.says(&["run", "--growth=0.5", "--", "./client"]), "neap ./client 0.5 1");
    let (status, message) = place.fails(&["run", "--growth=7000", "--", "./client"]);
    assert_eq!(status, 2);
    assert!(message.contains("want a number from 0.05 to 100"), "{message}");
    let after_program = place.neap(&["run", "--", "./client", "0", "--growth=1"]);
    assert_eq!(text(&after_program.stdout), "neap ./client - 3\n", "the program's own argument");
}

#[test]
fn exit_status_and_signals_pass_through() {
    let place = Place::new();
    place.client();
    assert_eq!(place.neap(&["run", "--", "./client", "37"]).status.code(), Some(37));
    let killed =
        "#include <signal.h>\nint whose(void);\nint main(void) { whose(); raise(SIGTERM); }";
    place.cc(killed, "killed", &["-Lsystem", "-l:libgc.so.1"]);
    assert_eq!(place.neap(&["run", "--", "./killed"]).status.signal(), Some(15));
}

/// As services do, and Python.
#[test]
fn a_signal_that_the_caller_ignores_is_ignored() {
    let place = Place::new();
    let source = r#"
        #include <signal.h>
        #include <stdio.h>
        const char *whose(void);
        int main(void) {
            void (*pipe)(int) = signal(SIGPIPE, SIG_DFL);
            printf("%s %s\n", whose(), pipe == SIG_IGN ? "ignored" : "default");
        }"#;
    place.cc(source, "client", &["-Lsystem", "-l:libgc.so.1"]);
    for (trap, wanted) in [("trap '' PIPE;", "neap ignored\n"), ("", "neap default\n")] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{trap} exec neap/bin/neap run -- ./client")]);
        let output = command.current_dir(place.0.path()).output().unwrap();
        assert_eq!(text(&output.stdout), wanted, "{}", text(&output.stderr));
    }
}

#[test]
fn rpath_is_overcome_by_preloading() {
    let place = Place::new();
    let flags = ["-Lsystem", "-l:libgc.so.1", "-Wl,--disable-new-dtags,-rpath,$ORIGIN/system"];
    place.cc(CLIENT, "client", &flags);
    assert_eq!(place.says(&["run", "--", "./client"]), "neap ./client - 1");
    let shown = place.says(&["run", "--show", "--", "./client"]);
    assert!(shown.contains("\nLD_PRELOAD=") && shown.contains("DT_RPATH"), "{shown}");
}

#[test]
fn a_library_of_a_library_is_preloaded_so_that_it_can_interpose() {
    let place = Place::new();
    let middle = ["-shared", "-fPIC", "-Lsystem", "-l:libgc.so.1"];
    place.cc(
        "const char *whose(void); const char *middle(void) { return whose(); }",
        "libmiddle.so",
        &middle,
    );
    let source = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <pthread.h>
        #include <stdio.h>
        #include <string.h>
        const char *middle(void);
        int main(void) {
            Dl_info info;
            dladdr(dlsym(RTLD_DEFAULT, "pthread_create"), &info);
            printf("%s %d\n", middle(), strstr(info.dli_fname, "neap/libgc.so.1") != 0);
        }"#;
    let flags = ["-L.", "-lmiddle", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"];
    place.cc(source, "client", &flags);
    assert_eq!(place.says(&["run", "--", "./client"]), "neap 1");
    let direct = place.client();
    let shown = place.says(&["run", "--show", "--", shown(&direct)]);
    assert!(!shown.contains("LD_PRELOAD"), "needed directly it comes first by itself: {shown}");
}

#[test]
fn a_program_that_opens_libgc_late_gets_neaps() {
    let place = Place::new();
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void) {
            void *library = dlopen("libgc.so.1", RTLD_NOW);
            const char *(*whose)(void) = library ? dlsym(library, "whose") : 0;
            puts(whose ? whose() : "none");
        }"#;
    place.cc(source, "client", &[]);
    assert_eq!(place.says(&["run", "--", "./client"]), "neap");
}

#[test]
fn a_script_runs_by_its_interpreter() {
    let place = Place::new();
    let client = place.client();
    let script = place.script("script", &format!("#!{}\n", shown(&client)), 0o755);
    // The client takes its script's name for a number, 0.
    assert_eq!(place.says(&["run", "--", shown(&script)]), format!("neap {} - 2", shown(&client)));
}

#[test]
fn programs_that_do_not_use_libgc_are_refused_unless_any_will_do() {
    let place = Place::new();
    place.client();
    let (status, message) = place.fails(&["run", "--", "true"]);
    assert_eq!(status, 2);
    assert!(message.contains("does not use libgc") && message.contains("--any"), "{message}");
    place.script("wrapper", "#!/bin/sh\nexec ./client\n", 0o755);
    let (status, message) = place.fails(&["run", "--", "./wrapper"]);
    // The script by name, and what would run it.
    assert!(status == 2 && message.contains("./wrapper: #!"), "{message}");
    assert!(message.contains("does not use libgc"), "{message}");
    assert_eq!(place.says(&["run", "--any", "--", "./wrapper"]), "neap ./client - 1");
    place.cc("int main(void) { return 0; }", "static", &["-static"]);
    let (status, message) = place.fails(&["run", "--", "./static"]);
    assert_eq!(status, 2);
    assert!(message.contains("statically linked"), "{message}");
}

#[test]
fn programs_that_are_not_there_or_cannot_run_fail_as_in_a_shell() {
    let place = Place::new();
    assert_eq!(place.fails(&["run", "--", "no-such-program-anywhere"]).0, 127);
    assert_eq!(place.fails(&["run", "--", "./absent"]).0, 127);
    place.script("data", "text", 0o644);
    assert_eq!(place.fails(&["run", "--", "./data"]).0, 126);
    place.script("noise", "text", 0o755);
    assert_eq!(place.fails(&["run", "--", "./noise"]).0, 126);
    assert_eq!(place.fails(&["run"]).0, 2);
}

#[test]
fn set_user_id_programs_are_refused_with_the_reason() {
    let place = Place::new();
    let client = place.client();
    std::fs::set_permissions(&client, PermissionsExt::from_mode(0o4755)).unwrap();
    let given = Command::new("chown").arg("nobody").arg(&client).output().unwrap();
    if !given.status.success() {
        // Only root can give a file away; set-user-id to oneself changes nothing and is let
        // through.
        assert_eq!(place.says(&["run", "--", "./client"]), "neap ./client - 1");
        return println!("# SKIP only root can give a file away");
    }
    std::fs::set_permissions(&client, PermissionsExt::from_mode(0o4755)).unwrap();
    let (status, message) = place.fails(&["run", "--", "./client"]);
    assert_eq!(status, 2);
    assert!(message.contains("set-user-id"), "{message}");
}

#[test]
fn what_was_in_the_variables_stays_behind_ours() {
    let place = Place::new();
    place.client();
    let mut command = Command::new(place.path("neap/bin/neap"));
    command.args(["run", "--show", "--", "./client"]).current_dir(place.0.path());
    let output = command.env("LD_LIBRARY_PATH", "/a:/b").env_remove("LD_PRELOAD").output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("/neap/lib/neap:/a:/b\n"), "{shown}");
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    let place = Place::new();
    place.client();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(place.path("neap/bin/neap"));
    command.args(["run", "--show", "--", "./client"]).current_dir(place.0.path());
    let output = command.stdout(writer).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn a_copy_of_libgc_inside_is_replaced_or_said() {
    let place = Place::new();
    let neap = "const char *whose(void) { return \"neap\"; }
        void *GC_malloc(unsigned long n) { (void)n; return 0; }";
    let shared = ["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"];
    place.cc(neap, "neap/lib/neap/libgc.so.1", &shared);
    let copy = "static const char variable[] = \"GC_INITIAL_HEAP_SIZE\";
        void *GC_malloc(unsigned long n) { return (char *)variable + n; }
        const char *whose(void) { return GC_malloc(0) ? \"copy\" : \"neap\"; }";
    let client = CLIENT.to_owned();
    for (flags, replaced) in [(&["-fPIC"][..], true), (&["-fPIC", "-Wl,-Bsymbolic"], false)] {
        place.cc(copy, "libhost.so", &[&["-O0", "-shared"], flags].concat());
        let program = place.cc(&client, "host", &["-L.", "-lhost", "-Wl,-rpath,$ORIGIN"]);
        let arguments = ["run", "--", program.to_str().unwrap()];
        let mut command = Command::new(place.path("neap/bin/neap"));
        let output = command.args(arguments).env_remove("LD_PRELOAD").output().unwrap();
        let errors = text(&output.stderr);
        assert!(errors.contains("libhost.so has a copy of libgc inside"), "{errors}");
        assert_eq!(output.status.code(), Some(if replaced { 0 } else { 2 }), "{errors}");
        assert_eq!(text(&output.stdout).starts_with("neap "), replaced);
        assert_eq!(errors.contains("pkg-config bdw-gc"), !replaced, "{errors}");
    }
    // Without the place to put itself in, as a shell.
    place.says(&["run", "--any", "--", place.path("host").to_str().unwrap()]);
}

#[test]
fn without_the_library_neap_says_how_to_get_it() {
    let place = Place::new();
    place.client();
    std::fs::remove_file(place.path("neap/lib/neap/libgc.so.1")).unwrap();
    let (status, message) = place.fails(&["run", "--", "./client"]);
    assert_eq!(status, 2);
    assert!(message.contains("make install"), "{message}");
}

#[test]
fn tables_and_flags_are_printed() {
    let place = Place::new();
    assert!(place.says(&["options"]).contains("max_heap"));
    assert_eq!(place.says(&["version"]), format!("neap {}", env!("CARGO_PKG_VERSION")));
    let (status, message) = place.fails(&["flags", "c"]);
    assert_eq!(status, 2);
    assert!(message.contains("neap.h is missing"), "{message}");
    std::fs::create_dir(place.path("neap/include")).unwrap();
    std::fs::write(place.path("neap/include/neap.h"), "#define FOUND 7\n").unwrap();
    place.cc("int neap(void) { return 7; }", "neap/lib/libneap.so", &["-shared", "-fPIC"]);
    let flags = place.says(&["flags", "c"]);
    let words: Vec<&str> = flags.split(' ').collect();
    let source = "#include <neap.h>\nint neap(void);\nint main(void) { return neap() - FOUND; }";
    let program = place.cc(source, "program", &words);
    assert!(Command::new(program).status().unwrap().success(), "built with {flags}");
}
