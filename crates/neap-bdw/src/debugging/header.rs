//! The header and trailer that the debugging allocator puts around an object: where it was
//! allocated, and whether it was overrun. Leaks. Overruns are looked for in `smashed.rs`.
//!
//! Invariant: the program's pointer is `HEADER_BYTES` behind the object's start, and header and
//! trailer hold marks made from that address until the object is freed. `look_for_leaks` runs world
//! stopped and only fills a fixed table; the rest runs on any thread.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::*, compiler_fence};

use crate::core_api as api;
use crate::debugging::noted::Noted;
use crate::debugging::output::{self, Stream};
use crate::failure::Message;
use crate::kinds::kind::no_memory;
use crate::settings::variables::{GC_find_leak, variables};

const WORD: usize = size_of::<usize>();
/// Bytes before the program's pointer: a multiple of 16, so that alignment is kept.
pub const HEADER_BYTES: usize = size_of::<Header>();
variables! {
    /// Bytes in front of an object of the debugging allocator.
    GC_debug_header_size: usize = HEADER_BYTES;
}

const START_MARK: usize = 0xFEDC_EDCB_4E45_4150;
/// In place of it, once the object was freed and waits for a collection.
const FREED_MARK: usize = 0xFEDC_EDCB_4652_4545;
const END_MARK: usize = 0xBCDE_CDEF_4E45_4150;

/// What the program did to an object.
pub const PAST_ITS_END: &str = "was written past its end";
/// The same.
pub const BEFORE_ITS_START: &str = "was written before its start";

/// What stands before the object.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Header {
    file: *const c_char,
    line: isize,
    /// As asked for.
    pub bytes: usize,
    mark: usize,
}

/// There has been an object of the debugging allocator.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether there has been one.
pub fn is_used() -> bool {
    ANY.load(Relaxed)
}

fn end_of(object: usize, bytes: usize) -> *mut usize {
    (object + bytes.next_multiple_of(WORD)) as *mut usize
}

/// Allocates room for header, object and trailer with `with`, fills these in, and gives the
/// object's address.
pub fn allocate(
    bytes: usize,
    file: *const c_char,
    line: c_int,
    with: impl FnOnce(usize) -> *mut c_void,
) -> *mut c_void {
    let Some(total) = bytes.checked_add(HEADER_BYTES + 2 * WORD).map(|sum| sum / WORD * WORD)
    else {
        return no_memory(bytes);
    };
    let base = with(total);
    if base.is_null() {
        return base;
    }
    let object = base as usize + HEADER_BYTES;
    let header = base.cast::<Header>();
    ANY.store(true, Relaxed);
    // SAFETY: `total` bytes are ours, and the trailer ends within them. A collection that comes in
    // between finds no header, or one with its trailer: what has no mark yet has no file either.
    unsafe {
        (*header).file = core::ptr::null();
        compiler_fence(SeqCst);
        (*header).bytes = bytes;
        (*header).line = line as isize;
        end_of(object, bytes).write(END_MARK ^ object);
        compiler_fence(SeqCst);
        (*header).mark = START_MARK ^ object;
        compiler_fence(SeqCst);
        (*header).file = file;
    }
    object as *mut c_void
}

/// The header of an object of the debugging allocator, given the program's pointer to it.
pub fn header_of(object: *const c_void) -> Option<Header> {
    let info = api::object_at(object as usize)?;
    let base = info.start.as_ptr() as usize;
    if object as usize != base + HEADER_BYTES {
        return None;
    }
    header_at(base, info.bytes)
}

/// The header at the start of an object of `total` bytes, if there is one.
pub fn header_at(base: usize, total: usize) -> Option<Header> {
    header_with(START_MARK, base, total)
}

/// The same of an object that waits for a collection after it was freed.
pub fn header_of_freed(base: usize, total: usize) -> Option<Header> {
    header_with(FREED_MARK, base, total)
}

fn header_with(mark: usize, base: usize, total: usize) -> Option<Header> {
    if total < HEADER_BYTES + WORD {
        return None;
    }
    // SAFETY: a live object that is long enough; any bits make a header.
    let header = unsafe { (base as *const Header).read() };
    let (object, fits) = (base + HEADER_BYTES, header.bytes <= total - HEADER_BYTES - WORD);
    // Who wrote before the object leaves its end as it was. One that is half made has no file.
    let is_whole = !header.file.is_null() && header.mark != FREED_MARK ^ object;
    let is_damaged = || mark == START_MARK && is_whole && is_end_intact(object, &header);
    let is_one = || header.mark == mark ^ object || is_damaged();
    (fits && is_one()).then_some(header)
}

/// What becomes of a header when its object goes.
#[derive(Clone, Copy)]
pub enum Gone {
    /// Its memory may be handed out.
    Free,
    /// It waits for a collection.
    Waits,
}

/// Has nobody take the object behind `base`, which has a header, for one that is in use.
pub fn retire(base: usize, gone: Gone) {
    let object = base + HEADER_BYTES;
    // SAFETY: the caller found a header there, and so a trailer.
    unsafe {
        let header = base as *mut Header;
        match gone {
            Gone::Free => {
                end_of(object, (*header).bytes).write(0);
                (*header).mark = 0;
            }
            Gone::Waits => (*header).mark = FREED_MARK ^ object,
        }
    }
}

/// Whether the word behind the object is still what `allocate` wrote.
fn is_end_intact(object: usize, header: &Header) -> bool {
    // SAFETY: the header's size was seen to leave room for the trailer in the object.
    unsafe { end_of(object, header.bytes).read() == END_MARK ^ object }
}

/// Whether the word before the object was what `allocate` wrote, when the header was read.
pub fn has_mark(object: *const c_void, header: &Header) -> bool {
    header.mark == START_MARK ^ object as usize
}

/// What the words around the object say that the program did, if it did.
pub fn damage(object: *const c_void, header: &Header) -> Option<&'static str> {
    if !has_mark(object, header) {
        return Some(BEFORE_ITS_START);
    }
    (!is_end_intact(object as usize, header)).then_some(PAST_ITS_END)
}

/// Writes them again.
pub fn mend(object: *const c_void, header: &Header) {
    let base = object.wrapping_byte_sub(HEADER_BYTES) as *mut Header;
    // SAFETY: as above.
    unsafe {
        (*base).mark = START_MARK ^ object as usize;
        end_of(object as usize, header.bytes).write(END_MARK ^ object as usize);
    }
}

/// `FILE:LINE` of an allocation, as text to print.
struct Place {
    file: *const c_char,
    line: isize,
}

impl core::fmt::Display for Place {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.file.is_null() {
            return formatter.write_str("unknown place");
        }
        // SAFETY: gc.h has callers pass a NUL-terminated name that stays.
        let file = unsafe { CStr::from_ptr(self.file) };
        write!(
            formatter,
            "{}:{}",
            rust_alloc::string::String::from_utf8_lossy(file.to_bytes()),
            self.line
        )
    }
}

/// Says that something is wrong with a debug object.
pub fn complain(function: &str, object: *const c_void, header: &Header, what: &str) {
    let place = Place { file: header.file, line: header.line };
    let message = Message::new(format_args!(
        "{function}: object {object:p} of {} bytes, allocated at {place}, {what}\n",
        header.bytes
    ));
    output::write(Stream::Error, message.bytes());
}

#[derive(Clone, Copy)]
struct Leak {
    /// Its address, all bits turned over, as the table is a root where the library is linked in.
    hidden: usize,
    bytes: usize,
    file: *const c_char,
    line: isize,
}

static LEAKS: Noted<Leak, 256> = Noted::nothing();

/// In leak-finding mode: notes the objects that the program neither reaches nor freed. World
/// stopped, after marking.
pub fn look_for_leaks() {
    if GC_find_leak.load(Relaxed) == 0 {
        return;
    }
    api::for_each_object(&mut |base, total, _kind, marked| {
        if marked || header_of_freed(base, total).is_some() {
            return;
        }
        LEAKS.note(match header_at(base, total) {
            Some(header) => Leak {
                hidden: !(base + HEADER_BYTES),
                bytes: header.bytes,
                file: header.file,
                line: header.line,
            },
            None => Leak { hidden: !base, bytes: total, file: core::ptr::null(), line: 0 },
        });
    });
}

/// Prints what `look_for_leaks` noted; whether that was anything. World running.
pub fn report_leaks() -> bool {
    let mut any = false;
    while let Some(leak) = LEAKS.take() {
        let place = Place { file: leak.file, line: leak.line };
        let message = Message::new(format_args!(
            "Leaked object {:#x} of {} bytes, allocated at {place}\n",
            !leak.hidden, leak.bytes
        ));
        output::write(Stream::Error, message.bytes());
        any = true;
    }
    let more = LEAKS.take_more();
    if more != 0 {
        let text = Message::new(format_args!("and {more} more\n"));
        output::write(Stream::Error, text.bytes());
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_as_long_as_gc_get_debug_header_size_of_the_original() {
        assert_eq!(HEADER_BYTES, 32);
    }

    #[test]
    fn who_writes_around_an_object_is_told_where() {
        let mut room = vec![0_usize; 16];
        let base = room.as_mut_ptr();
        let object = allocate(13, c"here.c".as_ptr(), 7, |_| base.cast());
        let header = header_at(base as usize, 128).expect("just written");
        assert_eq!((header.bytes, header.line), (13, 7));
        assert_eq!(damage(object, &header), None);
        // SAFETY: the room is 128 bytes long.
        unsafe { object.cast::<u8>().add(16).write(1) };
        assert_eq!(damage(object, &header), Some(PAST_ITS_END));
        assert!(header_at(base as usize + 8, 120).is_none());
        mend(object, &header);
        for byte in [0, 1] {
            // SAFETY: as above.
            unsafe { object.cast::<u8>().sub(8).write(byte) };
            let header = header_at(base as usize, 128).expect("its end says so");
            assert_eq!(damage(object, &header), Some(BEFORE_ITS_START));
            mend(object, &header);
        }
        retire(base as usize, Gone::Waits);
        assert!(header_at(base as usize, 128).is_none());
        assert!(header_of_freed(base as usize, 128).is_some());
        retire(base as usize, Gone::Free);
        assert!(header_at(base as usize, 128).is_none());
    }
}
