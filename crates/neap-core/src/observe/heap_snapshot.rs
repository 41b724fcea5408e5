//! The live graph as a heap snapshot in Chrome's format (the memory panel of its developer tools
//! opens it): every object that the roots reach, its size, and what it points to.
//!
//! Nodes are numbered by address, so that an edge's target is found by counting bits: one bit for
//! each word of heap says where a reached object begins. Objects are called by their kind and size,
//! since a program has no other names for them; the roots are nodes of their own. Objects with a
//! trace function of the program are scanned conservatively. Invariant: reads the heap, writes
//! nothing but its own memory and the output; allocates by `mmap` only and takes no lock, so it can
//! run in a bare child of the process. The heap stands still.
//!
//! # Safety
//!
//! Reads the words of allocated objects in a copy of the process in which nothing runs but this, so
//! cells stay as they are. What is read of roots is the caller's promise.

#![allow(unsafe_code)]

use core::fmt::Write;
use core::ops::Range;

use crate::addr::{Address, WORD_BYTES};
use crate::heap::Heap;
use crate::heap::blocks::header::NO_LAYOUT;
use crate::heap::kind::Scan;
use crate::heap::layout::{LayoutId, Shape};
use crate::heap::lookup::Cell;
use crate::mark::scan::conservative::scan;
use crate::sys::meta_vec::{MetaVec, NoMemory};

/// Where the text goes, piece by piece; false when it takes no more.
pub type Output<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Why there is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// No memory for the collector's own tables.
    NoMemory,
    /// The output took no more.
    Output,
}

impl From<NoMemory> for Failed {
    fn from(_: NoMemory) -> Self {
        Self::NoMemory
    }
}

/// Nodes before the first object: the root of all, and one for each sort of roots.
const ROOT_NODES: usize = 1 + SORTS.len();
/// The sorts of roots, by number.
pub const SORTS: [&str; 4] = ["(stacks)", "(static data)", "(uncollectable)", "(references)"];
/// Fields of a node: type, name, id, self_size, edge_count.
const NODE_FIELDS: usize = 5;
/// Words of `reached` that share a count in `before`. Larger: less memory; smaller: fewer words to
/// count for an edge.
const GROUP: usize = 16;

/// The graph that was found.
pub struct Snapshot<'h> {
    heap: &'h Heap,
    base: usize,
    length: usize,
    /// Bit i: an object that was reached begins at word i of the heap.
    reached: MetaVec<u64>,
    /// For each [`GROUP`] words of `reached`, how many bits are set before them.
    before: MetaVec<u32>,
    /// Objects whose contents were not followed yet.
    waiting: MetaVec<usize>,
    /// Objects that roots point to: sort and start, each root word one.
    roots: MetaVec<(u8, usize)>,
    /// How many objects were reached.
    objects: usize,
}

impl<'h> Snapshot<'h> {
    /// An empty graph.
    pub fn new(heap: &'h Heap) -> Result<Self, Failed> {
        let (base, length) = (heap.base().0, heap.committed());
        let mut reached = MetaVec::new();
        reached.try_resize((length / WORD_BYTES).div_ceil(64), 0_u64)?;
        let (before, waiting, roots) = (MetaVec::new(), MetaVec::new(), MetaVec::new());
        Ok(Self { heap, base, length, reached, before, waiting, roots, objects: 0 })
    }

    /// A word of a sort of roots, and all that it reaches.
    pub fn root(&mut self, sort: usize, word: usize) -> Result<(), Failed> {
        if let Some(object) = self.heap.object_at(word) {
            self.roots.try_push((sort as u8, object.start.0))?;
            self.reach(&object)?;
            self.follow()?;
        }
        Ok(())
    }

    /// Every word of a range.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn root_range(&mut self, sort: usize, range: Range<usize>) -> Result<(), Failed> {
        let mut result = Ok(());
        let whole = crate::addr::whole_words(&range);
        let (base, length) = (self.base, self.length);
        // SAFETY: the caller's promise.
        unsafe {
            scan(whole.start, whole.end, base, length, |word| {
                if result.is_ok() {
                    result = self.root(sort, word);
                }
            });
        }
        result
    }

    fn bit(&self, start: usize) -> (usize, u64) {
        let word = (start - self.base) / WORD_BYTES;
        (word / 64, 1 << (word % 64))
    }

    fn reach(&mut self, object: &Cell<'_>) -> Result<(), Failed> {
        let (place, bit) = self.bit(object.start.0);
        if self.reached[place] & bit == 0 {
            self.reached[place] |= bit;
            self.objects += 1;
            if object.header.scan() != Scan::Leaf {
                self.waiting.try_push(object.start.0)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self) -> Result<(), Failed> {
        let heap = self.heap;
        while let Some(start) = self.waiting.pop() {
            let mut result = Ok(());
            for_each_child(heap, start, |_, child| {
                if result.is_ok() {
                    result = self.reach(child);
                }
            });
            result?;
        }
        Ok(())
    }

    /// Whether the object that begins at `start` was reached.
    pub fn is_reached(&self, start: usize) -> bool {
        let (place, bit) = self.bit(start);
        self.reached[place] & bit != 0
    }

    /// The place of a reached object among all nodes.
    fn node(&self, start: usize) -> usize {
        let (place, bit) = self.bit(start);
        let group = place / GROUP;
        let within: u32 =
            self.reached[group * GROUP..place].iter().map(|word| word.count_ones()).sum();
        let rest = (self.reached[place] & (bit - 1)).count_ones();
        ROOT_NODES + (self.before[group] + within + rest) as usize
    }

    /// Calls `f` for every reached object, lowest address first.
    fn for_each(&self, mut f: impl FnMut(&Cell<'h>) -> Result<(), Failed>) -> Result<(), Failed> {
        for (place, word) in self.reached.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let index = place * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                if let Some(object) = self.heap.object_at(self.base + index * WORD_BYTES) {
                    f(&object)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the graph.
    pub fn write(&mut self, output: Output<'_>) -> Result<(), Failed> {
        let mut seen = 0;
        for (place, word) in self.reached.iter().enumerate() {
            if place % GROUP == 0 {
                self.before.try_push(seen)?;
            }
            seen += word.count_ones();
        }
        let mut names = Names { names: MetaVec::new() };
        let mut edges = SORTS.len() + self.roots.len();
        self.for_each(|object| {
            names.place(object)?;
            for_each_child(self.heap, object.start.0, |_, _| edges += 1);
            Ok(())
        })?;
        let mut out = Text { output, line: [0; 4096], length: 0, refused: false };
        self.write_all(&mut out, &mut names, ROOT_NODES + self.objects, edges)?;
        out.flush();
        if out.refused { Err(Failed::Output) } else { Ok(()) }
    }

    fn write_all(
        &self,
        out: &mut Text<'_>,
        names: &mut Names,
        nodes: usize,
        edges: usize,
    ) -> Result<(), Failed> {
        out.put(format_args!(
            "{{\"snapshot\":{{\"meta\":{{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\"],\
             \"node_types\":[[\"hidden\",\"array\",\"string\",\"object\",\"code\",\"closure\",\"regexp\",\"number\",\"native\",\"synthetic\"],\
             \"string\",\"number\",\"number\",\"number\"],\
             \"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],\
             \"edge_types\":[[\"context\",\"element\",\"property\",\"internal\",\"hidden\",\"shortcut\",\"weak\"],\"string_or_number\",\"node\"],\
             \"trace_function_info_fields\":[],\"trace_node_fields\":[],\"sample_fields\":[],\"location_fields\":[]}},\
             \"node_count\":{nodes},\"edge_count\":{edges},\"trace_function_count\":0}},\n\"nodes\":["
        ));
        // Types by number: 9 synthetic, 3 object. The strings begin with the roots' names.
        out.put(format_args!("9,0,1,0,{}", SORTS.len()));
        for sort in 0..SORTS.len() {
            let of_sort =
                self.roots.iter().filter(|(found, _)| usize::from(*found) == sort).count();
            out.put(format_args!(",\n9,{},{},0,{of_sort}", sort + 1, sort * 2 + 3));
        }
        self.for_each(|object| {
            let mut count = 0;
            for_each_child(self.heap, object.start.0, |_, _| count += 1);
            let name = ROOT_NODES + names.place(object)?;
            // Chrome wants odd ids for objects of the program; an address is one of its own.
            out.put(format_args!(
                ",\n3,{name},{},{},{count}",
                (object.start.0 - self.base) / WORD_BYTES * 2 + 101,
                object.bytes()
            ));
            Ok(())
        })?;
        // Types by number: 1 element, 3 internal.
        out.put(format_args!("],\n\"edges\":["));
        for sort in 0..SORTS.len() {
            let comma = if sort == 0 { "" } else { ",\n" };
            out.put(format_args!("{comma}1,{sort},{}", (sort + 1) * NODE_FIELDS));
        }
        for sort in 0..SORTS.len() {
            let of_sort = self.roots.iter().filter(|(found, _)| usize::from(*found) == sort);
            for (index, (_, start)) in of_sort.enumerate() {
                out.put(format_args!(",\n1,{index},{}", self.node(*start) * NODE_FIELDS));
            }
        }
        self.for_each(|object| {
            for_each_child(self.heap, object.start.0, |place, child| {
                out.put(format_args!(",\n1,{place},{}", self.node(child.start.0) * NODE_FIELDS));
            });
            Ok(())
        })?;
        out.put(format_args!(
            "],\n\"trace_function_infos\":[],\"trace_tree\":[],\"samples\":[],\"locations\":[],\n\"strings\":[\"(roots)\""
        ));
        for name in SORTS {
            out.put(format_args!(",\"{name}\""));
        }
        for (kind, number) in names.names.iter() {
            match *kind {
                Names::LAYOUT => out.put(format_args!(",\"layout {number}\"")),
                Names::LEAF => out.put(format_args!(",\"leaf, {number} bytes\"")),
                _ => out.put(format_args!(",\"conservative, {number} bytes\"")),
            }
        }
        out.put(format_args!("]}}\n"));
        Ok(())
    }
}

/// Calls `f` with the word's place and the object for every word of an object that points to one.
fn for_each_child<'h>(heap: &'h Heap, start: usize, mut f: impl FnMut(usize, &Cell<'h>)) {
    let Some(object) = heap.object_at(start) else { return };
    let bytes = match object.header.requested() {
        0 => object.bytes(),
        requested => requested & !(WORD_BYTES - 1),
    };
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
struct Names {
    names: MetaVec<(u8, usize)>,
}

impl Names {
    const LAYOUT: u8 = 0;
    const LEAF: u8 = 1;
    const CONSERVATIVE: u8 = 2;

    fn place(&mut self, object: &Cell<'_>) -> Result<usize, Failed> {
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
}

/// Text on its way to the output.
struct Text<'a> {
    output: Output<'a>,
    line: [u8; 4096],
    length: usize,
    refused: bool,
}

impl Text<'_> {
    fn put(&mut self, text: core::fmt::Arguments<'_>) {
        // It keeps everything, or notes that it was refused.
        let _ = self.write_fmt(text);
    }

    fn flush(&mut self) {
        if !self.refused && self.length > 0 {
            self.refused = !(self.output)(&self.line[..self.length]);
        }
        self.length = 0;
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.length == self.line.len() {
                self.flush();
            }
            let taken = rest.len().min(self.line.len() - self.length);
            self.line[self.length..self.length + taken].copy_from_slice(&rest[..taken]);
            self.length += taken;
            rest = &rest[taken..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::{buffer::tests::local, refill::refill};
    use crate::heap::classes;
    use crate::heap::kind::Kind;
    use crate::heap::spaces::SpaceId;

    /// A list of `count` pairs, each with a leaf; and a pair that nothing points to.
    fn list(heap: &Heap, count: usize) -> usize {
        let local = local();
        let make = |kind, bytes| {
            let id = SpaceId::of(kind, classes::class_of(bytes));
            let buffer = local.buffer(id).unwrap();
            loop {
                match buffer.bump(classes::cell_bytes(classes::class_of(bytes))) {
                    0 => refill(heap, local, buffer, id, true).unwrap(),
                    cell => return cell as *mut [usize; 2],
                };
            }
        };
        let mut first = 0;
        for _ in 0..count {
            let (pair, leaf) = (make(Kind::Conservative, 16), make(Kind::Leaf, 40));
            // SAFETY: the cells are ours.
            unsafe { pair.write([first, leaf as usize + 8]) };
            first = pair as usize;
        }
        make(Kind::Conservative, 16);
        first
    }

    #[test]
    fn the_text_is_the_graph() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let first = list(&heap, 1000);
        let mut snapshot = Snapshot::new(&heap).unwrap();
        snapshot.root(1, first + 1).unwrap();
        snapshot.root(0, 12345).unwrap();
        assert_eq!(snapshot.objects, 2000);
        let mut text = Vec::new();
        snapshot
            .write(&mut |bytes| {
                text.extend_from_slice(bytes);
                true
            })
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        let part = |name: &str| {
            let from = text.find(&format!("\"{name}\":[")).unwrap() + name.len() + 4;
            let all = &text[from..from + text[from..].find(']').unwrap()];
            let numbers = all.split(',').map(|number| number.trim().parse().unwrap());
            numbers.collect::<Vec<usize>>()
        };
        let (nodes, edges) = (part("nodes"), part("edges"));
        assert_eq!(nodes.len(), (ROOT_NODES + 2000) * NODE_FIELDS);
        let counts = nodes.chunks(NODE_FIELDS).map(|node| node[4]);
        assert_eq!(counts.sum::<usize>() * 3, edges.len());
        // Four sorts of roots, one root, a leaf for each pair, and all pairs but the last have a
        // next one.
        assert_eq!(edges.len() / 3, SORTS.len() + 1 + 1000 + 999);
        let sizes = |bytes| nodes.chunks(NODE_FIELDS).filter(|node| node[3] == bytes).count();
        assert_eq!((sizes(16), sizes(40)), (1000, 1000));
        assert!(text.contains("\"leaf, 40 bytes\"") && text.contains("\"conservative, 16 bytes\""));
        // Every edge leads to the beginning of a node, and every object is led to once.
        let mut led_to: Vec<_> = edges.chunks(3).map(|edge| edge[2] / NODE_FIELDS).collect();
        led_to.sort();
        assert_eq!(led_to, (1..ROOT_NODES + 2000).collect::<Vec<_>>());
    }

    #[test]
    fn an_output_that_refuses_is_a_failure() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let first = list(&heap, 10);
        let mut snapshot = Snapshot::new(&heap).unwrap();
        snapshot.root(1, first).unwrap();
        assert_eq!(snapshot.write(&mut |_| false), Err(Failed::Output));
    }
}
