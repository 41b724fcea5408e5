//! Who points to an object that should be gone: every writable word of the process outside the heap
//! that does, and where it lies.
//!
//! Invariant: reads memory through /proc/self/mem, so a mapping that goes away meanwhile does no
//! harm. Called by a thread that is about to fail.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use neap_core::api;

/// Words to name at most.
const MOST: usize = 12;

/// A list of words that point into `low..high`, for a message.
pub fn points_to(low: usize, high: usize) -> String {
    let (mut maps, mut list, mut found) = (String::new(), String::new(), 0);
    let Ok(memory) = File::open("/proc/self/mem") else { return list };
    let read = File::open("/proc/self/maps").and_then(|mut file| file.read_to_string(&mut maps));
    let heap = api::heap_range();
    for line in maps.lines().filter(|_| read.is_ok()) {
        let mut fields = line.split_whitespace();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let Some((start, end)) = range else { continue };
        let address = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let (start, end) = (address(start), address(end));
        let writable = fields.next().is_some_and(|rights| rights.starts_with("rw"));
        if !writable || (start < heap.end && heap.start < end) {
            continue;
        }
        let mut page = [0; 4096];
        for at in (start..end).step_by(page.len()) {
            if memory.read_exact_at(&mut page, at as u64).is_err() {
                continue;
            }
            for (index, word) in page.chunks_exact(8).enumerate() {
                let word = usize::from_le_bytes(word.try_into().unwrap_or_default());
                if (low..high).contains(&word) && found < MOST {
                    found += 1;
                    let name = fields.clone().nth(3).unwrap_or("anonymous");
                    let _ = write!(
                        list,
                        "\n    {:#x} in {start:#x}-{end:#x} {name}: {word:#x}",
                        at + index * 8
                    );
                }
            }
        }
    }
    let here = api::stack_position();
    let _ = write!(list, "\n    (the stack pointer of this thread is {here:#x})");
    list
}
