//! Copies of this library in the process: each loaded object that one is linked into has an ELF
//! note that says so.
//!
//! Called at start-up.
//!
//! # Safety
//! Reads notes where `dl_iterate_phdr` says that they are loaded, within their length, while the
//! loader's lock is held.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

const NAME: &[u8; 5] = b"Neap\0";

// In assembly, since AddressSanitizer would put its red zone behind a static, into the segment.
core::arch::global_asm!(
    ".pushsection .note.neap,\"a\",@note",
    ".balign 4",
    ".weak neap_note",
    ".hidden neap_note",
    "neap_note:",
    ".long 5, 0, 1",
    ".asciz \"Neap\"",
    ".balign 4",
    ".popsection",
);

unsafe extern "C" {
    /// An ELF note without content.
    static neap_note: u8;
}

struct Search {
    address: usize,
    found: bool,
}

/// Whether an address, of a function, lies in a loaded object that another copy of this library is
/// linked into. What lies in the same object as this one is the program's, or ours.
pub fn hold(address: usize) -> bool {
    let mut search = Search { address, found: false };
    // SAFETY: `visit` is given the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid record, with `dlpi_phnum` headers; `data` is the search.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    // SAFETY: as above.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let place = |header: &libc::Elf64_Phdr| {
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    };
    let of_kind = |kind| headers.iter().filter(move |header| header.p_type == kind).map(place);
    let is_in = |address| of_kind(libc::PT_LOAD).any(|range| range.contains(&address));
    if !is_in(search.address) {
        return 0;
    }
    search.found = !is_in((&raw const neap_note).addr())
        && of_kind(libc::PT_NOTE).any(|range| {
            // SAFETY: a loaded segment.
            let bytes =
                unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
            bytes.windows(NAME.len()).any(|window| window == NAME)
        });
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_our_own_functions_nor_libcs_are_in_another() {
        assert!(!hold(hold as fn(usize) -> bool as usize));
        assert!(!hold(libc::getpid as *const () as usize));
        assert!(!hold(0));
    }
}
