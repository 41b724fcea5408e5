//! Asks a running process for a heap snapshot: `neap_record::ask` says how the two talk.
//!
//! Invariant: nothing is written to the process but the page that it made for this; whatever it
//! answers is only data to be read, of limited size. Waits for each step for a limited time, and
//! says what to do when nothing comes. Single-threaded. Called by `heap`.
//!
//! # Safety
//!
//! Maps a file that is as long as is said and sealed against being cut, so that no access to it
//! faults; its words are atomic, and its text is copied before anybody looks at it.

#![allow(unsafe_code)]

use crate::{Failure, live};
use neap_record::ask::{BYTES, NAME, PATIENCE_MS, TEXT_AT, TEXT_BYTES, answer, word};
use rustix::fs::{FlockOperation, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;
use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};

/// So long is waited for others who ask. Larger: more of them get an answer; smaller: a process
/// that never lets anybody ask is known for it sooner.
const LONGEST_TURNS: Duration = Duration::from_secs(30);

/// The snapshot of a running process, which has at most `most` bytes.
pub fn snapshot(id: u32, most: u64) -> Result<Vec<u8>, Failure> {
    let name = live::Process::open(id)?.name;
    let told = |what: &str| Failure::usage(format!("process {id} ({name}): {what}"));
    let page = find(id).ok_or_else(|| {
        told(
            "cannot be asked for a snapshot: it has not collected yet, or has a small heap that \
             was collected first less than a second ago (`neap top PID` shows its cycles; one \
             that it asks for is enough: GC_gcollect, neap_collect, in D GC.collect; a program \
             that is started with NEAP_VISIBLE=1 can be asked before), or has rights that its \
             starter has not (set-user-id), or an older Neap, or closed the file by which it is \
             asked. A snapshot that the program writes itself can be read: \
             neap_heap_snapshot() of neap.h",
        )
    })?;
    let page = page.map_err(|error| told(&error.to_string()))?;
    if !page.take_turn().map_err(|error| told(&error.to_string()))? {
        return Err(told("somebody else has been asking it for half a minute; try again later"));
    }
    page.ask(most).map_err(|why| told(&why))
}

/// The ask page of a process, if it has one.
fn find(id: u32) -> Option<Result<Page, Errno>> {
    let files = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    let is_page = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(NAME))
    };
    let path = files.flatten().map(|file| file.path()).find(|path| is_page(path))?;
    Some(Page::open(&path))
}

/// The page, mapped until the tool ends.
struct Page {
    start: *mut u8,
    /// Its lock is for who asks: one at a time.
    file: File,
}

impl Page {
    fn open(path: &std::path::Path) -> Result<Page, Errno> {
        let how = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, how, Mode::empty())?);
        // What somebody could cut while it is mapped would end this tool.
        let is_whole = rustix::fs::fstat(&file)?.st_size == BYTES as i64;
        if !is_whole || !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(Errno::INVAL);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping aliases nothing of ours, and its file cannot be cut.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, &file, 0)
        }?;
        Ok(Page { start: start.cast(), file })
    }

    /// Waits until nobody else asks; false when that takes too long, as where the process, which
    /// may be anybody's, holds the lock itself.
    fn take_turn(&self) -> Result<bool, Errno> {
        let until = Instant::now() + LONGEST_TURNS;
        loop {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(false),
                result => return result.map(|()| true),
            }
        }
    }

    fn at(&self, place: usize) -> &AtomicU32 {
        // SAFETY: a word of the page's head, which stays mapped.
        unsafe { &*self.start.cast::<AtomicU32>().add(place) }
    }

    /// Waits until the answer is another than `seen`; None when that takes too long.
    fn wait(&self, seen: u32) -> Option<u32> {
        let until = Instant::now() + Duration::from_millis(PATIENCE_MS);
        loop {
            let now = self.at(word::ANSWER).load(Acquire);
            if now != seen {
                return Some(now);
            }
            let left = until.checked_duration_since(Instant::now())?;
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = futex::wait(self.at(word::ANSWER), Flags::empty(), seen, Some(&left));
        }
    }

    fn wake_collector(&self) {
        self.at(word::WAKES).fetch_add(1, Release);
        let _ = futex::wake(self.at(word::WAKES), Flags::empty(), 1);
    }

    fn ask(&self, most: u64) -> Result<Vec<u8>, String> {
        let own = std::process::id();
        let before = self.at(word::ANSWER).load(Acquire);
        if matches!(before, answer::TAKEN | answer::FULL) && self.wait(before).is_some() {
            return Err("somebody else is being given a snapshot; try again later".to_owned());
        }
        // What is there now was left by an asker that is gone.
        self.at(word::ANSWER).store(answer::NOTHING, Release);
        self.at(word::REQUEST).store(own, Release);
        self.wake_collector();
        let result = self.read(most);
        self.at(word::REQUEST).store(0, Release);
        self.at(word::ANSWER).store(answer::NOTHING, Release);
        let _ = futex::wake(self.at(word::ANSWER), Flags::empty(), 1);
        // The child ends now; the collector's thread wakes once more and reaps it.
        std::thread::sleep(Duration::from_millis(20));
        self.wake_collector();
        result
    }

    fn read(&self, most: u64) -> Result<Vec<u8>, String> {
        let seconds = PATIENCE_MS / 1000;
        let mut text = Vec::new();
        let mut seen = answer::NOTHING;
        loop {
            let Some(now) = self.wait(seen) else {
                return Err(match seen {
                    answer::NOTHING => format!(
                        "no answer in {seconds} seconds: it is stopped, or in a long collection"
                    ),
                    _ => format!("nothing more came for {seconds} seconds; try again"),
                });
            };
            seen = now;
            match now {
                answer::TAKEN => {}
                answer::FULL => {
                    let length = (self.at(word::LENGTH).load(Relaxed) as usize).min(TEXT_BYTES);
                    if (text.len() + length) as u64 > most {
                        return Err(format!("the snapshot is larger than {} MiB", most >> 20));
                    }
                    let at = text.len();
                    text.resize(at + length, 0);
                    // SAFETY: the text lies in the mapping, and the room is as long.
                    unsafe {
                        let from = self.start.add(TEXT_AT);
                        std::ptr::copy_nonoverlapping(from, text[at..].as_mut_ptr(), length);
                    }
                    seen = answer::TAKEN;
                    self.at(word::ANSWER).store(seen, Release);
                    let _ = futex::wake(self.at(word::ANSWER), Flags::empty(), 1);
                }
                answer::DONE => return Ok(text),
                answer::NOTHING => return Err("somebody else asked meanwhile".to_owned()),
                error => {
                    let error = Errno::from_raw_os_error((error - answer::FAILED) as i32);
                    return Err(match error {
                        Errno::OPNOTSUPP => "its threads are stopped by its own runtime, which \
                             only its threads can ask; the program can write a snapshot itself: \
                             neap_heap_snapshot()"
                            .to_owned(),
                        error => format!("it could not make a snapshot: {error}"),
                    });
                }
            }
        }
    }
}
