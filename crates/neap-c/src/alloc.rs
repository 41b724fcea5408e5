//! Allocation of every kind. `neap_alloc` and `neap_alloc_leaf` are what the inline forms of
//! `neap_inline.h` fall back on.
//!
//! Invariant: null comes with errno set: ENOMEM, or EINVAL for a wrong argument, which is told as
//! well. Called from any thread, which is attached by it.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use neap_core::api::{self, Kind};

use crate::inline;
use crate::layouts;
use crate::misuse::misuse;
use crate::status::{Status, set_errno};

const LARGEST_ALIGNMENT: usize = 4096;

fn kind_of(number: c_int) -> Option<Kind> {
    let kind = match number {
        0 => Kind::Conservative,
        1 => Kind::Leaf,
        2 => Kind::Uncollectable,
        3 => Kind::UncollectableLeaf,
        _ => {
            misuse(
                Status::BadArgument,
                format_args!("{number} is no kind of object: use one of enum neap_kind"),
            );
            set_errno(libc::EINVAL);
            return None;
        }
    };
    Some(kind)
}

/// What is asked for got nothing.
#[cold]
pub fn refused(bytes: usize) -> *mut c_void {
    if bytes > isize::MAX as usize {
        misuse(
            Status::BadArgument,
            format_args!(
                "{bytes} bytes were asked for, which no object can have: was a negative number, or \
                 a product that overflowed, passed as a size?"
            ),
        );
    }
    set_errno(libc::ENOMEM);
    null_mut()
}

#[inline(always)]
fn allocate(bytes: usize, kind: Kind) -> *mut c_void {
    let object = api::allocate_at_once(bytes, kind);
    if object.is_null() { allocate_otherwise(bytes, kind) } else { object.cast() }
}

/// The thread has no cell at hand: nobody's first object is, so what comes after that is done here.
#[cold]
#[inline(never)]
fn allocate_otherwise(bytes: usize, kind: Kind) -> *mut c_void {
    let object = api::allocate_otherwise(bytes, kind);
    inline::settle();
    if object.is_null() { refused(bytes) } else { object.cast() }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc(bytes: usize) -> *mut c_void {
    allocate(bytes, Kind::Conservative)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_leaf(bytes: usize) -> *mut c_void {
    allocate(bytes, Kind::Leaf)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_leaf_zeroed(bytes: usize) -> *mut c_void {
    zeroed(allocate(bytes, Kind::Leaf), bytes)
}

fn zeroed(object: *mut c_void, bytes: usize) -> *mut c_void {
    if !object.is_null() {
        // SAFETY: a fresh object of at least so many bytes.
        unsafe { object.cast::<u8>().write_bytes(0, bytes) };
    }
    object
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_uncollectable(bytes: usize) -> *mut c_void {
    allocate(bytes, Kind::Uncollectable)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_uncollectable_leaf(bytes: usize) -> *mut c_void {
    allocate(bytes, Kind::UncollectableLeaf)
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_kind(bytes: usize, kind: c_int) -> *mut c_void {
    kind_of(kind).map_or(null_mut(), |kind| allocate(bytes, kind))
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_array(count: usize, bytes: usize, kind: c_int) -> *mut c_void {
    let Some(kind) = kind_of(kind) else { return null_mut() };
    let Some(total) = count.checked_mul(bytes) else {
        misuse(
            Status::BadArgument,
            format_args!(
                "an array of {count} times {bytes} bytes is larger than any object can be"
            ),
        );
        set_errno(libc::ENOMEM);
        return null_mut();
    };
    let array = allocate(total, kind);
    match kind {
        Kind::Leaf | Kind::UncollectableLeaf => zeroed(array, total),
        Kind::Conservative | Kind::Uncollectable => array,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_aligned(bytes: usize, alignment: usize, kind: c_int) -> *mut c_void {
    let Some(kind) = kind_of(kind) else { return null_mut() };
    if !alignment.is_power_of_two() || alignment > LARGEST_ALIGNMENT {
        misuse(
            Status::BadArgument,
            format_args!(
                "an alignment of {alignment} was asked for: it has to be a power of two up to \
                 {LARGEST_ALIGNMENT}"
            ),
        );
        set_errno(libc::EINVAL);
        return null_mut();
    }
    let object = api::allocate_aligned(bytes, alignment, kind);
    inline::settle();
    if object.is_null() { refused(bytes) } else { object.cast() }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_alloc_typed(bytes: usize, layout: u32) -> *mut c_void {
    let Some(layout) = layouts::known(layout) else {
        misuse(
            Status::BadArgument,
            format_args!(
                "{layout} is no layout: use what neap_layout_bitmap, neap_layout_prefix or \
                 neap_layout_function gave, and check that it is not NEAP_NO_LAYOUT"
            ),
        );
        set_errno(libc::EINVAL);
        return null_mut();
    };
    let object = api::allocate_typed(bytes, layout);
    inline::settle();
    if object.is_null() { refused(bytes) } else { object.cast() }
}

#[unsafe(no_mangle)]
pub extern "C" fn neap_good_size(bytes: usize) -> usize {
    api::usable_bytes(bytes)
}
