//! A running process as its live page shows it.
//!
//! Invariant: reads only; the process notices nothing. What is wrong is said with what to do.
//! Called by `top` and `metrics`.

use crate::{Failure, regular_file};
use clap::{Arg, value_parser};
use memchr::memmem;
use neap_record::decode::printable;
use neap_record::live::{PAGE_BYTES, PAGE_NAME, Page, head};
use rustix::io::{Errno, retry_on_intr};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file with the library in it has fewer bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// A command's argument that names a process: `pid`, a number.
pub fn argument() -> Arg {
    Arg::new("pid")
        .value_name("PID")
        .required(true)
        .value_parser(value_parser!(u32))
        .help("The process's number")
}

/// A process that runs on Neap.
pub struct Process {
    /// Its number.
    pub id: u32,
    /// What it was started as, without folders.
    pub name: String,
    page: File,
    /// `/proc/PID/maps`, of the memory that it had when it was found: the kernel shows nothing of
    /// that any more once the process has ended or runs another program, whoever has its number.
    maps: File,
}

impl Process {
    /// Finds a process's page, or says why there is none and what to do.
    pub fn open(id: u32) -> Result<Process, Failure> {
        let (name, found) = Process::find(id)?;
        found.ok_or_else(|| Failure::usage(format!("process {id} ({name}) {}", why_unseen(id))))
    }

    /// The process, if there is something to see of it by now.
    pub fn seen(id: u32) -> Option<Process> {
        Process::find(id).ok()?.1
    }

    /// Its name, and what can be seen of it.
    fn find(id: u32) -> Result<(String, Option<Process>), Failure> {
        let name = match fs::read(format!("/proc/{id}/comm")) {
            Ok(name) => printable(name.trim_ascii_end()),
            Err(_) => return Err(Failure::usage(format!("there is no process {id}"))),
        };
        let files = fs::read_dir(format!("/proc/{id}/fd")).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Failure::usage(format!(
                "process {id} ({name}) is not yours to look at; try as its user or as root"
            )),
            _ => Failure::usage(format!("process {id} ({name}): {error}")),
        })?;
        // Before the pages: what is another program's by then is not taken for this one's.
        let maps = File::open(format!("/proc/{id}/maps"));
        let mut pages: Vec<(File, Page)> = files
            .flatten()
            .filter(|file| {
                fs::read_link(file.path())
                    .is_ok_and(|target| target.to_string_lossy().contains(PAGE_NAME))
            })
            .filter_map(|file| {
                let file = regular_file::open(&file.path()).ok()?;
                let page = read(&file)?;
                Some((file, page))
            })
            .collect();
        // A process may hold pages of others open, as of its parent; its own names it.
        let numbers = numbers(id);
        let own = pages.iter().position(|(_, page)| numbers.contains(&page.process));
        let Some(own) = own else { return Ok((name, None)) };
        let maps =
            maps.map_err(|error| Failure::usage(format!("process {id} ({name}): {error}")))?;
        let process = Process { id, name: name.clone(), page: pages.swap_remove(own).0, maps };
        Ok((name, Some(process)))
    }

    /// What its page says now; None once it is gone, or runs another program.
    pub fn look(&self) -> io::Result<Option<Page>> {
        match retry_on_intr(|| rustix::io::pread(&self.maps, &mut [0_u8; 1], 0)) {
            Ok(0) | Err(Errno::NOENT | Errno::SRCH) => Ok(None),
            Ok(_) => match read(&self.page) {
                Some(page) => Ok(Some(page)),
                None => Err(io::Error::new(ErrorKind::InvalidData, "its page cannot be read")),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The failure of a look, for the user.
    pub fn failure(&self, error: io::Error) -> Failure {
        Failure::failed(format!("process {} ({}): {error}", self.id, self.name))
    }
}

/// The numbers by which a process may know itself: this one, and in a container another.
pub fn numbers(id: u32) -> [u64; 2] {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    [u64::from(id), innermost(&status).unwrap_or(u64::from(id))]
}

/// The last of a process's numbers, from the outermost container to its own.
fn innermost(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// Why there is nothing to see of a process, and what to do.
fn why_unseen(id: u32) -> &'static str {
    match is_on_neap(id) {
        true => {
            "runs on Neap, and has shown nothing yet: that begins with its first half megabyte or \
             its first cycle, for `neap heap` with a cycle that it asks for or one a second later \
             where its heap is small (or it closed the file by which it is seen). Try again then; \
             a program that is started with NEAP_VISIBLE=1, or by `neap run --visible -- PROGRAM`, \
             is seen from its start on"
        }
        false => {
            "does not run on Neap; `neap run -- PROGRAM` starts a program that uses libgc, or one \
             in D, on it"
        }
    }
}

/// Whether the library is in what a process has loaded: where it is, so is the name of its page.
fn is_on_neap(id: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
    let code = maps.lines().filter(|line| line.split(' ').nth(1) == Some("r-xp"));
    let files: BTreeSet<&str> = code.filter_map(|line| Some(&line[line.find('/')?..])).collect();
    let name = format!("{PAGE_NAME}\0");
    files.into_iter().any(|file| {
        // As the process sees it, which may be in a container.
        let file = format!("/proc/{id}/root{file}");
        regular_file::read(Path::new(&file), LARGEST_FILE)
            .is_ok_and(|bytes| memmem::find(&bytes, name.as_bytes()).is_some())
    })
}

fn read(file: &File) -> Option<Page> {
    page(|bytes, at| file.read_exact_at(bytes, at))
}

/// A page, with the last cycle where its sequence number was the same before and after.
fn page(mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>) -> Option<Page> {
    const SEQUENCE: u64 = head::SEQUENCE as u64 * 8;
    // A cycle may be just being written: a moment later it is not.
    let mut last = None;
    for _ in 0..10 {
        let (mut before, mut bytes, mut after) = ([0; 8], [0; PAGE_BYTES], [0; 8]);
        read(&mut before, SEQUENCE).ok()?;
        read(&mut bytes, 0).ok()?;
        read(&mut after, SEQUENCE).ok()?;
        let mut page = Page::decode(&bytes).ok()?;
        page.cycle = page.cycle.filter(|_| before == after);
        if page.cycle.is_some() {
            return Some(page);
        }
        last = Some(page);
        std::thread::yield_now();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::live::{BUCKETS, CYCLE_AT, PAGE_MAGIC, PAGE_WORDS};
    use neap_record::{Cycle, Live};
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    /// The words of an empty page.
    fn words() -> [u64; PAGE_WORDS] {
        let mut words = [0_u64; PAGE_WORDS];
        words[head::MAGIC] = PAGE_MAGIC;
        words[head::LIVE] = Live::COUNT as u64;
        words[head::CYCLE] = Cycle::COUNT as u64;
        words[head::BUCKETS] = BUCKETS as u64;
        words
    }

    /// Half of what is copied may be of the next one, with an even number at either end.
    #[test]
    fn a_cycle_that_was_written_while_it_was_read_is_read_again() {
        let read_with = |changes: usize| {
            let (mut words, mut reads) = (words(), 0);
            page(|bytes, at| {
                let all: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                bytes.copy_from_slice(&all[at as usize..][..bytes.len()]);
                // After each copy of the page, so many times.
                if bytes.len() == PAGE_BYTES && reads < changes {
                    reads += 1;
                    words[head::SEQUENCE] += 2;
                    words[CYCLE_AT] += 1;
                }
                Ok(())
            })
            .unwrap()
            .cycle
            .map(|cycle| cycle.number)
        };
        assert_eq!([0, 1, 3, 100].map(read_with), [Some(0), Some(1), Some(3), None]);
    }

    /// A shell that has a page, its own or another's, and executes another program once it is told
    /// to.
    fn shell_with_a_page(process: Option<u64>) -> Child {
        let mut words = words();
        let page = rustix::fs::memfd_create(PAGE_NAME, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "read word; exec sleep 60"]).stdin(Stdio::piped());
        let child = command.stdout(page.try_clone().unwrap()).spawn().unwrap();
        words[head::PROCESS] = process.unwrap_or(u64::from(child.id()));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        File::from(page).write_all(&bytes).unwrap();
        child
    }

    #[test]
    fn a_page_of_another_process_is_not_taken_for_its_own() {
        let mut child = shell_with_a_page(Some(1));
        let said = Process::open(child.id()).err().map(|error| error.to_string());
        let is_seen = Process::seen(child.id()).is_some();
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(!is_seen && said.is_some_and(|said| said.contains("does not run on Neap")));
    }

    #[test]
    fn in_a_container_a_process_has_another_number() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t12\t3\nNSpgid:\t9\n"), Some(3));
        assert_eq!(innermost("Name:\tx\n"), None);
        assert_eq!(numbers(std::process::id())[0], u64::from(std::process::id()));
    }

    #[test]
    fn a_process_is_gone_when_it_runs_another_program_or_has_ended() {
        for executes in [true, false] {
            let mut child = shell_with_a_page(None);
            let id = child.id();
            let process = Process::open(id).unwrap();
            assert!(process.look().unwrap().is_some());
            if executes {
                child.stdin.take().unwrap().write_all(b"\n").unwrap();
                while fs::read_to_string(format!("/proc/{id}/comm")).unwrap() != "sleep\n" {
                    std::thread::yield_now();
                }
                assert_eq!(process.look().unwrap(), None);
            }
            child.kill().unwrap();
            while process.look().unwrap().is_some() {
                std::thread::yield_now();
            }
            child.wait().unwrap();
            assert_eq!(process.look().unwrap(), None, "also when its number is free");
        }
    }

    #[test]
    fn processes_that_are_not_there_or_not_on_neap_are_named() {
        let message = |id| Process::open(id).err().unwrap().to_string();
        assert_eq!(message(u32::MAX), format!("neap: there is no process {}", u32::MAX));
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let said = message(other.id());
        other.kill().and_then(|()| other.wait()).unwrap();
        assert!(said.contains("does not run on Neap"), "{said}");
    }
}
