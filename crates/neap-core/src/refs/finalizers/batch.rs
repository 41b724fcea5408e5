//! What was found dead, in batches: some three hundred calls to make, taken one at a time by
//! whoever runs finalizers.
//!
//! Invariant: a call is taken once, by counting up the batch's cursor, and a batch is used again
//! only after every call that was taken is over. `[refs.inv.taken]`: what a call needs is kept
//! alive by the batch until the cursor says that it was taken, and from then on by registers and
//! stack of the thread that makes it, which has it there before the next stop: calls are taken in
//! critical sections. Who takes them writes nothing but the cursor, so the lines of a batch stay
//! shared. Batches are filled under the lock on what was found, published whole, taken from by
//! any thread.
//!
//! # Safety
//!
//! Makes references to batches from their addresses. Batches are mapped for ever, valid when
//! zeroed, and hold atomics only.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::page_stack::PageStack;
use crate::addr::PAGE_BYTES;
use crate::refs::{Marking, NoMemory};
use crate::sys::map;

/// Bytes of a batch. Larger: fewer hand-overs; smaller: sooner shared.
const BATCH_BYTES: usize = 2 * PAGE_BYTES;
/// Calls of a batch.
pub(crate) const CALLS: usize = (BATCH_BYTES - 64) / size_of::<Place>();
/// Taken from the system at once.
const SLAB_BYTES: usize = 16 * BATCH_BYTES;

/// A call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Called with object and data, or where there is no object with data alone.
    pub(crate) function: usize,
    /// The object, kept alive until the call; 0 for a cleaner.
    pub(crate) object: usize,
    /// Kept alive too, where it is an object.
    pub(crate) data: usize,
}

#[repr(C)]
struct Place {
    function: AtomicUsize,
    object: AtomicUsize,
    data: AtomicUsize,
}

impl Place {
    fn call(&self) -> Call {
        Call {
            function: self.function.load(Relaxed),
            object: self.object.load(Relaxed),
            data: self.data.load(Relaxed),
        }
    }
}

/// Some calls. Zeroed memory is an empty one.
#[repr(C)]
pub(crate) struct Batch {
    /// Link of [`FREE`] or [`READY`].
    next: AtomicUsize,
    /// The next one of [`ALL`]; written once.
    next_of_all: AtomicUsize,
    /// How many calls were taken, or [`NOT_BEGUN`]; and above bit 32 how many there are. Counting
    /// goes on beyond the end.
    cursor: AtomicU64,
    /// Calls that are over.
    over: AtomicUsize,
    /// When it was published, counted from 1. Written before it is.
    pub(crate) number: AtomicU64,
    /// Calls filled in. Protected by the lock on what was found.
    filled: AtomicUsize,
    /// Objects that the observer was told of; above bit 32 a half of `number`, for late counts.
    told: AtomicU64,
    padding: usize,
    places: [Place; CALLS],
}

const _: () = assert!(size_of::<Batch>() <= BATCH_BYTES);

/// In a cursor: the batch lies on [`READY`], so nothing can be taken from it until somebody takes
/// it off there.
const NOT_BEGUN: u64 = 1 << 31;

static FREE: PageStack = PageStack::new();
/// Published ones that nobody has begun.
static READY: PageStack = PageStack::new();
/// Every batch there is.
static ALL: AtomicUsize = AtomicUsize::new(0);
/// Batches published so far.
static PUBLISHED: AtomicU64 = AtomicU64::new(0);
/// Calls published and not known to be over: whole batches. Read anywhere.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Calls that nobody has taken, of a batch with this cursor.
fn left(cursor: u64) -> usize {
    let taken = if cursor & NOT_BEGUN == 0 { cursor as u32 } else { 0 };
    ((cursor >> 32) as u32).saturating_sub(taken) as usize
}

fn at(address: usize) -> Option<&'static Batch> {
    // SAFETY: 0 or a batch; batches are mapped for ever, valid when zeroed, and hold atomics only.
    unsafe { (address as *const Batch).as_ref() }
}

/// Every batch there is, in use or not.
pub(crate) fn all() -> impl Iterator<Item = &'static Batch> {
    let mut next = ALL.load(Acquire);
    core::iter::from_fn(move || {
        let batch = at(next)?;
        next = batch.next_of_all.load(Relaxed);
        Some(batch)
    })
}

/// Calls that are published and not known to be over. No lock; some of them may be.
pub(crate) fn waiting() -> usize {
    WAITING.load(Acquire)
}

/// The number of the last batch that was published.
pub(crate) fn last_number() -> u64 {
    PUBLISHED.load(Acquire)
}

/// Whether there may be a batch that nobody has begun.
pub(crate) fn is_any_ready() -> bool {
    !READY.is_empty()
}

/// Whether there are calls that nobody has taken.
pub(crate) fn is_any_left() -> bool {
    is_any_ready() || all().any(|batch| batch.left() > 0)
}

/// In the child of a `fork`, which has one thread: what others had taken is over, but for the
/// calls of each batch, by its address, that this thread is at. Batches that another thread was
/// moving are put where they belong, but for those that are being filled.
pub(crate) fn after_fork(own: impl Fn(usize) -> usize, filling: &Filling) {
    let waiting = all().map(Batch::length).sum();
    if WAITING.swap(waiting, Relaxed) != waiting {
        // Another thread was about to count a batch as over, and may not have put it on the list.
        free_again(filling);
    }
    while READY.pop().is_some() {}
    for batch in all().filter(|batch| batch.length() > 0) {
        let address = core::ptr::from_ref(batch) as usize;
        if !batch.is_begun() {
            READY.push(address);
            continue;
        }
        let taken = batch.length() - batch.left();
        batch.over.store(0, Relaxed);
        batch.finish(taken.saturating_sub(own(address)));
    }
}

/// Puts every batch that nobody uses on [`FREE`]. By the only thread there is.
fn free_again(filling: &Filling) {
    while FREE.pop().is_some() {}
    let is_filled = |batch| filling.batches().any(|filled| core::ptr::eq(filled, batch));
    for batch in all().filter(|batch| batch.length() == 0 && !is_filled(*batch)) {
        FREE.push(core::ptr::from_ref(batch) as usize);
    }
}

/// Begins a batch up to this number that nobody has begun: from now on its calls can be taken, by
/// anybody. Where somebody `hears` of their objects, he has.
pub(crate) fn begin(last: u64, hears: bool) -> Option<&'static Batch> {
    let is_told = |batch: &Batch| batch.told.load(Acquire) as u32 as usize >= batch.length();
    let batch = ready(|batch| batch.number.load(Relaxed) <= last && (!hears || is_told(batch)))?;
    // Its calls may soon leave their objects dead.
    batch.tell_no_more();
    batch.cursor.store((batch.length() as u64) << 32, Release);
    Some(batch)
}

/// Takes one off [`READY`] that is wanted. Others are put back: meanwhile nobody sees them, so who
/// wants no newer ones wakes the pool.
fn ready(is_wanted: impl Fn(&Batch) -> bool) -> Option<&'static Batch> {
    let mut others = None::<&Batch>;
    let found = loop {
        match READY.pop().and_then(at) {
            Some(batch) if !is_wanted(batch) => {
                batch.next.store(
                    others.map_or(0, |others| core::ptr::from_ref(others) as usize),
                    Relaxed,
                );
                others = Some(batch);
            }
            found => break found,
        }
    };
    while let Some(batch) = others {
        others = at(batch.next.load(Relaxed));
        READY.push(core::ptr::from_ref(batch) as usize);
    }
    found
}

fn empty() -> Result<&'static Batch, NoMemory> {
    if let Some(batch) = FREE.pop().and_then(at) {
        return Ok(batch);
    }
    let slab = map::allocate(SLAB_BYTES).map_err(|_| NoMemory)?;
    map::name(slab, SLAB_BYTES, c"neap: finalizers to run");
    for address in (slab.0..slab.0 + SLAB_BYTES).step_by(BATCH_BYTES) {
        let Some(batch) = at(address) else { continue };
        let mut first = ALL.load(Relaxed);
        loop {
            batch.next_of_all.store(first, Relaxed);
            match ALL.compare_exchange_weak(first, address, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        if address != slab.0 {
            FREE.push(address);
        }
    }
    at(slab.0).ok_or(NoMemory)
}

impl Batch {
    /// Takes a call; the caller has to say when it is over. In a critical section.
    #[inline]
    pub(crate) fn call(&self) -> Option<Call> {
        let cursor = self.cursor.load(Relaxed);
        if cursor as u32 >= (cursor >> 32) as u32 {
            return None;
        }
        let cursor = self.cursor.fetch_add(1, AcqRel);
        let (index, length) = (cursor as u32 as usize, (cursor >> 32) as usize);
        if index >= length {
            return None;
        }
        Some(self.places[index].call())
    }

    /// How many calls there are; 0 while it is not published.
    fn length(&self) -> usize {
        (self.cursor.load(Acquire) >> 32) as usize
    }

    /// Takes an object that the observer was not told of. In a critical section.
    pub(crate) fn untold(&self) -> Option<usize> {
        loop {
            let told = self.told.load(Acquire);
            // Read before it is taken: until then the batch is this one. A cleaner has none.
            let place = self.places[..self.length()].get(told as u32 as usize)?;
            let object = place.object.load(Relaxed);
            if self.told.compare_exchange(told, told + 1, AcqRel, Relaxed).is_ok() && object != 0 {
                return Some(object);
            }
        }
    }

    /// From now on nobody is to be told of its objects.
    pub(crate) fn tell_no_more(&self) {
        self.told.fetch_or(u32::MAX.into(), AcqRel);
    }

    /// Whether its calls can be taken.
    pub(crate) fn is_begun(&self) -> bool {
        self.cursor.load(Acquire) & NOT_BEGUN == 0
    }

    /// Calls that nobody has taken.
    pub(crate) fn left(&self) -> usize {
        left(self.cursor.load(Relaxed))
    }

    /// Whether all its calls are over, or it is not published.
    pub(crate) fn is_over(&self) -> bool {
        let length = self.length();
        length == 0 || self.over.load(Acquire) >= length
    }

    /// So many calls that were taken are over. True if the batch is.
    pub(crate) fn finish(&self, calls: usize) -> bool {
        let length = self.length();
        if calls == 0 || self.over.fetch_add(calls, AcqRel) + calls < length {
            return false;
        }
        // Who still counts at the cursor finds nothing to take.
        self.cursor.store(0, Release);
        FREE.push(core::ptr::from_ref(self) as usize);
        WAITING.fetch_sub(length, AcqRel);
        true
    }

    /// Calls `f` with every word that a call not yet taken keeps alive. By the cycle, while nobody
    /// publishes.
    pub(crate) fn for_each_kept(&self, mut f: impl FnMut(usize)) {
        let cursor = self.cursor.load(Acquire);
        let length = (cursor >> 32) as usize;
        self.kept(length - left(cursor)..length, &mut f);
    }

    fn kept(&self, calls: core::ops::Range<usize>, f: &mut impl FnMut(usize)) {
        for place in &self.places[calls] {
            for word in [place.object.load(Relaxed), place.data.load(Relaxed)] {
                if word != 0 {
                    f(word);
                }
            }
        }
    }
}

/// The batches that are being filled. Protected by the lock on what was found.
pub(crate) struct Filling {
    /// The one with room, and behind it by their links those that are full.
    batch: Option<&'static Batch>,
    /// Publishes nothing: a test looks at what was filled in.
    #[cfg(test)]
    private: bool,
}

impl Filling {
    pub(crate) const fn new() -> Self {
        Self {
            batch: None,
            #[cfg(test)]
            private: false,
        }
    }

    /// One that keeps what is filled in.
    #[cfg(test)]
    pub(crate) fn private() -> Self {
        Self { private: true, ..Self::new() }
    }

    /// Takes back what was filled in last.
    #[cfg(test)]
    pub(crate) fn pop(&mut self) -> Option<Call> {
        let batch = self.batch?;
        let Some(last) = batch.filled.load(Relaxed).checked_sub(1) else {
            self.batch = at(batch.next.load(Relaxed));
            return self.pop();
        };
        batch.filled.store(last, Relaxed);
        Some(batch.places[last].call())
    }

    /// Makes sure that the next [`Self::push`] has room.
    ///
    /// # Errors
    /// There is no memory; nothing has changed.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Result<(), NoMemory> {
        match self.batch {
            Some(batch) if batch.filled.load(Relaxed) < CALLS => Ok(()),
            full => {
                let batch = empty()?;
                let link = full.map_or(0, |full| core::ptr::from_ref(full) as usize);
                batch.next.store(link, Relaxed);
                self.batch = Some(batch);
                Ok(())
            }
        }
    }

    /// Adds a call where [`Self::reserve`] made room.
    #[inline]
    pub(crate) fn push(&mut self, call: Call) {
        let Some(batch) = self.batch else { return };
        let filled = batch.filled.load(Relaxed);
        let place = &batch.places[filled];
        place.function.store(call.function, Relaxed);
        place.object.store(call.object, Relaxed);
        place.data.store(call.data, Relaxed);
        batch.filled.store(filled + 1, Relaxed);
    }

    /// The batches, the newest first.
    fn batches(&self) -> impl Iterator<Item = &'static Batch> + use<> {
        let mut next = self.batch;
        core::iter::from_fn(move || {
            let batch = next?;
            next = at(batch.next.load(Relaxed));
            Some(batch)
        })
    }

    /// Has `marking` mark all that the calls keep alive, a batch at a time: more grey words than
    /// that do not fit into a near cache.
    pub(crate) fn mark<M: Marking>(&self, marking: &mut M) {
        for batch in self.batches() {
            batch.kept(0..batch.filled.load(Relaxed), &mut |word| marking.mark_word(word));
            marking.drain();
        }
    }

    /// Hands over what was filled in.
    pub(crate) fn publish(&mut self) {
        #[cfg(test)]
        if self.private {
            return;
        }
        let batches = self.batches();
        self.batch = None;
        for batch in batches {
            let filled = batch.filled.swap(0, Relaxed);
            batch.over.store(0, Relaxed);
            if filled == 0 {
                FREE.push(core::ptr::from_ref(batch) as usize);
                continue;
            }
            // Only one thread publishes at a time: under the lock.
            let number = PUBLISHED.load(Relaxed) + 1;
            batch.number.store(number, Relaxed);
            batch.told.store(number << 32, Release);
            WAITING.fetch_add(filled, AcqRel);
            batch.cursor.store((filled as u64) << 32 | NOT_BEGUN, Release);
            PUBLISHED.store(number, Release);
            READY.push(core::ptr::from_ref(batch) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU8;

    fn fill(filling: &mut Filling, calls: usize) {
        for data in 1..=calls {
            filling.reserve().unwrap();
            filling.push(Call { function: 1, object: 0, data });
        }
    }

    /// Another thread is at every place of [`Batch::finish`] in the moment of a fork.
    #[test]
    fn a_child_of_fork_waits_for_nothing_that_was_over_and_loses_no_batch() {
        const LEFT: usize = 10;
        let mut filling = Filling::new();
        fill(&mut filling, 3 * CALLS + LEFT);
        filling.publish();
        let of_three: Vec<_> = all()
            .filter(|batch| batch.length() == CALLS)
            .inspect(|_| _ = begin(u64::MAX, false))
            .collect();
        let [counted, emptied, freed] = of_three[..] else { panic!("{}", of_three.len()) };
        of_three.iter().for_each(|batch| while batch.call().is_some() {});
        counted.over.store(CALLS, Relaxed);
        emptied.cursor.store(0, Relaxed);
        freed.cursor.store(0, Relaxed);
        FREE.push(core::ptr::from_ref(freed) as usize);
        filling.reserve().unwrap();
        after_fork(|_| 0, &filling);
        assert_eq!(waiting(), LEFT);
        // All but the one that is left can be filled, each once.
        let batches = all().count();
        fill(&mut filling, (batches - 1) * CALLS);
        assert_eq!((all().count(), filling.batches().count()), (batches, batches - 1));
    }

    #[test]
    fn each_call_is_taken_once_by_any_number_of_threads() {
        const TOTAL: usize = 50_000;
        let seen: Vec<AtomicU8> = (0..TOTAL).map(|_| AtomicU8::new(0)).collect();
        let mut filling = Filling::new();
        let (first, waited) = (last_number(), waiting());
        for data in 1..=TOTAL {
            filling.reserve().unwrap();
            filling.push(Call { function: 1, object: 0, data: data | 1 << 40 });
        }
        filling.publish();
        let ours = || all().filter(|batch| batch.number.load(Relaxed) > first && !batch.is_over());
        assert_eq!(ours().map(Batch::left).sum::<usize>(), TOTAL);
        let mut kept = 0;
        ours().for_each(|batch| batch.for_each_kept(|_| kept += 1));
        assert_eq!(kept, TOTAL, "[refs.inv.taken]");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(batch) = begin(u64::MAX, false)
                        .or_else(|| ours().find(|batch| batch.is_begun() && batch.left() > 0))
                    {
                        let mut over = 0;
                        while let Some(call) = batch.call() {
                            seen[(call.data & !(1 << 40)) - 1].fetch_add(1, Relaxed);
                            over += 1;
                        }
                        batch.finish(over);
                    }
                });
            }
        });
        assert!(seen.iter().all(|times| times.load(Relaxed) == 1));
        assert_eq!((ours().count(), waiting()), (0, waited));
    }
}
