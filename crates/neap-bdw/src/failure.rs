//! Warnings, and ends that a program cannot go on from: each message says what was wrong and what
//! to do, after `neap: `, but for those that a program expects in libgc's words.
//!
//! Invariant: nothing here allocates, so it works where memory ran out. Called from any thread,
//! world running.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api::{self as api, functions::AtomicFunction};
use crate::debugging::output::{self, Stream};
use crate::settings::variables::{callback_accessors, variables};

/// Bytes of a message, the NUL included; longer ones are cut off.
const MESSAGE_BYTES: usize = 400;

/// A message on the stack: long enough for all of ours, cut off beyond; always ends in NUL.
pub struct Message {
    text: [u8; MESSAGE_BYTES],
    length: usize,
}

impl Message {
    pub fn new(arguments: fmt::Arguments<'_>) -> Self {
        let mut message = Self { text: [0; MESSAGE_BYTES], length: 0 };
        // Cutting off is not an error here.
        let _ = message.write_fmt(arguments);
        message
    }

    pub fn bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    pub fn pointer(&self) -> *const c_char {
        self.text.as_ptr().cast()
    }
}

impl Write for Message {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.text.len() - 1 - self.length;
        let bytes = &part.as_bytes()[..part.len().min(room)];
        self.text[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

type AbortFunction = extern "C" fn(*const c_char);

variables! {
    GC_on_abort: AtomicFunction<AbortFunction> = AtomicFunction::new(print_abort_message);
}

callback_accessors! {
    GC_set_abort_func, GC_get_abort_func: AbortFunction => GC_on_abort;
}

/// `GC_LOOP_ON_ABORT`: the program does not end but waits for a debugger.
static LOOP_ON_ABORT: AtomicBool = AtomicBool::new(false);

/// Has the program wait for a debugger where it would end, also by a fault that nobody handles.
pub fn loop_on_abort() {
    LOOP_ON_ABORT.store(true, Relaxed);
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: structures of ours; the handler has the type that the flags say.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            if api::sigaction(signal, core::ptr::null(), &mut action) == 0
                && action.sa_sigaction == libc::SIG_DFL
            {
                action.sa_sigaction = wait_after_fault as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK;
                api::sigaction(signal, &action, core::ptr::null_mut());
            }
        }
    }
}

extern "C" fn wait_after_fault(signal: c_int) {
    let message = Message::new(format_args!("neap: signal {signal}; waiting for a debugger\n"));
    output::write(Stream::Error, message.bytes());
    wait_for_debugger();
}

fn wait_for_debugger() {
    while LOOP_ON_ABORT.load(Relaxed) {
        // SAFETY: no preconditions.
        unsafe { libc::pause() };
    }
}

/// Says why through `GC_on_abort`, then ends the program as abort(3) does.
pub fn die(arguments: fmt::Arguments<'_>) -> ! {
    let message = Message::new(format_args!("neap: {arguments}"));
    if let Some(callback) = GC_on_abort.get() {
        callback(message.pointer());
    }
    wait_for_debugger();
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// What `GC_on_abort` is at first.
pub extern "C" fn print_abort_message(message: *const c_char) {
    if message.is_null() {
        return;
    }
    // SAFETY: a NUL-terminated text, says gc.h.
    let text = unsafe { core::ffi::CStr::from_ptr(message) };
    output::write(Stream::Error, text.to_bytes());
    output::write(Stream::Error, b"\n");
}

type WarnFunction = extern "C" fn(*mut c_char, usize);

/// The program's warning procedure; none: standard error.
static WARN_PROCEDURE: AtomicFunction<WarnFunction> = AtomicFunction::none();

/// Warns through the program's procedure. `format` may contain one `%` conversion for a word, and
/// must end in NUL.
pub extern "C" fn warn(format: *const c_char, number: usize) {
    GC_get_warn_proc()(format.cast_mut(), number);
}

/// Warns with a text that ends with what the number means: as a format that has the number.
pub fn warn_with_number(text: &CStr, number: usize) {
    const NUMBER: &[u8] = b" (%lu)\n\0";
    let message = Message::new(format_args!("neap: {}", text.to_str().unwrap_or("warning")));
    let mut format = [0_u8; MESSAGE_BYTES + NUMBER.len()];
    let length = message.length;
    format[..length].copy_from_slice(message.bytes());
    // A sign of its own would ask for a second word.
    format[..length].iter_mut().filter(|byte| **byte == b'%').for_each(|byte| *byte = b'?');
    format[length..length + NUMBER.len()].copy_from_slice(NUMBER);
    warn(format.as_ptr().cast(), number);
}

/// The default warning procedure.
extern "C" fn print_warning(format: *mut c_char, number: usize) {
    let mut text = [0_u8; 400];
    // SAFETY: the format is NUL-terminated and takes one word at most, says gc.h; the buffer's size
    // is given.
    let length = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), format, number) };
    let length = (length.max(0) as usize).min(text.len() - 1);
    output::write(Stream::Error, &text[..length]);
    if text[..length].last() != Some(&b'\n') {
        output::write(Stream::Error, b"\n");
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_warn_proc(procedure: Option<WarnFunction>) {
    WARN_PROCEDURE.set(procedure);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_warn_proc() -> WarnFunction {
    WARN_PROCEDURE.get().unwrap_or(print_warning)
}

/// A warning procedure for programs that want none.
#[unsafe(no_mangle)]
pub extern "C" fn GC_ignore_warn_proc(_format: *mut c_char, _number: usize) {}

/// For a program that cannot go on without memory: says so and exits.
#[unsafe(no_mangle)]
pub extern "C" fn GC_abort_on_oom() {
    output::write(Stream::Error, b"neap: Insufficient memory for the allocation\n");
    if let Some(callback) = GC_on_abort.get() {
        // gc.h passes null when there is nothing to say.
        callback(core::ptr::null());
    }
    // SAFETY: ends the process.
    unsafe { libc::exit(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_off_not_overrun() {
        let message = Message::new(format_args!("{:>500}", "x"));
        assert_eq!(message.bytes().len(), 399);
        assert_eq!(Message::new(format_args!("{}-{:#x}", 1, 255)).bytes(), b"1-0xff");
    }
}
