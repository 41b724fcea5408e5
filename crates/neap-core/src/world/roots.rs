//! Where roots are besides the stacks: ranges that the program registered, writable segments of
//! loaded objects, thread-local storage.
//!
//! Invariant `[world.inv.roots]`: the list of loaded objects is taken while the loader's lock is
//! held, and the world is stopped under the same hold, so the list is complete for that stop.
//! Ranges are registered under the lock of this file, in a critical section.
//!
//! # Safety
//!
//! Hands out ranges that the program promised to be readable or that the loader mapped.

#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use core::time::Duration;

mod exclusions;
mod own_stack;
pub mod ranges;
mod thread_local;

pub use self::exclusions::{bar, clear_bars, exclude};
use self::own_stack::{
    BELIEVED_BYTES, Fleeting, is_on, own_stack, start_of_corrected, visit_declared, visit_own,
    visit_undeclared,
};
pub use self::own_stack::{likely_resting_stack, resting_stack, set_main_stack_base_source};
pub use self::ranges::Answers;
use self::ranges::{Ranges, Span, cut, in_parts};
use self::thread_local::Module;
use super::mutator::Mutator;
use super::stacks::stack::Stack;
use super::{Standing, Stopped, correction, critical};
use crate::heap::HEAP;
use crate::rank::Rank;
use crate::sync::{ForkLock, Lock};
use crate::sys::clock::Instant;
use crate::sys::meta_vec::MetaVec;
use crate::sys::process::image::{self, Image};
use crate::sys::process::mappings::readable;
use crate::sys::protection::alternate_stack;
use crate::sys::thread;

static RANGES: Lock<Ranges> = Lock::new(Rank::Roots, Ranges::new());
static STATIC_ROOTS: AtomicBool = AtomicBool::new(true);
/// Bytes of ranges that were registered since a stop read the roots; written under the lock, and by
/// who drives such a stop.
static UNREAD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Registers a range as roots; what of it is registered already stays registered once. False
/// without memory.
pub fn add(range: Range<usize>) -> bool {
    let _critical = critical::enter();
    let is_added = RANGES.lock().add(Span::of(&range));
    if is_added {
        UNREAD_BYTES.fetch_add(range.len(), Relaxed);
    }
    is_added
}

/// Bytes of ranges that no stop has read, of which nothing is known yet but that they are there.
pub fn unread_bytes() -> usize {
    UNREAD_BYTES.load(Relaxed)
}

/// A stop reads the roots, all that are registered.
pub fn note_read(_: &Stopped) {
    UNREAD_BYTES.store(0, Relaxed);
}

/// Takes a range out of the registered roots.
pub fn remove(range: Range<usize>) {
    let _critical = critical::enter();
    RANGES.lock().remove(Span::of(&range));
}

/// Takes out the registered ranges that lie wholly in this one; what others of them hold too stays
/// a root. Ranges with the same start are one, as long as the longest.
pub fn remove_whole(range: Range<usize>) {
    let _critical = critical::enter();
    RANGES.lock().remove_whole(Span::of(&range));
}

/// Takes all registered roots out.
pub fn clear() {
    let _critical = critical::enter();
    RANGES.lock().clear();
}

/// Whether writable segments of loaded objects are roots.
pub fn set_static(on: bool) {
    STATIC_ROOTS.store(on, Relaxed);
}

/// The lock, for who holds it over a `fork`.
pub fn lock_for_fork() -> &'static dyn ForkLock {
    &RANGES
}

/// Segments and modules that are listed without asking for memory: more than any program loads.
const LISTED_AHEAD: usize = 1 << 14;

/// The loaded objects' part of the roots, listed anew for each stop; its memory is kept for the
/// next.
pub struct Images {
    spans: MetaVec<Span>,
    modules: MetaVec<Module>,
    /// How many objects had ever been loaded when they were listed.
    loads: u64,
    fleeting: Fleeting,
}

impl Images {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            spans: MetaVec::new(),
            modules: MetaVec::new(),
            loads: 0,
            fleeting: Fleeting::Copied,
        }
    }

    /// In a child of its own memory, where no other thread is: what is read is where it was.
    pub fn read_in_place(&mut self) {
        self.fleeting = Fleeting::InPlace;
    }

    /// Makes room ahead, so that a cycle which a refusal of memory caused finds it. False if it is
    /// refused now.
    pub fn reserve(&mut self) -> bool {
        self.spans.try_reserve(LISTED_AHEAD).is_ok()
            && self.modules.try_reserve(LISTED_AHEAD).is_ok()
    }

    /// Lists the loaded objects; `first` runs once, under the loader's lock, before the list is
    /// taken.
    pub fn list(&mut self, first: impl FnOnce()) {
        self.spans.clear();
        self.modules.clear();
        let mut first = Some(first);
        image::for_each(|image| {
            if let Some(first) = first.take() {
                first();
            }
            self.note(image);
        });
        if let Some(first) = first.take() {
            first();
        }
    }

    fn note(&mut self, image: &Image) {
        self.loads = image.loads;
        if image.tls_module != 0 && image.tls_bytes > 0 {
            self.modules.push(Module { number: image.tls_module, bytes: image.tls_bytes });
        }
        // A library that the collector is in has the heap's address in its data, and nothing of the
        // program's.
        let own = core::ptr::from_ref(&HEAP) as usize;
        if !image.is_program && image.segments().iter().any(|segment| segment.contains(&own)) {
            return;
        }
        let read_only = &image.read_only;
        for segment in image.segments().iter().filter(|_| STATIC_ROOTS.load(Relaxed)) {
            // What is read-only after relocation points to no object.
            for part in [
                segment.start..segment.end.min(read_only.start.max(segment.start)),
                segment.start.max(read_only.end.min(segment.end))..segment.end,
            ] {
                let part = if read_only.is_empty() { segment.clone() } else { part };
                if !part.is_empty() {
                    self.spans.push(Span::of(&part));
                }
                if read_only.is_empty() {
                    break;
                }
            }
        }
    }

    /// Calls `visit` for each range of registered and static roots.
    pub fn for_each(&mut self, _: &Stopped, mut visit: impl FnMut(Range<usize>)) {
        let ranges = RANGES.lock();
        self.cut_named(&ranges);
        self.spans.iter().for_each(|span| visit(span.range()));
        exclusions::for_each_registered(&ranges, |span| visit(span.range()));
    }

    /// The same with the world running, in the order of addresses from `from` on, in parts, each
    /// with the piece that it is of, and for so long, or as long as it takes to list them: within
    /// the loader's lock, so that nothing listed is unloaded meanwhile, and the lock of roots, so
    /// that the program takes none out. Where to go on; None behind the last.
    pub fn visit_running(
        &mut self,
        from: usize,
        longest: Duration,
        mut visit: impl FnMut(Span, Range<usize>),
    ) -> Option<usize> {
        image::while_locked(|| {
            self.list(|| {});
            let next = self.visit_parts(from, longest, &mut visit);
            // With the registered ranges among them.
            self.spans.clear();
            next
        })
    }

    fn visit_parts(
        &mut self,
        from: usize,
        longest: Duration,
        visit: &mut impl FnMut(Span, Range<usize>),
    ) -> Option<usize> {
        let began = Instant::now();
        let ranges = RANGES.lock();
        self.cut_named(&ranges);
        let most = ranges.registered.len() + ranges.barred.len();
        if self.spans.try_reserve(most).is_err() {
            // Without memory to sort them, all at once.
            self.spans.iter().for_each(|span| visit(*span, span.range()));
            exclusions::for_each_registered(&ranges, |span| visit(span, span.range()));
            return None;
        }
        exclusions::for_each_registered(&ranges, |span| self.spans.push(span));
        self.spans.sort_unstable_by_key(|span| span.start);
        let longest = longest.max(began.elapsed());
        let began = Instant::now();
        in_parts(&self.spans, from, |piece, part| {
            visit(piece, part);
            began.elapsed() < longest
        })
    }

    /// Takes what is excluded, and what is registered besides, out of the loaded objects' part.
    fn cut_named(&mut self, ranges: &Ranges) {
        exclusions::cut_excluded(ranges, self.loads, &mut self.spans);
        for hole in ranges.registered.iter() {
            cut(&mut self.spans, *hole);
        }
    }

    /// Whether the calling thread, whose position is noted, is on its own stack, as far as can be
    /// told without asking the kernel.
    pub fn stands_on_own_stack(&self, mutator: &Mutator) -> bool {
        let (own, position) = (own_stack(mutator), mutator.position.load(Relaxed));
        own.contains(&position)
            && own.end - position <= BELIEVED_BYTES
            && !mutator.handler_stack().contains(&position)
    }

    /// Whether a mutator stands on its own stack or a declared one. Others, handlers' too, are not
    /// read while the program runs: who unmaps what lies around them does not wait for that.
    pub fn stands_on_known_stacks(
        &self,
        mut stacks: impl Iterator<Item = &'static Stack>,
        mutator: &Mutator,
        _: &Standing,
    ) -> bool {
        let position = mutator.position.load(Acquire);
        !mutator.handler_stack().contains(&position)
            && (stacks.any(|stack| stack.range().contains(&position))
                || is_on(&own_stack(mutator), position))
    }

    /// Whether a range begins on the mutator's own stack or in its thread-local storage, as far as
    /// can be told without asking the kernel. Of ranges that others name.
    pub fn is_of(&self, mutator: &Mutator, _: &Standing, range: &Range<usize>) -> bool {
        let own = own_stack(mutator);
        let low = match own.start {
            0 => own.end.saturating_sub(thread::most_stack_bytes()),
            low => low,
        };
        (low..own.end).contains(&range.start)
            || thread_local::contains(&self.modules, mutator, range.start)
    }

    /// Calls `visit` for each range that belongs to a mutator that stands: stacks, registers,
    /// thread-local storage. `stacks`: the declared ones.
    pub fn of_mutator(
        &self,
        mut stacks: impl Iterator<Item = &'static Stack>,
        mutator: &Mutator,
        _: &Standing,
        mut visit: impl FnMut(Range<usize>),
    ) {
        let noted = mutator.position.load(Acquire);
        let position = correction::of(mutator, noted);
        let own = own_stack(mutator);
        let (base, fleeting) = (own.end, self.fleeting);
        let handler_stack = mutator.handler_stack();
        if handler_stack.contains(&position) {
            // It may lie on the stack that was left for it, above the frames there: these are
            // wherever that one can be in use. Or it is one no longer, and its memory is part of a
            // stack that nobody declared.
            if is_surely_handlers(mutator, position)
                || !visit_undeclared(position, fleeting, &mut visit)
            {
                visit(position..handler_stack.end);
            }
            let interrupted = mutator.interrupted_position.load(Relaxed);
            let left = mutator.stack.load(Relaxed);
            let mut is_declared = handler_stack.contains(&interrupted);
            for stack in stacks {
                is_declared |= stack.range().contains(&interrupted);
                if core::ptr::from_ref(stack) as usize == left {
                    visit_declared(stack, &mut visit);
                    visit(span_of(&mutator.own_registers));
                }
            }
            visit_own(&own, fleeting, &mut visit);
            // Below guards of the program's own, as of coroutines whose stacks lie on this one.
            if own.start != 0 && own.contains(&interrupted) {
                fleeting.read(interrupted..base, &mut visit);
            }
            // It may have interrupted the thread on a stack that nobody declared; or in a guard.
            if interrupted != 0
                && !is_declared
                && !is_on(&own, interrupted)
                && readable::is_readable(interrupted)
            {
                visit_undeclared(interrupted, fleeting, &mut visit);
            }
        } else if let Some(stack) = stacks.find(|stack| stack.range().contains(&position)) {
            visit(position..stack.range().end);
            visit(mutator.own_position.load(Relaxed).max(own.start)..base);
            visit(span_of(&mutator.own_registers));
        } else if position != noted
            && let Some(start) = start_of_corrected(&own, position)
        {
            visit(start..base);
        } else if is_on(&own, position) {
            visit(position..base);
        } else {
            // An alternate signal stack, or a stack that nobody declared: all of it, and all of the
            // thread's own.
            let given = alternate_stack::given(mutator.alternate_stack.load(Relaxed));
            if given.contains(&position) {
                // Its mapping may be one with those of others, which come and go.
                visit(position..given.end);
            } else {
                visit_undeclared(position, fleeting, &mut visit);
            }
            visit_own(&own, fleeting, &mut visit);
        }
        visit(span_of(&mutator.blocked_registers));
        // The first thread's lies elsewhere, in what its stack may seem to reach down to.
        let scanned = if own.start == 0 { 0..0 } else { position.max(own.start)..own.end };
        thread_local::for_each(&self.modules, mutator, &scanned, &mut visit);
    }
}

/// Whether a handler that stands at `position` is on the stack that was given for handlers, and not
/// on one that took its place.
fn is_surely_handlers(mutator: &Mutator, position: usize) -> bool {
    let given = alternate_stack::given(mutator.alternate_stack.load(Relaxed));
    given.contains(&position) || mutator.declared_handler_stack.load(Relaxed)
}

fn span_of(registers: &[AtomicUsize; 6]) -> Range<usize> {
    let start = registers.as_ptr() as usize;
    start..start + size_of_val(registers)
}

impl Default for Images {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{futex, map};

    #[test]
    fn who_registers_or_loads_has_a_turn_between_two_parts() {
        const BYTES: usize = 32 << 20;
        let memory = map::allocate(BYTES).unwrap().0;
        let root = memory..memory + BYTES;
        assert!(add(root.clone()));
        let (seen, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut images, mut from) = (Images::new(), Some(root.start));
                while let Some(start) = from {
                    from = images.visit_running(start, Duration::ZERO, |_, part| {
                        futex::sleep(1_000_000);
                        seen.fetch_add(usize::from(root.contains(&part.start)), Relaxed);
                    });
                    futex::let_woken_run();
                }
                over.store(true, Relaxed);
            });
            let registers: [AtomicUsize; 6] = Default::default();
            let own = span_of(&registers);
            let mut turns = 0;
            while !over.load(Relaxed) {
                let before = seen.load(Relaxed);
                assert!(add(own.clone()));
                remove(own.clone());
                image::for_each(|_| ());
                turns += usize::from((1..=4).contains(&(seen.load(Relaxed) - before)));
                futex::sleep(1_000_000);
            }
            assert!(turns >= 4, "{turns} turns");
        });
        remove(root);
        assert!(seen.load(Relaxed) >= 15);
    }

    #[test]
    fn our_own_data_is_listed_once() {
        static mut WORD: usize = 3;
        let address = &raw const WORD as usize;
        let mut images = Images::new();
        let mut stopped = 0;
        images.list(|| stopped += 1);
        assert_eq!(stopped, 1);
        assert_eq!(
            images.spans.iter().filter(|span| (span.start..span.end).contains(&address)).count(),
            1
        );
    }
}
