//! Where a recorded program's code was in memory, and where that is in its files.
//!
//! Invariant: what the recording names is read only if it is the very file that was recorded.
//! Single-threaded. Called by `pprof`.

use crate::symbols;
use goblin::elf::Elf;
use goblin::elf::program_header::PT_LOAD;
use neap_record::decode::Module;

const PAGE_BYTES: u64 = 4096;

/// Memory that holds code of a file, from an offset on.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first address.
    pub start: u64,
    /// Behind its last.
    pub end: u64,
    /// Where it is in the file.
    pub offset: u64,
}

/// A module's code, as its file says; where that cannot be read any more, or is another build, the
/// whole module as if it were the file.
pub fn segments(module: &Module) -> Vec<Segment> {
    let whole = || vec![Segment { start: module.start, end: module.end, offset: 0 }];
    let Ok(file) = symbols::read(module) else { return whole() };
    let Ok(elf) = Elf::parse(&file) else { return whole() };
    let code = elf
        .program_headers
        .iter()
        .filter(|header| header.p_type == PT_LOAD && header.is_executable());
    code.map(|header| {
        // As the kernel maps it: in whole pages.
        let before = header.p_vaddr % PAGE_BYTES;
        let start = module.bias.wrapping_add(header.p_vaddr - before);
        // The file may be anybody's.
        let end = start.saturating_add(before).saturating_add(header.p_memsz);
        let end = end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(end);
        Segment { start, end, offset: header.p_offset.saturating_sub(before) }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};

    /// A recording may come from anybody: its file may be a pipe that nobody writes to, or another.
    #[test]
    fn a_file_that_is_not_the_recorded_one_says_nothing_of_the_code() {
        let file = std::env::current_exe().unwrap();
        let build_id = symbols::build_id(&std::fs::read(&file).unwrap()).unwrap_or_default();
        let path = file.to_string_lossy().into_owned();
        let own = Module { start: 1 << 20, end: 2 << 20, bias: 1 << 20, path, build_id };
        let whole = [Segment { start: own.start, end: own.end, offset: 0 }];
        assert_ne!(segments(&own), whole);
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from(0o600), 0).unwrap();
        let path = pipe.to_string_lossy().into_owned();
        let piped = Module { path, build_id: String::new(), ..own.clone() };
        let other = Module { build_id: "00".to_owned(), ..own };
        assert_eq!(segments(&piped), whole);
        assert_eq!(segments(&other), whole);
    }
}
