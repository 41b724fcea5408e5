//! `neap top --batch` and `neap metrics` where what they write to fails.
//!
//! Invariant: each test looks at a process of its own, which has a page and does not run on Neap.

mod place;

use place::{process_with_a_page, text};
use std::fs::{self, OpenOptions};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Until something is so that has to come.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_that_could_not_be_written_is_written_later_and_removed_in_the_end() {
    let mut process = process_with_a_page();
    let place = tempfile::tempdir().unwrap();
    let (folder, away) = (place.path().join("folder"), place.path().join("away"));
    let file = folder.join("file");
    fs::create_dir(&folder).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.args(["metrics", "--every", "1", "--file"]).arg(&file).arg(process.id().to_string());
    let mut neap = command.stderr(Stdio::piped()).spawn().unwrap();
    until("it writes the file", || file.exists());
    fs::rename(&folder, &away).unwrap();
    fs::remove_file(away.join("file")).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(neap.try_wait().unwrap().is_none(), "it goes on");
    fs::rename(&away, &folder).unwrap();
    until("it writes the file again", || file.exists());
    process.kill().and_then(|()| process.wait()).unwrap();
    let output = neap.wait_with_output().unwrap();
    let errors = text(&output.stderr);
    assert!(output.status.success() && errors.lines().count() == 1, "{errors}");
    assert!(errors.contains("No such file") && !file.exists(), "{errors}");
}

#[test]
fn lines_that_cannot_be_written_are_a_failure_and_a_reader_that_is_gone_is_none() {
    let mut process = process_with_a_page();
    let id = process.id().to_string();
    let full = Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for (output, status) in [(full, 2), (writer.into(), 0)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
        command.args(["top", "--batch", "--interval", "0.1", "--count", "3", &id]).stdout(output);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert_eq!(errors.contains("standard output: No space"), status == 2, "{errors}");
    }
    process.kill().and_then(|()| process.wait()).unwrap();
}
