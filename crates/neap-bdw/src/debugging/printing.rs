//! Text for people: `GC_printf` and the dumps.
//!
//! Invariant: nothing here allocates from the heap. Called from any thread, world running.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int};

use crate::core_api::{self as api, finalizer, link};
use crate::debugging::output::{self, Stream};
use crate::failure::Message;

unsafe extern "C" {
    fn neap_bdw_printf(format: *const c_char, ...);
    fn neap_bdw_error_printf(format: *const c_char, ...);
    fn neap_bdw_log_printf(format: *const c_char, ...);
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_set_log_fd(descriptor: c_int) {
    output::set_log_descriptor(descriptor);
}

/// Functions with the program's arguments passed on untouched, whatever they are.
macro_rules! pass_on {
    ($($name:ident => $target:path;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                naked_asm!("jmp {}", sym $target);
                #[cfg(target_arch = "aarch64")]
                naked_asm!("b {}", sym $target);
            }
        )*
    };
}

pass_on! {
    GC_printf => neap_bdw_printf;
    GC_err_printf => neap_bdw_error_printf;
    GC_log_printf => neap_bdw_log_printf;
}

fn print(arguments: core::fmt::Arguments<'_>) {
    output::write(Stream::Output, Message::new(arguments).bytes());
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_dump() {
    GC_dump_named(core::ptr::null());
}

/// The heap in figures, under a heading.
#[unsafe(no_mangle)]
pub extern "C" fn GC_dump_named(name: *const c_char) {
    if !name.is_null() {
        // SAFETY: a NUL-terminated text, says gc.h.
        let name = unsafe { CStr::from_ptr(name) };
        output::write(Stream::Output, b"***GC Dump ");
        output::write(Stream::Output, name.to_bytes());
        output::write(Stream::Output, b"\n");
    }
    let now = api::statistics();
    print(format_args!(
        "collections: {}\nheap: {} bytes committed, {} live after the last collection, {} free, {} \
         given back\nallocated: {} bytes in {} objects, {} bytes since the last collection\n",
        now.cycles,
        now.committed_bytes,
        now.live_bytes,
        now.free_bytes,
        now.unmapped_bytes,
        now.allocated_bytes,
        now.allocated_objects,
        now.allocated_since_cycle
    ));
    GC_dump_regions();
    GC_dump_finalization();
}

/// A line in the log of the collection that has just ended.
pub fn log_collection() {
    let now = api::statistics();
    let line = Message::new(format_args!(
        "collection {}: {} bytes live, heap {} bytes; stops {} us in all\n",
        now.cycles,
        now.live_bytes,
        now.committed_bytes,
        now.pause_total_ns / 1000
    ));
    output::write(Stream::Log, line.bytes());
}

/// The address range of the heap: there is one.
#[unsafe(no_mangle)]
pub extern "C" fn GC_dump_regions() {
    let range = api::heap_range();
    print(format_args!("heap addresses: {:#x} to {:#x}\n", range.start, range.end));
}

#[unsafe(no_mangle)]
pub extern "C" fn GC_dump_finalization() {
    print(format_args!(
        "finalizers: {} registered, {} ready; links: {} short, {} long\n",
        finalizer::registered(),
        finalizer::ready(),
        link::registered(link::Length::Short),
        link::registered(link::Length::Long)
    ));
}

/// Free cells are not kept in lists: what there is to say is how much is free.
#[unsafe(no_mangle)]
pub extern "C" fn GC_print_free_list(kind: c_int, granules: usize) {
    print(format_args!(
        "kind {kind}, {} bytes: no free list; {} bytes are free in all\n",
        granules * 16,
        api::statistics().free_bytes
    ));
}
