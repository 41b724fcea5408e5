//! The marking check: every object that a marked object points to is marked. For tests and
//! `NEAP_CHECK=3`.
//!
//! Called with the world stopped after marking, before anything is swept.
//!
//! # Safety
//!
//! Reads marked objects with the world stopped and nothing swept: a marked cell is allocated, hence
//! readable, and nobody writes to it.

#![allow(unsafe_code)]

use super::scan::conservative::scan;
use crate::addr::CellIndex;
use crate::heap::Heap;
use crate::heap::blocks::freed_places;
use crate::heap::kind::Scan;

/// A marked object and the unmarked one it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Start of the marked object.
    pub parent: usize,
    /// Start of the object that marking missed.
    pub child: usize,
}

/// The first violation of `[mark.inv.reachable]`. Conservative objects are checked by their words;
/// typed ones are left out, since a layout may hide pointers, and so are words that lead to where
/// the program freed an object: a dead or a frozen one may have kept them.
pub fn find_lost(heap: &Heap) -> Option<Lost> {
    let mut lost = None;
    heap.for_each_block(|block, header| {
        if header.scan() != Scan::Conservative || lost.is_some() {
            return;
        }
        for index in 0..header.cells() {
            if !heap.bits(block).is_marked(CellIndex(index)) {
                continue;
            }
            let parent = heap.address(block).0 + index as usize * header.cell_bytes();
            let bytes = match header.requested() {
                0 => header.cell_bytes(),
                requested => requested,
            };
            // SAFETY: a marked cell is allocated and so readable.
            unsafe {
                scan(parent, parent + bytes, heap.base().0, heap.committed(), |word| {
                    let child = heap.object_at(word).filter(|c| !c.bits.is_marked(c.index));
                    if let Some(child) = child.filter(|_| !freed_places::holds(word)) {
                        lost = Some(Lost { parent, child: child.start.0 });
                    }
                });
            }
        }
    });
    lost
}

#[cfg(test)]
mod tests {
    use super::super::drain::Marker;
    use super::super::markers::{Markers, Until};
    use super::*;
    use crate::addr::{Address, PAGE_BYTES};
    use crate::alloc::{buffer::tests::local, large, refill::refill};
    use crate::heap::blocks::header::NO_LAYOUT;
    use crate::heap::calls::Calls;
    use crate::heap::classes;
    use crate::heap::kind::Kind;
    use crate::heap::layout::Shape;
    use crate::heap::spaces::SpaceId;
    use crate::sys::clock;
    use core::ffi::c_void;
    use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

    fn heap() -> Heap {
        let heap = Heap::new();
        heap.reserve(256 << 20).unwrap();
        heap
    }

    fn object(
        heap: &Heap,
        local: &crate::alloc::buffer::Local,
        id: SpaceId,
        words: usize,
    ) -> *mut usize {
        let buffer = local.buffer(id).unwrap();
        loop {
            let cell = buffer.bump(classes::cell_bytes(classes::class_of(words * 8)));
            if cell != 0 {
                return cell as *mut usize;
            }
            refill(heap, local, buffer, id).unwrap();
        }
    }

    /// A random graph of pairs; gives the objects and which are reachable from the first.
    fn graph(heap: &Heap, objects: usize) -> (Vec<usize>, Vec<bool>) {
        let local = local();
        let id = SpaceId::of(Kind::Conservative, classes::class_of(16));
        let cells: Vec<_> = (0..objects).map(|_| object(heap, local, id, 2)).collect();
        let mut seed = 99_u64;
        let mut edges = vec![[0; 2]; objects];
        for (from, pair) in edges.iter_mut().enumerate() {
            for (field, to) in pair.iter_mut().enumerate() {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Most lead somewhere: else hardly anything is reachable.
                *to = (seed >> 33) as usize % (objects * 5 / 4);
                if *to < objects {
                    // SAFETY: the cell is ours; odd targets are interior pointers.
                    unsafe { cells[from].add(field).write(cells[*to] as usize + *to % 16) };
                }
            }
        }
        let mut reachable = vec![false; objects];
        let mut grey = vec![0];
        while let Some(from) = grey.pop() {
            if from < objects && !core::mem::replace(&mut reachable[from], true) {
                grey.extend(edges[from]);
            }
        }
        (cells.into_iter().map(|cell| cell as usize).collect(), reachable)
    }

    /// Where the thread notes pages that are no object yet.
    static NOTE: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

    #[test]
    fn one_marker_marks_exactly_what_is_reachable() {
        let heap = heap();
        let (cells, reachable) = graph(&heap, 20_000);
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        marker.word(cells[0]);
        marker.work();
        for (cell, reachable) in cells.iter().zip(&reachable) {
            assert_eq!(heap.is_marked(*cell), *reachable);
        }
        assert_eq!(
            marker.marked_bytes / 16,
            reachable.iter().filter(|reachable| **reachable).count()
        );
        assert_eq!(find_lost(&heap), None, "[mark.inv.reachable]");
        let victim = (1..cells.len()).find(|index| reachable[*index]).unwrap();
        let cell = heap.cell_at(cells[victim]).unwrap();
        cell.bits.set_range(cell.index.0..cell.index.0 + 1, true, false, false);
        assert_eq!(find_lost(&heap).unwrap().child, cells[victim]);
    }

    /// Three markers work on what the driver is given by `begin`; gives the bytes that they marked.
    fn marked_by_three(heap: &Heap, begin: impl FnOnce(&mut Marker<'_>)) -> usize {
        let markers = Markers::new();
        markers.begin(3, false);
        std::thread::scope(|scope| {
            let mut driver = Marker::new(&markers, heap, 0);
            begin(&mut driver);
            markers.done.become_active();
            let helpers: Vec<_> = (1..3)
                .map(|place| {
                    let markers = &markers;
                    scope.spawn(move || {
                        let mut marker = Marker::new(markers, heap, place);
                        marker.work();
                        marker.marked_bytes
                    })
                })
                .collect();
            driver.work_as_driver();
            helpers.into_iter().map(|helper| helper.join().unwrap()).sum::<usize>()
                + driver.marked_bytes
        })
    }

    #[test]
    fn several_markers_mark_the_same_and_each_object_once() {
        let heap = heap();
        let (cells, reachable) = graph(&heap, 100_000);
        let marked = marked_by_three(&heap, |driver| driver.word(cells[0])) / 16;
        assert_eq!(marked, reachable.iter().filter(|reachable| **reachable).count());
        assert_eq!(find_lost(&heap), None, "[mark.inv.reachable]");
    }

    #[test]
    fn what_a_late_marker_leaves_the_driver_does() {
        let heap = heap();
        let (cells, reachable) = graph(&heap, 100_000);
        let markers = Markers::new();
        markers.begin(2, true);
        let mut late = Marker::new(&markers, &heap, 1);
        late.word(cells[0]);
        late.work_until(Until::Clock(clock::now_ns()));
        let before = late.marked_bytes / 16;
        let all = reachable.iter().filter(|reachable| **reachable).count();
        assert!(before < all && late.pending() == 0, "it had no time for all of it");
        let mut driver = Marker::new(&markers, &heap, 0);
        driver.work();
        assert_eq!(before + driver.marked_bytes / 16, all, "[mark.inv.leftover]");
    }

    #[test]
    fn who_waits_for_the_cycle_marks_until_its_thread_is_wanted_or_nothing_is_to_be_had() {
        let heap = heap();
        let (cells, reachable) = graph(&heap, 100_000);
        let all = reachable.iter().filter(|reachable| **reachable).count();
        let markers = Markers::new();
        markers.begin(2, true);
        let mut waiting = Marker::new(&markers, &heap, 1);
        let wanted = AtomicU8::new(1);
        waiting.word(cells[0]);
        assert!(waiting.work_until(Until::Wanted(&wanted)));
        let before = waiting.marked_bytes / 16;
        assert!(before < all && waiting.pending() == 0, "[mark.inv.leftover]");
        wanted.store(0, Relaxed);
        assert!(waiting.work_until(Until::Wanted(&wanted)));
        assert_eq!(waiting.marked_bytes / 16, all, "in one piece");
        // Another marker has something to do and gives nothing of it.
        markers.done.become_active();
        assert!(!waiting.work_until(Until::Wanted(&wanted)), "it does not wait here");
        assert!(!waiting.work_until(Until::Clock(clock::now_ns() + 60_000_000_000)));
        markers.done.become_idle();
    }

    #[test]
    fn markers_that_leave_early_leave_all_their_work() {
        let heap = heap();
        let (cells, reachable) = graph(&heap, 100_000);
        let markers = Markers::new();
        markers.begin(3, true);
        let (finished, pieces) = (AtomicBool::new(false), AtomicUsize::new(0));
        let marked = std::thread::scope(|scope| {
            let mut driver = Marker::new(&markers, &heap, 0);
            driver.word(cells[0]);
            markers.done.become_active();
            let helpers: Vec<_> = (1..3)
                .map(|place| {
                    let (markers, heap, finished, pieces) = (&markers, &heap, &finished, &pieces);
                    scope.spawn(move || {
                        let mut marker = Marker::new(markers, heap, place);
                        markers.enter();
                        while !finished.load(Relaxed) {
                            marker.work_until(Until::Clock(clock::now_ns() + 20_000));
                            assert_eq!(marker.pending(), 0);
                            pieces.fetch_add(1, Relaxed);
                        }
                        markers.leave();
                        marker.marked_bytes
                    })
                })
                .collect();
            // The driver has others do as much as they will.
            while pieces.load(Relaxed) < 2 {
                std::hint::spin_loop();
            }
            driver.work_as_driver();
            finished.store(true, Relaxed);
            let helped: usize = helpers.into_iter().map(|helper| helper.join().unwrap()).sum();
            helped + driver.marked_bytes
        });
        assert_eq!(marked / 16, reachable.iter().filter(|reachable| **reachable).count());
        assert_eq!(find_lost(&heap), None, "[mark.inv.leftover]");
    }

    #[test]
    fn layouts_are_obeyed_and_functions_called() {
        unsafe extern "C" fn second_word(
            object: *mut c_void,
            bytes: usize,
            environment: usize,
            tracer: *mut c_void,
        ) {
            assert_eq!((bytes, environment), (16, 42));
            // SAFETY: a marker hands its tracer and a readable object.
            unsafe {
                (*tracer.cast::<super::super::tracer::Tracer<'_>>())
                    .word(*object.cast::<usize>().add(1))
            };
        }
        let (heap, local) = (heap(), local());
        let shapes = [
            Shape::Bitmap { element_words: 2, bits: &[0b10] },
            Shape::Prefix { bytes: 8 },
            Shape::Function { function: second_word, environment: 42, calls: Calls::Always },
        ];
        let class = classes::class_of(16);
        let leaf = SpaceId::of(Kind::Leaf, class);
        for (shape, scanned) in
            shapes.into_iter().zip([[false, true], [true, false], [false, true]])
        {
            let layout = heap.layouts.intern(shape).unwrap();
            let id = heap.inner().typed_space(&heap, layout, class).unwrap();
            let parent = object(&heap, local, id, 2);
            let children = [0, 1].map(|_| object(&heap, local, leaf, 2) as usize);
            // SAFETY: the object is ours.
            unsafe { parent.cast::<[usize; 2]>().write(children) };
            let markers = Markers::new();
            let mut marker = Marker::new(&markers, &heap, 0);
            marker.word(parent as usize + 3);
            marker.work();
            assert_eq!(children.map(|child| heap.is_marked(child)), scanned);
        }
    }

    #[test]
    fn who_only_reads_is_called_beside_the_program_and_who_calls_it_waits_for_a_pause() {
        /// The second word leads on; objects whose first word is odd need the program.
        unsafe extern "C" fn reads(object: *mut c_void, _: usize, _: usize, tracer: *mut c_void) {
            // SAFETY: a marker hands its tracer and a readable object.
            let (tracer, [first, second]) = unsafe {
                (
                    &mut *tracer.cast::<super::super::tracer::Tracer<'_>>(),
                    *object.cast::<[usize; 2]>(),
                )
            };
            if first.is_multiple_of(2) || tracer.may_call() {
                tracer.word(second);
            }
        }
        for (calls, odd_is_known) in [(Calls::Sometimes, true), (Calls::NotYet, false)] {
            let (heap, local) = (heap(), local());
            let shape = Shape::Function { function: reads, environment: 0, calls };
            let layout = heap.layouts.intern(shape).unwrap();
            assert_eq!(heap.layouts.has_calls(), odd_is_known);
            let class = classes::class_of(16);
            let id = heap.inner().typed_space(&heap, layout, class).unwrap();
            let [even, odd] = [2, 1].map(|first| {
                let parent = object(&heap, local, id, 2);
                let child = object(&heap, local, SpaceId::of(Kind::Leaf, class), 2) as usize;
                // SAFETY: the object is ours.
                unsafe { parent.cast::<[usize; 2]>().write([first, child]) };
                (parent as usize, child)
            });
            let markers = Markers::new();
            markers.begin(2, true);
            let mut marker = Marker::new(&markers, &heap, 0);
            marker.word(even.0);
            marker.word(odd.0);
            marker.work();
            assert!(heap.is_marked(even.1) && heap.layouts.has_calls());
            assert_eq!(markers.aside.has_some(), odd_is_known);
            assert_eq!(
                heap.is_marked(odd.1),
                !odd_is_known,
                "scanned whole where no pause follows"
            );
            markers.alone();
            marker.work();
            assert!(heap.is_marked(odd.1) && !markers.aside.has_some());
        }
    }

    /// Frames that a resize gave back may be a block of such cells by the time that the rest of the
    /// object is looked for.
    #[test]
    fn functions_are_not_called_for_cells_that_are_no_objects() {
        static CALLED: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn counts(_: *mut c_void, _: usize, _: usize, _: *mut c_void) {
            CALLED.fetch_add(1, Relaxed);
        }
        let (heap, local) = (heap(), local());
        let shape = Shape::Function { function: counts, environment: 0, calls: Calls::Always };
        let layout = heap.layouts.intern(shape).unwrap();
        let class = classes::class_of(16);
        let id = heap.inner().typed_space(&heap, layout, class).unwrap();
        let objects = [(); 2].map(|()| object(&heap, local, id, 2) as usize);
        let cell = heap.object_at(objects[1]).unwrap();
        cell.bits.free(cell.index);
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        objects.iter().for_each(|object| markers.put_aside(*object));
        markers.alone();
        marker.trace_aside(|| false);
        assert_eq!(CALLED.load(Relaxed), 1);
    }

    #[test]
    fn calls_of_local_functions_are_not_for_a_minor_cycle_to_repeat() {
        unsafe extern "C" fn names_nothing(_: *mut c_void, _: usize, _: usize, _: *mut c_void) {}
        // So many that they would not be remembered.
        const OBJECTS: usize = 1025;
        for are_local in [false, true] {
            let (heap, local) = (heap(), local());
            let shape =
                Shape::Function { function: names_nothing, environment: 0, calls: Calls::Always };
            let layout = heap.layouts.intern(shape).unwrap();
            if are_local {
                heap.layouts.note_local_functions();
            }
            let class = classes::class_of(16);
            let id = heap.inner().typed_space(&heap, layout, class).unwrap();
            let markers = Markers::new();
            let mut marker = Marker::new(&markers, &heap, 0);
            markers.alone();
            markers.aside.begin_tracing();
            (0..OBJECTS).for_each(|_| marker.word(object(&heap, local, id, 2) as usize));
            marker.work();
            markers.aside.end_tracing();
            assert_eq!(markers.aside.are_traced_known(), are_local);
        }
    }

    /// An object of so many words, each of which points to an object of its own.
    fn table(heap: &Heap, words: usize) -> (Address, Vec<usize>) {
        table_of(heap, words, NO_LAYOUT)
    }

    /// The same of a layout.
    fn table_of(heap: &Heap, words: usize, layout: u32) -> (Address, Vec<usize>) {
        let local = local();
        let leaf = SpaceId::of(Kind::Leaf, 0);
        let unpublished = large::take(heap, &NOTE, Kind::Conservative, layout, words * 8).unwrap();
        large::publish(heap, &NOTE, &unpublished);
        let children = (0..words)
            .map(|word| {
                let child = object(heap, local, leaf, 1);
                // SAFETY: the object is ours.
                unsafe { unpublished.start.pointer::<usize>().add(word).write(child as usize) };
                child as usize
            })
            .collect();
        (unpublished.start, children)
    }

    #[test]
    fn a_markers_scans_the_written_pages_and_no_others() {
        let heap = heap();
        let (start, children) = table(&heap, 100_001);
        let cell = heap.object_at(start.0).unwrap();
        let range = start.0..start.0 + cell.bytes();
        assert_eq!(marked_by_three(&heap, |driver| driver.keep_written(&range)), 0);
        cell.bits.mark::<false>(cell.index);
        // The last page but one is not written.
        let [last, last_but_one] = [1, 2].map(|pages| range.end - pages * PAGE_BYTES);
        let marked = marked_by_three(&heap, |driver| {
            driver.keep_written(&(range.start..last_but_one));
            driver.keep_written(&(last..range.end));
        });
        let unwritten = (last_but_one - start.0) / 8..(last - start.0) / 8;
        for (index, child) in children.iter().enumerate() {
            assert_eq!(heap.is_marked(*child), !unwritten.contains(&index));
        }
        assert_eq!(marked / heap.cell_at(children[0]).unwrap().bytes(), 100_001 - unwritten.len());
    }

    #[test]
    fn of_a_large_array_with_a_layout_the_written_pages_are_scanned() {
        let heap = heap();
        // Elements of three words, of which the second is no pointer: they straddle pages.
        let shape = Shape::Bitmap { element_words: 3, bits: &[0b101] };
        let layout = heap.layouts.intern(shape).unwrap();
        let (start, children) = table_of(&heap, 30_000, layout.0);
        let cell = heap.object_at(start.0).unwrap();
        cell.bits.mark::<false>(cell.index);
        let pages = start.0 + 5 * PAGE_BYTES..start.0 + 7 * PAGE_BYTES;
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        let scanned = marker.rescan(&pages);
        assert!((pages.len()..pages.len() + 3 * 8).contains(&scanned), "{scanned} bytes");
        marker.work();
        let written = (pages.start - start.0) / 8..(pages.end - start.0) / 8;
        // Of the first element on the pages also what lies before them.
        let scanned = written.start / 3 * 3..written.end;
        for (index, child) in children.iter().enumerate() {
            let named = scanned.contains(&index) && index % 3 != 1;
            assert_eq!(heap.is_marked(*child), named, "word {index}");
        }
    }

    #[test]
    fn of_a_large_prefix_the_written_words_are_scanned() {
        let heap = heap();
        let ends = 5 * PAGE_BYTES + 80;
        let layout = heap.layouts.intern(Shape::Prefix { bytes: ends + 7 }).unwrap();
        let (start, children) = table_of(&heap, 30_000, layout.0);
        heap.object_at(start.0).map(|cell| cell.bits.mark::<false>(cell.index)).unwrap();
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        let mut rescan = |page: usize| marker.rescan(&(page..page + PAGE_BYTES));
        let scanned = [4, 5, 6].map(|page| rescan(start.0 + page * PAGE_BYTES));
        assert_eq!(scanned, [PAGE_BYTES, 80, 0]);
        marker.work();
        let written = 4 * PAGE_BYTES / 8..ends / 8;
        assert!((0..30_000).all(|word| heap.is_marked(children[word]) == written.contains(&word)));
    }

    #[test]
    fn large_objects_are_scanned_to_their_end_in_slices() {
        let heap = heap();
        let words = 100_001;
        let (start, children) = table(&heap, words);
        let markers = Markers::new();
        let mut marker = Marker::new(&markers, &heap, 0);
        marker.word(start.0 + words * 8 - 1);
        marker.work();
        assert!(children.iter().all(|child| heap.is_marked(*child)));
    }
}
