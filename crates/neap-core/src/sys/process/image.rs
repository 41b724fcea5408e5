//! Loaded objects: their writable segments and thread-local modules, by `dl_iterate_phdr`.
//!
//! Assumes glibc: `dl_iterate_phdr` holds the loader's list lock over the whole walk, and the lock
//! is recursive. Who stops the world does it from within the walk's first call, so that no stopped
//! thread can hold that lock and nothing is loaded between listing and stopping.
//!
//! # Safety
//!
//! Reads what `dl_iterate_phdr` hands out, within the counts that are given with it and while the
//! loader's lock is held. The pointer that goes through it is that of a closure which outlives the
//! call.

#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ops::Range;

use crate::sys::print;

/// At most this many writable segments of one object are reported; objects have one or two.
pub const MOST_SEGMENTS: usize = 32;

/// What one loaded object contributes to the roots.
pub struct Image {
    segments: [Range<usize>; MOST_SEGMENTS],
    count: usize,
    /// Whether it is the program itself, not a library.
    pub is_program: bool,
    /// The part that is read-only once relocated; empty if none.
    pub read_only: Range<usize>,
    /// Its number in each thread's vector of thread-local blocks; 0 if it has none.
    pub tls_module: usize,
    /// Bytes of its thread-local block.
    pub tls_bytes: usize,
    /// How many objects were ever loaded.
    pub loads: u64,
}

impl Image {
    /// Writable segments as loaded, `read_only` not yet taken out.
    pub fn segments(&self) -> &[Range<usize>] {
        &self.segments[..self.count]
    }
}

/// Calls `f` for each loaded object while the loader's list is locked.
pub fn for_each(mut f: impl FnMut(&Image)) {
    let mut f: &mut dyn FnMut(&Image) = &mut f;
    // SAFETY: `visit` is given the closure it expects, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut f).cast()) };
}

/// Runs `f` while the loader's list is locked; in it the list may be walked.
pub fn while_locked<R>(f: impl FnOnce() -> R) -> R {
    let (mut f, mut result) = (Some(f), None);
    let mut once = || result = f.take().map(|f| f());
    let mut once: &mut dyn FnMut() = &mut once;
    // SAFETY: `at_first` is given the closure it expects, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(at_first), (&raw mut once).cast()) };
    result.unwrap_or_else(|| print::fatal(format_args!("the loader listed no object")))
}

unsafe extern "C" fn at_first(_: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: `data` is `while_locked`'s closure.
    unsafe { (*data.cast::<&mut dyn FnMut()>())() };
    1
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid record, and `data` is `for_each`'s closure.
    let (info, f) = unsafe { (&*info, &mut *data.cast::<&mut dyn FnMut(&Image)>()) };
    let mut image = Image {
        segments: [const { 0..0 }; MOST_SEGMENTS],
        count: 0,
        // SAFETY: null or a string; the program's name is the empty one.
        is_program: info.dlpi_name.is_null() || unsafe { *info.dlpi_name == 0 },
        read_only: 0..0,
        tls_module: info.dlpi_tls_modid,
        tls_bytes: 0,
        loads: info.dlpi_adds,
    };
    for index in 0..info.dlpi_phnum as usize {
        // SAFETY: `dlpi_phdr` has `dlpi_phnum` entries.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        let range = start..start.wrapping_add(header.p_memsz as usize);
        match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_W != 0 && image.count < MOST_SEGMENTS => {
                image.segments[image.count] = range;
                image.count += 1;
            }
            libc::PT_GNU_RELRO => image.read_only = range,
            libc::PT_TLS => image.tls_bytes = header.p_memsz as usize,
            _ => {}
        }
    }
    f(&image);
    0
}

/// The name of the function or variable that an address lies in, where the loader knows it. Takes
/// the loader's lock: not in a stop.
pub fn symbol_of(address: usize) -> Option<&'static core::ffi::CStr> {
    // SAFETY: asks the loader about any address; a name that it gives lives as long as the object
    // is loaded.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let found = libc::dladdr(address as *const c_void, &mut info) != 0;
        (found && !info.dli_sname.is_null()).then(|| core::ffi::CStr::from_ptr(info.dli_sname))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread;

    #[test]
    fn finds_our_own_data() {
        static mut WORD: usize = 7;
        let address = &raw const WORD as usize;
        let mut found = 0;
        for_each(|image| {
            found += image.segments().iter().filter(|segment| segment.contains(&address)).count()
        });
        assert_eq!(found, 1);
    }

    #[test]
    fn a_thread_local_is_in_its_block() {
        std::thread_local! {
            static WORD: core::cell::Cell<usize> = const { core::cell::Cell::new(5) }
        }
        let address = WORD.with(|word| word.as_ptr() as usize);
        let mut found = false;
        for_each(|image| {
            // SAFETY: our own control block.
            let block =
                unsafe { thread::thread_local_block(thread::control_block(), image.tls_module) };
            if let Some(block) = block {
                found |= (block..block + image.tls_bytes).contains(&address);
            }
        });
        assert!(found);
    }
}
