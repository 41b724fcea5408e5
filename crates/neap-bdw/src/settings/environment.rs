//! The `GC_*` environment variables that have a meaning here, as options of the core.
//!
//! Invariant: an option that the user set by its `NEAP_*` name is never overridden, neither by a
//! `GC_*` variable nor by the program. A program that runs with more rights than its user has
//! (set-user-id) reads none of them. Read when they are asked for: when the library is loaded, and
//! those that the program can set too up to the start. `docs/boehm.md` has the table.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api as api;
use crate::failure::{Message, warn};

/// A variable that is not empty.
pub fn text_of(name: &CStr) -> Option<&'static CStr> {
    text(name).filter(|text| !text.is_empty())
}

fn value(name: &CStr) -> Option<&'static [u8]> {
    text(name).map(CStr::to_bytes)
}

fn text(name: &CStr) -> Option<&'static CStr> {
    api::embedding::variable(name)
}

/// Whether the environment has a variable of this name.
pub fn user_has_set(name: &CStr) -> bool {
    value(name).is_some()
}

/// Whether it has one that is not 0.
pub fn user_has_switched_on(name: &CStr) -> bool {
    value(name).is_some_and(|value| value != b"0")
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

/// As `bytes`, of a variable.
fn number_of(name: &CStr) -> Option<usize> {
    value(name).and_then(bytes)
}

/// Numbers that the program can set too.
#[derive(Clone, Copy)]
pub enum Number {
    MaximumHeapSize,
    FreeSpaceDivisor,
    PauseTimeTarget,
    FullFrequency,
}

impl Number {
    pub const ALL: [Self; 4] =
        [Self::MaximumHeapSize, Self::FreeSpaceDivisor, Self::PauseTimeTarget, Self::FullFrequency];

    pub fn name(self) -> &'static CStr {
        match self {
            Self::MaximumHeapSize => c"GC_MAXIMUM_HEAP_SIZE",
            Self::FreeSpaceDivisor => c"GC_FREE_SPACE_DIVISOR",
            Self::PauseTimeTarget => c"GC_PAUSE_TIME_TARGET",
            Self::FullFrequency => c"GC_FULL_FREQUENCY",
        }
    }

    /// What the environment says. As in libgc 0 says nothing, but of the heap's size, where it is
    /// no limit.
    pub fn of_environment(self) -> Option<usize> {
        match (self, number_of(self.name())?) {
            (Self::MaximumHeapSize, number) => Some(number),
            (_, 0) => None,
            (Self::FullFrequency, number) => Some(number.min(i32::MAX as usize)),
            (_, number) => Some(number),
        }
    }

    /// The same before the start, which may come without `GC_init`: what the program says until
    /// then gives way to it.
    pub fn overriding(self) -> Option<usize> {
        if api::is_initialized() { None } else { self.of_environment() }
    }
}

/// As `bytes`, of a variable; complains about what is none.
pub fn bytes_of(name: &CStr) -> Option<usize> {
    value(name)?;
    let number = number_of(name);
    if number.is_none() {
        let message = Message::new(format_args!(
            "neap: {} is not a number (digits, then k, m or g if wanted); it is ignored\n",
            name.to_str().unwrap_or_default()
        ));
        warn(message.pointer(), 0);
    }
    number
}

/// Sets an option of the core to a number.
#[inline(never)]
pub fn set_number(option: &[u8], number: usize) {
    set(option, Message::new(format_args!("{number}")).bytes());
}

/// Sets how many threads mark; a machine may well have more processors than the option takes.
pub fn set_markers(count: usize) {
    set_number(b"markers", count.min(64));
}

/// Sets the option that says how far the heap grows between collections.
#[inline(never)]
pub fn set_growth(growth: f64) {
    set(b"growth", Message::new(format_args!("{growth:.4}")).bytes());
}

/// Sets an option of the core.
pub fn set(option: &[u8], value: &[u8]) {
    if let Err(reason) = api::set_option(option, value) {
        refused(option, &reason);
    }
}

/// On its own, for the message takes room on the stack.
#[cold]
#[inline(never)]
fn refused(option: &[u8], reason: &dyn core::fmt::Display) {
    let option = core::str::from_utf8(option).unwrap_or_default();
    let message = Message::new(format_args!("neap: {option}: {reason}\n"));
    warn(message.pointer(), 0);
}

/// Whether the user said if a pointer one past the end of an object keeps it. Written when the
/// library is loaded.
static PAST_END_IS_SET: AtomicBool = AtomicBool::new(false);

/// Notes whether the user says if a pointer one past the end keeps its object. Called when the
/// library is loaded.
pub fn begin_past_end() {
    PAST_END_IS_SET.store(user_has_set(c"NEAP_PAST_END"), Relaxed);
}

/// Has a pointer one past the end of an object keep it or not, as libgc does that adds a byte where
/// interior pointers count, unless the user says otherwise.
pub fn keep_past_end(keeps: bool) {
    if PAST_END_IS_SET.load(Relaxed) {
        return;
    }
    if api::is_initialized() {
        api::embedding::keep_past_end(keeps);
    } else {
        set(b"past_end", if keeps { b"true" } else { b"false" });
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
