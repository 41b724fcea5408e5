//! Loaded objects and their files: what symbolises addresses later, elsewhere.
//!
//! Invariant: nothing is written or waited for while the loader's list is locked: who stops the
//! world needs it. Objects are remembered for the process's life, also when they are gone. Called
//! by the recorder's thread.
//!
//! # Safety
//!
//! Reads records of the loader while it walks its list, and the notes of segments that it mapped.
//! The pointer that goes through it is that of a list which outlives the call.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};

use crate::sys::meta_vec::MetaVec;

/// Longer paths are cut; they symbolise nothing then.
const LONGEST_PATH: usize = 512;
const LONGEST_BUILD_ID: usize = 32;

/// A loaded object.
#[derive(Clone, Copy)]
pub struct Module {
    /// Its lowest address, and one past its highest.
    pub start: usize,
    /// See there.
    pub end: usize,
    /// Address in memory less address in the file.
    pub bias: usize,
    path: [u8; LONGEST_PATH],
    path_length: usize,
    build_id: [u8; LONGEST_BUILD_ID],
    build_id_length: usize,
}

impl Module {
    /// Its file.
    pub fn path(&self) -> &[u8] {
        &self.path[..self.path_length]
    }

    /// Its build id; empty if it has none.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id[..self.build_id_length]
    }
}

/// All objects seen so far.
pub struct Modules {
    seen: MetaVec<Module>,
    /// How often the loader had loaded something when it was asked last.
    loads: u64,
    /// The same for the walk under way.
    coming: u64,
}

impl Modules {
    /// None yet.
    pub const fn new() -> Self {
        Self { seen: MetaVec::new(), loads: 0, coming: 0 }
    }

    /// Those seen so far, in the order of being seen.
    pub fn seen(&self) -> &[Module] {
        &self.seen
    }

    /// Looks for new ones.
    pub fn look(&mut self) {
        // SAFETY: `visit` is given the list it expects, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), core::ptr::from_mut(self).cast()) };
        self.loads = self.coming;
    }
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid record, and `data` is `look`'s list.
    let (info, modules) = unsafe { (&*info, &mut *data.cast::<Modules>()) };
    if modules.loads == info.dlpi_adds {
        return 1;
    }
    modules.coming = info.dlpi_adds;
    let mut module = Module {
        start: usize::MAX,
        end: 0,
        bias: info.dlpi_addr as usize,
        path: [0; LONGEST_PATH],
        path_length: 0,
        build_id: [0; LONGEST_BUILD_ID],
        build_id_length: 0,
    };
    for index in 0..info.dlpi_phnum as usize {
        // SAFETY: `dlpi_phdr` has `dlpi_phnum` entries.
        let header = unsafe { &*info.dlpi_phdr.add(index) };
        let start = module.bias.wrapping_add(header.p_vaddr as usize);
        let end = start.wrapping_add(header.p_memsz as usize);
        match header.p_type {
            libc::PT_LOAD => {
                module.start = module.start.min(start);
                module.end = module.end.max(end);
            }
            // SAFETY: the loader mapped the segment.
            libc::PT_NOTE => note_build_id(&mut module, unsafe {
                core::slice::from_raw_parts(start as *const u8, end - start)
            }),
            _ => {}
        }
    }
    if !modules.seen.iter().any(|seen| seen.start == module.start && seen.end == module.end) {
        // SAFETY: null or a string; the program's name is the empty one.
        let name = unsafe { (!info.dlpi_name.is_null()).then(|| CStr::from_ptr(info.dlpi_name)) };
        set_path(&mut module, name.unwrap_or_default());
        // Without memory it is tried again at the next load.
        let _ = modules.seen.try_push(module);
    }
    0
}

fn set_path(module: &mut Module, name: &CStr) {
    if name.is_empty() {
        // SAFETY: the buffer is as long as is said.
        let read = unsafe {
            libc::readlink(
                c"/proc/self/exe".as_ptr(),
                module.path.as_mut_ptr().cast(),
                LONGEST_PATH,
            )
        };
        module.path_length = usize::try_from(read).unwrap_or(0);
    } else {
        let name = name.to_bytes();
        let length = name.len().min(LONGEST_PATH);
        module.path[..length].copy_from_slice(&name[..length]);
        module.path_length = length;
    }
}

/// Takes the build id from an object's notes: lengths of name and value, type, name and value, each
/// padded to a multiple of four.
fn note_build_id(module: &mut Module, mut notes: &[u8]) {
    const BUILD_ID: u32 = 3;
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name_bytes, value_bytes) = (word(0) as usize, word(4) as usize);
        let value_at = name_bytes.next_multiple_of(4);
        let Some(value) = rest.get(value_at..value_at + value_bytes) else { return };
        if word(8) == BUILD_ID
            && rest.get(..name_bytes) == Some(b"GNU\0")
            && value_bytes <= LONGEST_BUILD_ID
        {
            module.build_id[..value_bytes].copy_from_slice(value);
            module.build_id_length = value_bytes;
        }
        notes = rest.get(value_at + value_bytes.next_multiple_of(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_libraries_are_there_once() {
        let mut modules = Modules::new();
        modules.look();
        modules.look();
        let own = the_program_and_its_libraries_are_there_once as *const () as usize;
        let holds = |module: &&Module| (module.start..module.end).contains(&own);
        let program = modules.seen().iter().filter(holds).collect::<Vec<_>>();
        assert_eq!(program.len(), 1);
        let file = std::env::current_exe().unwrap();
        assert_eq!(program[0].path(), file.as_os_str().as_encoded_bytes());
        assert!(modules.seen().iter().any(|module| module.path().ends_with(b"libc.so.6")));
        assert!(modules.seen().iter().any(|module| module.build_id().len() == 20));
    }

    #[test]
    fn notes_that_are_cut_or_foreign_are_left() {
        let mut modules = Modules::new();
        modules.look();
        let mut module = modules.seen()[0];
        module.build_id_length = 0;
        for notes in
            [&[4, 0, 0, 0, 200, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0][..], &[1; 11], &[]]
        {
            note_build_id(&mut module, notes);
            assert!(module.build_id().is_empty());
        }
        note_build_id(
            &mut module,
            &[4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 7, 9, 0, 0],
        );
        assert_eq!(module.build_id(), [7, 9]);
    }
}
