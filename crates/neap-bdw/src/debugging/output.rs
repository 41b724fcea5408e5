//! Where text goes: standard output, standard error, and the log, which `GC_LOG_FILE` sends to a
//! file.
//!
//! Invariant: nothing here allocates once the file is named, and a file is never held open: the
//! program may close every descriptor it finds. Called from any thread, world running.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use neap_core::api::SetOnce;
use rust_alloc::ffi::CString;
use rust_alloc::vec::Vec;

/// What a text is; by these numbers in printing.c too.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Stream {
    Output = 1,
    Error = 2,
    Log = 3,
}

/// `GC_LOG_FILE`, from the root.
static FILE: SetOnce<CString> = SetOnce::new();
/// `GC_ONLY_LOG_TO_FILE`: output and errors stay where they were.
static LOG_ALONE: AtomicBool = AtomicBool::new(false);
/// `GC_set_log_fd`; below 0: none.
static LOG_DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

/// Has the log go to a descriptor, whatever the environment says.
pub fn set_log_descriptor(descriptor: i32) {
    LOG_DESCRIPTOR.store(descriptor, Relaxed);
}

/// Has all text go to the end of a file, or with `log_alone` the log. At load.
pub fn log_to(name: &CStr, log_alone: bool) {
    let mut path = Vec::new();
    if !name.to_bytes().starts_with(b"/") {
        let mut folder = [0_u8; 4096];
        // SAFETY: the buffer is as long as is said.
        let found = unsafe { libc::getcwd(folder.as_mut_ptr().cast(), folder.len()) };
        if !found.is_null() {
            path.extend_from_slice(
                CStr::from_bytes_until_nul(&folder).unwrap_or_default().to_bytes(),
            );
            path.push(b'/');
        }
    }
    path.extend_from_slice(name.to_bytes());
    LOG_ALONE.store(log_alone, Relaxed);
    if let Ok(path) = CString::new(path) {
        FILE.set(path);
    }
}

/// Writes all of it, as far as the stream takes it.
pub fn write(stream: Stream, bytes: &[u8]) {
    let descriptor = LOG_DESCRIPTOR.load(Relaxed);
    if stream == Stream::Log && descriptor >= 0 {
        return write_all(descriptor, bytes);
    }
    match FILE.get() {
        Some(file) if stream == Stream::Log || !LOG_ALONE.load(Relaxed) => append(file, bytes),
        _ if stream == Stream::Output => write_all(1, bytes),
        _ => write_all(2, bytes),
    }
}

fn append(file: &CStr, bytes: &[u8]) {
    let how = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
    // SAFETY: a NUL-terminated name; the descriptor is ours until it is closed.
    unsafe {
        let descriptor = libc::open(file.as_ptr(), how, 0o644);
        if descriptor < 0 {
            return write_all(2, bytes);
        }
        write_all(descriptor, bytes);
        libc::close(descriptor);
    }
}

fn write_all(descriptor: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // By the system call itself: libc's function of this name may be one that we stand before.
        // SAFETY: the slice is readable.
        let written =
            unsafe { libc::syscall(libc::SYS_write, descriptor, bytes.as_ptr(), bytes.len()) };
        if written <= 0 {
            return;
        }
        bytes = &bytes[written as usize..];
    }
}

type WriteFunction = unsafe extern "C" fn(i32, *const u8, usize);

unsafe extern "C" {
    /// What printing.c writes with.
    #[link_name = "neap_bdw_write"]
    static mut WRITE: Option<WriteFunction>;
}

/// Lets `GC_printf` and the like write. At load, before anybody prints.
pub fn install() {
    // SAFETY: a variable of printing.c, and nobody reads it yet.
    unsafe { WRITE = Some(write_text) };
}

unsafe extern "C" fn write_text(stream: i32, text: *const u8, length: usize) {
    let stream = match stream {
        1 => Stream::Output,
        2 => Stream::Error,
        _ => Stream::Log,
    };
    // SAFETY: printing.c passes text of this length.
    write(stream, unsafe { core::slice::from_raw_parts(text, length) });
}
