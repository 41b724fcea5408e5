//! Objects of the debugging allocator that were written past their end, found at each collection;
//! and what follows from errors that a collection found.
//!
//! Invariant: `look` runs world stopped, after marking, and only fills a fixed table; the rest runs
//! on the thread that collected. Each overrun is reported once: the trailer is mended.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::core_api::{self as api, Kind};
use crate::debugging::header::{self, HEADER_BYTES, Header};
use crate::debugging::output::{self, Stream};
use crate::failure::{Message, die};

const MOST: usize = 64;
type Found = [Option<(usize, Header)>; MOST];
struct Table(UnsafeCell<Found>);
// SAFETY: written with the world stopped, read by the thread that collected before another
// collection can begin.
unsafe impl Sync for Table {}
static FOUND: Table = Table(UnsafeCell::new([None; MOST]));
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// `GC_ABORT_ON_LEAK`: the program ends once leaked or smashed objects were reported.
pub static ABORT: AtomicBool = AtomicBool::new(false);

/// Notes the objects that were overrun, dead ones too. World stopped, after marking.
pub fn look() {
    if !header::is_used() {
        return;
    }
    let mut count = 0;
    api::for_each_object(&mut |base, total, kind, _marked| {
        // Memory that is never zeroed holds parts of earlier objects, headers too. Pointer-free
        // objects of the debugging allocator that can be collected are zeroed.
        if matches!(kind, Kind::Leaf | Kind::UncollectableLeaf) {
            return;
        }
        let Some(header) = header::header_at(base, total) else { return };
        let object = (base + HEADER_BYTES) as *const c_void;
        if header::is_intact(object, &header) {
            return;
        }
        header::mend(object, &header);
        if count < MOST {
            // SAFETY: the world is stopped, and collections exclude each other.
            unsafe { (*FOUND.0.get())[count] = Some((object as usize, header)) };
        }
        count += 1;
    });
    COUNT.store(count, Relaxed);
}

/// Prints what `look` noted; whether that was anything. After the collection, world running.
pub fn report() -> bool {
    let count = COUNT.swap(0, Relaxed);
    for index in 0..count.min(MOST) {
        // SAFETY: filled before; whoever collects next fills it with the world stopped, at worst
        // mixing two reports.
        if let Some((object, header)) = unsafe { (*FOUND.0.get())[index] } {
            let object = object as *const c_void;
            header::complain("heap check", object, &header, "was written past its end");
        }
    }
    if count > MOST {
        let more = Message::new(format_args!("heap check: and {} more\n", count - MOST));
        output::write(Stream::Error, more.bytes());
    }
    count != 0
}

/// Ends the program if it wants that, now that errors were reported.
pub fn abort_if_wanted() {
    if ABORT.load(Relaxed) {
        die(format_args!("GC_ABORT_ON_LEAK: leaked or overrun objects were found; see above"));
    }
}
