//! Labels of layouts: the program's own mark on objects that are scanned alike.
//!
//! Invariant: a layout and its label never change, so both are read without a lock. Called from any
//! thread.

use super::{LayoutError, LayoutId, Shape, raw_shape};
use crate::heap::HEAP;
use crate::heap::layout::Label;
use crate::world::critical;

/// The number of a shape under a label, the same each time; 0 is no label.
pub fn labelled(shape: Shape<'_>, label: u32) -> Result<LayoutId, LayoutError> {
    interned(shape, Label { number: label, name: "" })
}

/// The number of a shape under a name, the same each time: what reports, heap snapshots and
/// recordings call the objects.
pub fn named(shape: Shape<'_>, name: &'static str) -> Result<LayoutId, LayoutError> {
    interned(shape, Label { number: 0, name })
}

fn interned(shape: Shape<'_>, label: Label) -> Result<LayoutId, LayoutError> {
    crate::runtime::initialize();
    // The library's own memory is taken under a lock that a stopped thread must not hold.
    let _critical = critical::enter();
    HEAP.layouts.intern_labelled(raw_shape(shape), label)
}

/// A layout of the same shape and name under another label.
pub fn relabelled(layout: LayoutId, label: u32) -> Result<LayoutId, LayoutError> {
    crate::runtime::initialize();
    let _critical = critical::enter();
    let label = Label { number: label, ..HEAP.layouts.label(layout) };
    HEAP.layouts.intern_labelled(HEAP.layouts.shape(layout), label)
}

/// The label of a layout that was given out.
pub fn label(layout: LayoutId) -> u32 {
    HEAP.layouts.label(layout).number
}

/// From now on there are objects whose layout was [`Calls::NotYet`](super::Calls) and for which the
/// program is called.
#[inline]
pub fn note_calls() {
    HEAP.layouts.note_calls();
}

/// From now on what the program's trace functions name are words of the object that they are called
/// for, and nothing that lies elsewhere: they are called again only where their object was written.
pub fn note_local_functions() {
    HEAP.layouts.note_local_functions();
}
