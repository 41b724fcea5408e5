//! How much memory the process has of the system.
//!
//! Assumes: `/proc/self/statm` as proc(5) describes it (pages; the second number is what is
//! resident), and sysinfo(2). The file is opened for each reading: a program may close every
//! descriptor that it does not know. No allocation, and none of the kernel's locks that page faults
//! and mappings take. Called from any thread, also with the world stopped.

use crate::addr::PAGE_BYTES;
use crate::sys::files::small_file;

/// Bytes of the process that are in memory; `None` where that cannot be read, or says nothing of
/// what is in use since the machine has swapped something out.
pub fn bytes() -> Option<usize> {
    let machine = rustix::system::sysinfo();
    if machine.freeswap != machine.totalswap {
        return None;
    }
    in_memory()
}

/// The same, whether or not the machine has swapped something out.
pub fn in_memory() -> Option<usize> {
    let mut text = [0; 128];
    // The first is the first thread's, and has nothing once that has ended.
    [c"/proc/self/statm", c"/proc/thread-self/statm"].into_iter().find_map(|path| {
        let length = small_file::read(path, &mut text).ok()?;
        pages(&text[..length]).filter(|pages| *pages > 0).map(|pages| pages * PAGE_BYTES)
    })
}

/// The second number of a line of them.
pub(super) fn pages(text: &[u8]) -> Option<usize> {
    core::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::skip;

    #[test]
    fn the_second_number_counts() {
        assert_eq!(pages(b"1234 567 89 0 0 0 0\n"), Some(567));
        for wrong in [&b""[..], b"1234", b"12 -5", b"12 \xff"] {
            assert_eq!(pages(wrong), None);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)]
    fn touched_memory_is_seen() {
        let Some(before) = bytes() else {
            return skip("what is resident cannot be read, or memory was swapped out");
        };
        let memory = vec![1_u8; 64 << 20];
        let grown = bytes().unwrap().saturating_sub(before);
        assert!(grown > 32 << 20, "{grown} bytes of {}", memory.len());
    }
}
