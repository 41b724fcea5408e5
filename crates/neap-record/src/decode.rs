//! A recording as a whole, read from the bytes of its file.
//!
//! Invariant: any bytes give a recording or [`NotARecording`]; memory used is bounded by a small
//! multiple of the file's size. Counts are sums over all chunks. Pure.

use crate::chunks::{Conditions, KINDS, Samples, Shape};
use crate::figures::{Census, Cycle, Statistics};
use crate::frame::{self, MAGIC, Next, Tag};
use crate::number::Reader;
use crate::spans::Span;
use crate::steps::CycleEvent;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The process that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id, and its parent's.
    pub id: u64,
    /// See there.
    pub parent: u64,
    /// When the recording began: nanoseconds since 1970.
    pub began_unix_ns: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// The command line.
    pub command: Vec<String>,
    /// How the collector learns what the program writes.
    pub watch: String,
    /// The library's version.
    pub version: String,
    /// Mean bytes between sampled allocations; 0: none were sampled.
    pub sample_bytes: u64,
    /// Bytes of each size class's cells.
    pub cells: Vec<u64>,
}

/// A thread of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// When it was attached.
    pub began_ns: u64,
}

/// Requests of one moment: all threads and kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since the recording began.
    pub at_ns: u64,
    /// Requests until then.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How full the heap was after a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// The cycle's number.
    pub cycle: u64,
    /// Bytes of a stretch.
    pub stretch_bytes: u64,
    /// For each stretch, 0 for nothing live to 255 for full.
    pub filled: Vec<u8>,
}

/// A loaded object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Its lowest address, and one past its highest.
    pub start: u64,
    /// See there.
    pub end: u64,
    /// Address in memory less address in the file.
    pub bias: u64,
    /// Its file.
    pub path: String,
    /// Its build id, in hexadecimal; empty if it has none.
    pub build_id: String,
}

/// The whole recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The process.
    pub process: Process,
    /// Options in force.
    pub options: Vec<(String, String)>,
    /// Threads by number.
    pub threads: BTreeMap<u64, Thread>,
    /// Requests by thread, kind and size.
    pub counts: BTreeMap<(u64, usize, u64), u64>,
    /// Requests over time.
    pub moments: Vec<Moment>,
    /// Objects and bytes by layout.
    pub layouts: BTreeMap<u64, (u64, u64)>,
    /// What layouts say.
    pub shapes: BTreeMap<u64, Shape>,
    /// What their objects are called, of those that have a name.
    pub names: BTreeMap<u64, String>,
    /// Cycles in their order.
    pub cycles: Vec<Cycle>,
    /// Their steps, with times.
    pub steps: Vec<(CycleEvent, u64)>,
    /// Stops, each once, in the order in which they were over.
    pub stops: Vec<Span>,
    /// What else took time in cycles.
    pub spans: Vec<Span>,
    /// Cycle, kind, class, figures.
    pub census: Vec<(u64, usize, u64, Census)>,
    /// Heap maps.
    pub maps: Vec<Map>,
    /// The process's figures over time.
    pub statistics: Vec<(u64, Statistics)>,
    /// As they were last.
    pub conditions: Conditions,
    /// Loaded objects.
    pub modules: Vec<Module>,
    /// Return addresses of sampled sites, innermost first.
    pub sites: BTreeMap<u64, Vec<u64>>,
    /// Layouts by site, of those whose objects have one.
    pub site_layouts: BTreeMap<u64, u64>,
    /// Samples by site.
    pub samples: BTreeMap<u64, Samples>,
    /// When the process ended in order; None if it did not.
    pub ended_ns: Option<u64>,
    /// What is wrong with the file, or with what can be told from it, in words.
    pub problems: Vec<String>,
}

/// The bytes are no recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARecording {
    /// The version it claims, if it is one of a later version.
    pub version: Option<u8>,
}

impl fmt::Display for NotARecording {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(
                out,
                "a recording of format {version}, which this version does not read; use a newer \
                 `neap`"
            ),
            None => out.write_str(
                "not a recording; record one with NEAP_STATS=FILE or `neap run --stats=FILE`",
            ),
        }
    }
}

impl core::error::Error for NotARecording {}

impl Recording {
    /// Reads a file's bytes.
    pub fn read(bytes: &[u8]) -> Result<Recording, NotARecording> {
        let (magic, mut rest) =
            bytes.split_at_checked(MAGIC.len()).ok_or(NotARecording { version: None })?;
        if magic != MAGIC {
            let version = (magic[..7] == MAGIC[..7]).then_some(magic[7]);
            return Err(NotARecording { version });
        }
        let mut recording = Recording::default();
        loop {
            let at = bytes.len() - rest.len();
            match frame::next(rest) {
                Next::Chunk { tag, payload, length } => {
                    if let Some(tag) = Tag::from_byte(tag)
                        && recording.take(tag, &mut Reader::new(payload)).is_none()
                    {
                        recording
                            .problems
                            .push(format!("the {tag:?} chunk at byte {at} is too short"));
                    }
                    rest = &rest[length..];
                }
                Next::Cut => {
                    recording.problems.push(format!(
                        "the file ends within the chunk at byte {at}: what was recorded before is \
                         complete"
                    ));
                    break;
                }
                Next::Broken => {
                    recording.problems.push(format!(
                        "the chunk at byte {at} is damaged: it and what follows are left out"
                    ));
                    break;
                }
                Next::End => break,
            }
        }
        Ok(recording)
    }

    /// Takes one chunk; None if it ends too early.
    fn take(&mut self, tag: Tag, payload: &mut Reader<'_>) -> Option<()> {
        match tag {
            Tag::Process => self.process = process(payload)?,
            Tag::Option => self.options.push((string(payload)?, string(payload)?)),
            Tag::Thread => {
                let (began_ns, number, id) =
                    (payload.number()?, payload.number()?, payload.number()?);
                self.threads.insert(number, Thread { id, name: string(payload)?, began_ns });
            }
            Tag::Counts => return self.take_counts(payload),
            Tag::Layouts => return self.take_layouts(payload),
            Tag::Layout => {
                let number = payload.number()?;
                let (form, first, second) =
                    (payload.number()?, payload.number()?, payload.number()?);
                let shape = match form {
                    0 => Shape::Bitmap { element_words: first, pointer_words: second },
                    1 => Shape::Prefix { bytes: first },
                    _ => Shape::Function,
                };
                self.shapes.insert(number, shape);
                // Older recordings have no names.
                let name = if payload.is_empty() { String::new() } else { string(payload)? };
                if !name.is_empty() {
                    self.names.insert(number, name);
                }
            }
            Tag::Cycle => self.cycles.push(Cycle::from_values(&values(payload)?)),
            Tag::Steps => {
                let mut at_ns = 0_u64;
                while !payload.is_empty() {
                    let step = payload.number()?;
                    at_ns = at_ns.saturating_add(payload.number()?);
                    self.steps.extend(CycleEvent::from_number(step).map(|step| (step, at_ns)));
                }
            }
            Tag::Spans => return self.take_spans(payload),
            Tag::Census => return self.take_census(payload),
            Tag::Map => {
                let (cycle, stretch_bytes) = (payload.number()?, payload.number()?);
                self.maps.push(Map { cycle, stretch_bytes, filled: payload.text()?.to_vec() });
            }
            Tag::Statistics => {
                let at_ns = payload.number()?;
                let before = self.conditions.past_end;
                self.conditions = Conditions {
                    past_end: payload.number()?,
                    align_all: payload.number()?,
                    padding_bytes: payload.number()?,
                    resized_in_place: payload.number()?,
                    lost: payload.number()?,
                };
                // What it changed and changed back between two of these is not seen.
                let is_first = self.statistics.is_empty();
                if !is_first && before != self.conditions.past_end {
                    self.problems.push(format!(
                        "at {at_ns} ns the program had changed whether an object has a byte more \
                         for a pointer one past its end: figures of cells are as if it had always \
                         been as it was last"
                    ));
                }
                self.statistics.push((at_ns, Statistics::from_values(&values(payload)?)));
            }
            Tag::Module => self.modules.push(Module {
                start: payload.number()?,
                end: payload.number()?,
                bias: payload.number()?,
                path: string(payload)?,
                build_id: payload.text()?.iter().map(|byte| format!("{byte:02x}")).collect(),
            }),
            Tag::Site => {
                let number = payload.number()?;
                self.sites.insert(number, values(payload)?);
            }
            Tag::SiteLayout => {
                self.site_layouts.insert(payload.number()?, payload.number()?);
            }
            Tag::Samples => return self.take_samples(payload),
            Tag::End => self.ended_ns = Some(payload.number()?),
        }
        Some(())
    }

    fn take_counts(&mut self, payload: &mut Reader<'_>) -> Option<()> {
        let (at_ns, thread, kind) = (payload.number()?, payload.number()?, payload.number()?);
        let kind = usize::try_from(kind).ok().filter(|kind| *kind < KINDS)?;
        let mut moment = self.moments.last().copied().unwrap_or_default();
        let mut size = 0_u64;
        while !payload.is_empty() {
            size = size.saturating_add(payload.number()?);
            let count = payload.number()?;
            let sum = self.counts.entry((thread, kind, size)).or_default();
            *sum = sum.saturating_add(count);
            moment.objects = moment.objects.saturating_add(count);
            moment.bytes = moment.bytes.saturating_add(size.saturating_mul(count));
        }
        if self.moments.last().is_some_and(|last| last.at_ns == at_ns) {
            self.moments.pop();
        }
        self.moments.push(Moment { at_ns, ..moment });
        Some(())
    }

    fn take_layouts(&mut self, payload: &mut Reader<'_>) -> Option<()> {
        let (_at_ns, _thread) = (payload.number()?, payload.number()?);
        let mut layout = 0_u64;
        while !payload.is_empty() {
            layout = layout.saturating_add(payload.number()?);
            let (objects, bytes) = (payload.number()?, payload.number()?);
            let sums = self.layouts.entry(layout).or_default();
            *sums = (sums.0.saturating_add(objects), sums.1.saturating_add(bytes));
        }
        Some(())
    }

    fn take_spans(&mut self, payload: &mut Reader<'_>) -> Option<()> {
        let numbers = usize::try_from(payload.number()?).ok();
        // With fewer, each byte of a hostile file would be a span.
        let numbers = numbers.filter(|numbers| (Span::COUNT..=64).contains(numbers))?;
        while !payload.is_empty() {
            let mut values = [0; Span::COUNT];
            for place in 0..numbers {
                let value = payload.number()?;
                if let Some(known) = values.get_mut(place) {
                    *known = value;
                }
            }
            if let Some(span) = Span::from_values(&values) {
                let list = if span.kind.is_stop() { &mut self.stops } else { &mut self.spans };
                list.push(span);
            }
        }
        Some(())
    }

    fn take_census(&mut self, payload: &mut Reader<'_>) -> Option<()> {
        let cycle = payload.number()?;
        let figures = usize::try_from(payload.number()?).ok().filter(|figures| *figures <= 64)?;
        while !payload.is_empty() {
            let (kind, class) = (payload.number()?, payload.number()?);
            let kind = usize::try_from(kind).ok().filter(|kind| *kind < KINDS)?;
            let values: Option<Vec<u64>> = (0..figures).map(|_| payload.number()).collect();
            self.census.push((cycle, kind, class, Census::from_values(&values?)));
        }
        Some(())
    }

    fn take_samples(&mut self, payload: &mut Reader<'_>) -> Option<()> {
        let _at_ns = payload.number()?;
        let mut site = 0_u64;
        while !payload.is_empty() {
            site = site.saturating_add(payload.number()?);
            let sums = self.samples.entry(site).or_default();
            for sum in
                [&mut sums.objects, &mut sums.bytes, &mut sums.gone_objects, &mut sums.gone_bytes]
            {
                *sum = sum.saturating_add(payload.number()?);
            }
        }
        Some(())
    }
}

fn process(payload: &mut Reader<'_>) -> Option<Process> {
    let (id, parent, began_unix_ns, page_bytes) =
        (payload.number()?, payload.number()?, payload.number()?, payload.number()?);
    let command = payload.text()?;
    let command = command.strip_suffix(b"\0").unwrap_or(command);
    let mut process = Process {
        id,
        parent,
        began_unix_ns,
        page_bytes,
        command: command.split(|byte| *byte == 0).map(printable).collect(),
        watch: string(payload)?,
        version: string(payload)?,
        sample_bytes: payload.number()?,
        cells: Vec::new(),
    };
    for _ in 0..payload.number()? {
        process.cells.push(payload.number()?);
    }
    Some(process)
}

/// Text that came from outside, for people to read: what would steer a terminal, or turn what is
/// shown round, stands as an escape.
pub fn printable(text: &[u8]) -> String {
    let mut shown = String::new();
    for character in String::from_utf8_lossy(text).chars() {
        let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match character.is_control() || turns {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

fn string(payload: &mut Reader<'_>) -> Option<String> {
    payload.text().map(printable)
}

/// All numbers that are left.
fn values(payload: &mut Reader<'_>) -> Option<Vec<u64>> {
    let mut values = Vec::new();
    while !payload.is_empty() {
        values.push(payload.number()?);
    }
    Some(values)
}

#[cfg(test)]
mod tests;
