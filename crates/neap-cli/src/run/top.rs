//! `neap run --top`: runs the program as a child and shows it as `neap top` does, with the last
//! lines of its output below. The program is told to be visible from the start of the library on;
//! until there is something to see, the view says that it waits for that.
//!
//! Invariant: nothing of the program's output is lost, and its two streams stay apart: what it
//! writes to the terminal is kept while the view is shown and written out after it, then as it
//! comes; what goes to a file or pipe goes there as ever. Nobody waits for what the program started
//! and left behind: that writes on through cat(1). The exit status is the program's, 128 and the
//! number if a signal ended it. A signal that is to end this process is passed on to the program;
//! where that ends by it, so does this process. Called by `run`.

use crate::Failure;
use crate::live::Process;
use crate::run::held::Held;
use crate::top::keys::Keys;
use crate::top::{self, Ended};
use neap_record::decode::printable;
use ratatui::DefaultTerminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The variable by which the library shows what there is from its start on.
pub const VISIBLE: &str = "NEAP_VISIBLE";
/// How long a program may take until it first uses the library before the view says that it waits.
/// Longer: nothing is to be seen for that time; shorter: it appears for programs that end at once.
const SHORT: Duration = Duration::from_millis(200);
/// Between two looks at whether there is something to see.
const LOOK: Duration = Duration::from_millis(50);
/// Between two drawings of the view.
const INTERVAL: Duration = Duration::from_millis(250);
/// A pipe holds no more, unless root lets it: so much may be the program's when it has ended.
const MOST_IN_PIPE: usize = 1 << 20;
/// The end of the output that is shown.
const TAIL_BYTES: u64 = 16 << 10;

/// One of the program's streams: kept in a file without a name until it may be written out.
struct Stream {
    kept: File,
    /// Bytes kept so far; None once they are written out as they come.
    length: Option<u64>,
}

/// A stream and the thread that reads it.
struct Reader {
    stream: Arc<Mutex<Stream>>,
    /// The program has: what it wrote is all there.
    ended: Arc<AtomicBool>,
    /// Gives what others still write to.
    thread: JoinHandle<Option<File>>,
    is_error: bool,
}

/// Runs the program and gives its exit status.
pub fn run(mut command: Command) -> Result<u8, Failure> {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "--top draws on the terminal, and standard output is none; run `neap top PID` in \
             another terminal instead",
        ));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if std::io::stderr().is_terminal() {
        command.stderr(Stdio::piped());
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot = |error: std::io::Error| Failure::cannot_run(format!("{program}: {error}"));
    let held = Held::new();
    held.let_through(&mut command);
    let mut child = command.spawn().map_err(cannot)?;
    let mut readers = Vec::new();
    if let Some(output) = child.stdout.take() {
        readers.push(reader(File::from(OwnedFd::from(output)), false)?);
    }
    if let Some(errors) = child.stderr.take() {
        readers.push(reader(File::from(OwnedFd::from(errors)), true)?);
    }
    let watched = watch(&mut child, &readers, &held);
    for reader in &readers {
        release(reader);
    }
    let mut asked = Vec::new();
    if let Ok(Ended::Signal { signal, is_groups }) = watched {
        take(&child, signal, is_groups, &mut asked);
    }
    let status = wait(&mut child, &held, &mut asked).map_err(cannot)?;
    for reader in &readers {
        reader.ended.store(true, Ordering::Relaxed);
    }
    for reader in readers {
        // A thread that panicked has said so.
        if let Ok(Some(source)) = reader.thread.join() {
            leave(source, reader.is_error, &held)?;
        }
    }
    watched?;
    Ok(match status.signal() {
        Some(signal) if asked.contains(&signal) => held.die(signal),
        Some(signal) => 128 + signal as u8,
        None => status.code().unwrap_or(1) as u8,
    })
}

/// Waits for the program's end, and passes signals on to it that come meanwhile.
fn wait(child: &mut Child, held: &Held, asked: &mut Vec<i32>) -> std::io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if let Some((signal, is_groups)) = held.next_and_whose() {
            take(child, signal, is_groups, asked);
        }
    }
}

/// Passes a signal on to the program, which has it where the whole group has, and notes it.
fn take(child: &Child, signal: i32, is_groups: bool, asked: &mut Vec<i32>) {
    asked.push(signal);
    if let (Some(signal), false) = (Signal::from_named_raw(signal), is_groups) {
        // It is not waited for yet, so the number is its own; it may have more rights by now.
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

/// Shows the program until it ends or the user has seen enough.
fn watch(child: &mut Child, readers: &[Reader], held: &Held) -> Result<Ended, Failure> {
    let began = Instant::now();
    while began.elapsed() < SHORT && Process::seen(child.id()).is_none() {
        if has_ended(child)? {
            // Too short to be seen, or it does not use the collector: its output says the rest.
            return Ok(Ended::Gone);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = top::on_terminal(held, |terminal, keys| {
        loop {
            let process = match found(terminal, keys, child, readers)? {
                Ok(process) => process,
                Err(ended) => return Ok(ended),
            };
            let output = &mut |most| tail(readers, most);
            let ended = top::watch(terminal, keys, &process, INTERVAL, None, output)?;
            if ended != Ended::Gone || has_ended(child)? {
                return Ok(ended);
            }
            // It runs another program, or is about to end.
            if let Some(ended) = keys.wait(LOOK)? {
                return Ok(ended);
            }
        }
    })?;
    if ended == Ended::Asked {
        eprintln!("neap: process {} goes on; its output follows", child.id());
    }
    Ok(ended)
}

/// The program once it can be seen, or why that is not waited for any more. Says meanwhile what it
/// waits for.
fn found(
    terminal: &mut DefaultTerminal,
    keys: &Keys<'_>,
    child: &mut Child,
    readers: &[Reader],
) -> Result<Result<Process, Ended>, Failure> {
    loop {
        if let Some(process) = Process::seen(child.id()) {
            return Ok(Ok(process));
        }
        if has_ended(child)? {
            return Ok(Err(Ended::Gone));
        }
        top::draw_waiting(terminal, &waiting(child.id()), &mut |most| tail(readers, most))?;
        if let Some(ended) = keys.wait(LOOK)? {
            return Ok(Err(ended));
        }
    }
}

/// What the view waits for.
fn waiting(id: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    format!(
        "neap top: process {id} ({}) has not used the collector yet; waiting for that. q ends the \
         view, not the process. What the process starts is shown by `neap top PID`.",
        printable(name.trim_end().as_bytes())
    )
}

fn has_ended(child: &mut Child) -> Result<bool, Failure> {
    Ok(child.try_wait().map_err(|error| Failure::usage(error.to_string()))?.is_some())
}

fn reader(mut source: File, is_error: bool) -> Result<Reader, Failure> {
    let kept = tempfile::tempfile()
        .map_err(|error| Failure::usage(format!("no temporary file for the output: {error}")))?;
    let stream = Arc::new(Mutex::new(Stream { kept, length: Some(0) }));
    let shared = Arc::clone(&stream);
    let ended = Arc::new(AtomicBool::new(false));
    let has_ended = Arc::clone(&ended);
    let thread = std::thread::spawn(move || {
        let mut part = vec![0; 64 << 10];
        let mut left = MOST_IN_PIPE;
        loop {
            let has_ended = has_ended.load(Ordering::Relaxed);
            let something = has_something(&source, if has_ended { Duration::ZERO } else { LOOK });
            match (something, has_ended) {
                (true, true) if left == 0 => return Some(source),
                (false, true) => return Some(source),
                (false, false) => continue,
                (true, _) => {}
            }
            let Ok(count @ 1..) = source.read(&mut part) else { return None };
            if has_ended {
                left = left.saturating_sub(count);
            }
            let mut stream = shared.lock().expect("no holder panics");
            match stream.length {
                // A full disk: better out of place than lost.
                Some(length) if stream.kept.write_all_at(&part[..count], length).is_ok() => {
                    stream.length = Some(length + count as u64);
                }
                _ => write_out(&part[..count], is_error),
            }
        }
    });
    Ok(Reader { stream, ended, thread, is_error })
}

/// Whether within this time there is something to read, or the end.
fn has_something(source: &File, time: Duration) -> bool {
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    let mut asked = [PollFd::new(source, PollFlags::IN)];
    // What cannot be asked is read.
    retry_on_intr(|| poll(&mut asked, Some(&time))) != Ok(0)
}

/// Has a process of its own write out what still comes.
fn leave(source: File, is_error: bool, held: &Held) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("the output: {error}"));
    let output = if is_error {
        std::io::stderr().as_fd().try_clone_to_owned()
    } else {
        std::io::stdout().as_fd().try_clone_to_owned()
    };
    let mut output = File::from(output.map_err(failed)?);
    let (input, to) = (source.try_clone().map_err(failed)?, output.try_clone().map_err(failed)?);
    let mut cat = Command::new("cat");
    held.let_through(&mut cat);
    if cat.stdin(input).stdout(to).spawn().is_err() {
        // Better late than lost.
        let _ = std::io::copy(&mut &source, &mut output);
    }
    Ok(())
}

fn write_out(bytes: &[u8], is_error: bool) {
    // A terminal that is gone takes nothing; the program's status still counts.
    let _ = if is_error {
        std::io::stderr().write_all(bytes)
    } else {
        std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush())
    };
}

/// Writes out what was kept, and everything further as it comes.
fn release(reader: &Reader) {
    let mut stream = reader.stream.lock().expect("no holder panics");
    let length = stream.length.take().unwrap_or(0);
    let mut at = 0;
    let mut part = vec![0; 64 << 10];
    while at < length {
        let wanted = part.len().min((length - at) as usize);
        match stream.kept.read_at(&mut part[..wanted], at) {
            Ok(count @ 1..) => {
                write_out(&part[..count], reader.is_error);
                at += count as u64;
            }
            _ => break,
        }
    }
}

/// The last lines of the streams, standard output before standard error, without what would move
/// the cursor.
fn tail(readers: &[Reader], most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for reader in readers {
        let stream = reader.stream.lock().expect("no holder panics");
        let length = stream.length.unwrap_or(0);
        let mut bytes = vec![0; length.min(TAIL_BYTES) as usize];
        if stream.kept.read_exact_at(&mut bytes, length - length.min(TAIL_BYTES)).is_ok() {
            let text = String::from_utf8_lossy(&bytes);
            let clean = |line: &str| line.chars().filter(|sign| !sign.is_control()).collect();
            let all: Vec<String> = text.lines().map(clean).collect();
            lines.extend_from_slice(&all[all.len().saturating_sub(most)..]);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_and_its_last_lines_are_shown() {
        let text = (0..1000).map(|line| format!("line {line}\x1b[2J\n")).collect::<String>();
        let (source, mut sink) = std::io::pipe().unwrap();
        let reader = reader(File::from(OwnedFd::from(source)), false).unwrap();
        sink.write_all(text.as_bytes()).unwrap();
        drop(sink);
        while !reader.thread.is_finished() {
            std::thread::yield_now();
        }
        assert_eq!(tail(&[reader], 2), ["line 998[2J", "line 999[2J"]);
    }

    /// What is there is kept, and the rest is left to others to write.
    #[test]
    fn nobody_waits_for_what_the_program_left_behind() {
        for is_busy in [false, true] {
            let (source, mut sink) = std::io::pipe().unwrap();
            sink.write_all(b"text\n").unwrap();
            let reader = reader(File::from(OwnedFd::from(source)), false).unwrap();
            // Ends where nobody reads any more.
            let writer = std::thread::spawn(move || {
                while is_busy && sink.write_all(&[b'x'; 4096]).is_ok() {}
                sink
            });
            reader.ended.store(true, Ordering::Relaxed);
            let stream = Arc::clone(&reader.stream);
            let open = reader.thread.join().unwrap();
            let mut start = [0; 5];
            stream.lock().unwrap().kept.read_exact_at(&mut start, 0).unwrap();
            assert_eq!(&start, b"text\n");
            assert!(open.is_some(), "others may write on");
            drop(open);
            drop(writer.join().unwrap());
        }
    }
}
