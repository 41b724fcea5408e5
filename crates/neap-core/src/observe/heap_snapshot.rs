//! The live graph as a heap snapshot in Chrome's format (the memory panel of its developer tools
//! opens it): every object that the roots reach, its size, and what it points to.
//!
//! Nodes are numbered by address, so that an edge's target is found by counting bits: one bit for
//! each word of heap says where a reached object begins. Objects are called by the name of their
//! layout, else by kind and size; the roots are nodes of their own. Objects with a
//! trace function of the program are scanned conservatively. Invariant: reads the heap, writes
//! nothing but its own memory and the output; allocates by `mmap` only and takes no lock, so it can
//! run in a bare child of the process. The heap stands still.
//!
//! # Safety
//!
//! Reads the words of allocated objects in a copy of the process in which nothing runs but this, so
//! cells stay as they are. What is read of roots is the caller's promise.

#![allow(unsafe_code)]

use core::ops::Range;

use super::json_text::{Output, Text};
use super::snapshot_objects::{Names, for_each_child, name_of_thread};
use crate::addr::{Address, WORD_BYTES};
use crate::heap::Heap;
use crate::heap::kind::Scan;
use crate::heap::lookup::Cell;
use crate::heap::samples::Samples;
use crate::sys::meta_vec::{MetaVec, NoMemory};
use crate::sys::process::modules::Module;

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

/// Where roots lie. Each is a node, which the root of all points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Stack, registers and thread-local data of a thread, by the kernel's number.
    Thread(u32),
    /// Static data of a loaded object, by its place among the modules.
    Static(usize),
    /// Anything else, by name.
    Other(&'static str),
}

/// What the graph itself does not say.
pub struct Context<'a> {
    /// The process that was copied, as it knows itself.
    pub process: u32,
    /// Loaded objects.
    pub modules: &'a [Module],
    /// Objects whose allocation site is known.
    pub samples: &'a Samples,
    /// Mean bytes from one of them to the next.
    pub sample_bytes: u64,
}

/// A root word that points to an object.
#[derive(Clone, Copy)]
struct Root {
    /// Its place among the sources.
    source: usize,
    /// Where it lies: in static data the address that the file gives it, otherwise its address.
    /// What has no address is 0.
    place: usize,
    /// The object.
    start: usize,
}

/// The number of an object at the heap's first word. Smaller ones are the roots'; see [`Context`].
const FIRST_ID: usize = (1 << 20) + 1;
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
    /// Where roots were found, and what they point to, each root word one.
    sources: MetaVec<Source>,
    roots: MetaVec<Root>,
    /// How many objects were reached.
    objects: usize,
}

impl<'h> Snapshot<'h> {
    /// An empty graph.
    pub fn new(heap: &'h Heap) -> Result<Self, Failed> {
        let (base, length) = (heap.base().0, heap.committed());
        let mut reached = MetaVec::new();
        reached.try_resize((length / WORD_BYTES).div_ceil(64), 0_u64)?;
        let (before, waiting) = (MetaVec::new(), MetaVec::new());
        let (sources, roots) = (MetaVec::new(), MetaVec::new());
        Ok(Self { heap, base, length, reached, before, waiting, sources, roots, objects: 0 })
    }

    /// The source's place. Most words follow one of the same source.
    fn source(&mut self, source: Source) -> Result<usize, Failed> {
        if let Some(place) = self.sources.iter().rposition(|known| *known == source) {
            return Ok(place);
        }
        self.sources.try_push(source)?;
        Ok(self.sources.len() - 1)
    }

    /// A word of roots, where it lies, and all that it reaches.
    pub fn root(&mut self, source: Source, place: usize, word: usize) -> Result<(), Failed> {
        if let Some(object) = self.heap.object_at(word) {
            let source = self.source(source)?;
            self.roots.try_push(Root { source, place, start: object.start.0 })?;
            self.reach(&object)?;
            self.follow()?;
        }
        Ok(())
    }

    /// Every word of a range, which lies `bias` above where its file says.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn root_range(
        &mut self,
        source: Source,
        range: Range<usize>,
        bias: usize,
    ) -> Result<(), Failed> {
        let whole = crate::addr::whole_words(&range);
        let heap = self.base..self.base + self.length + 1;
        for address in whole.step_by(WORD_BYTES) {
            // SAFETY: the caller's promise; words of roots change under nobody here.
            let word = unsafe { Address(address).pointer::<usize>().read_volatile() };
            if heap.contains(&word) {
                self.root(source, address.wrapping_sub(bias), word)?;
            }
        }
        Ok(())
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

    /// Nodes before the first object: the root of all, and one for each source of roots.
    fn first_object(&self) -> usize {
        1 + self.sources.len()
    }

    /// An object's number. Chrome wants odd ones for objects of the program.
    fn id(&self, start: usize) -> usize {
        (start - self.base) / WORD_BYTES * 2 + FIRST_ID
    }

    /// The place of a reached object among all nodes.
    fn node(&self, start: usize) -> usize {
        let (place, bit) = self.bit(start);
        let group = place / GROUP;
        let within: u32 =
            self.reached[group * GROUP..place].iter().map(|word| word.count_ones()).sum();
        let rest = (self.reached[place] & (bit - 1)).count_ones();
        self.first_object() + (self.before[group] + within + rest) as usize
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
    pub fn write(&mut self, context: &Context<'_>, output: Output<'_>) -> Result<(), Failed> {
        let mut seen = 0;
        for (place, word) in self.reached.iter().enumerate() {
            if place % GROUP == 0 {
                self.before.try_push(seen)?;
            }
            seen += word.count_ones();
        }
        self.roots.sort_unstable_by_key(|root| (root.source, root.place));
        let mut names = Names::new(context.modules);
        let mut edges = self.sources.len() + self.roots.len();
        self.for_each(|object| {
            names.place(self.heap, object)?;
            for_each_child(self.heap, object.start.0, |_, _| edges += 1);
            Ok(())
        })?;
        let mut out = Text::new(output);
        let nodes = self.first_object() + self.objects;
        out.put(format_args!("{HEAD}\"node_count\":{nodes},\"edge_count\":{edges},"));
        out.put(format_args!("\"trace_function_count\":0,\n\"neap\":"));
        self.write_context(&mut out, context, &names);
        out.put(format_args!("}},\n\"nodes\":["));
        self.write_nodes(&mut out, &mut names)?;
        out.put(format_args!("],\n\"edges\":["));
        self.write_edges(&mut out)?;
        out.put(format_args!("{FOOT}\"strings\":[\"(roots)\""));
        self.write_names(&mut out, &names, context);
        out.put(format_args!("]}}\n"));
        out.flush();
        if out.refused { Err(Failed::Output) } else { Ok(()) }
    }

    /// What only `neap heap` reads: where the heap is, what files the static data are of, what may
    /// be tables of methods, and where objects were allocated.
    fn write_context(&self, out: &mut Text<'_>, context: &Context<'_>, names: &Names<'_>) {
        let (process, base) = (context.process, self.base);
        out.put(format_args!("{{\"version\":1,\"process\":{process},\"base\":{base},"));
        out.put(format_args!("\"first_id\":{FIRST_ID},\"modules\":["));
        for (index, module) in context.modules.iter().enumerate() {
            let comma = if index == 0 { "" } else { ",\n" };
            let Module { start, end, bias, .. } = module;
            out.put(format_args!("{comma}{{\"start\":{start},\"end\":{end},\"bias\":{bias},"));
            out.put(format_args!("\"build_id\":\""));
            module.build_id().iter().for_each(|byte| out.put(format_args!("{byte:02x}")));
            out.put(format_args!("\",\"path\":\""));
            out.put_in_string(module.path());
            out.put(format_args!("\"}}"));
        }
        // For each source the module, counted from 1, or 0.
        out.put(format_args!("],\n\"sources\":"));
        out.put_numbers(self.sources.iter().map(|source| match source {
            Source::Static(module) => module + 1,
            _ => 0,
        }));
        let mut comma = "";
        // For each the place of a name, and the pointer that its objects begin with.
        out.put(format_args!(",\n\"tables\":["));
        names.for_each_table(|place, table| {
            out.put(format_args!("{comma}{},{table}", self.first_object() + place));
            comma = ",";
        });
        out.put(format_args!("],\n\"sites\":["));
        let mut comma = "";
        context.samples.for_each_site(|number, frames| {
            out.put(format_args!("{comma}[{number},"));
            out.put_numbers(frames.iter().copied());
            out.put(format_args!("]"));
            comma = ",\n";
        });
        let mut comma = "";
        out.put(format_args!("],\n\"samples\":["));
        self.for_each_sampled(context, |object, site, _| {
            out.put(format_args!("{comma}{},{site}", self.id(object.start.0)));
            comma = ",";
        });
        // For each of them the bytes asked for and those of its cell, by which it was chosen.
        let mut comma = "";
        out.put(format_args!("],\n\"sizes\":["));
        self.for_each_sampled(context, |object, _, asked| {
            out.put(format_args!("{comma}{asked},{}", object.bytes()));
            comma = ",";
        });
        out.put(format_args!("],\"sample_bytes\":{}}}", context.sample_bytes));
    }

    /// Calls `f` with every reached object whose site is known, its site, and the bytes asked for.
    fn for_each_sampled(&self, context: &Context<'_>, mut f: impl FnMut(&Cell<'_>, usize, usize)) {
        context.samples.for_each_object(|address, site, asked| {
            let object = self.heap.object_at(address);
            if let Some(object) = object.filter(|object| self.is_reached(object.start.0)) {
                f(&object, site, asked);
            }
        });
    }

    fn roots_of(&self, source: usize) -> &[Root] {
        let from = self.roots.partition_point(|root| root.source < source);
        let to = self.roots.partition_point(|root| root.source <= source);
        &self.roots[from..to]
    }

    fn write_nodes(&self, out: &mut Text<'_>, names: &mut Names<'_>) -> Result<(), Failed> {
        // Types by number: 9 synthetic, 3 object. The strings begin with the roots' names.
        out.put(format_args!("9,0,1,0,{}", self.sources.len()));
        for source in 0..self.sources.len() {
            let edges = self.roots_of(source).len();
            out.put(format_args!(",\n9,{},{},0,{edges}", source + 1, source * 2 + 3));
        }
        self.for_each(|object| {
            let mut count = 0;
            for_each_child(self.heap, object.start.0, |_, _| count += 1);
            let name = self.first_object() + names.place(self.heap, object)?;
            let id = self.id(object.start.0);
            out.put(format_args!(",\n3,{name},{id},{},{count}", object.bytes()));
            Ok(())
        })
    }

    fn write_edges(&self, out: &mut Text<'_>) -> Result<(), Failed> {
        // Type by number: 1 element.
        let mut comma = "";
        let mut edge = |place: usize, node: usize| {
            out.put(format_args!("{comma}1,{place},{}", node * NODE_FIELDS));
            comma = ",\n";
        };
        (0..self.sources.len()).for_each(|source| edge(source, source + 1));
        for source in 0..self.sources.len() {
            self.roots_of(source).iter().for_each(|root| edge(root.place, self.node(root.start)));
        }
        self.for_each(|object| {
            for_each_child(self.heap, object.start.0, |place, child| {
                edge(place, self.node(child.start.0));
            });
            Ok(())
        })
    }

    fn write_names(&self, out: &mut Text<'_>, names: &Names<'_>, context: &Context<'_>) {
        for source in self.sources.iter() {
            out.put(format_args!(",\n\""));
            match *source {
                Source::Thread(id) => {
                    let mut name = [0; 32];
                    let name = name_of_thread(context.process, id, &mut name);
                    out.put(format_args!("thread {id} ("));
                    out.put_in_string(name);
                    out.put(format_args!(")"));
                }
                Source::Static(module) => {
                    out.put(format_args!("static data of "));
                    out.put_in_string(context.modules.get(module).map_or(b"?", Module::path));
                }
                Source::Other(name) => out.put(format_args!("{name}")),
            }
            out.put(format_args!("\""));
        }
        names.write(out, self.heap);
    }
}

const HEAD: &str = concat!(
    r#"{"snapshot":{"meta":{"#,
    r#""node_fields":["type","name","id","self_size","edge_count"],"#,
    r#""node_types":[["hidden","array","string","object","code","closure","regexp","number","#,
    r#""native","synthetic"],"string","number","number","number"],"#,
    r#""edge_fields":["type","name_or_index","to_node"],"#,
    r#""edge_types":[["context","element","property","internal","hidden","shortcut","weak"],"#,
    r#""string_or_number","node"],"#,
    r#""trace_function_info_fields":[],"trace_node_fields":[],"sample_fields":[],"#,
    r#""location_fields":[]},"#,
);
const FOOT: &str = concat!(
    r#"],"trace_function_infos":[],"trace_tree":[],"samples":[],"locations":[],"#,
    "
"
);

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
                    0 => refill(heap, local, buffer, id).unwrap(),
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
        snapshot.root(Source::Thread(7), 9, first + 1).unwrap();
        snapshot.root(Source::Static(0), 9, 12345).unwrap();
        assert_eq!(snapshot.objects, 2000);
        let samples = crate::heap::samples::lock();
        let context = Context { process: 1, modules: &[], samples: &samples, sample_bytes: 0 };
        let mut text = Vec::new();
        snapshot
            .write(&context, &mut |bytes| {
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
        assert_eq!(nodes.len(), (2 + 2000) * NODE_FIELDS);
        let counts = nodes.chunks(NODE_FIELDS).map(|node| node[4]);
        assert_eq!(counts.sum::<usize>() * 3, edges.len());
        // One source, one root, a leaf for each pair, and all pairs but the last have a
        // next one.
        assert_eq!(edges.len() / 3, 1 + 1 + 1000 + 999);
        let sizes = |bytes| nodes.chunks(NODE_FIELDS).filter(|node| node[3] == bytes).count();
        assert_eq!((sizes(16), sizes(40)), (1000, 1000));
        assert!(text.contains("\"leaf, 40 bytes\"") && text.contains("\"conservative, 16 bytes\""));
        // Every edge leads to the beginning of a node, and every object is led to once.
        let mut led_to: Vec<_> = edges.chunks(3).map(|edge| edge[2] / NODE_FIELDS).collect();
        led_to.sort();
        assert_eq!(led_to, (1..2 + 2000).collect::<Vec<_>>());
    }

    #[test]
    fn an_output_that_refuses_is_a_failure() {
        let heap = Heap::new();
        heap.reserve(64 << 20).unwrap();
        let first = list(&heap, 10);
        let mut snapshot = Snapshot::new(&heap).unwrap();
        snapshot.root(Source::Thread(1), 0, first).unwrap();
        let samples = crate::heap::samples::lock();
        let context = Context { process: 1, modules: &[], samples: &samples, sample_bytes: 0 };
        assert_eq!(snapshot.write(&context, &mut |_| false), Err(Failed::Output));
    }
}
