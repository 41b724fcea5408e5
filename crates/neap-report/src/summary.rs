//! The figures of one recording that every report shows.
//!
//! Invariant: sums are over all threads; rows of each table add up to the total. A file may come
//! from anybody: sums end at the largest number. Pure.

use crate::cost::{Cells, Cost, power_of_two};
use neap_record::chunks::Shape;
use neap_record::{Cycle, KINDS, Recording, SpanKind, Statistics, TYPED, live};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds that are not scanned, by number.
const LEAVES: [usize; 2] = [1, 3];
/// Bytes of a type pointer kept with each scanned object, in the comparison.
pub const TYPE_POINTER_BYTES: u64 = 8;

/// What the same requests would cost in bins of powers of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PowersOfTwo {
    /// As they are.
    pub conservative: Cost,
    /// With a type pointer at the end of each scanned object.
    pub with_type_pointers: Cost,
}

/// Requests for objects of one layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutRow {
    /// Its number.
    pub number: u64,
    /// What its objects are called; empty without a name.
    pub name: String,
    /// What it says; None if the recording ends before that.
    pub shape: Option<Shape>,
    /// Requests.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of these objects that marking never looks at, each object once.
    pub not_scanned: u64,
}

/// Stops, worked out as the process itself does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    buckets: BTreeMap<usize, u64>,
    kinds: BTreeMap<SpanKind, u64>,
    count: u64,
    total_ns: u64,
    max_ns: u64,
}

impl Stops {
    /// Of a recording. Earlier versions did not record each: of short stops of a cycle, then, only
    /// the longest is known.
    fn of(recording: &Recording) -> Self {
        let mut stops = Self::default();
        for stop in &recording.stops {
            stops.add(stop.length_ns);
            *stops.kinds.entry(stop.kind).or_default() += 1;
        }
        if recording.stops.is_empty() {
            let lengths = |cycle: &Cycle| [cycle.first_ns, cycle.longest_short_ns, cycle.pause_ns];
            let known = recording.cycles.iter().flat_map(lengths).filter(|length| *length > 0);
            known.for_each(|length| stops.add(length));
        }
        stops
    }

    fn add(&mut self, length_ns: u64) {
        *self.buckets.entry(live::bucket(length_ns)).or_default() += 1;
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(length_ns);
        self.max_ns = self.max_ns.max(length_ns);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.total_ns
    }

    /// The longest.
    pub fn max(&self) -> u64 {
        self.max_ns
    }

    /// A duration that such a part (0 to 1) of them do not exceed, as everything in Neap tells it:
    /// an eighth too long at most.
    pub fn percentile(&self, part: f64) -> u64 {
        let counts =
            (0..live::BUCKETS).map(|bucket| self.buckets.get(&bucket).copied().unwrap_or(0));
        live::percentile(counts, self.max_ns, part).unwrap_or(0)
    }

    /// How many there are of each kind.
    pub fn kinds(&self) -> impl Iterator<Item = (SpanKind, u64)> {
        self.kinds.iter().map(|(kind, count)| (*kind, *count))
    }
}

/// Committed memory after a cycle, by what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The cycle.
    pub cycle: u64,
    /// Memory of the system in the heap.
    pub committed: u64,
    /// Cells of live objects.
    pub live: u64,
    /// Of the rest, what may be allocated before the next cycle is over.
    pub room: u64,
    /// What is not needed for that and holds no object: it goes back to the system once it has been
    /// unused for the time of the option `decay`.
    pub spare: u64,
    /// Everything else: free cells beside live ones, beyond those that the room needs.
    pub fragmentation: u64,
}

impl Memory {
    /// What `blocks` bytes of blocks with `live` bytes of live cells are part of, where `room`
    /// bytes may be allocated: in the free cells of these blocks first.
    fn divided(cycle: u64, committed: u64, live: u64, blocks: u64, room: u64) -> Self {
        let (beside, empty) = (blocks - live, committed - blocks);
        let fragmentation = beside.saturating_sub(room);
        let spare = empty.saturating_sub(room.saturating_sub(beside));
        Self {
            cycle,
            committed,
            live,
            room: committed - live - spare - fragmentation,
            spare,
            fragmentation,
        }
    }

    /// All but the room, as a multiple of what is live.
    pub fn beside_room(&self) -> f64 {
        (self.committed - self.room) as f64 / self.live.max(1) as f64
    }
}

/// The figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// All requests.
    pub total: Cost,
    /// By kind.
    pub kinds: [Cost; KINDS],
    /// Requests for objects that are scanned.
    pub scanned: Cost,
    /// Requests for objects that are not.
    pub not_scanned: Cost,
    /// Different sizes.
    pub different_sizes: usize,
    /// By bins of powers of two; None for whole pages, which come last.
    pub bins: Vec<(Option<u64>, Cost)>,
    /// By Neap's cells; None for large objects, which come last.
    pub classes: Vec<(Option<u64>, Cost)>,
    /// By thread.
    pub threads: Vec<(u64, Cost)>,
    /// By size, for tables of the largest.
    pub sizes: BTreeMap<u64, Cost>,
    /// The comparison.
    pub powers_of_two: PowersOfTwo,
    /// By layout.
    pub layouts: Vec<LayoutRow>,
    /// Bytes that requests for an alignment took beyond what their sizes take; part of no row.
    pub padding: u64,
    /// Every stop.
    pub stops: Stops,
    /// Bytes that cycles found dead.
    pub yielded: u64,
    /// After the last cycle whose heap was looked at.
    pub memory: Option<Memory>,
    /// All but the room as a multiple of what is live: the median of these cycles.
    pub beside_room: f64,
    /// The process's own figures at the end.
    pub statistics: Statistics,
    /// How long the recording is.
    pub length_ns: u64,
}

impl Summary {
    /// Of a recording.
    pub fn of(recording: &Recording) -> Self {
        let mut summary = Self {
            padding: recording.conditions.padding_bytes,
            statistics: recording.statistics.last().map_or_else(Statistics::default, |last| last.1),
            stops: Stops::of(recording),
            yielded: yielded(&recording.cycles),
            memory: memories(recording).last().copied(),
            beside_room: median_beside_room(recording),
            length_ns: length(recording),
            layouts: layouts(recording),
            ..Self::default()
        };
        summary.count(recording);
        summary
    }

    fn count(&mut self, recording: &Recording) {
        let cells = Cells::of(recording);
        let mut bins: BTreeMap<u64, Cost> = BTreeMap::new();
        let mut classes: BTreeMap<u64, Cost> = BTreeMap::new();
        let mut threads: BTreeMap<u64, Cost> = BTreeMap::new();
        let mut sizes = BTreeSet::new();
        for (&(thread, kind, size), &count) in &recording.counts {
            let (class, cell) = cells.cell(size);
            let (bin, bin_cell) = power_of_two(size);
            let is_leaf = LEAVES.contains(&kind);
            let part = if is_leaf { &mut self.not_scanned } else { &mut self.scanned };
            for cost in [
                &mut self.total,
                &mut self.kinds[kind],
                part,
                bins.entry(bin.unwrap_or(u64::MAX)).or_default(),
                classes.entry(class.map_or(u64::MAX, |_| cell)).or_default(),
                threads.entry(thread).or_default(),
                self.sizes.entry(size).or_default(),
            ] {
                cost.add(size, count, cell);
            }
            self.powers_of_two.conservative.add(size, count, bin_cell);
            let pointer = if is_leaf { 0 } else { TYPE_POINTER_BYTES };
            let typed_cell = power_of_two(size.saturating_add(pointer)).1;
            self.powers_of_two.with_type_pointers.add(size, count, typed_cell);
            sizes.insert(size);
        }
        self.different_sizes = sizes.len();
        let rows = |map: BTreeMap<u64, Cost>| {
            map.into_iter().map(|(bin, cost)| ((bin != u64::MAX).then_some(bin), cost)).collect()
        };
        self.bins = rows(bins);
        self.classes = rows(classes);
        self.threads = threads.into_iter().collect();
    }

    /// Bytes of typed objects that marking never looks at.
    pub fn words_saved(&self) -> u64 {
        sum(self.layouts.iter().map(|row| row.not_scanned / 8))
    }

    /// What a layout costs for each object: what the library counted for all cells, less what sizes
    /// and alignments explain, divided by the typed objects. None without typed objects, and where
    /// the library counted something else than requests (objects in flight when the process was
    /// killed).
    pub fn bytes_per_typed_object(&self) -> Option<f64> {
        let typed = self.kinds[TYPED].objects;
        let counted = self.statistics.allocated_bytes;
        let explained = self.total.allocated.saturating_add(self.padding);
        let same_objects = self.statistics.allocated_objects == self.total.objects;
        (typed > 0 && same_objects).then(|| (counted as f64 - explained as f64) / typed as f64)
    }
}

fn yielded(cycles: &[Cycle]) -> u64 {
    let before = core::iter::once(0).chain(cycles.iter().map(|cycle| cycle.live_bytes));
    sum(cycles.iter().zip(before).map(|(cycle, before)| cycle.yield_bytes(before)))
}

/// The sum of figures that may be anybody's.
pub fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

/// How long a recording is, as far as is known.
pub fn length(recording: &Recording) -> u64 {
    let last = [
        recording.ended_ns,
        recording.cycles.last().map(|cycle| cycle.ended_ns),
        recording.moments.last().map(|moment| moment.at_ns),
        recording.statistics.last().map(|statistics| statistics.0),
    ];
    last.into_iter().flatten().max().unwrap_or(0)
}

fn layouts(recording: &Recording) -> Vec<LayoutRow> {
    let row = |(&number, &(objects, bytes)): (&u64, &(u64, u64))| {
        let shape = recording.shapes.get(&number).copied();
        let not_scanned = match shape {
            Some(Shape::Bitmap { element_words, pointer_words }) => {
                let clear = element_words.saturating_sub(pointer_words);
                (u128::from(bytes) * u128::from(clear) / u128::from(element_words.max(1))) as u64
            }
            Some(Shape::Prefix { bytes: prefix }) => {
                bytes.saturating_sub(prefix.saturating_mul(objects))
            }
            Some(Shape::Function) | None => 0,
        };
        let name = recording.names.get(&number).cloned().unwrap_or_default();
        LayoutRow { number, name, shape, objects, bytes, not_scanned }
    };
    recording.layouts.iter().map(row).collect()
}

fn median_beside_room(recording: &Recording) -> f64 {
    let mut sorted: Vec<f64> = memories(recording).iter().map(Memory::beside_room).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Committed memory after each cycle whose heap was looked at.
pub fn memories(recording: &Recording) -> Vec<Memory> {
    let mut found: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (cycle, _, _, census) in &recording.census {
        let sums = found.entry(*cycle).or_default();
        sums.0 = sums.0.saturating_add(census.live_bytes);
        sums.1 = sums.1.saturating_add(census.block_bytes);
    }
    let cycles: BTreeMap<u64, &Cycle> =
        recording.cycles.iter().map(|cycle| (cycle.number, cycle)).collect();
    found
        .into_iter()
        .filter_map(|(cycle, (live, blocks))| {
            let ended = cycles.get(&cycle)?;
            // Blocks made since the cycle count as committed too.
            let blocks = blocks.max(live);
            let committed = ended.committed_bytes.max(blocks);
            // Recordings of earlier versions only say when the next cycle begins.
            let room = ended.room_bytes.max(ended.next_bytes);
            Some(Memory::divided(cycle, committed, live, blocks, room))
        })
        .collect()
}

#[cfg(test)]
pub mod tests;
