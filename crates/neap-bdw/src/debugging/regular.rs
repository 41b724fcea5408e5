//! What the environment asks to be said of each collection: `GC_DUMP_REGULARLY`,
//! `GC_PRINT_ADDRESS_MAP`, `GC_PRINT_BACK_HEIGHT`, and `GC_PRINT_STATS` with `GC_LOG_FILE`.
//!
//! Invariant: nothing here allocates. Asked for when the library is loaded; said after each
//! collection by the thread that ends it, world running.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::output::{self, Stream};
use super::printing;

/// What can be asked for; bits.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Regular {
    /// `GC_dump`, also when the heap is ready.
    Dump = 1,
    /// The mappings of the process.
    AddressMap = 2,
    /// That back heights are not known.
    BackHeight = 4,
    /// A line in the log.
    Log = 8,
}

static ASKED: AtomicU32 = AtomicU32::new(0);

/// Has it said from now on.
pub fn ask(what: Regular) {
    ASKED.fetch_or(what as u32, Relaxed);
}

fn is_asked(what: Regular) -> bool {
    ASKED.load(Relaxed) & what as u32 != 0
}

/// In `GC_init`.
pub fn at_start() {
    if is_asked(Regular::Dump) {
        printing::GC_dump();
    }
}

/// After each collection.
pub fn after_collection() {
    if is_asked(Regular::Dump) {
        printing::GC_dump();
    }
    if is_asked(Regular::AddressMap) {
        print_address_map();
    }
    if is_asked(Regular::BackHeight) {
        output::write(
            Stream::Error,
            b"neap: GC_PRINT_BACK_HEIGHT: back heights are not available; heap snapshots say what \
              keeps objects\n",
        );
    }
    if is_asked(Regular::Log) {
        printing::log_collection();
    }
}

/// As the kernel tells it, for addresses in reports to be looked up in.
fn print_address_map() {
    output::write(Stream::Error, b"---------- Address map ----------\n");
    let mut piece = [0_u8; 1024];
    // SAFETY: a path, and a buffer as long as is said; the descriptor is ours.
    unsafe {
        let file = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        while let length @ 1.. = libc::read(file, piece.as_mut_ptr().cast(), piece.len()) {
            output::write(Stream::Error, &piece[..length as usize]);
        }
        if file >= 0 {
            libc::close(file);
        }
    }
    output::write(Stream::Error, b"---------- End of the address map ----------\n");
}
