//! A running process's allocation sites, as its recording has them, for who asks by HTTP: a pprof
//! profile, or text.
//!
//! Invariant: at most 8 readers wait for changes and 4 for a profile; one at a time is made, as
//! each takes many times the memory of the recording. Called by `serve`, on the threads of its
//! readers.

use super::http::{BAD_REQUEST, BUSY, FAILED, NOT_FOUND, Reply, Request};
use crate::export::pprof;
use crate::symbols::Symbols;
use crate::{live, regular_file};
use neap_record::{MAGIC, Recording};
use neap_report::sites;
use neap_report::text::allocation_sites;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Who may wait for changes, for up to an hour: others find a place all the same.
pub const MOST_WAITING: usize = 8;
/// Who may wait for the profiles of others to be made: the rest would take all places of those who
/// ask for metrics.
const MOST_QUEUED: usize = 4;
/// For which changes are waited for.
const LONGEST_SECONDS: u64 = 3600;
const LARGEST_RECORDING: u64 = 2 << 30;

/// The process's allocation sites so far, or what changes of them in the time that is asked for, if
/// it records them.
pub fn profile(process: u32, shown: &str, request: &Request, readers: &Readers) -> Reply {
    let seconds = match request.value("seconds").map(|seconds| seconds.parse::<u64>()) {
        None => None,
        Some(Ok(seconds)) if (1..=LONGEST_SECONDS).contains(&seconds) => Some(seconds),
        Some(_) => return Reply::refusal(BAD_REQUEST, "seconds: a whole number from 1 to 3600"),
    };
    let as_text = request.value("debug").is_some_and(|debug| debug != "0");
    if as_text && seconds.is_some() {
        let why = "debug=1 shows all since the start; seconds=N is without it";
        return Reply::refusal(BAD_REQUEST, why);
    }
    let place = match seconds.map(|_| readers.place()) {
        Some(None) => return Reply::refusal(BUSY, "too many readers wait for changes"),
        place => place.flatten(),
    };
    const QUEUE: &str = "too many readers wait for profiles";
    let Some(mut alone) = readers.alone() else { return Reply::refusal(BUSY, QUEUE) };
    let first_read = Instant::now();
    let mut recording = match read_recording(process) {
        Ok(recording) => recording,
        Err(refusal) => return refusal,
    };
    let mut before = None;
    // It may have waited longer than it was to.
    let mut changed_in = Duration::ZERO;
    if let Some(seconds) = seconds {
        drop(alone);
        std::thread::sleep(Duration::from_secs(seconds));
        let Some(next) = readers.alone() else { return Reply::refusal(BUSY, QUEUE) };
        alone = next;
        changed_in = first_read.elapsed();
        match read_recording(process) {
            Ok(after) => before = Some(std::mem::replace(&mut recording, after)),
            Err(refusal) => return refusal,
        }
    }
    drop(place);
    let mut symbols = Symbols::default();
    let names = &mut |module: &_, address| symbols.at(module, address);
    if as_text {
        let sites = sites::sites(&recording, names);
        return Reply::page(
            "text/plain; charset=utf-8",
            allocation_sites(&recording, &sites).into(),
        );
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unix_ns = now.as_nanos() as u64;
    let lasted_ns = match seconds {
        Some(_) => changed_in.as_nanos() as u64,
        None => unix_ns.saturating_sub(recording.process.began_unix_ns),
    };
    let wanted = pprof::Wanted { shown, since: before.as_ref(), unix_ns, lasted_ns };
    let reply = match pprof::profile(&recording, &wanted, names) {
        Some(profile) => Reply::page("application/octet-stream", profile),
        None => Reply::refusal(NOT_FOUND, "the process samples no allocation sites (NEAP_SAMPLE)"),
    };
    drop(alone);
    reply
}

/// Those who read profiles.
#[derive(Default)]
pub struct Readers {
    /// So many wait for changes.
    waiting: AtomicUsize,
    /// So many make a profile, or wait for who does.
    queued: AtomicUsize,
    /// Whose recording is read and whose profile is made.
    alone: Mutex<()>,
}

/// A place among so many, until it is dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    /// One, where there is one.
    fn among(taken: &'a AtomicUsize, most: usize) -> Option<Self> {
        let place = Place(taken);
        // Gives itself back where it was one too many.
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Readers {
    /// A place among those that wait for changes.
    fn place(&self) -> Option<Place<'_>> {
        Place::among(&self.waiting, MOST_WAITING)
    }

    /// Waits until no other profile is made; None where too many do.
    fn alone(&self) -> Option<(MutexGuard<'_, ()>, Place<'_>)> {
        let place = Place::among(&self.queued, MOST_QUEUED)?;
        Some((self.alone.lock().unwrap_or_else(PoisonError::into_inner), place))
    }
}

/// What a process has recorded so far, in a file that it holds open; or why there is none.
fn read_recording(process: u32) -> Result<Recording, Reply> {
    let failed = |error: io::Error| Reply::refusal(FAILED, &format!("its recording: {error}"));
    let numbers = live::numbers(process);
    let mut why = None;
    for file in fs::read_dir(format!("/proc/{process}/fd")).map_err(failed)?.flatten() {
        match recording_in(&file.path()) {
            // It may hold another's open, as its parent's.
            Ok(Some(recording)) if numbers.contains(&recording.process.id) => return Ok(recording),
            Ok(_) => {}
            Err(error) => why = Some(error),
        }
    }
    Err(why.map_or_else(
        || Reply::refusal(NOT_FOUND, "the process records nothing (NEAP_STATS, NEAP_SAMPLE)"),
        failed,
    ))
}

/// The recording in an open file; None where it is no such file.
fn recording_in(path: &Path) -> io::Result<Option<Recording>> {
    // With any version, whose number is the last byte: reading says which it is.
    const BEGINNING: &[u8] = MAGIC.split_last().expect("it has bytes").1;
    let mut start = [0; BEGINNING.len()];
    let read = regular_file::open(path).and_then(|mut file| file.read_exact(&mut start));
    if read.is_err() || start != *BEGINNING {
        return Ok(None);
    }
    let bytes = regular_file::read(path, LARGEST_RECORDING)?;
    Recording::read(&bytes).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::chunks;
    use neap_record::frame::Writer;
    use std::io::Write;
    use std::process::{Child, Command};

    #[test]
    fn seconds_that_are_none_are_refused() {
        for seconds in ["0", "x", "", "1e3", "99999"] {
            let query = format!("seconds={seconds}");
            let request = Request { path: String::new(), query };
            let reply = profile(1, "inuse_space", &request, &Readers::default());
            assert_eq!(reply.status, BAD_REQUEST, "{seconds}");
        }
    }

    #[test]
    fn readers_that_wait_for_changes_have_places_of_their_own() {
        let readers = Readers::default();
        let mut places: Vec<_> = (0..MOST_WAITING).map(|_| readers.place()).collect();
        assert!(places.iter().all(Option::is_some));
        let query = "seconds=1".to_owned();
        let request = Request { path: String::new(), query };
        for _ in 0..2 {
            assert_eq!(profile(1, "inuse_space", &request, &readers).status, BUSY);
        }
        places.pop();
        assert_ne!(profile(u32::MAX, "inuse_space", &request, &readers).status, BUSY);
        assert!(readers.place().is_some(), "who was refused, or is done, gives the place back");
        let queued: Vec<_> =
            (0..=MOST_QUEUED).map(|_| Place::among(&readers.queued, MOST_QUEUED)).collect();
        assert_eq!(queued.iter().flatten().count(), MOST_QUEUED);
        assert!(readers.alone().is_none(), "too many wait for profiles");
        drop(queued);
        assert!(readers.alone().is_some());
    }

    fn asked(process: u32, query: &str) -> (&'static str, String) {
        let request = Request { path: String::new(), query: query.to_owned() };
        let reply = profile(process, "inuse_space", &request, &Readers::default());
        (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// As programs in Go do. At once: an hour is not waited for.
    #[test]
    fn changes_as_text_are_refused() {
        let (status, said) = asked(u32::MAX, "debug=1&seconds=3600");
        assert_eq!(status, BAD_REQUEST);
        assert!(said.contains("seconds"), "{said}");
        let (status, said) = asked(u32::MAX, "debug=0&seconds=1");
        assert!(status == FAILED && said.contains("No such file"), "{status} {said}");
    }

    /// A process that holds this file open.
    fn holds(bytes: &[u8]) -> (tempfile::TempDir, fs::File, Child) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        fs::write(&path, bytes).unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut command = Command::new("sleep");
        let child = command.arg("60").stdin(file.try_clone().unwrap()).spawn().unwrap();
        (folder, file, child)
    }

    fn of_process(id: u64) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        let mut out = Writer::new(&mut buffer, 0);
        out.raw(&MAGIC);
        let process = chunks::Process {
            id,
            parent: 1,
            began_unix_ns: 1,
            page_bytes: 4096,
            command: b"program\0",
            watch: b"none",
            version: b"0.1.0",
            sample_bytes: 1 << 19,
        };
        out.process(&process, [16_u32].into_iter()).unwrap();
        let length = out.length();
        buffer.truncate(length);
        buffer
    }

    #[test]
    fn a_recording_is_the_process_s_own() {
        let (_folder, mut file, mut child) = holds(&of_process(1));
        let others = asked(child.id(), "");
        file.write_all(&of_process(u64::from(child.id()))).unwrap();
        let own = asked(child.id(), "");
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(others.0 == NOT_FOUND && others.1.contains("records nothing"), "{others:?}");
        assert!(own.0.starts_with("200"), "{own:?}");
    }

    #[test]
    fn why_a_recording_cannot_be_read_is_said() {
        let mut later = MAGIC;
        later[7] = 9;
        for (bytes, length, why) in
            [(later, None, "format 9"), (MAGIC, Some(LARGEST_RECORDING + 1), "larger than")]
        {
            let (_folder, file, mut child) = holds(&bytes);
            if let Some(length) = length {
                file.set_len(length).unwrap();
            }
            let (status, said) = asked(child.id(), "");
            child.kill().and_then(|()| child.wait()).unwrap();
            assert!(status == FAILED && said.contains(why), "{status} {said}");
        }
    }

    #[test]
    fn one_profile_at_a_time_is_made() {
        let readers = Readers::default();
        let request = Request { path: String::new(), query: String::new() };
        let (made, done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let alone = readers.alone();
            scope.spawn(|| made.send(profile(u32::MAX, "inuse_space", &request, &readers).status));
            done.recv_timeout(Duration::from_millis(50)).unwrap_err();
            drop(alone);
            assert_eq!(done.recv(), Ok(FAILED));
        });
    }
}
