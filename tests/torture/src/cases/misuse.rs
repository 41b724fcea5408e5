//! Cases of misuse: wrong pointers, wrong order, wrong arguments. Each is named for what it is and
//! changes nothing.
//!
//! Invariant: as for all cases. Called by `cases`, on the main thread of a new process.

use super::{Case, List, set_option};
use crate::ensure;
use crate::shadow::hidden::Hidden;
use neap_core::api::{self, FreeError, Kind, Shape};

/// The table.
pub const CASES: &[Case] = &[
    ("free-foreign-pointer", free_foreign_pointer),
    ("free-twice", free_twice),
    ("free-inside", free_inside),
    ("free-collected", free_collected),
    ("resize-foreign-pointer", resize_foreign_pointer),
    ("wrong-layouts", wrong_layouts),
    ("wrong-options", wrong_options),
    ("wrong-roots", wrong_roots),
    ("wrong-order", wrong_order),
];

const SIZES: [usize; 7] = [1, 8, 48, 1000, 30_000, 40_000, 5 << 20];

fn free(address: usize) -> Result<(), FreeError> {
    // SAFETY: nobody uses the objects of these cases after they are freed.
    unsafe { api::free(address as *mut u8) }.map(|_| ())
}

/// The case in a heap that checks itself, with a list that must stay.
fn with_list(case: impl FnOnce()) {
    set_option("check", "3");
    let list = List::new(1000);
    case();
    ensure!(api::collect() && api::collect(), "no collection");
    list.check();
}

fn free_foreign_pointer() {
    with_list(|| {
        static DATA: u64 = 3;
        let (local, boxed) = (7_u64, Box::new(9_u64));
        let foreign = [
            0,
            8,
            usize::MAX,
            &raw const DATA as usize,
            &raw const local as usize,
            &raw const *boxed as usize,
            api::heap_range().start - 8,
            1 << 62,
        ];
        for address in foreign {
            let result = free(address);
            ensure!(result == Err(FreeError::NotInHeap), "free({address:#x}) is {result:?}");
        }
        ensure!(local == 7 && *boxed == 9, "a foreign pointer's target has changed");
    });
}

/// Often enough that some of them are freed while a cycle marks beside the program.
fn free_twice() {
    with_list(|| {
        for bytes in SIZES.into_iter().cycle().take(40 * SIZES.len()) {
            for kind in Kind::ALL {
                let object = api::allocate(bytes, kind) as usize;
                ensure!(free(object).is_ok(), "{bytes} bytes of {kind:?} cannot be freed");
                let again = free(object);
                ensure!(
                    again == Err(FreeError::AlreadyFree),
                    "freed twice, {bytes} bytes of {kind:?}: {again:?}"
                );
            }
        }
    });
}

fn free_inside() {
    with_list(|| {
        for bytes in SIZES {
            let object = api::allocate(bytes, Kind::Conservative) as usize;
            for inside in [1, 7, bytes / 2, bytes - 1] {
                if inside > 0 && inside < bytes {
                    let result = free(object + inside);
                    ensure!(
                        result == Err(FreeError::NotAnObjectStart),
                        "free of byte {inside} of {bytes}: {result:?}"
                    );
                }
            }
            ensure!(free(object).is_ok(), "after that, {bytes} bytes cannot be freed");
        }
    });
}

#[inline(never)]
fn hidden_objects(bytes: usize) -> Vec<Hidden> {
    (0..100).map(|_| Hidden::new(api::allocate(bytes, Kind::Conservative) as usize)).collect()
}

fn free_collected() {
    with_list(|| {
        for bytes in SIZES {
            let objects = hidden_objects(bytes);
            ensure!(api::collect() && api::collect(), "no collection");
            let errors: Vec<_> =
                objects.iter().map(|object| free(object.reveal())).filter(Result::is_err).collect();
            // A stale word on the stack may have kept some.
            ensure!(
                errors.len() > 90,
                "of 100 dead objects of {bytes} bytes {} could be freed",
                100 - errors.len()
            );
            ensure!(
                errors.iter().all(|error| *error == Err(FreeError::AlreadyFree)),
                "dead objects of {bytes} bytes: {errors:?}"
            );
        }
    });
}

fn resize_foreign_pointer() {
    with_list(|| {
        let mut local = [7_u64; 8];
        let object = api::allocate(100, Kind::Conservative);
        // SAFETY: wrong pointers, which is what is tested; they are only compared.
        unsafe {
            let inside = object.add(8);
            for wrong in [local.as_mut_ptr().cast(), inside] {
                ensure!(api::reallocate(wrong, 1000).is_null(), "{wrong:p} was resized");
            }
            ensure!(free(object as usize).is_ok(), "after that it cannot be freed");
            ensure!(api::reallocate(object, 1000).is_null(), "a freed object was resized");
        }
        ensure!(local == [7; 8], "a foreign pointer's target has changed");
    });
}

fn wrong_layouts() {
    with_list(|| {
        let wrong = [
            ("no words", Shape::Bitmap { element_words: 0, bits: &[1] }),
            ("words without end", Shape::Bitmap { element_words: usize::MAX, bits: &[1] }),
        ];
        for (what, shape) in wrong {
            ensure!(api::layout(shape).is_err(), "a layout of {what} was taken");
        }
        let same = || api::layout(Shape::Bitmap { element_words: 2, bits: &[1] }).ok();
        ensure!(same().is_some() && same() == same(), "a layout has two numbers");
    });
}

fn wrong_options() {
    for (name, value) in
        [("no_such_option", "1"), ("growth", "fast"), ("max_heap", "-1"), ("check", "9"), ("", "")]
    {
        let result = api::set_option(name.as_bytes(), value.as_bytes());
        ensure!(result.is_err_and(|error| !error.is_empty()), "{name}={value} was taken");
    }
    with_list(|| {});
    for (name, value) in [("check", "0"), ("past_end", "1"), ("stop_signal", "40")] {
        let result = api::set_option(name.as_bytes(), value.as_bytes());
        ensure!(result.is_err(), "{name}={value} was taken after the start");
    }
}

#[allow(clippy::reversed_empty_ranges)] // that is what is tested
fn wrong_roots() {
    with_list(|| {
        let words = [0_usize; 64];
        let start = words.as_ptr() as usize;
        for range in [start..start, start + 64..start, start + 3..start + 7, 5..5] {
            ensure!(api::add_roots(range.clone()), "an empty range is no error");
            api::remove_roots(range);
        }
        // Many that overlap, taken out in one.
        for at in 0..32 {
            ensure!(api::add_roots(start + at..start + at + 300), "a range was refused");
        }
        ensure!(api::collect(), "no collection");
        api::remove_roots(start..start + 512);
        api::remove_roots(start..start + 512);
        core::hint::black_box(&words);
    });
}

fn wrong_order() {
    with_list(|| {
        api::release_collections();
        api::enable();
        ensure!(!api::is_disabled(), "enabled once more than disabled, collections are disabled");
        api::disable();
        ensure!(!api::collect(), "a collection ran while disabled");
        api::enable();
        api::hold_collections();
        api::hold_collections();
        api::release_collections();
        ensure!(!api::collect(), "a collection ran while held off");
        api::release_collections();
        ensure!(api::collect(), "no collection");
        ensure!(!api::attach_thread(None), "attached twice");
        api::unblocked(|| ensure!(api::collect(), "no collection outside a blocked region"));
        api::blocked(|| api::blocked(|| ()));
    });
}
