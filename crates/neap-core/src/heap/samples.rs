//! Sampled objects: which site made them, and whether they are still there.
//!
//! Invariant `[stats.inv.samples]`: an object is in the table from its allocation until a cycle
//! finds it dead or the program frees it; another that gets its cell in that moment may leave with
//! it. The lock is taken by mutators in critical sections, so that who stops the world finds it
//! free; by who ends a cycle; and by the recorder, which does nothing but encode while it holds it.
//! Bounded: sites that do not fit count together, by size; objects that do not fit are left out,
//! which is said.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use neap_record::chunks::Samples as Counts;
use neap_record::{Full, Writer};

use super::Heap;
use super::layout::LayoutId;
use crate::rank::Rank;
use crate::sync::{ForkLock, Guard, Lock};
use crate::sys::meta_vec::{MetaVec, NoMemory};
use crate::sys::print;

/// Sites kept apart, by stack, size and layout; further ones count as one without a stack for each
/// power of two that their sizes do not exceed.
const MOST_SITES: usize = 1 << 15;
/// Places for those: every size is below one of so many powers.
const TOGETHER: usize = usize::BITS as usize;
/// Objects followed at once: at one in 512 KiB, those of 64 GiB. Further ones are not sampled.
const MOST_OBJECTS: usize = 1 << 17;
/// Lists that sites and objects are found in, a power of two.
const LISTS: usize = 1 << 12;
/// Sites written at once, so that nobody waits long for the lock.
const BATCH: usize = 64;
const NONE: u32 = 0;

/// How an object was made.
#[derive(Clone, Copy)]
pub struct Made<'f> {
    /// Bytes asked for, by which a sample stands for more objects or fewer.
    pub bytes: usize,
    /// The layout of its type, if it has one.
    pub layout: Option<LayoutId>,
    /// Return addresses, innermost first.
    pub frames: &'f [usize],
}

impl Made<'_> {
    fn hash(&self) -> u64 {
        let layout = self.layout.map_or(0, |layout| u64::from(layout.0) + 1);
        let start = self.bytes as u64 ^ 0x51_7cc1 ^ layout << 32;
        self.frames.iter().fold(start, |hash, frame| {
            (hash.rotate_left(5) ^ *frame as u64).wrapping_mul(0x517c_c1b7_2722_0a95)
        })
    }
}

#[derive(Clone, Copy)]
struct Site {
    hash: u64,
    bytes: usize,
    layout: Option<LayoutId>,
    /// Its frames lie here.
    first: u32,
    depth: u32,
    /// The next of its list, plus one.
    next: u32,
    is_told: bool,
    made: Counts,
    written: Counts,
}

#[derive(Clone, Copy)]
struct Object {
    /// 0 for a free place.
    address: usize,
    /// Bytes asked for, which its site does not tell where sizes count together.
    bytes: usize,
    site: u32,
    /// The next of its list, or of the free places, plus one.
    next: u32,
}

impl Object {
    fn free(next: u32) -> Self {
        Self { address: 0, bytes: 0, site: 0, next }
    }
}

/// The table.
pub struct Samples {
    frames: MetaVec<usize>,
    sites: MetaVec<Site>,
    site_lists: [u32; LISTS],
    objects: MetaVec<Object>,
    free: u32,
    /// Where the next batch begins.
    batch: usize,
    /// Whether it was said that not all is sampled.
    is_said: bool,
}

static SAMPLES: Lock<Samples> = Lock::new(
    Rank::Samples,
    Samples {
        frames: MetaVec::new(),
        sites: MetaVec::new(),
        site_lists: [NONE; LISTS],
        objects: MetaVec::new(),
        free: NONE,
        batch: 0,
        is_said: false,
    },
);
/// The first object of each list, plus one. Written under the lock; read without it to see that a
/// list is empty.
static OBJECT_LISTS: [AtomicU32; LISTS] = [const { AtomicU32::new(NONE) }; LISTS];

/// Takes the table. By a mutator in a critical section, by who ends a cycle, by the recorder.
pub fn lock() -> Guard<'static, Samples> {
    SAMPLES.lock()
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &SAMPLES
}

/// Whether an object that is freed may be in the table. Called before taking it.
#[inline]
pub fn may_hold(address: usize) -> bool {
    OBJECT_LISTS[list_of(address)].load(Relaxed) != NONE
}

fn list_of(address: usize) -> usize {
    ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % LISTS
}

impl Samples {
    /// An object was made so.
    pub fn note(&mut self, address: usize, made: Made<'_>) {
        if self.try_note(address, made).is_err() && !self.is_said {
            self.is_said = true;
            print::message(format_args!(
                "NEAP_SAMPLE: more objects are followed than there is room for; further ones are \
                 not sampled. A larger value takes fewer"
            ));
        }
    }

    fn try_note(&mut self, address: usize, wanted: Made<'_>) -> Result<(), NoMemory> {
        let site = self.site(wanted)?;
        let place = match self.free {
            NONE if self.objects.len() == MOST_OBJECTS => return Err(NoMemory),
            NONE => {
                self.objects.try_push(Object::free(NONE))?;
                self.objects.len() as u32
            }
            free => {
                self.free = self.objects[free as usize - 1].next;
                free
            }
        };
        let list = &OBJECT_LISTS[list_of(address)];
        let next = list.load(Relaxed);
        let object = Object { address, bytes: wanted.bytes, site: site as u32, next };
        self.objects[place as usize - 1] = object;
        list.store(place, Relaxed);
        let made = &mut self.sites[site].made;
        made.objects += 1;
        made.bytes += wanted.bytes as u64;
        Ok(())
    }

    fn site(&mut self, wanted: Made<'_>) -> Result<usize, NoMemory> {
        let has_room = self.sites.len() < MOST_SITES - TOGETHER;
        let wanted = if has_room { wanted } else { self.known(wanted) };
        let (hash, frames) = (wanted.hash(), wanted.frames);
        let list = hash as usize >> 7 & (LISTS - 1);
        if let Some(site) = self.find(hash, wanted) {
            return Ok(site);
        }
        if self.sites.len() == MOST_SITES {
            return Err(NoMemory);
        }
        let first = self.frames.len() as u32;
        self.frames.try_reserve(frames.len())?;
        frames.iter().for_each(|frame| self.frames.push(*frame));
        let site = Site {
            hash,
            bytes: wanted.bytes,
            layout: wanted.layout,
            first,
            depth: frames.len() as u32,
            next: self.site_lists[list],
            is_told: false,
            made: Counts::default(),
            written: Counts::default(),
        };
        self.sites.try_push(site)?;
        self.site_lists[list] = self.sites.len() as u32;
        Ok(self.sites.len() - 1)
    }

    /// The same if its site is known, that of all others of about its size otherwise.
    fn known<'f>(&self, wanted: Made<'f>) -> Made<'f> {
        match self.find(wanted.hash(), wanted) {
            Some(_) => wanted,
            None => Made { layout: None, frames: &[], bytes: wanted.bytes.next_power_of_two() },
        }
    }

    fn find(&self, hash: u64, wanted: Made<'_>) -> Option<usize> {
        let mut next = self.site_lists[hash as usize >> 7 & (LISTS - 1)];
        while next != NONE {
            let site = &self.sites[next as usize - 1];
            let (bytes, layout, frames) = (site.bytes, site.layout, self.frames_of(site));
            if site.hash == hash
                && (bytes, layout, frames) == (wanted.bytes, wanted.layout, wanted.frames)
            {
                return Some(next as usize - 1);
            }
            next = site.next;
        }
        None
    }

    fn frames_of(&self, site: &Site) -> &[usize] {
        &self.frames[site.first as usize..(site.first + site.depth) as usize]
    }

    /// The program freed an object.
    pub fn forget(&mut self, address: usize) {
        self.retain(list_of(address), |object| object.address != address);
    }

    /// Every object that is to stay is marked, and no dead one's cell was handed out yet: the dead
    /// ones leave the table.
    pub fn drop_dead(&mut self, heap: &Heap) {
        for (list, first) in OBJECT_LISTS.iter().enumerate() {
            if first.load(Relaxed) != NONE {
                self.retain(list, |object| {
                    heap.cell_at(object.address).is_some_and(|cell| {
                        cell.header.is_frozen() || cell.bits.is_marked(cell.index)
                    })
                });
            }
        }
    }

    fn retain(&mut self, list: usize, stays: impl Fn(&Object) -> bool) {
        let (mut before, mut place) = (NONE, OBJECT_LISTS[list].load(Relaxed));
        while place != NONE {
            let object = self.objects[place as usize - 1];
            if stays(&object) {
                before = place;
            } else {
                match before {
                    NONE => OBJECT_LISTS[list].store(object.next, Relaxed),
                    before => self.objects[before as usize - 1].next = object.next,
                }
                self.objects[place as usize - 1] = Object::free(self.free);
                self.free = place;
                let site = &mut self.sites[object.site as usize];
                site.made.gone_objects += 1;
                site.made.gone_bytes += object.bytes as u64;
            }
            place = object.next;
        }
    }

    /// Writes a batch of what is new; whether there is more. [`Full`]: what was written so far
    /// stays written, and the rest is for the next buffer.
    pub fn encode(&mut self, out: &mut Writer<'_>, at_ns: u64) -> Result<bool, Full> {
        let end = (self.batch + BATCH).min(self.sites.len());
        for number in self.batch..end {
            let site = self.sites[number];
            if !site.is_told {
                let frames = self.frames_of(&site).iter().map(|frame| *frame as u64);
                out.site(number as u64, frames)?;
                if let Some(layout) = site.layout {
                    out.site_layout(number as u64, u64::from(layout.0))?;
                }
                self.sites[number].is_told = true;
            }
        }
        let fresh = self.sites[self.batch..end].iter().enumerate().filter_map(|(index, site)| {
            let (made, written) = (&site.made, &site.written);
            let counts = Counts {
                objects: made.objects - written.objects,
                bytes: made.bytes - written.bytes,
                gone_objects: made.gone_objects - written.gone_objects,
                gone_bytes: made.gone_bytes - written.gone_bytes,
            };
            (counts != Counts::default()).then_some(((self.batch + index) as u64, counts))
        });
        if fresh.clone().next().is_some() {
            out.samples(at_ns, fresh)?;
            for site in &mut self.sites[self.batch..end] {
                site.written = site.made;
            }
        }
        self.batch = if end == self.sites.len() { 0 } else { end };
        Ok(self.batch != 0)
    }

    /// Calls `f` with number and frames of every site whose objects are not all gone.
    pub fn for_each_site(&self, mut f: impl FnMut(usize, &[usize])) {
        for (number, site) in self.sites.iter().enumerate() {
            if site.made.objects > site.made.gone_objects {
                f(number, self.frames_of(site));
            }
        }
    }

    /// Calls `f` with the address of every object, its site's number and the bytes asked for.
    pub fn for_each_object(&self, mut f: impl FnMut(usize, usize, usize)) {
        for object in self.objects.iter().filter(|object| object.address != 0) {
            f(object.address, object.site as usize, object.bytes);
        }
    }

    /// In the child of a `fork`: what was sampled before is the parent's.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.sites.clear();
        self.objects.clear();
        self.site_lists = [NONE; LISTS];
        OBJECT_LISTS.iter().for_each(|list| list.store(NONE, Relaxed));
        (self.free, self.batch) = (NONE, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neap_record::{MAGIC, Recording};

    fn recorded(samples: &mut Samples) -> Recording {
        let (mut buffer, mut all) = (vec![0; 4096], MAGIC.to_vec());
        loop {
            let mut out = Writer::new(&mut buffer, 0);
            let more = samples.encode(&mut out, 1);
            let length = out.length();
            all.extend_from_slice(&buffer[..length]);
            if more == Ok(false) {
                return Recording::read(&all).unwrap();
            }
        }
    }

    #[test]
    fn sites_are_kept_apart_and_objects_leave() {
        let mut samples = lock();
        fn made(bytes: usize, frames: &[usize]) -> Made<'_> {
            Made { bytes, layout: None, frames }
        }
        samples.note(0x1000, made(24, &[7, 8, 9]));
        samples.note(0x2000, made(24, &[7, 8, 9]));
        samples.note(0x3000, made(32, &[7, 8, 9]));
        samples.note(0x4000, made(24, &[7, 8]));
        let typed = Made { layout: Some(LayoutId(6)), ..made(24, &[7, 8, 9]) };
        samples.note(0x6000, typed);
        assert!(may_hold(0x1000));
        samples.forget(0x1000);
        samples.forget(0x1000);
        let recording = recorded(&mut samples);
        assert_eq!(recording.sites.len(), 4);
        assert_eq!((&recording.sites[&0], &recording.sites[&3]), (&vec![7, 8, 9], &vec![7, 8, 9]));
        assert_eq!(recording.site_layouts, [(3, 6)].into());
        let wanted = Counts { objects: 2, bytes: 48, gone_objects: 1, gone_bytes: 24 };
        assert_eq!(recording.samples[&0], wanted);
        assert!(
            recorded(&mut samples).samples.is_empty(),
            "[stats.inv.samples] everything is written once"
        );
        // No heap: none of them is marked.
        samples.drop_dead(&Heap::new());
        let recording = recorded(&mut samples);
        assert_eq!(recording.samples.values().map(|counts| counts.gone_objects).sum::<u64>(), 4);
        assert!(recording.sites.is_empty() && !may_hold(0x2000));
        samples.note(0x5000, made(8, &[1]));
        samples.clear();
        assert!(recorded(&mut samples).samples.is_empty() && !may_hold(0x5000));
        // More sites than there is room for: the rest are without a stack, whatever their sizes.
        let most = MOST_SITES - TOGETHER;
        for site in 0..most + 1000 {
            samples.note(site * 8 + 8, made(16 + site % 1000, &[site, 5]));
        }
        samples.forget((most + 1) * 8 + 8);
        let recording = recorded(&mut samples);
        let rest = recording.sites.iter().filter(|(_, frames)| frames.is_empty());
        let rest: Vec<_> = rest.map(|(site, _)| recording.samples[site]).collect();
        assert_eq!((recording.sites.len(), rest.len()), (most + 7, 7));
        let sum = |of: fn(&Counts) -> u64| rest.iter().map(of).sum::<u64>();
        assert_eq!(sum(|rest| rest.objects), 1000);
        assert_eq!(sum(|rest| rest.bytes), (16..1016).sum::<u64>());
        assert_eq!(sum(|rest| rest.gone_bytes), (16 + (most + 1) as u64 % 1000));
        samples.for_each_object(|address, site, bytes| {
            assert!(site < most + 7 && bytes == 16 + (address / 8 - 1) % 1000);
        });
        samples.clear();
    }
}
