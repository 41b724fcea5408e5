//! What the kernel says of a process's memory: how much only it has, and how much it shares.
//!
//! Invariant: figures are the kernel's (`/proc/PID/smaps`), in bytes. Pure but for reading one
//! file. Called by the main thread.

use std::fs;
use std::iter::Sum;
use std::ops::Add;

/// Private and shared memory, of the whole process and of its anonymous mappings without the stack:
/// heaps, and what is known about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Only this process has it.
    pub private: u64,
    /// Others have it too.
    pub shared: u64,
    /// Private, of anonymous mappings.
    pub anonymous_private: u64,
    /// Shared, of anonymous mappings.
    pub anonymous_shared: u64,
}

impl Add for Memory {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            private: self.private + other.private,
            shared: self.shared + other.shared,
            anonymous_private: self.anonymous_private + other.anonymous_private,
            anonymous_shared: self.anonymous_shared + other.anonymous_shared,
        }
    }
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// That of a process.
pub fn of(process: u32) -> Result<Memory, String> {
    let path = format!("/proc/{process}/smaps");
    fs::read_to_string(&path)
        .map(|text| parse(&text))
        .map_err(|error| format!("cannot read {path}: {error}"))
}

fn parse(text: &str) -> Memory {
    let mut memory = Memory::default();
    let mut anonymous = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        if !first.ends_with(':') {
            // A mapping: range, access, offset, device, inode, and a name if it has one.
            let name = words.nth(4).unwrap_or("");
            anonymous = name.is_empty() || name == "[heap]" || name.starts_with("[anon:");
            continue;
        }
        let bytes = words.next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0) << 10;
        let (all, heap) = match first {
            "Private_Clean:" | "Private_Dirty:" => {
                (&mut memory.private, &mut memory.anonymous_private)
            }
            "Shared_Clean:" | "Shared_Dirty:" => (&mut memory.shared, &mut memory.anonymous_shared),
            _ => continue,
        };
        *all += bytes;
        if anonymous {
            *heap += bytes;
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_with_and_without_a_file_are_told_apart() {
        let text = "\
7f00-7f10 rw-p 00000000 00:00 0 \n\
Shared_Clean:          4 kB\nShared_Dirty:          8 kB\nPrivate_Clean:         0 \
kB\nPrivate_Dirty:        16 kB\n\
7f20-7f30 r-xp 00000000 08:01 99                         /lib/libc.so.6\n\
Shared_Clean:        100 kB\nPrivate_Dirty:         1 kB\nVmFlags: rd ex mr mw me\n\
7f40-7f50 rw-p 00000000 00:00 0                          [stack]\nPrivate_Dirty:         2 kB\n\
7f60-7f70 rw-p 00000000 00:00 0                          [anon:neap heap]\nPrivate_Dirty:        \
32 kB\n";
        let expected = Memory {
            private: (16 + 1 + 2 + 32) << 10,
            shared: 112 << 10,
            anonymous_private: 48 << 10,
            anonymous_shared: 12 << 10,
        };
        assert_eq!(parse(text), expected);
        assert!(of(std::process::id()).unwrap().private > 0);
        assert!(of(u32::MAX).is_err());
    }
}
