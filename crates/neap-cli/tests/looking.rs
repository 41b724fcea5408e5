//! `neap top --batch` and `neap metrics` where what they write to fails.
//!
//! Invariant: each test looks at a process of its own, which has a page and does not run on Neap.

mod place;

use place::{process_with_a_page, text};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What waits for longer has failed.
const LONG: Duration = Duration::from_secs(20);

/// Until something is so that has to come.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_that_could_not_be_written_is_written_later_and_removed_in_the_end() {
    let mut process = process_with_a_page();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_neap"));
    command.args(["metrics", "--every", "1", "--file"]).arg(&file).arg(process.id().to_string());
    let mut neap = command.stderr(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(neap.stderr.take().unwrap());
    let (to, lines) = mpsc::channel();
    std::thread::spawn(move || errors.lines().try_for_each(|line| to.send(line.unwrap())));
    until("it writes the file", || file.exists());
    until("a folder is in its way", || {
        let _ = fs::remove_file(&file);
        fs::create_dir(&file).is_ok()
    });
    let first = lines.recv_timeout(LONG).expect("it says that it cannot write the file");
    assert!(first.contains("directory"), "{first}");
    // An attempt writes beside the file, and takes that away: the folder changes once or twice.
    let changed = || fs::metadata(place.path()).unwrap().modified().unwrap();
    for _ in 0..3 {
        let before = changed();
        until("it tries again", || changed() != before);
    }
    fs::remove_dir(&file).unwrap();
    until("it writes the file again", || file.is_file());
    process.kill().and_then(|()| process.wait()).unwrap();
    assert!(neap.wait().unwrap().success());
    let further: Vec<String> = lines.iter().collect();
    assert!(further.is_empty() && !file.exists(), "{further:?}");
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
