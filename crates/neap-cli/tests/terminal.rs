//! `neap top` and `neap run --top` on a terminal: how it is given back when something else than the
//! user ends them.
//!
//! Invariant: each test has a terminal of its own, and sends the signals itself.

mod place;

use place::{Place, page, process_with_a_page, show};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";
/// What waits for longer has failed.
const LONG: Duration = Duration::from_secs(20);
/// Signals end what is started.
const DEFAULT: &str = "--default-signal=HUP,INT,TERM";

struct Terminal {
    /// The side of the user.
    user: File,
    /// The side of the program.
    program: OwnedFd,
    said: String,
}

impl Terminal {
    fn new() -> Terminal {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let mut how = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        how |= rustix::fs::OFlags::CLOEXEC;
        let program = rustix::fs::open(name, how, rustix::fs::Mode::empty()).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 110, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&user, size).unwrap();
        Terminal { user: File::from(user), program, said: String::new() }
    }

    fn start(&self, command: &mut Command) -> Child {
        let end = || Stdio::from(self.program.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
    }

    /// Reads what comes within a moment.
    fn read(&mut self) {
        let time = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        if poll(&mut [PollFd::new(&self.user, PollFlags::IN)], Some(&time)).unwrap() > 0 {
            let mut part = [0; 4096];
            let count = self.user.read(&mut part).unwrap();
            self.said += &String::from_utf8_lossy(&part[..count]);
        }
    }

    fn read_until(&mut self, text: &str) {
        let began = Instant::now();
        while !self.said.contains(text) {
            assert!(began.elapsed() < LONG, "{text:?} never came: {:?}", self.said);
            self.read();
        }
    }

    /// Reads until the process has ended.
    fn end(&mut self, child: &mut Child) -> ExitStatus {
        let began = Instant::now();
        loop {
            self.read();
            if let Some(status) = child.try_wait().unwrap() {
                self.read();
                return status;
            }
            if began.elapsed() > LONG {
                child.kill().unwrap();
                panic!("it goes on: {:?}", self.said);
            }
        }
    }

    fn is_as_it_was(&self) -> bool {
        let modes = tcgetattr(&self.program).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Started by env(1), to which `signals` says what is done about them: who runs the tests may
/// ignore some, as nohup(1) does.
fn top(process: &Child, signals: &str) -> Command {
    let mut command = Command::new("env");
    command.args([signals, env!("CARGO_BIN_EXE_neap")]);
    command.args(["top", "--interval", "0.2", &process.id().to_string()]);
    command
}

#[test]
fn top_gives_the_terminal_back_when_a_signal_ends_it() {
    let mut process = process_with_a_page();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = Terminal::new();
        let mut neap = terminal.start(&mut top(&process, DEFAULT));
        terminal.read_until("neap top");
        assert!(!terminal.is_as_it_was());
        send(&neap, signal);
        let status = terminal.end(&mut neap);
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert!(terminal.is_as_it_was() && terminal.said.contains(LEFT), "{:?}", terminal.said);
    }
    process.kill().and_then(|()| process.wait()).unwrap();
}

/// What begins a key that never ends, or is none.
#[test]
fn top_hears_signals_whatever_the_terminal_sends() {
    let mut process = process_with_a_page();
    for bytes in [&b"\x1b["[..], b"\xc3", b"\x1b[999x"] {
        let mut terminal = Terminal::new();
        let mut neap = terminal.start(&mut top(&process, DEFAULT));
        terminal.read_until("neap top");
        terminal.user.write_all(bytes).unwrap();
        // It has read them.
        let began = Instant::now();
        while rustix::io::ioctl_fionread(&terminal.program).unwrap() > 0 {
            assert!(began.elapsed() < LONG, "it reads nothing");
            terminal.read();
        }
        send(&neap, Signal::TERM);
        let status = terminal.end(&mut neap);
        assert_eq!(status.signal(), Some(15), "{status}");
        assert!(terminal.is_as_it_was() && terminal.said.contains(LEFT), "{:?}", terminal.said);
    }
    process.kill().and_then(|()| process.wait()).unwrap();
}

#[test]
fn top_ends_with_its_terminal() {
    let mut process = process_with_a_page();
    let mut terminal = Terminal::new();
    // Of which it would hear by SIGHUP.
    let mut command = Command::new("setsid");
    command.args(["--ctty", "env"]).args(top(&process, "--ignore-signal=HUP").get_args());
    let mut neap = terminal.start(&mut command);
    terminal.read_until("neap top");
    let Terminal { user, .. } = terminal;
    drop(user);
    let began = Instant::now();
    while neap.try_wait().unwrap().is_none() {
        if began.elapsed() > LONG {
            neap.kill().unwrap();
            panic!("it goes on without a terminal");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().and_then(|()| process.wait()).unwrap();
}

#[test]
fn a_signal_to_run_with_top_is_passed_on_and_the_output_is_written() {
    let place = Place::new();
    for (program, ended) in [
        ("echo kept; exec sleep 60", None),
        (
            "trap 'echo asked; exit 5' TERM; \
        echo kept; while :; do sleep 0.1; done",
            Some(5),
        ),
        // By another signal than was sent.
        ("trap 'echo asked; kill -9 $$' TERM; echo kept; while :; do sleep 0.1; done", Some(137)),
    ] {
        let mut terminal = Terminal::new();
        let mut command = Command::new(place.path("neap/bin/neap"));
        command.args(["run", "--any", "--top", "--", "sh", "-c", program]);
        let mut neap = terminal.start(&mut command);
        terminal.read_until("kept");
        assert!(terminal.said.contains(ENTERED) && !terminal.is_as_it_was());
        send(&neap, Signal::TERM);
        let status = terminal.end(&mut neap);
        let after = terminal.said.split_once(LEFT).expect("it leaves its screen").1;
        assert!(after.contains("kept") && terminal.is_as_it_was(), "{after:?}");
        assert_eq!(status.code(), ended, "{status}");
        assert_eq!(status.signal(), ended.is_none().then_some(15), "{status}");
        assert_eq!(after.contains("asked"), ended.is_some(), "{after:?}");
    }
}

#[test]
fn run_with_top_goes_on_when_its_program_runs_another() {
    let place = Place::new();
    let mut terminal = Terminal::new();
    let mut command = Command::new(place.path("neap/bin/neap"));
    let program = "echo $$ >number; until [ -e further ]; do sleep 0.05; done; \
                   exec tail -f /dev/null";
    command.args(["run", "--any", "--top", "--", "sh", "-c", program]).current_dir(&place.0);
    let end = || Stdio::from(terminal.program.try_clone().unwrap());
    // The page is the program's, as what is no terminal is not kept back.
    let page = page();
    let stderr = page.try_clone().unwrap();
    let mut neap = command.stdin(end()).stdout(end()).stderr(stderr).spawn().unwrap();
    let number = loop {
        let number = std::fs::read_to_string(place.path("number")).unwrap_or_default();
        if let Ok(number) = number.trim().parse() {
            break number;
        }
        assert!(neap.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    };
    show(page, number);
    terminal.read_until("(sh)");
    std::fs::write(place.path("further"), "").unwrap();
    terminal.read_until("tail)");
    assert!(!terminal.said.contains(LEFT), "{:?}", terminal.said);
    send(&neap, Signal::TERM);
    assert_eq!(terminal.end(&mut neap).signal(), Some(15));
    assert!(terminal.is_as_it_was());
}

#[test]
fn run_with_top_waits_for_its_program_where_the_caller_ignores_the_end_of_children() {
    let place = Place::new();
    for (program, ended) in [("exit 7", 7), ("exec grep SigBlk /proc/self/status", 0)] {
        let mut terminal = Terminal::new();
        let mut command = Command::new("env");
        command.arg("--ignore-signal=CHLD").arg(place.path("neap/bin/neap"));
        command.args(["run", "--any", "--top", "--", "sh", "-c", program]);
        let mut neap = terminal.start(&mut command);
        assert_eq!(terminal.end(&mut neap).code(), Some(ended), "{:?}", terminal.said);
        // And holds nothing back for it.
        let is_free = terminal.said.contains("SigBlk:\t0000000000000000");
        assert!(is_free || ended == 7, "{:?}", terminal.said);
    }
}
