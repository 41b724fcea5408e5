//! A node of the shadow graph: everything that is known of one object of the heap, without keeping
//! it alive.
//!
//! Invariant: `slots` and `decoys` say what each word of the object holds that is not pattern. A
//! node belongs to one graph and is used by who holds that graph.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use crate::referrers::all_ready;
use crate::referrers::cleaners;
use crate::referrers::finalizers::Record;
use crate::referrers::handles::Weak;
use crate::shadow::hidden::{Hidden, pattern};
use crate::shadow::pairs::Pair;
use crate::shadow::shape::Shape;
use crate::{ensure, fail, options};

/// A node's place in its graph.
pub type Index = u32;

/// A pointer as the shadow knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// What it points to.
    pub target: Index,
    /// How far into it.
    pub offset: u32,
}

/// A word of an object that holds a pointer that counts, or zero.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Which word.
    pub word: usize,
    /// What it holds.
    pub edge: Option<Edge>,
}

/// One object.
pub struct Node {
    /// Never used twice in a process.
    pub id: u64,
    /// Its first byte.
    pub address: Hidden,
    /// Bytes asked for.
    pub bytes: usize,
    /// How it is scanned.
    pub shape: Shape,
    /// Its pointers, by word.
    pub slots: Vec<Slot>,
    /// Words that are not scanned and hold an address all the same, by word.
    pub decoys: Vec<(usize, Hidden)>,
    /// Pointers to it, from places and from objects dead or alive.
    pub references: u32,
    /// Becomes zero when it dies: registered as a disappearing link.
    pub link: Option<Box<AtomicUsize>>,
    /// A weak handle to it.
    pub weak: Option<Weak>,
    /// Ephemerons whose key it is.
    pub pairs: Vec<Pair>,
    /// Its finalizer.
    pub finalizer: Option<Arc<Record>>,
    /// Its cleaners, and references to it on the queue.
    pub cleaners: Vec<Arc<cleaners::Record>>,
    /// An audit found it unreachable.
    pub dead: bool,
}

impl Node {
    /// The value that word `index` must have, if that is not pattern; `None` in a slot means zero.
    fn exception(&self, index: usize, resolve: &impl Fn(Edge) -> usize) -> Option<usize> {
        if let Ok(at) = self.slots.binary_search_by_key(&index, |slot| slot.word) {
            return Some(self.slots[at].edge.map_or(0, resolve));
        }
        let at = self.decoys.binary_search_by_key(&index, |decoy| decoy.0).ok()?;
        Some(self.decoys[at].1.reveal())
    }

    /// What word `index` must hold.
    pub fn expected(&self, index: usize, resolve: &impl Fn(Edge) -> usize) -> usize {
        self.exception(index, resolve)
            .unwrap_or_else(|| pattern(options::get().seed, self.id, index))
    }

    /// Whether the word holds pattern.
    pub fn is_pattern(&self, index: usize) -> bool {
        self.exception(index, &|_| 0).is_none()
    }

    /// The object's word `index`.
    pub fn word(&self, index: usize) -> &AtomicUsize {
        // SAFETY: the object is alive as far as the shadow knows, and the word is one of its own;
        // the collector only reads it.
        unsafe { &*(self.address.reveal() as *const AtomicUsize).add(index) }
    }

    /// Writes what the words from `from` on, and the last bytes, must hold.
    pub fn fill(&self, from: usize, resolve: &impl Fn(Edge) -> usize) {
        for index in from..self.bytes / 8 {
            self.word(index).store(self.expected(index, resolve), Relaxed);
        }
        for (at, byte) in self.tail() {
            // SAFETY: the byte is one of the object's last, and this thread owns the object's
            // contents.
            unsafe { ((self.address.reveal() + at) as *mut u8).write_volatile(byte) };
        }
    }

    /// The bytes behind the last whole word: where they are and what they must be.
    fn tail(&self) -> impl Iterator<Item = (usize, u8)> + use<> {
        let words = self.bytes / 8;
        let bytes = pattern(options::get().seed, self.id, words).to_le_bytes();
        (words * 8..self.bytes).map(move |at| (at, bytes[at % 8]))
    }

    /// Fails unless word `index` holds what it must.
    fn check_word(&self, index: usize, resolve: &impl Fn(Edge) -> usize) {
        let (found, wanted) = (self.word(index).load(Relaxed), self.expected(index, resolve));
        ensure!(
            found == wanted,
            "stale contents: word {index} of {} holds {found:#x}, not {wanted:#x}",
            self.describe()
        );
    }

    /// Fails unless every word and byte is as it must be; of a large object in a quick check, some.
    pub fn check(&self, whole: bool, random: &mut fastrand::Rng, resolve: &impl Fn(Edge) -> usize) {
        if let Some(record) = &self.finalizer {
            ensure!(
                record.times_run() == 0 || all_ready::were(),
                "lost: {} is reachable, and its finalizer ran",
                self.describe()
            );
        }
        for record in &self.cleaners {
            ensure!(
                record.times() == 0 || all_ready::were(),
                "lost: {} is reachable, and {}",
                self.describe(),
                record.describe()
            );
        }
        if let Some(link) = &self.link {
            ensure!(
                link.load(Relaxed) != 0,
                "lost: {} is reachable, and its link was cleared",
                self.describe()
            );
        }
        if let Some(weak) = self.weak {
            let (found, wanted) = (weak.get(), self.address.reveal());
            ensure!(
                found == wanted,
                "lost: {} is reachable, and its weak handle gives {found:#x}",
                self.describe()
            );
        }
        self.check_contents(whole, random, resolve);
    }

    /// Its contents alone: of an object that is alive, reachable or not.
    pub fn check_contents(
        &self,
        whole: bool,
        random: &mut fastrand::Rng,
        resolve: &impl Fn(Edge) -> usize,
    ) {
        let words = self.bytes / 8;
        if whole || words <= 512 {
            (0..words).for_each(|index| self.check_word(index, resolve));
        } else {
            (0..64).for_each(|_| self.check_word(random.usize(0..words), resolve));
            self.slots.iter().for_each(|slot| self.check_word(slot.word, resolve));
        }
        for (at, wanted) in self.tail() {
            // SAFETY: one of the object's own bytes.
            let found = unsafe { ((self.address.reveal() + at) as *const u8).read_volatile() };
            ensure!(
                found == wanted,
                "stale contents: byte {at} of {} is {found:#x}, not {wanted:#x}",
                self.describe()
            );
        }
    }

    /// Fails unless fresh memory is zero where it must be.
    pub fn check_zero(&self, from: usize) {
        for at in from.div_ceil(8)..self.bytes / 8 {
            let found = self.word(at).load(Relaxed);
            if found != 0 {
                fail!("not zeroed: word {at} of the new {} holds {found:#x}", self.describe());
            }
        }
    }

    /// For messages.
    pub fn describe(&self) -> String {
        format!(
            "object {} ({:?}, {} bytes at {:#x})",
            self.id,
            self.shape,
            self.bytes,
            self.address.reveal()
        )
    }
}
