//! Choosing how the collector learns what the program wrote: by doing, never by kernel version.
//!
//! Invariant: what is chosen was seen to work in this process, or is `none`. Called at start-up,
//! and by `neap doctor`.
//!
//! # Safety
//!
//! Writes to two pages that the caller mapped for the attempt.

#![allow(unsafe_code)]

use core::ops::Range;

use super::Watch;
use super::mprotect;
use super::pagemap::Pagemap;
use super::snapshot::Snapshot;
use crate::addr::PAGE_BYTES;
use crate::heap::before_images::BeforeImages;
use crate::options::WatchChoice;
use crate::sys::map;
use crate::sys::process::{child, valgrind};
use crate::sys::refusal::Refusal;

/// For a trial, which keeps nothing.
static UNUSED: BeforeImages = BeforeImages::new();

/// What is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// Nothing: the world is stopped for the whole of marking.
    None,
    /// The kernel's write watch.
    Pagemap,
    /// A child process that marks a snapshot.
    Fork,
    /// Read-only pages and a handler of faults.
    Mprotect,
    /// Pages that are copied before the program writes to them.
    Snapshot,
}

impl Watching {
    /// All there are, those that `auto` tries first.
    pub const ALL: [Watching; 5] =
        [Watching::Pagemap, Watching::Fork, Watching::Snapshot, Watching::Mprotect, Watching::None];
    /// In the order in which `auto` tries them.
    pub const IN_ORDER: [Watching; 3] = [Watching::Pagemap, Watching::Fork, Watching::None];

    /// Whether it says what was written between cycles too, as minor ones need.
    pub const fn remembers(self) -> bool {
        matches!(self, Self::Pagemap | Self::Mprotect)
    }

    /// The word for it, as in `NEAP_WATCH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pagemap => "pagemap",
            Self::Fork => "fork",
            Self::Mprotect => "mprotect",
            Self::Snapshot => "snapshot",
        }
    }

    /// The one of this number, as `as` gives it.
    pub fn from_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|watching| *watching as u32 == number).unwrap_or(Self::None)
    }

    /// What it is, in a line.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::None => "stops the world for the whole of marking",
            Self::Pagemap => {
                "marks while the program runs; the kernel keeps account of written pages"
            }
            Self::Fork => "a child process marks a snapshot while the program runs",
            Self::Mprotect => "marks while the program runs; written pages are found by faults",
            Self::Snapshot => {
                "marks a snapshot while the program runs; pages are copied before they are written"
            }
        }
    }

    /// Tries out whether it does here what it should.
    pub fn try_out(self) -> Result<(), Refusal> {
        match self {
            Self::None => Ok(()),
            Self::Pagemap => over_two_pages(&mut Pagemap::open()?, "PAGEMAP_SCAN"),
            Self::Fork => child::try_out(),
            // Protection and a handler are what every kernel has. valgrind goes on behind a handler
            // with other registers than the program had.
            Self::Mprotect if valgrind::is_here() => Err(Refusal::wrong("SIGSEGV under valgrind")),
            Self::Mprotect => mprotect::try_limits(),
            // Its start is a trial: a write that waits, is served, and goes on.
            Self::Snapshot => Snapshot::open(&UNUSED)?.start(),
        }
    }

    /// What `choice` asks for; None for `auto`.
    const fn asked(choice: WatchChoice) -> Option<Self> {
        match choice {
            WatchChoice::Auto => None,
            WatchChoice::None => Some(Self::None),
            WatchChoice::Pagemap => Some(Self::Pagemap),
            WatchChoice::Fork => Some(Self::Fork),
            WatchChoice::Mprotect => Some(Self::Mprotect),
            WatchChoice::Snapshot => Some(Self::Snapshot),
        }
    }
}

/// What is to be used: what was asked for, or with `auto` the first that works. An error says what
/// was asked for and why it does not work.
pub fn choose(choice: WatchChoice) -> Result<Watching, (Watching, Refusal)> {
    match Watching::asked(choice) {
        Some(asked) => asked.try_out().map(|()| asked).map_err(|refusal| (asked, refusal)),
        None => Ok(Watching::IN_ORDER
            .into_iter()
            .find(|watching| watching.try_out().is_ok())
            .unwrap_or(Watching::None)),
    }
}

/// Whether a watch tells written pages from others: has it watch two pages, writes one, and asks.
/// `call` is what is to blame where it does not.
fn over_two_pages(watch: &mut dyn Watch, call: &'static str) -> Result<(), Refusal> {
    let start = map::allocate(2 * PAGE_BYTES).map_err(|error| Refusal::new("mmap", error))?;
    let range = start.0..start.0 + 2 * PAGE_BYTES;
    let tried = one_of_two(watch, &range);
    map::release(start, 2 * PAGE_BYTES);
    match tried? {
        true => Ok(()),
        false => Err(Refusal::wrong(call)),
    }
}

fn one_of_two(watch: &mut dyn Watch, range: &Range<usize>) -> Result<bool, Refusal> {
    let touch = |address: usize| {
        // SAFETY: the caller's two pages are mapped and ours.
        unsafe { (address as *mut u8).write_volatile(1) };
    };
    touch(range.start);
    touch(range.start + PAGE_BYTES);
    watch.register(range)?;
    let mut count = 0;
    let mut counted = |watch: &mut dyn Watch| {
        count = 0;
        watch.take_written(range, &mut |found| count += found.len() / PAGE_BYTES).map(|()| count)
    };
    counted(watch)?;
    let clean = counted(watch)? == 0;
    touch(range.start);
    Ok(clean && counted(watch)? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_works_and_the_words_are_those_of_the_option() {
        for watching in Watching::ALL {
            let mut options = crate::options::Options::DEFAULT;
            assert!(options.set(b"watch", watching.name().as_bytes()).is_ok());
            match choose(options.watch) {
                Ok(chosen) => assert_eq!(chosen, watching),
                Err((refused, _)) => assert!(refused == watching && watching.try_out().is_err()),
            }
        }
        assert!(choose(WatchChoice::Auto).unwrap().try_out().is_ok());
    }
}
