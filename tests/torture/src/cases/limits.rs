//! Cases of memory that is refused: limits of our own, of the kernel, absurd sizes.
//!
//! Invariant: as for all cases. Called by `cases`, on the main thread of a new process.

use super::{Case, List, fill, set_option};
use crate::ensure;
use crate::seccomp::{self, Call};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use neap_core::api::{self, Kind, Shape};

/// The table.
pub const CASES: &[Case] = &[
    ("absurd-sizes", absurd_sizes),
    ("absurd-alignments", absurd_alignments),
    ("absurd-resizes", absurd_resizes),
    ("absurd-expansions", absurd_expansions),
    ("limit-of-our-own", limit_of_our_own),
    ("limit-with-a-reserve", limit_with_a_reserve),
    ("address-space-limited-before", address_space_limited_before),
    ("address-space-limited-later", address_space_limited_later),
    ("mmap-refused", mmap_refused),
    ("mprotect-refused", mprotect_refused),
    ("mark-stack-refused", mark_stack_refused),
    ("madvise-refused", madvise_refused),
];

const ABSURD: [usize; 8] = [
    usize::MAX,
    usize::MAX - 7,
    usize::MAX - 4096,
    isize::MAX as usize,
    isize::MAX as usize + 1,
    (-1000_isize) as usize,
    1 << 62,
    1 << 47,
];

const KINDS: [Kind; 4] =
    [Kind::Conservative, Kind::Leaf, Kind::Uncollectable, Kind::UncollectableLeaf];

fn absurd_sizes() {
    set_option("check", "3");
    let list = List::new(1000);
    let layout = api::layout(Shape::Prefix { bytes: 8 });
    for bytes in ABSURD {
        for kind in KINDS {
            ensure!(api::allocate(bytes, kind).is_null(), "{bytes:#x} bytes were given");
            ensure!(
                api::allocate_aligned(bytes, 64, kind).is_null(),
                "{bytes:#x} aligned bytes were given"
            );
        }
        if let Ok(layout) = layout {
            ensure!(
                api::allocate_typed(bytes, layout).is_null(),
                "{bytes:#x} typed bytes were given"
            );
        }
    }
    for kind in KINDS {
        let (one, other) = (api::allocate(0, kind), api::allocate(0, kind));
        ensure!(
            !one.is_null() && one != other && api::object_at(one as usize).is_some(),
            "an object of no bytes is no object"
        );
    }
    ensure!(api::collect(), "no collection");
    list.check();
}

fn absurd_alignments() {
    let list = List::new(1000);
    for alignment in [0, 3, 24, 8192, 1 << 40, 1 << 63, usize::MAX] {
        ensure!(
            api::allocate_aligned(100, alignment, Kind::Leaf).is_null(),
            "alignment {alignment:#x} was given"
        );
    }
    ensure!(api::collect(), "no collection");
    list.check();
}

fn absurd_resizes() {
    set_option("check", "3");
    let list = List::new(1000);
    for before in [1, 40, 5000, 40_000, 3 << 20] {
        let object = api::allocate(before, Kind::Conservative);
        // SAFETY: the object is ours, has that many bytes, and is used at its old address only
        // where resizing failed.
        unsafe {
            object.write_bytes(0xa5, before);
            for bytes in ABSURD {
                ensure!(
                    api::reallocate(object, bytes).is_null(),
                    "{before} bytes became {bytes:#x}"
                );
            }
            ensure!(
                (0..before).all(|at| *object.add(at) == 0xa5),
                "an object whose resizing was refused has changed"
            );
            ensure!(api::reallocate(object, 0).is_null(), "no bytes were given");
            ensure!(api::free(object).is_err(), "resizing to nothing did not free");
        }
    }
    ensure!(api::collect(), "no collection");
    list.check();
}

fn absurd_expansions() {
    let list = List::new(1000);
    for bytes in ABSURD {
        ensure!(!api::expand(bytes), "the heap grew by {bytes:#x} bytes");
    }
    ensure!(api::expand(1 << 20), "the heap does not grow by a mebibyte");
    ensure!(api::collect(), "no collection");
    list.check();
}

fn limit_of_our_own() {
    set_option("max_heap", "16MiB");
    set_option("check", "3");
    let list = List::new(1000);
    for bytes in [32, 1000, 20_000, 100_000, 1 << 20] {
        for round in 0..3 {
            let count = fill(bytes, usize::MAX);
            let most = (16 << 20) / bytes;
            ensure!(
                count <= most && (round == 0 || count > most / 4),
                "round {round}: {count} objects of {bytes} bytes, where {most} would fill the heap"
            );
        }
    }
    ensure!(api::allocate(17 << 20, Kind::Leaf).is_null(), "more than the limit was given");
    list.check();
}

fn limit_with_a_reserve() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static RESERVE: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
    unsafe extern "C" fn out_of_memory(bytes: usize) -> *mut c_void {
        CALLS.fetch_add(1, Relaxed);
        if bytes <= 32 { (&raw const RESERVE).cast_mut().cast() } else { core::ptr::null_mut() }
    }
    set_option("max_heap", "8MiB");
    let list = List::new(1000);
    api::set_out_of_memory_callback(Some(out_of_memory));
    ensure!(fill(1000, usize::MAX) > 1000 && CALLS.load(Relaxed) == 1, "it was not called once");
    let mut full = List::new(0);
    let reserve = &raw const RESERVE as *mut [usize; 4];
    while full.first != reserve {
        ensure!(full.push(), "the callback's memory was not given");
        ensure!(full.length < 1 << 20, "the limit does not hold");
    }
    ensure!(CALLS.load(Relaxed) == 2, "it was called {} times", CALLS.load(Relaxed));
    list.check();
}

fn limit_address_space(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a valid limit.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    ensure!(result == 0, "cannot limit the address space");
}

fn use_up(bytes_at_most: usize) {
    let list = List::new(1000);
    for bytes in [32, 5000, 200_000] {
        for _ in 0..2 {
            let count = fill(bytes, bytes_at_most / bytes);
            ensure!(count > 10, "memory is refused after {count} objects of {bytes} bytes");
        }
    }
    // What is larger than the limit cannot be had; nothing else may come of it.
    ensure!(api::allocate(bytes_at_most, Kind::Leaf).is_null(), "more than the limit was given");
    ensure!(api::collect(), "no collection");
    list.check();
}

fn address_space_limited_before() {
    limit_address_space(256 << 20);
    use_up(256 << 20);
}

fn address_space_limited_later() {
    set_option("max_heap", "128MiB");
    let list = List::new(1000);
    limit_address_space(192 << 20);
    use_up(192 << 20);
    list.check();
}

fn mmap_refused() {
    let mut list = List::new(1000);
    seccomp::refuse(Call::Mmap, libc::ENOMEM);
    // The reservation is there: objects can still be had, as far as their metadata reaches.
    for _ in 0..100_000 {
        if !list.push() {
            break;
        }
    }
    ensure!(list.length > 1000, "nothing could be allocated");
    fill(100_000, 100);
    ensure!(api::collect(), "no collection");
    list.check();
    ensure!(list.push(), "after a collection nothing could be allocated");
}

fn mprotect_refused() {
    let mut list = List::new(1000);
    seccomp::refuse(Call::Mprotect, libc::ENOMEM);
    let _ = fill(1 << 20, 1000);
    while list.length < 3_000_000 && list.push() {}
    ensure!(list.length > 1000, "nothing could be allocated");
    ensure!(api::collect(), "no collection");
    list.check();
}

/// A tree whose marking needs a deep stack, marked where the stack can get no memory.
fn mark_stack_refused() {
    set_option("check", "3");
    let width = 400_000;
    let list = List::new(1000);
    let tree = api::allocate(width * 8, Kind::Conservative).cast::<usize>();
    ensure!(!tree.is_null(), "no memory for a large array");
    for index in 0..width {
        let leaf = api::allocate(16, Kind::Conservative).cast::<usize>();
        ensure!(!leaf.is_null(), "no memory for a small object");
        // SAFETY: fresh objects of ours, of that many words.
        unsafe {
            leaf.write(crate::shadow::hidden::pattern(2, index as u64, 0));
            tree.add(index).write(leaf as usize);
        }
    }
    seccomp::refuse(Call::Mmap, libc::ENOMEM);
    ensure!(api::collect() && api::collect(), "no collection");
    for index in 0..width {
        // SAFETY: as above.
        let (found, known) = unsafe {
            let leaf = tree.add(index).read();
            (*(leaf as *const usize), api::object_at(leaf).is_some())
        };
        ensure!(
            known && found == crate::shadow::hidden::pattern(2, index as u64, 0),
            "lost: leaf {index} of a wide tree, marked without memory for the mark stack"
        );
    }
    list.check();
}

fn madvise_refused() {
    set_option("check", "3");
    set_option("decay", "0");
    let list = List::new(1000);
    fill(10_000, 1000);
    seccomp::refuse(Call::Madvise, libc::ENOMEM);
    for _ in 0..3 {
        ensure!(api::collect_and_release(), "no collection");
        // Memory that did not go back must be zeroed before it is used again.
        for _ in 0..1000 {
            let object = api::allocate(10_000, Kind::Conservative);
            ensure!(!object.is_null(), "no memory");
            // SAFETY: a fresh object of that many bytes.
            let bytes = unsafe { core::slice::from_raw_parts_mut(object, 10_000) };
            ensure!(bytes.iter().all(|byte| *byte == 0), "not zeroed: a new object");
            bytes.fill(0x5a);
        }
    }
    list.check();
}
