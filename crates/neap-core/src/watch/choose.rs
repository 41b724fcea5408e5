//! Choosing how the collector learns what the program wrote: by doing, never by kernel version.
//!
//! Invariant: what is chosen was seen to work in this process, or is `none`. Called at start-up, and by `neap doctor` through the surface.

#![allow(unsafe_code)]

use core::ops::Range;

use super::Watch;
use super::pagemap::Pagemap;
use crate::addr::PAGE_BYTES;
use crate::options::WatchChoice;
use crate::sys::{child, map};

/// What is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// Nothing: the world is stopped for the whole of marking.
    None,
    /// The kernel's write watch.
    Pagemap,
    /// A child process that marks a snapshot.
    Fork,
}

impl Watching {
    /// In the order in which `auto` tries them.
    pub const IN_ORDER: [Watching; 3] = [Watching::Pagemap, Watching::Fork, Watching::None];

    /// The word for it, as in `NEAP_WATCH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pagemap => "pagemap",
            Self::Fork => "fork",
        }
    }

    /// The one of this number, as `as` gives it.
    pub fn from_number(number: u32) -> Self {
        Self::IN_ORDER.into_iter().find(|watching| *watching as u32 == number).unwrap_or(Self::None)
    }

    /// Whether it does here what it should: tries it out.
    pub fn works(self) -> bool {
        match self {
            Self::None => true,
            Self::Pagemap => pagemap_works(),
            Self::Fork => child::works(),
        }
    }

    /// What `choice` asks for; None for `auto`.
    const fn asked(choice: WatchChoice) -> Option<Self> {
        match choice {
            WatchChoice::Auto => None,
            WatchChoice::None => Some(Self::None),
            WatchChoice::Pagemap => Some(Self::Pagemap),
            WatchChoice::Fork => Some(Self::Fork),
        }
    }
}

/// What is to be used: what was asked for, or with `auto` the first that works. An error names what was asked for and does not work.
pub fn choose(choice: WatchChoice) -> Result<Watching, Watching> {
    match Watching::asked(choice) {
        Some(asked) if asked.works() => Ok(asked),
        Some(asked) => Err(asked),
        None => Ok(Watching::IN_ORDER
            .into_iter()
            .find(|watching| watching.works())
            .unwrap_or(Watching::None)),
    }
}

/// Whether the `pagemap` watch does what it should here: registers two pages, arms them, writes one, and asks.
pub fn pagemap_works() -> bool {
    let Ok(start) = map::allocate(2 * PAGE_BYTES) else { return false };
    let range = start.0..start.0 + 2 * PAGE_BYTES;
    let works = try_out(&range).unwrap_or(false);
    map::release(start, 2 * PAGE_BYTES);
    works
}

fn try_out(range: &Range<usize>) -> Option<bool> {
    let mut watch = Pagemap::open()?;
    let touch = |address: usize| {
        // SAFETY: the caller's two pages are mapped and ours.
        unsafe { (address as *mut u8).write_volatile(1) };
    };
    touch(range.start);
    touch(range.start + PAGE_BYTES);
    if !watch.register(range) {
        return None;
    }
    let mut count = 0;
    let mut counted = |watch: &mut Pagemap| {
        count = 0;
        watch.take_written(range, &mut |found| count += found.len() / PAGE_BYTES).then_some(count)
    };
    counted(&mut watch)?;
    let clean = counted(&mut watch)? == 0;
    touch(range.start);
    Some(clean && counted(&mut watch)? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_works_and_the_words_are_those_of_the_option() {
        for watching in Watching::IN_ORDER {
            let mut options = crate::options::Options::DEFAULT;
            assert!(options.set(b"watch", watching.name().as_bytes()).is_ok());
            match choose(options.watch) {
                Ok(chosen) => assert_eq!(chosen, watching),
                Err(refused) => assert!(refused == watching && !watching.works()),
            }
        }
        assert!(choose(WatchChoice::Auto).unwrap().works());
    }
}
