//! A running process as its live page shows it.
//!
//! Invariant: reads only; the process notices nothing. What is wrong is said with what to do.
//! Called by `top` and `metrics`.

use crate::{Failure, regular_file};
use clap::{Arg, value_parser};
use memchr::memmem;
use neap_record::decode::printable;
use neap_record::live::{PAGE_NAME, Page};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
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
        // A process may hold pages of others open, as of its parent; its own names it. In a
        // container the number is another one.
        let own = pages.iter().position(|(_, page)| page.process == u64::from(id)).unwrap_or(0);
        if pages.is_empty() {
            return Ok((name, None));
        }
        let process = Process { id, name: name.clone(), page: pages.swap_remove(own).0 };
        Ok((name, Some(process)))
    }

    /// What its page says now; None once it is gone.
    pub fn look(&self) -> Option<Page> {
        let status = fs::read_to_string(format!("/proc/{}/stat", self.id)).ok()?;
        // The state is the word behind the name, which is in parentheses and may hold any
        // character.
        let state = status.rsplit_once(") ")?.1.chars().next()?;
        if matches!(state, 'Z' | 'X') { None } else { read(&self.page) }
    }
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
    // A cycle may be just being written: a moment later it is not.
    let mut last = None;
    for _ in 0..10 {
        let mut bytes = [0; neap_record::live::PAGE_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let page = Page::decode(&bytes).ok()?;
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
