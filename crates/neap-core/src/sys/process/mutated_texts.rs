//! The kernel's texts changed by chance, or by a fuzzer: whoever parses them comes back, whatever
//! they say.
//!
//! Invariant: the seed is fixed, so a failure comes again. Tests, and what a fuzzer calls;
//! single-threaded.

use super::cgroup::{Version, cached_bytes, group_of, mount_of};
use super::mappings::Parser;
use super::resident::pages;

/// Texts as they are, and lines of each kind.
#[cfg(test)]
const TEXTS: [&str; 5] = [
    "7f00-7fff rw-p 0001 08:01 17 /usr/lib/libc.so.6\n8000-9000 r--s 00 00:00 0 [stack]\n",
    "0::/user.slice/a\n4:memory,cpu:/docker/b\n11:devices:/\n",
    "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    "36 25 0:31 /a\\040b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "inactive_file 4096\nactive_file 18446744073709551615\nslab_reclaimable 12\n",
];
/// What is put in.
#[cfg(test)]
const PARTS: [&str; 8] = ["-", ":", " ", "\n", "memory", "99999999999999999999", "\\0", "\u{ff}"];

/// Has every parser read a text.
pub fn parse(text: &[u8]) {
    let mut parser = Parser::default();
    let found = text.iter().filter_map(|byte| parser.feed(*byte)).count();
    assert!(found <= text.len());
    let _ = pages(text);
    for line in text.split(|byte| *byte == b'\n') {
        let _ = group_of(line);
        for version in [Version::One, Version::Two] {
            let _ = (mount_of(line, version), cached_bytes(text, version));
        }
    }
}

#[test]
fn whoever_parses_comes_back() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (state >> 33) as usize % below
    };
    TEXTS.iter().for_each(|text| parse(text.as_bytes()));
    let rounds = if cfg!(miri) { 100 } else { 50_000 };
    for _ in 0..rounds {
        let mut text = TEXTS[random(TEXTS.len())].as_bytes().to_vec();
        for _ in 0..=random(5) {
            let at = random(text.len() + 1);
            match random(4) {
                0 if at < text.len() => text[at] = random(256) as u8,
                1 => text.truncate(at),
                2 => {
                    let end = (at + random(20)).min(text.len());
                    text.drain(at..end);
                }
                _ => _ = text.splice(at..at, PARTS[random(PARTS.len())].bytes()),
            }
        }
        parse(&text);
    }
}

#[test]
fn bytes_beyond_all_numbers_are_the_largest_one() {
    let stat = b"inactive_file 18446744073709551615\nactive_file 18446744073709551615\n";
    assert_eq!(cached_bytes(stat, Version::Two), usize::MAX);
}

#[test]
fn what_is_kept_of_a_fuzzer_is_parsed() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus/texts");
    let files: Vec<_> = std::fs::read_dir(corpus).unwrap().collect();
    assert!(!files.is_empty());
    files.into_iter().for_each(|file| parse(&std::fs::read(file.unwrap().path()).unwrap()));
}
