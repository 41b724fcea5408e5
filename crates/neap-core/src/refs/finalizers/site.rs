//! Where in the program a cleaner was registered, for the check that finds cleaners which keep
//! their own object alive.
//!
//! Invariant: a place is a text that lives for ever, kept once, as a number in the 16 bits of an
//! entry's function word that no address uses. Only with `NEAP_CHECK` are places kept. Called from
//! any thread; read by the cycle.
//!
//! # Safety
//!
//! Makes a C string of an address. Who registers it promises a text that lives for ever.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::registrations::{Registry, kind_of, object_of};
use crate::check;
use crate::refs::Marking;
use crate::sys::print;
use crate::sys::process::image;

/// Addresses of a program have 47 bits.
const FUNCTION: usize = (1 << 48) - 1;
/// Places that are told apart. The rest is reported without.
const PLACES: usize = 1024;

static TEXTS: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
/// Places whose misuse was told already, one bit each; bit 0 of the first word stands for those
/// without a place.
static TOLD: [AtomicUsize; PLACES / usize::BITS as usize] =
    [const { AtomicUsize::new(0) }; PLACES / usize::BITS as usize];

/// A function word with the place in it.
#[inline]
pub(crate) fn with(function: usize, place: Option<&'static CStr>) -> usize {
    match place {
        Some(place) if check::level() >= 1 => function | number(place) << 48,
        _ => function,
    }
}

/// The function of a function word.
#[inline]
pub(crate) fn without(word: usize) -> usize {
    word & FUNCTION
}

/// From 1; 0 where there is no room for another place.
#[cold]
fn number(place: &'static CStr) -> usize {
    let address = place.as_ptr() as usize;
    // Not the first: 0 means none.
    let start = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
    for step in 0..PLACES {
        let index = (start + step) % PLACES;
        if index == 0 {
            continue;
        }
        match TEXTS[index].compare_exchange(0, address, AcqRel, Acquire) {
            Ok(_) => return index,
            Err(known) if known == address => return index,
            Err(_) => {}
        }
    }
    0
}

/// A function as a reader of messages knows it.
pub(crate) struct Name(pub(crate) usize);

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match image::symbol_of(self.0) {
            Some(name) => write!(out, "{} ({:#x})", name.to_bytes().escape_ascii(), self.0),
            None => write!(out, "the function at {:#x}", self.0),
        }
    }
}

/// `NEAP_CHECK`: finds entries of the kind `cleaner` whose argument reaches their own object, which
/// therefore never die, and tells of each place once. With the world stopped, after everything else
/// that is reachable was marked; marks the arguments, which nobody has marked yet then.
pub(crate) fn check<M: Marking>(registry: &Registry, cleaner: usize, marking: &mut M) {
    registry.for_each(|entry| {
        let word = entry.object.load(Acquire);
        let was_dead = !marking.is_marked(object_of(word));
        marking.mark_word(entry.data.load(Relaxed));
        marking.drain();
        if was_dead && kind_of(word) == cleaner && marking.is_marked(object_of(word)) {
            tell(entry.function.load(Relaxed), object_of(word));
        }
    });
}

/// Whether [`check()`] is to mark the arguments.
pub(crate) fn checks() -> bool {
    check::level() >= 1
}

#[cold]
fn tell(word: usize, object: usize) {
    let number = word >> 48;
    let bit = 1 << (number % usize::BITS as usize);
    if TOLD[number / usize::BITS as usize].fetch_or(bit, Relaxed) & bit != 0 {
        return;
    }
    let text = TEXTS[number].load(Acquire);
    // SAFETY: who registered promised a text that lives for ever.
    let place = (text != 0).then(|| unsafe { CStr::from_ptr(text as *const c_char) });
    print::message(format_args!(
        "NEAP_CHECK: the argument of a cleaner leads to the cleaner's own object {object:#x}, \
         which so never dies: cleaner {:#x}, registered at {}; give it an argument that does not \
         point there",
        without(word),
        place.map_or("a place that is not known", |place| place
            .to_str()
            .unwrap_or("a place whose name is no text")),
    ));
}
