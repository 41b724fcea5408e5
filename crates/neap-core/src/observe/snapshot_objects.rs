//! The objects of a heap snapshot: what each points to, and what it is called; and what threads
//! are called.
//!
//! Invariant: objects are called by layout, which may have a name, or by kind and size, and apart
//! where they begin with different pointers into loaded objects; those with a trace function of the
//! program are looked through conservatively. Called by
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
use crate::sys::files::small_file;
use crate::sys::meta_vec::{MetaVec, NoMemory};
use crate::sys::print;
use crate::sys::process::modules::Module;

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

/// What an object is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    kind: Named,
    /// Of the layout, or bytes.
    number: usize,
    /// Its first word, where that points into a loaded object: it may be the class's table of
    /// methods, whose symbol names the class. Otherwise 0.
    table: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// By the layout of this number.
    Layout,
    /// Of so many bytes, in which nothing is looked for.
    Leaf,
    /// Of so many bytes, in which every word may point to something.
    Conservative,
}

/// Names of objects, each once.
pub struct Names<'m> {
    modules: &'m [Module],
    /// In the order of their places.
    names: MetaVec<Name>,
    /// For each hash the place of a name with it, counted from 1, or of one that had to move on.
    index: MetaVec<u32>,
    tables: usize,
}

/// First words are told apart up to so many. Larger: more classes; smaller: fewer names where
/// objects begin with pointers to many different static data.
const MOST_TABLES: usize = 4096;
/// Places for hashes at first.
const INDEX: usize = 256;

impl<'m> Names<'m> {
    /// None yet, of a program that has loaded these.
    pub fn new(modules: &'m [Module]) -> Self {
        Self { modules, names: MetaVec::new(), index: MetaVec::new(), tables: 0 }
    }

    /// The place of an object's name.
    pub fn place(&mut self, heap: &Heap, object: &Cell<'_>) -> Result<usize, NoMemory> {
        let layout = object.header.layout();
        let (kind, number) = match object.header.scan() {
            _ if layout != NO_LAYOUT => (Named::Layout, layout as usize),
            Scan::Leaf => (Named::Leaf, object.bytes()),
            _ => (Named::Conservative, object.bytes()),
        };
        let is_named =
            kind == Named::Layout && !heap.layouts.label(LayoutId(layout)).name.is_empty();
        let table = if is_named { 0 } else { self.table_of(object) };
        let known = self.find(Name { kind, number, table })?;
        if known < self.names.len() {
            return Ok(known);
        }
        let is_one_more = table != 0 && self.tables < MOST_TABLES;
        self.tables += usize::from(is_one_more);
        let name = Name { kind, number, table: if is_one_more { table } else { 0 } };
        let place = self.find(name)?;
        if place == self.names.len() {
            self.names.try_push(name)?;
            self.note(place);
        }
        Ok(place)
    }

    fn table_of(&self, object: &Cell<'_>) -> usize {
        if object.usable_bytes() < WORD_BYTES {
            return 0;
        }
        // SAFETY: a word of an allocated object.
        let word = unsafe { object.start.pointer::<usize>().read() };
        let is_within = |module: &Module| module.start <= word && word < module.end;
        if self.modules.iter().any(is_within) { word } else { 0 }
    }

    /// The place of a name, or the next one to be given; then there is room for it in the index.
    fn find(&mut self, name: Name) -> Result<usize, NoMemory> {
        if (self.names.len() + 1) * 2 > self.index.len() {
            let length = (self.index.len() * 2).max(INDEX);
            self.index.clear();
            self.index.try_resize(length, 0)?;
            (0..self.names.len()).for_each(|place| self.note(place));
        }
        let mut at = self.start_of(name);
        while let Some(known) = (self.index[at] as usize).checked_sub(1) {
            if self.names[known] == name {
                return Ok(known);
            }
            at = (at + 1) % self.index.len();
        }
        Ok(self.names.len())
    }

    fn start_of(&self, name: Name) -> usize {
        let mixed = name.number.wrapping_mul(3) ^ name.table ^ (name.kind as usize) << 60;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (self.index.len() - 1)
    }

    fn note(&mut self, place: usize) {
        let mut at = self.start_of(self.names[place]);
        while self.index[at] != 0 {
            at = (at + 1) % self.index.len();
        }
        self.index[at] = place as u32 + 1;
    }

    /// Calls `f` with the place of each name whose objects begin with the same pointer into a
    /// loaded object, and that pointer.
    pub fn for_each_table(&self, mut f: impl FnMut(usize, usize)) {
        let tables = self.names.iter().enumerate().filter(|(_, name)| name.table != 0);
        tables.for_each(|(place, name)| f(place, name.table));
    }

    /// Writes the names behind strings that were written before.
    pub fn write(&self, out: &mut Text<'_>, heap: &Heap) {
        for name in self.names.iter() {
            let number = name.number;
            out.put(format_args!(",\""));
            match name.kind {
                Named::Layout => write_layout(out, heap, LayoutId(number as u32)),
                Named::Leaf => out.put(format_args!("leaf, {number} bytes")),
                Named::Conservative => out.put(format_args!("conservative, {number} bytes")),
            }
            out.put(format_args!("\""));
        }
    }
}

/// What a thread of a process is called; empty if it is gone.
pub fn name_of_thread(process: u32, id: u32, room: &mut [u8; 32]) -> &[u8] {
    use core::fmt::Write;
    let mut path = print::Line::new();
    let _ = write!(path, "/proc/{process}/task/{id}/comm");
    let read = small_file::read(path.bytes(), room).unwrap_or(0);
    room[..read].trim_ascii_end()
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
