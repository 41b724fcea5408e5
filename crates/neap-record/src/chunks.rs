//! The chunks' payloads, one function for each, as `decode` reads them.
//!
//! Invariant: a list's entries are sorted by what their first number counts from, so that most
//! numbers take a byte. Called by the one thread that records.

use crate::figures::{Census, Cycle, Statistics};
use crate::frame::{Full, Tag, Writer};
use crate::spans::Span;

/// How many kinds of objects requests are counted by.
pub const KINDS: usize = 5;
/// The kind of objects that a layout describes; the others have the numbers of `enum neap_kind`.
pub const TYPED: usize = 4;
/// Bytes of a layout's name: those of types with many parameters have no end.
pub const MOST_NAME: usize = 1000;
/// Their names.
pub const KIND_NAMES: [&str; KINDS] =
    ["conservative", "leaf", "uncollectable", "uncollectable leaf", "typed"];

/// What a process says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// Its id.
    pub id: u64,
    /// Its parent's.
    pub parent: u64,
    /// When the recording began: nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// Bytes of a page: larger objects get whole ones.
    pub page_bytes: u64,
    /// Words of the command line, each ended by a NUL.
    pub command: &'a [u8],
    /// How the collector learns what the program writes.
    pub watch: &'a [u8],
    /// The library's version.
    pub version: &'a [u8],
    /// Mean bytes between sampled allocations; 0: none are sampled.
    pub sample_bytes: u64,
}

/// How requests become cells; what may change while the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Bytes that every request gets added.
    pub past_end: u64,
    /// 1: every object larger than a word lies at a multiple of 16.
    pub align_all: u64,
    /// Bytes of cells beyond what sizes alone explain: of requests for an alignment.
    pub padding_bytes: u64,
    /// Objects that were resized where they were; no requests.
    pub resized_in_place: u64,
    /// Cycles, steps and spans that were overwritten before they could be written.
    pub lost: u64,
}

/// What a layout says of its objects' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Of each `element_words`, so many may be pointers.
    Bitmap {
        /// Words of an element.
        element_words: u64,
        /// Of those, words that are scanned.
        pointer_words: u64,
    },
    /// The first bytes are scanned.
    Prefix {
        /// So many.
        bytes: u64,
    },
    /// A function of the program scans.
    Function,
}

/// Samples of one site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Sampled objects.
    pub objects: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Of those objects, how many are gone.
    pub gone_objects: u64,
    /// Their bytes.
    pub gone_bytes: u64,
}

impl Writer<'_> {
    /// The process, with the bytes of each size class's cells.
    pub fn process(
        &mut self,
        process: &Process<'_>,
        cells: impl ExactSizeIterator<Item = u32>,
    ) -> Result<(), Full> {
        self.chunk(Tag::Process, |out| {
            let Process {
                id,
                parent,
                began_unix_ns,
                page_bytes,
                command,
                watch,
                version,
                sample_bytes,
            } = *process;
            out.numbers(&[id, parent, began_unix_ns, page_bytes]);
            for text in [command, watch, version] {
                out.text(text);
            }
            out.number(sample_bytes);
            out.number(cells.len() as u64);
            cells.for_each(|bytes| out.number(u64::from(bytes)));
        })
    }

    /// An option that is in force.
    pub fn option(&mut self, name: &[u8], value: &[u8]) -> Result<(), Full> {
        self.chunk(Tag::Option, |out| {
            out.text(name);
            out.text(value);
        })
    }

    /// A thread that counts from now on as number `thread`.
    pub fn thread(&mut self, at_ns: u64, thread: u64, id: u64, name: &[u8]) -> Result<(), Full> {
        self.chunk(Tag::Thread, |out| {
            out.numbers(&[at_ns, thread, id]);
            out.text(name);
        })
    }

    /// Further requests of a thread and kind, by size in bytes: pairs of size and count, sizes
    /// ascending.
    pub fn counts(
        &mut self,
        at_ns: u64,
        thread: u64,
        kind: usize,
        counts: impl Iterator<Item = (u64, u64)>,
    ) -> Result<(), Full> {
        self.chunk(Tag::Counts, |out| {
            out.numbers(&[at_ns, thread, kind as u64]);
            let mut before = 0;
            for (size, count) in counts {
                out.number(size - before);
                out.number(count);
                before = size;
            }
        })
    }

    /// Further requests by layout: its number, objects and bytes, numbers ascending.
    pub fn layouts(
        &mut self,
        at_ns: u64,
        thread: u64,
        counts: impl Iterator<Item = (u64, u64, u64)>,
    ) -> Result<(), Full> {
        self.chunk(Tag::Layouts, |out| {
            out.numbers(&[at_ns, thread]);
            let mut before = 0;
            for (layout, objects, bytes) in counts {
                out.numbers(&[layout - before, objects, bytes]);
                before = layout;
            }
        })
    }

    /// What a layout says, and what its objects are called, if they are: no more of it than
    /// [`MOST_NAME`] bytes.
    pub fn layout(&mut self, number: u64, shape: Shape, name: &str) -> Result<(), Full> {
        self.chunk(Tag::Layout, |out| {
            let values = match shape {
                Shape::Bitmap { element_words, pointer_words } => [0, element_words, pointer_words],
                Shape::Prefix { bytes } => [1, bytes, 0],
                Shape::Function => [2, 0, 0],
            };
            out.number(number);
            out.numbers(&values);
            out.text(&name.as_bytes()[..name.len().min(MOST_NAME)]);
        })
    }

    /// A cycle that is over.
    pub fn cycle(&mut self, cycle: &Cycle) -> Result<(), Full> {
        self.chunk(Tag::Cycle, |out| out.numbers(&cycle.values()))
    }

    /// Steps of cycles, in the order of their times.
    pub fn steps(&mut self, steps: impl Iterator<Item = (u64, u64)>) -> Result<(), Full> {
        self.chunk(Tag::Steps, |out| {
            let mut before = 0;
            for (step, at_ns) in steps {
                out.number(step);
                // Two threads may tell of steps in the same moment.
                out.number(at_ns.saturating_sub(before));
                before = before.max(at_ns);
            }
        })
    }

    /// Stops, phases and what threads did: their numbers.
    pub fn spans(&mut self, spans: impl Iterator<Item = [u64; Span::COUNT]>) -> Result<(), Full> {
        self.chunk(Tag::Spans, |out| {
            out.number(Span::COUNT as u64);
            spans.for_each(|span| out.numbers(&span));
        })
    }

    /// What lives in each class that has blocks: kind, class (as many as there are classes: large
    /// objects), figures.
    pub fn census(
        &mut self,
        cycle: u64,
        entries: impl Iterator<Item = (u64, u64, Census)>,
    ) -> Result<(), Full> {
        self.chunk(Tag::Census, |out| {
            out.number(cycle);
            out.number(Census::COUNT as u64);
            for (kind, class, census) in entries {
                out.number(kind);
                out.number(class);
                out.numbers(&census.values());
            }
        })
    }

    /// How full the heap is: a byte for each stretch of `stretch_bytes`, 0 for nothing live, 255
    /// for full.
    pub fn map(&mut self, cycle: u64, stretch_bytes: u64, filled: &[u8]) -> Result<(), Full> {
        self.chunk(Tag::Map, |out| {
            out.number(cycle);
            out.number(stretch_bytes);
            out.text(filled);
        })
    }

    /// The process's figures.
    pub fn statistics(
        &mut self,
        at_ns: u64,
        conditions: &Conditions,
        statistics: &Statistics,
    ) -> Result<(), Full> {
        self.chunk(Tag::Statistics, |out| {
            let Conditions { past_end, align_all, padding_bytes, resized_in_place, lost } =
                *conditions;
            out.numbers(&[at_ns, past_end, align_all, padding_bytes, resized_in_place, lost]);
            out.numbers(&statistics.values());
        })
    }

    /// A loaded object: where it lies, what its addresses differ by from those in its file, and its
    /// file.
    pub fn module(
        &mut self,
        start: u64,
        end: u64,
        bias: u64,
        path: &[u8],
        build_id: &[u8],
    ) -> Result<(), Full> {
        self.chunk(Tag::Module, |out| {
            out.numbers(&[start, end, bias]);
            out.text(path);
            out.text(build_id);
        })
    }

    /// A site: return addresses, innermost first.
    pub fn site(&mut self, number: u64, frames: impl Iterator<Item = u64>) -> Result<(), Full> {
        self.chunk(Tag::Site, |out| {
            out.number(number);
            frames.for_each(|frame| out.number(frame));
        })
    }

    /// The layout of a site's objects.
    pub fn site_layout(&mut self, number: u64, layout: u64) -> Result<(), Full> {
        self.chunk(Tag::SiteLayout, |out| out.numbers(&[number, layout]))
    }

    /// Further samples by site, numbers ascending.
    pub fn samples(
        &mut self,
        at_ns: u64,
        samples: impl Iterator<Item = (u64, Samples)>,
    ) -> Result<(), Full> {
        self.chunk(Tag::Samples, |out| {
            out.number(at_ns);
            let mut before = 0;
            for (site, samples) in samples {
                let Samples { objects, bytes, gone_objects, gone_bytes } = samples;
                out.numbers(&[site - before, objects, bytes, gone_objects, gone_bytes]);
                before = site;
            }
        })
    }

    /// The process ends in order.
    pub fn end(&mut self, at_ns: u64) -> Result<(), Full> {
        self.chunk(Tag::End, |out| out.number(at_ns))
    }
}
