//! Very many handles: they cost no more each than few do, and what is freed in any order is used
//! again.
//!
//! Invariant: as for all cases. Called by `cases`, on the main thread of a new process.

use super::Case;
use crate::referrers::handles::{allocate, get};
use crate::{ensure, fail};
use neap_core::api::handles::{self, DomainId, Handle, HandleKind};
use neap_core::api::{self, Kind};
use std::time::Duration;

/// The table.
pub const CASES: &[Case] = &[("many-handles", || many(500_000))];

/// What takes too long for every day.
pub const LONG: &[Case] = &[("ten-million-handles", || many(10_000_000))];

/// Objects that the handles refer to; every fourth is kept by weak handles only.
const OBJECTS: usize = 4096;
/// The handles are made in so many parts, each of which is timed.
const PARTS: usize = 10;
/// The slowest part may take so many times as long as the quickest: a search for free slots would
/// take longer with each handle.
const MOST_SLOWER: u128 = 20;
/// Besides, for what the machine does in the middle of a part: an interrupt, a host that takes the
/// processor away.
const MISHAP: Duration = Duration::from_millis(2);
/// How much more memory the process may hold when what was freed is in use again, in hundredths of
/// what the handles take.
const MOST_MORE: usize = 20;

fn kind(number: usize) -> HandleKind {
    [HandleKind::Strong, HandleKind::Weak, HandleKind::Pinned, HandleKind::WeakLong][number % 4]
}

/// Bytes of the process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or_else(|| fail!("/proc is not there")) * 4096
}

/// What the calling thread has had of a processor: what else the machine does is not counted.
fn processor_time() -> Duration {
    // SAFETY: the structure is ours; this clock is always there.
    let time = unsafe {
        let mut time: libc::timespec = core::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Makes the handles of these numbers, in parts, and says how much of a processor that took:
/// nanoseconds for each, in the quickest part and the slowest. `object` says to what.
fn make(all: &mut [Handle], numbers: &[usize], object: impl Fn(usize) -> usize) -> (u128, u128) {
    let (mut quickest, mut slowest) = (u128::MAX, 0);
    for part in numbers.chunks(numbers.len().div_ceil(PARTS)) {
        let began = processor_time();
        for &number in part {
            all[number] = allocate(DomainId::DEFAULT, kind(number), object(number));
        }
        let each = (processor_time() - began).as_nanos() / part.len() as u128;
        (quickest, slowest) = (quickest.min(each), slowest.max(each));
    }
    let mishap = MISHAP.as_nanos() / (numbers.len() / PARTS).max(1) as u128;
    ensure!(
        slowest <= quickest.max(10) * MOST_SLOWER + mishap,
        "a handle took {quickest} ns in one part and {slowest} ns in another"
    );
    (quickest, slowest)
}

fn many(count: usize) {
    api::collect();
    // Complemented, so that handles alone keep them: strong ones of even numbers, weak ones of odd
    // numbers.
    let objects: Vec<usize> =
        (0..OBJECTS).map(|_| !(api::allocate(32, Kind::Conservative) as usize)).collect();
    let any = |number: usize| !objects[number % OBJECTS];
    let kept = |number: usize| any(number & !1);
    let mut keepers = vec![Handle(0); OBJECTS];
    let even: Vec<usize> = (0..OBJECTS).step_by(4).chain((2..OBJECTS).step_by(4)).collect();
    make(&mut keepers, &even, kept);
    let mut numbers: Vec<usize> = (0..count).collect();
    let mut all = vec![Handle(1); count];
    let before = resident();
    let first = make(&mut all, &numbers, any);
    let taken = resident().saturating_sub(before);
    for &number in &numbers {
        let found = get(all[number]);
        ensure!(
            found == any(number) || found == 0 && number % 2 == 1,
            "handle {number} gives {found:#x}, not {:#x}",
            any(number)
        );
    }
    fastrand::Rng::with_seed(1).shuffle(&mut numbers);
    let (freed, left) = numbers.split_at(count / 2);
    let stale: Vec<Handle> = freed.iter().map(|&number| all[number]).collect();
    for &handle in &stale {
        ensure!(handles::free(handle).is_ok(), "{handle:x?} cannot be freed");
    }
    let before = resident();
    let second = make(&mut all, freed, kept);
    let grown = resident().saturating_sub(before);
    ensure!(
        grown <= taken * MOST_MORE / 100 + (4 << 20),
        "handles made where others were freed took {grown} bytes more, of {taken} before"
    );
    ensure!(api::collect() && api::collect(), "no collection");
    for &number in freed {
        let found = get(all[number]);
        ensure!(found == kept(number), "handle {number} gives {found:#x}, not {:#x}", kept(number));
    }
    let died = left.iter().filter(|&&number| get(all[number]) == 0).count();
    // A stale word on the stack may have kept some of the objects that only weak handles refer to.
    ensure!(
        died <= left.len() * 6 / 10 && died >= left.len() * 4 / 10,
        "of {} handles, half of them weak and of dead objects, {died} give null",
        left.len()
    );
    for handle in stale.iter().step_by(101) {
        ensure!(handles::get(*handle).is_err(), "{handle:x?} was freed, and gives something");
    }
    println!(
        "{count} handles: {} to {} ns each, {taken} bytes; where every second was freed: {} to {} \
         ns each, {grown} bytes more; longest stop {:.2} ms",
        first.0,
        first.1,
        second.0,
        second.1,
        api::statistics().pause_max_ns as f64 / 1e6
    );
}
