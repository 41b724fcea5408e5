//! Objects of the debugging allocator that were written past their end or before their start, found
//! at each collection; and what follows from errors that a collection found.
//!
//! Invariant: `look` runs world stopped, after marking, and only fills a fixed table; the rest runs
//! on a thread of the program. Each is reported once: header and trailer are mended.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::core_api::{self as api, Kind};
use crate::debugging::header::{self, HEADER_BYTES, Header};
use crate::debugging::noted::Noted;
use crate::debugging::output::{self, Stream};
use crate::failure::{Message, die};

/// An object's address, all bits turned over, and its header: the tables are roots where the
/// library is linked in.
pub type Hidden = (usize, Header);

static FOUND: Noted<Hidden, 64> = Noted::nothing();

/// `GC_ABORT_ON_LEAK`: the program ends once leaked or smashed objects were reported.
pub static ABORT: AtomicBool = AtomicBool::new(false);

/// Notes the objects that were written around, dead ones too. World stopped, after marking.
pub fn look() {
    if !header::is_used() {
        return;
    }
    api::for_each_object(&mut |base, total, kind, _marked| {
        // Memory that is never zeroed holds parts of earlier objects, headers too. Pointer-free
        // objects of the debugging allocator that can be collected are zeroed.
        if matches!(kind, Kind::Leaf | Kind::UncollectableLeaf) {
            return;
        }
        let Some(header) = header::header_at(base, total) else { return };
        let object = (base + HEADER_BYTES) as *const c_void;
        if header::damage(object, &header).is_none() {
            return;
        }
        header::mend(object, &header);
        FOUND.note((!(object as usize), header));
    });
}

/// Prints what `look` noted; whether that was anything. World running.
pub fn report() -> bool {
    report_as(&FOUND, |object, header| match header::has_mark(object, header) {
        true => header::PAST_ITS_END,
        false => header::BEFORE_ITS_START,
    })
}

/// Prints what a collection noted of debug objects; whether that was anything. World running.
pub fn report_as<const ROOM: usize>(
    found: &Noted<Hidden, ROOM>,
    what: impl Fn(*const c_void, &Header) -> &'static str,
) -> bool {
    let mut any = false;
    while let Some((hidden, header)) = found.take() {
        let object = !hidden as *const c_void;
        header::complain("heap check", object, &header, what(object, &header));
        any = true;
    }
    let more = found.take_more();
    if more != 0 {
        let text = Message::new(format_args!("heap check: and {more} more\n"));
        output::write(Stream::Error, text.bytes());
    }
    any
}

/// Ends the program if it wants that, now that errors were reported.
pub fn abort_if_wanted() {
    if ABORT.load(Relaxed) {
        die(format_args!("GC_ABORT_ON_LEAK: leaked or overrun objects were found; see above"));
    }
}
