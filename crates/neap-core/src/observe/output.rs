//! Where a recording's chunks go: a buffer of fixed size, and from there to the file of this
//! process.
//!
//! Invariant: memory is bounded by the buffer; while the file refuses, what is in the buffer is
//! kept and tried again. Under the recorder's lock. Never calls malloc.
//!
//! # Safety
//!
//! Makes slices of the buffer, whose mapping is as long as is said. The recorder's lock is held, so
//! there is one slice at a time. Reads the environment at start-up.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use neap_record::frame::MOST_BYTES as BUFFER_BYTES;
use neap_record::{Full, RUN_BEGAN, Writer};
use rustix::io::Errno;

use super::named_file::Path;
use super::record_file::RecordFile;
use crate::addr::Address;
use crate::sys::files::quiet_write;
use crate::sys::{map, print};

/// Names that are tried for one process, which is more than one program by execve(2).
const MOST_NAMES: u32 = 1000;

/// Why a file is refused for good.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The program closed its descriptor, which says nothing of a child's file.
    Closed,
    /// It cannot be opened, by whatever process.
    Named,
}

/// The way to the file.
pub struct Output {
    /// What the user gave, and the folder it counts from. None: nothing is recorded, or no more.
    given: Option<&'static CStr>,
    folder: Path,
    /// When the run began that this process belongs to, if `neap run` said so.
    run_began_ns: Option<u64>,
    /// Whether this process was forked from the one that began.
    forked: bool,
    file: Option<RecordFile>,
    /// The file was refused for good, which has been said.
    refused: Option<Refusal>,
    /// Address and bytes in use of the buffer; 0: none yet.
    buffer: usize,
    filled: usize,
}

impl Output {
    /// To nowhere.
    pub const fn new() -> Self {
        Self {
            given: None,
            folder: Path::new(),
            run_began_ns: None,
            forked: false,
            file: None,
            refused: None,
            buffer: 0,
            filled: 0,
        }
    }

    /// To a file, from the folder that the process is in now.
    pub fn begin(&mut self, file: &'static CStr) {
        self.given = Some(file);
        self.folder = Path::current_folder();
        // SAFETY: a string that ends, and no other thread changes the environment at start-up.
        let said = unsafe { libc::getenv(RUN_BEGAN.as_ptr()) };
        if !said.is_null() {
            // SAFETY: a string of the environment.
            let said = unsafe { CStr::from_ptr(said) };
            self.run_began_ns = said.to_str().ok().and_then(|said| said.parse().ok());
        }
    }

    /// Whether there is a file to come, and it was not refused.
    pub fn is_open(&self) -> bool {
        !self.is_over() && self.refused.is_none()
    }

    /// Whether nothing is to be recorded, or no more, whatever becomes of the process.
    pub fn is_over(&self) -> bool {
        self.given.is_none()
    }

    /// Whether anything was ever encoded.
    pub fn has_begun(&self) -> bool {
        self.buffer != 0
    }

    /// Nothing is recorded from here on.
    pub fn finish(&mut self) {
        self.given = None;
        if let Some(file) = self.file.take() {
            file.close();
        }
    }

    /// In the child of a `fork`: what is in the buffer and the file is the parent's.
    pub fn after_fork(&mut self) {
        self.forked = true;
        self.refused = self.refused.filter(|why| *why != Refusal::Closed);
        if let Some(file) = self.file.take() {
            file.close();
        }
        if self.buffer != 0 {
            map::release(Address(self.buffer), BUFFER_BYTES);
            (self.buffer, self.filled) = (0, 0);
        }
    }

    fn map_buffer(&mut self) -> bool {
        if self.buffer == 0 {
            let Ok(buffer) = map::allocate(BUFFER_BYTES) else { return false };
            map::name(buffer, BUFFER_BYTES, c"neap: recording");
            (self.buffer, self.filled) = (buffer.0, 0);
        }
        true
    }

    /// Has `encode` write to the buffer, which is written to the file and used again as often as it
    /// is full; false if the file is refused.
    pub fn encode(&mut self, mut encode: impl FnMut(&mut Writer<'_>) -> Result<(), Full>) -> bool {
        if self.refused.is_some() || !self.map_buffer() {
            return false;
        }
        loop {
            let before = self.filled;
            // SAFETY: the buffer is mapped, and the lock is held.
            let bytes =
                unsafe { core::slice::from_raw_parts_mut(self.buffer as *mut u8, BUFFER_BYTES) };
            let mut out = Writer::new(bytes, before);
            let result = encode(&mut out);
            self.filled = out.length();
            if result.is_ok() {
                return true;
            }
            // What fits no empty buffer never will.
            if self.filled == 0 || !self.flush() {
                return false;
            }
        }
    }

    /// Makes room while there is time; false if the file refuses.
    pub fn flush_when_half_full(&mut self) -> bool {
        self.filled < BUFFER_BYTES / 2 || self.flush()
    }

    /// Writes the buffer to the file; false if that is refused: then the buffer is kept.
    pub fn flush(&mut self) -> bool {
        if self.filled == 0 {
            return true;
        }
        if self.file.is_none() && !self.open() {
            return false;
        }
        // SAFETY: the buffer is mapped, and the lock is held.
        let bytes = unsafe { core::slice::from_raw_parts(self.buffer as *const u8, self.filled) };
        let Some(file) = self.file.as_mut() else { return false };
        match file.append(bytes) {
            Ok(()) => {
                self.filled = 0;
                true
            }
            Err(Errno::BADF) => {
                self.refuse(
                    Refusal::Closed,
                    "the program closed its descriptor; what was recorded so far is in the file",
                );
                false
            }
            Err(error) => {
                self.say_once(error);
                false
            }
        }
    }

    fn say_once(&mut self, error: Errno) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Relaxed) {
            let given = self.given.unwrap_or_default().to_string_lossy();
            quiet_write::message(format_args!(
                "NEAP_STATS={given}: cannot write ({error}); what was recorded so far is in the \
                 file, and writing is tried again"
            ));
        }
    }

    fn refuse(&mut self, refusal: Refusal, why: &str) {
        self.refused = Some(refusal);
        let given = self.given.unwrap_or_default().to_string_lossy();
        quiet_write::message(format_args!("NEAP_STATS={given}: {why}"));
        if let Some(file) = self.file.take() {
            file.close();
        }
    }

    fn open(&mut self) -> bool {
        let Some(given) = self.given else { return false };
        let path = Path::of(given.to_bytes(), self.folder.as_bytes(), self.forked);
        let mut opened = RecordFile::open(&path, self.run_began_ns);
        // Another process records or recorded to it, or another program of this process did, by
        // whatever name: this one takes a name of its own.
        for number in 1..=MOST_NAMES {
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
            let mut own = Path::of(given.to_bytes(), self.folder.as_bytes(), true);
            if number > 1 {
                let _ = write!(own, ".{number}");
            }
            opened = RecordFile::open(&own, self.run_began_ns);
        }
        match opened {
            Ok(file) => self.file = Some(file),
            Err(Errno::INVAL | Errno::LOOP | Errno::NXIO) => {
                self.refuse(Refusal::Named, "not a regular file; name one that can be made");
            }
            Err(error) => {
                let mut why = print::Line::new();
                let _ = write!(why, "cannot open it ({error}); nothing is recorded");
                let why = core::str::from_utf8(why.bytes()).unwrap_or("cannot open it");
                self.refuse(Refusal::Named, why);
            }
        }
        self.file.is_some()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::fs::{self, FileType, Mode};
    use std::ffi::CString;

    fn flushes(output: &mut Output) -> bool {
        output.encode(|out| out.end(0)) && output.flush()
    }

    #[test]
    fn a_child_records_to_no_file_beside_what_is_none() {
        let name = format!("neap-output-{}", std::process::id());
        let pipe = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&pipe);
        fs::mknodat(fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        static GIVEN: std::sync::OnceLock<CString> = std::sync::OnceLock::new();
        let given = GIVEN.get_or_init(|| CString::new(pipe.to_str().unwrap()).unwrap());
        // Forked before its parent tries, and after.
        for tries in [false, true] {
            let mut output = Output::new();
            output.begin(given);
            if tries {
                assert!(!flushes(&mut output));
            }
            output.after_fork();
            assert_eq!(output.is_open(), !tries);
            assert!(!flushes(&mut output) && !output.is_open());
        }
        let there = std::fs::read_dir(std::env::temp_dir()).unwrap();
        let is_beside = |found: &str| found.starts_with(&format!("{name}."));
        assert!(!there.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_beside)));
        std::fs::remove_file(pipe).unwrap();
    }
}
