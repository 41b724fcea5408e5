//! The `GC_*` environment variables that have a meaning here, as options of the core.
//!
//! Invariant: an option that the user set by its `NEAP_*` name is never overridden, neither by a `GC_*` variable nor by the program.
//! Read once, when the library is loaded. `docs/boehm.md` has the table.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::collect::{self, GC_set_force_unmap_on_gcollect, GC_set_free_space_divisor};
use crate::core_api as api;
use crate::failure::{Message, warn};
use crate::unsupported::{self, Feature};
use crate::variables::{GC_dont_gc, GC_find_leak, GC_parallel};

fn value(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: a NUL-terminated name; the library is being loaded, so nobody changes the environment meanwhile.
    let text: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: getenv gives null or a NUL-terminated text; as above, and it is used before this returns to the program.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Whether the environment has a variable of this name.
pub fn user_has_set(name: &CStr) -> bool {
    value(name).is_some()
}

/// A number of bytes, with `k`, `m`, `g` or `t` for 1024 and its powers, upper or lower case.
fn bytes(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: usize = core::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let shift = match &text[digits..] {
        [] => 0,
        [b'k' | b'K'] => 10,
        [b'm' | b'M'] => 20,
        [b'g' | b'G'] => 30,
        [b't' | b'T'] => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// As `bytes`, of a variable; complains about what is none.
fn bytes_of(name: &CStr) -> Option<usize> {
    let text = value(name)?;
    let number = bytes(text);
    if number.is_none() {
        let message = Message::new(format_args!(
            "Neap: {} is not a number (digits, then k, m or g if wanted); it is ignored\n",
            name.to_str().unwrap_or_default()
        ));
        warn(message.pointer(), 0);
    }
    number
}

/// Sets an option of the core to a number.
pub fn set_number(option: &[u8], number: usize) {
    set(option, Message::new(format_args!("{number}")).bytes());
}

/// Sets the option that says how far the heap grows between collections.
pub fn set_growth(growth: f64) {
    set(b"growth", Message::new(format_args!("{growth:.4}")).bytes());
}

fn set(option: &[u8], value: &[u8]) {
    if let Err(reason) = api::set_option(option, value) {
        let option = core::str::from_utf8(option).unwrap_or_default();
        let message = Message::new(format_args!("Neap: {option}: {reason}\n"));
        warn(message.pointer(), 0);
    }
}

/// Has a pointer one past the end of an object keep it, as libgc does, unless the user says
/// otherwise.
pub fn keep_past_end() {
    if !user_has_set(c"NEAP_PAST_END") {
        set(b"past_end", b"true");
    }
}

/// Bytes that the heap has at first, for `GC_init`.
static INITIAL_HEAP: AtomicUsize = AtomicUsize::new(0);

pub fn initial_heap() -> usize {
    INITIAL_HEAP.load(Relaxed)
}

/// Reads all of them.
pub fn apply() {
    if let Some(size) = bytes_of(c"GC_INITIAL_HEAP_SIZE") {
        INITIAL_HEAP.store(size, Relaxed);
    }
    if let Some(size) = bytes_of(c"GC_MAXIMUM_HEAP_SIZE")
        && !user_has_set(c"NEAP_MAX_HEAP")
    {
        set_number(b"max_heap", size);
    }
    for name in [c"GC_MARKERS", c"GC_NPROCS"] {
        if let Some(count) = bytes_of(name).filter(|&count| count > 0) {
            if !user_has_set(c"NEAP_MARKERS") {
                set_number(b"markers", count);
                GC_parallel.store(count as i32 - 1, Relaxed);
            }
            break;
        }
    }
    if let Some(divisor) = bytes_of(c"GC_FREE_SPACE_DIVISOR") {
        GC_set_free_space_divisor(divisor);
    }
    if user_has_set(c"GC_DONT_GC") {
        GC_dont_gc.store(1, Relaxed);
        api::disable();
    }
    if user_has_set(c"GC_FIND_LEAK") {
        GC_find_leak.store(1, Relaxed);
    }
    if user_has_set(c"GC_FORCE_UNMAP_ON_GCOLLECT") {
        GC_set_force_unmap_on_gcollect(1);
    }
    if user_has_set(c"GC_DUMP_REGULARLY") {
        collect::DUMP_REGULARLY.store(1, Relaxed);
    }
    let wants_statistics =
        user_has_set(c"GC_PRINT_STATS") || user_has_set(c"GC_PRINT_VERBOSE_STATS");
    if wants_statistics && !user_has_set(c"NEAP_LOG") {
        set(b"log", b"cycles");
    }
    if user_has_set(c"GC_LOG_FILE") {
        unsupported::say_once(Feature::LogFile);
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_with_and_without_suffix() {
        assert_eq!(bytes(b"4096"), Some(4096));
        assert_eq!(bytes(b"16k"), Some(16 << 10));
        assert_eq!(bytes(b"1G"), Some(1 << 30));
        for wrong in [&b""[..], b"x", b"1kb", b"-1", b"99999999999999999999", b"99999999999t"] {
            assert_eq!(bytes(wrong), None, "{wrong:?}");
        }
    }
}
