//! Whether a program's file, or a library's, has a copy of libgc inside it, and whether Neap can
//! be put in that one's place.
//!
//! Invariant: a file with the copy's functions for others to call, which it calls itself in the
//! same way, gets those of a library that is preloaded. Reads what it is given, runs nothing.
//! Called by `libraries`.

use goblin::elf::Elf;
use goblin::elf::dynamic::{DF_SYMBOLIC, DT_SYMBOLIC};
use memchr::memmem;

/// How a file has a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Copy {
    /// Neap's functions can be found before the copy's.
    Replaceable,
    /// What calls the copy is bound to it.
    Within,
}

/// What every program allocates with that has the collector under it.
const FUNCTION: &str = "GC_malloc";
/// The collector asks the environment for it, however it was built in.
const VARIABLE: &[u8] = b"GC_INITIAL_HEAP_SIZE\0";

/// What a file has; `is_program`: it is not a library, and its own functions are found first.
pub fn copy(elf: &Elf<'_>, bytes: &[u8], is_program: bool) -> Option<Copy> {
    let named = |name: usize| elf.dynstrtab.get_at(name) == Some(FUNCTION);
    let at = elf.dynsyms.iter().position(|symbol| named(symbol.st_name));
    let exported = at.is_some_and(|at| !elf.dynsyms.get(at).is_none_or(|it| it.is_import()));
    if !exported {
        // Who imports the function has it from a library.
        return (at.is_none() && is_within(bytes)).then_some(Copy::Within);
    }
    let mut relocations = elf.pltrelocs.iter().chain(&elf.dynrelas);
    let calls_by_name = relocations.any(|relocation| Some(relocation.r_sym) == at);
    let symbolic = elf.dynamic.as_ref().is_some_and(|dynamic| {
        dynamic.info.flags & DF_SYMBOLIC != 0
            || dynamic.dyns.iter().any(|entry| entry.d_tag == DT_SYMBOLIC)
    });
    let replaceable = !is_program && calls_by_name && !symbolic;
    Some(if replaceable { Copy::Replaceable } else { Copy::Within })
}

/// Whether a file holds the collector's code, as far as can be seen.
pub fn is_within(bytes: &[u8]) -> bool {
    memmem::find(bytes, VARIABLE).is_some()
}
