//! `GC_all_interior_pointers`: whether objects have a byte that a pointer past their end points to.
//!
//! Invariant: interior pointers themselves always count. Where they are not to, objects get no such
//! byte: libgc's rule, and its programs' memory depends on it (ECL, Guile, Neko). What the user set
//! by `NEAP_PAST_END` stays. Called by the program, from any thread, and by `GC_init`.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::environment;
use super::variables::GC_all_interior_pointers;

/// Before `GC_init`, as `gc.h` asks for, or later: then what is allocated from now on is meant.
#[unsafe(no_mangle)]
pub extern "C" fn GC_set_all_interior_pointers(value: c_int) {
    GC_all_interior_pointers.store(value, Relaxed);
    heed();
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_get_all_interior_pointers() -> c_int {
    GC_all_interior_pointers.load(Relaxed)
}

/// Before the start: `GC_ALL_INTERIOR_POINTERS` has the last word.
pub fn heed_environment() {
    if environment::user_has_set(c"GC_ALL_INTERIOR_POINTERS") {
        GC_all_interior_pointers.store(1, Relaxed);
    }
    heed();
}

/// Does what the variable says, which the program may have written past the setter.
fn heed() {
    environment::keep_past_end(GC_all_interior_pointers.load(Relaxed) != 0);
}
