//! Pointer-free objects that are zero: no page of theirs is watched or scanned, and the core clears
//! none of them, so it is done here.
//!
//! Invariant: all bytes that the program may use of such an object are zero when it gets it, and so
//! are those that a resize adds. The label of the layout says which ones they are. What the
//! program's out-of-memory function gave in place of one stays as it is, if it is none of them.
//! Called from any thread.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api::{self as api, LayoutError, LayoutId, ObjectInfo, Shape};

/// In the label of these layouts, beside the number of the kind.
const CLEARED: u32 = 1 << 16;

/// Whether there may be such objects.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// The layout of such objects of a kind.
pub fn layout(kind: u32) -> Result<LayoutId, LayoutError> {
    IN_USE.store(true, Relaxed);
    api::layouts::labelled(Shape::Leaf, CLEARED | kind)
}

/// An object of this layout, which is one of those.
pub fn allocate(bytes: usize, layout: LayoutId) -> *mut c_void {
    let object = api::allocate_typed(bytes, layout).cast();
    clear_from(object, 0, layout);
    object
}

/// Resizes any object. Programs without cleared ones pay a look at a flag.
///
/// # Safety
/// As of the core's function.
#[inline(always)]
pub unsafe fn reallocate(object: *mut c_void, bytes: usize) -> *mut c_void {
    if IN_USE.load(Relaxed) {
        // SAFETY: the caller's promise.
        return unsafe { reallocate_any(object, bytes) };
    }
    // SAFETY: as above.
    unsafe { api::reallocate(object.cast(), bytes) }.cast()
}

/// What the object has beyond what it had, and beyond `bytes`, is zero if it is a cleared one.
#[inline(never)]
unsafe fn reallocate_any(object: *mut c_void, bytes: usize) -> *mut c_void {
    let before = api::object_at(object as usize);
    // SAFETY: the caller's promise.
    let resized = unsafe { api::reallocate(object.cast(), bytes) }.cast();
    if let Some(before) = before
        && let Some(layout) = before.layout
        && api::layouts::label(layout) & CLEARED != 0
    {
        clear_from(resized, before.bytes.min(bytes), layout);
    }
    resized
}

fn clear_from(object: *mut c_void, kept: usize, layout: LayoutId) {
    let now = api::object_at(object as usize);
    let own = |now: &ObjectInfo| now.start.as_ptr().cast() == object && now.layout == Some(layout);
    if let Some(now) = now.filter(own) {
        // SAFETY: the object's own bytes, which the program does not use yet.
        unsafe { now.start.add(kept).write_bytes(0, now.bytes.saturating_sub(kept)) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind::{GC_generic_malloc, GC_new_free_list, GC_new_kind};
    use super::super::typed::{GC_calloc_explicitly_typed, GC_malloc_explicitly_typed};
    use super::*;
    use crate::core_api::Kind;

    /// The memory of objects that are scanned is watched, whatever they hold.
    #[test]
    fn they_lie_in_memory_that_is_not_scanned() {
        let kind = GC_new_kind(GC_new_free_list(), 0, 0, 1);
        for bytes in [1, 40, 5000, 1 << 20] {
            for object in [
                GC_generic_malloc(bytes, kind as i32),
                GC_malloc_explicitly_typed(bytes, 0),
                GC_calloc_explicitly_typed(bytes, 8, 0),
            ] {
                let info = api::object_at(object as usize).expect("just allocated");
                assert_eq!(info.kind, Kind::Leaf, "{bytes} bytes");
            }
        }
    }
}
