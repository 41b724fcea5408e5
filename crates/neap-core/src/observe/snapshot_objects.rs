//! The objects of a heap snapshot: what each points to, and what it is called.
//!
//! Invariant: objects are called by layout, which may have a name, or by kind and size; those
//! with a trace function of the program are looked through conservatively. Called by
//! `heap_snapshot` in a copy of the process, in which the heap stands still.
//!
//! # Safety
//!
//! Reads the words of allocated objects that nobody writes to.

#![allow(unsafe_code)]

use super::json_text::Text;
use crate::addr::{Address, WORD_BYTES};
use crate::heap::Heap;
use crate::heap::blocks::header::NO_LAYOUT;
use crate::heap::kind::Scan;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::Cell;
use crate::sys::meta_vec::{MetaVec, NoMemory};

/// Calls `f` with the word's place and the object for every word of an object that points to one.
pub fn for_each_child<'h>(heap: &'h Heap, start: usize, mut f: impl FnMut(usize, &Cell<'h>)) {
    let Some(object) = heap.object_at(start) else { return };
    let bytes = object.usable_bytes();
    let layout = object.header.layout();
    let shape = (layout != NO_LAYOUT).then(|| heap.layouts.shape(LayoutId(layout)));
    // The words come in order, each with its place.
    let mut word_at = |address: Address| {
        // SAFETY: a word of an allocated object.
        let word = unsafe { address.pointer::<usize>().read() };
        if let Some(child) = heap.object_at(word) {
            f((address.0 - start) / WORD_BYTES, &child);
        }
    };
    match shape {
        _ if object.header.scan() == Scan::Leaf => {}
        Some(Shape::Leaf) => {}
        Some(Shape::Bitmap { element_words, bits }) => {
            let element = element_words * WORD_BYTES;
            for place in (0..bytes / WORD_BYTES).filter(|place| {
                let within = place * WORD_BYTES % element / WORD_BYTES;
                bits.get(within / 64).is_some_and(|word| word >> (within % 64) & 1 == 1)
            }) {
                word_at(Address(start + place * WORD_BYTES));
            }
        }
        Some(Shape::Prefix { bytes: prefix }) => {
            (0..prefix.min(bytes) / WORD_BYTES)
                .for_each(|place| word_at(Address(start + place * WORD_BYTES)));
        }
        Some(Shape::Function { .. }) | None => {
            (0..bytes / WORD_BYTES).for_each(|place| word_at(Address(start + place * WORD_BYTES)));
        }
    }
}

/// Names of objects, each once: kind and number.
pub struct Names {
    /// In the order of their places.
    pub names: MetaVec<(u8, usize)>,
}

impl Names {
    /// Objects with the layout of this number.
    pub const LAYOUT: u8 = 0;
    /// Objects of so many bytes that nothing is looked for in.
    pub const LEAF: u8 = 1;
    /// Objects of so many bytes in which every word may point to something.
    pub const CONSERVATIVE: u8 = 2;

    /// The place of an object's name.
    pub fn place(&mut self, object: &Cell<'_>) -> Result<usize, NoMemory> {
        let layout = object.header.layout();
        let name = match object.header.scan() {
            _ if layout != NO_LAYOUT => (Self::LAYOUT, layout as usize),
            Scan::Leaf => (Self::LEAF, object.bytes()),
            _ => (Self::CONSERVATIVE, object.bytes()),
        };
        if let Some(known) = self.names.iter().position(|known| *known == name) {
            return Ok(known);
        }
        self.names.try_push(name)?;
        Ok(self.names.len() - 1)
    }

    /// Writes the names behind strings that were written before.
    pub fn write(&self, out: &mut Text<'_>, heap: &Heap) {
        for (kind, number) in self.names.iter() {
            out.put(format_args!(",\""));
            match *kind {
                Self::LAYOUT => write_layout(out, heap, LayoutId(*number as u32)),
                Self::LEAF => out.put(format_args!("leaf, {number} bytes")),
                _ => out.put(format_args!("conservative, {number} bytes")),
            }
            out.put(format_args!("\""));
        }
    }
}

fn write_layout(out: &mut Text<'_>, heap: &Heap, layout: LayoutId) {
    let name = heap.layouts.label(layout).name;
    if !name.is_empty() {
        return out.put_in_string(name.as_bytes());
    }
    out.put(format_args!("layout {}", layout.0));
    if let Shape::Bitmap { element_words, bits } = heap.layouts.shape(layout) {
        let pointers: u32 = bits.iter().map(|word| word.count_ones()).sum();
        out.put(format_args!(": {pointers} of {element_words} words scanned"));
    }
}
