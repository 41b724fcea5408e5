//! The one table of options: what it declares is the `Options` struct, the environment variables
//! `NEAP_<NAME>`, the `--name=value` arguments of `neap run`, `neap options` and `docs/options.md`.
//!
//! Invariant: reading options allocates nothing and calls nothing that could (the program's
//! `malloc` may be the library we are in); every value in an `Options` has passed its validator.
//! Imports nothing of the crate. Called once at start-up by one thread, before there is a heap.

mod environment;
mod finalizer_threads;
mod kinds;
mod limit;
mod words;

pub use finalizer_threads::FinalizerThreads;
pub use kinds::{Boolean, Bytes, Count, Float, Kind, OptionalPath, Signal, Time};
pub use limit::{Limit, MemoryLimit};
pub use words::{HugePages, LogTopics, MinorCycles, Prefork, WatchChoice};

use core::fmt::{self, Write as _};
use core::time::Duration;

/// One row of the table, for everything that prints or sets options by name.
pub struct Entry {
    /// Name in lower case: `max_heap`.
    pub name: &'static str,
    /// Name of the value's type: `bytes`, `count`, ….
    pub kind: &'static str,
    /// Words that are values, for shells to offer; there may be other values.
    pub words: &'static [&'static str],
    /// What the option does, one or more lines, each beginning with a space.
    pub meaning: &'static str,
    /// Writes the default as the user would write it.
    pub show_default: fn(&mut dyn fmt::Write) -> fmt::Result,
    /// Writes the value that it has there.
    pub show: fn(&Options, &mut dyn fmt::Write) -> fmt::Result,
    /// Writes what values are valid.
    pub show_valid: fn(&mut dyn fmt::Write) -> fmt::Result,
    assign: fn(&mut Options, &[u8]) -> Option<()>,
}

impl Entry {
    /// Whether `name` means this option; case does not matter, and `-` counts as `_`.
    pub fn is_named(&self, name: &[u8]) -> bool {
        name.len() == self.name.len()
            && self.name.bytes().zip(name).all(|(own, given)| {
                own == if *given == b'-' { b'_' } else { given.to_ascii_lowercase() }
            })
    }

    /// Whether only the start reads it: then it must be set before the first allocation.
    pub fn is_for_the_start(&self) -> bool {
        let recordings = ["summary", "stats", "sample", "visible"];
        let rest = ["watch", "stop_signal", "past_end", "huge_pages", "check", "harden"];
        recordings.contains(&self.name) || rest.contains(&self.name)
    }

    /// The row of this name.
    pub fn find(name: &[u8]) -> Option<&'static Entry> {
        TABLE.iter().find(|entry| entry.is_named(name))
    }
}

/// Why an option could not be set. `describe` makes a sentence of it.
#[derive(Clone, Copy)]
pub enum OptionError {
    /// No option has this name; the nearest one, if any is near.
    UnknownName(Option<&'static Entry>),
    /// The value does not parse or is out of range.
    BadValue(&'static Entry),
}

macro_rules! options {
    ($(
        $(#[doc = $meaning:literal])+
        $name:ident: $kind:ty { default: $default:expr, valid: $valid:expr }
    )+) => {
        /// Every option with its value. `Options::DEFAULT` and `Options::from_environment` make
        /// one.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Options {
            $( $(#[doc = $meaning])+ pub $name: <$kind as Kind>::Value, )+
        }

        impl Options {
            /// What holds where nothing is set.
            pub const DEFAULT: Options = Options { $( $name: $default, )+ };
        }

        /// The table, in the order of declaration.
        pub static TABLE: &[Entry] = &[ $( Entry {
            name: stringify!($name),
            kind: <$kind as Kind>::NAME,
            words: <$kind as Kind>::WORDS,
            meaning: concat!($( $meaning, "\n", )+),
            show_default: |out| <$kind as Kind>::show(&$default, out),
            show: |options, out| <$kind as Kind>::show(&options.$name, out),
            show_valid: |out| <$kind as Kind>::show_valid(&$valid, out),
            assign: |options, text| {
                options.$name = <$kind as Kind>::parse(text, &$valid)?;
                Some(())
            },
        }, )+ ];
    };
}

options! {
    /// Most bytes that the heap may hold; an allocation that would pass it collects, then calls the
    /// out-of-memory callback. `cgroup`: what the limits of the process's control groups leave for
    /// the heap beside everything else there, looked at again as the heap grows. `none` or 0: no
    /// limit.
    max_heap: MemoryLimit { default: Limit::Cgroup, valid: () }
    /// From here on memory is worth more than time: the collector runs more often as the heap nears
    /// it, but takes no more than half of the processors' time, so the heap may pass it. `cgroup`:
    /// four fifths of what the control groups leave, or what they call soft or high if that is
    /// less.
    soft_limit: MemoryLimit { default: Limit::Cgroup, valid: () }
    /// How much may be allocated before the next cycle, as a fraction of what was live after the
    /// last one. Larger: fewer cycles, more memory. The collector takes it times 0.75 to 1, with
    /// the world stopped throughout (`watch=none`) to 2, by how much of the program's time cycles
    /// take, and times 0.5 or 0.25 while the heap grows.
    growth: Float { default: 1.0, valid: 0.05..=100.0 }
    /// Bytes that must be allocated before a cycle starts, however small the heap is, for each of
    /// the program's threads that allocate, up to four. 0: 256 KiB, or up to 2 MiB where cycles
    /// would cost more than a seventeenth of the program's processor time, all of it times
    /// `growth`.
    min_trigger: Bytes { default: 0, valid: ..=usize::MAX }
    /// Where cycles would cost the program more than a seventeenth of its processors' time, they
    /// come that much more rarely, until so many bytes may be allocated between two of them. 0:
    /// they come as often as `growth` and `min_trigger` say. Under the D runtime, whose stops are
    /// dear, it is 40 MiB unless it is set, in programs with the crate `neap` 32 MiB.
    busy_trigger: Bytes { default: 0, valid: ..=usize::MAX }
    /// A cycle that is expected to stop the program for less than nine tenths of this (three
    /// quarters where several threads mark) stops it for the whole of marking, which costs less
    /// than marking beside it; it begins anew beside the program where marking a small heap takes
    /// longer. And one that the program's only thread asks for marks on that thread. Under
    /// `watch=fork` and `snapshot` a stop may take three times as long as the two stops of a cycle
    /// that marks a snapshot, and longer where snapshots are in vain. Larger: less processor time,
    /// longer stops; 0: cycles run beside the program wherever they can.
    max_pause: Time { default: Duration::from_millis(1), valid: 0..=3_600_000 }
    /// Threads that mark; more than 12 count as 12. 0: as many as the processors that the process
    /// may use. Up to four threads of the program that have to wait mark, too.
    markers: Count { default: 0, valid: 0..=64 }
    /// The signal that stops a thread: a real-time one, for a program that needs SIGURG for itself.
    /// 0: SIGURG. Only with SIGURG, which is ignored where nobody handles it, is execve(2) safe
    /// past the library's notice: a real-time signal that is pending then ends the new program.
    stop_signal: Signal { default: 0, valid: () }
    /// A pointer to one past the end of an object keeps that object alive, as compilers may need.
    /// Costs a byte per object, and so 16 for one whose size is a multiple of 16.
    /// D's runtime adds it where it is needed, and so it is off in D programs unless it is set. On
    /// the drop-in it is off where interior pointers do not count.
    past_end: Boolean { default: true, valid: () }
    /// How long memory stays empty before it goes back to the system, in whole milliseconds: what
    /// is over counts as one.
    decay: Time { default: Duration::from_millis(4000), valid: 0..=86_400_000 }
    /// How many cycles memory stays empty before it goes back, in place of a time. 0: `decay`
    /// says when. On the drop-in `GC_UNMAP_THRESHOLD` sets it.
    decay_cycles: Count { default: 0, valid: 0..=1_000_000 }
    /// A program that allocated next to nothing for so long, with a heap of 16 MiB or more, is
    /// collected, and its unused memory goes back to the system at once; later again, at growing
    /// distances, if it did anything meanwhile. Its threads are stopped for that; a wait goes on
    /// for the time that is left, but one with a mask of signals (ppoll, sigsuspend) may end with
    /// EINTR. 0: never.
    idle: Time { default: Duration::from_millis(2000), valid: 0..=86_400_000 }
    /// How much the collector checks of itself in every cycle, ending the process when a rule is
    /// broken: 0 nothing, 1 the heap's structure at the end, 2 at the beginning too, 3 also the
    /// words of every marked conservative object (not after a snapshot); with 3 every other stop
    /// that may end early does, and its cycle runs beside the program.
    check: Count { default: 0, valid: 0..=3 }
    /// Makes mistakes of the program show, and harder to use for an attack: the heap's place cannot
    /// be guessed, pages that nobody may touch lie behind large objects and around the collector's
    /// tables, and what the program frees is filled, looked at again and handed out late; a second
    /// free is refused. Costs time where programs free much.
    harden: Boolean { default: false, valid: () }
    /// What to print on standard error while running, a comma-separated list of topics. `cycles`:
    /// one line per cycle.
    log: LogTopics { default: LogTopics::NONE, valid: () }
    /// File that gets a JSON object with the run's figures at exit. `-`: standard error.
    summary: OptionalPath { default: None, valid: true }
    /// File that gets a recording of what the program asks of its memory and what cycles do, for
    /// `neap report`. `%p` in the name stands for the process's id; a forked child records to a
    /// file of its own, with its id behind the name. Of the programs that one `neap run` leads to,
    /// one after another, so do all but the first; those that one process runs (`exec`) have a
    /// number behind that, from 2 on.
    stats: OptionalPath { default: None, valid: false }
    /// With `stats`: allocations are sampled with the calls that led to them, one in so many bytes
    /// on average, for the report's sites, its flame graph and `neap export --pprof`; 512KiB is a
    /// good value. 0: none are.
    sample: Bytes { default: 0, valid: ..=1 << 40 }
    /// `neap top`, `neap metrics` and `neap heap` see the process from its start on. Otherwise the
    /// first two see it from its first half megabyte or its first cycle on, `neap heap` from its
    /// first cycle on, or while its heap is smaller than a megabyte from one on that it asks for or
    /// that comes a second later, for the sake of a cheap start. `neap run --top` sets it.
    visible: Boolean { default: false, valid: () }
    /// How the collector learns what the program wrote while it marked. `none`: it stops the world
    /// for the whole of marking. `pagemap`: it marks while the program runs and asks the kernel.
    /// `fork`: a child process marks a snapshot while the program runs. `mprotect`: as `pagemap`,
    /// but by faults; what has the kernel write into the heap, but for libc's functions that read
    /// data, may fail with EFAULT. `snapshot`: it marks the heap as it was at one moment, and pages
    /// are copied before the program writes to them. `auto`: the first of `pagemap`, `fork` and
    /// `none` that works here; `neap doctor` says which that is.
    watch: WatchChoice { default: WatchChoice::Auto, valid: () }
    /// Between full cycles there are minor ones, which look only at what was allocated or written
    /// since the last cycle. Only under `watch=pagemap` and `mprotect`. `auto`: as long as they
    /// pay. `always`: whenever there is room, for tests. `never`: every cycle is a full one.
    minor_cycles: MinorCycles { default: MinorCycles::Auto, valid: () }
    /// Which of the heap's memory is asked to be huge pages, which make marking large heaps faster.
    /// `auto`: what lies above the first 32 MiB, but none under `pagemap`, `snapshot` and
    /// `mprotect`. `leaf`: only chunks made for pointer-free objects. `all`: everything, also of
    /// small heaps, which become larger.
    huge_pages: HugePages { default: HugePages::Auto, valid: () }
    /// What to do when the program forks. `on-fork`: as neap_prefork(), if much was allocated since
    /// the last time; collects, and makes what lives then permanent, so that children go on sharing
    /// its memory. `never`: nothing.
    prefork: Prefork { default: Prefork::Never, valid: () }
    /// Threads that run finalizers and cleaners. `auto`: half as many as there are processors, at
    /// least one and at most eight. `manual`: none; the program calls `neap_finalizers_run`.
    /// Programs on the libgc interface run finalizers as that one's manual says, whatever this is.
    finalizers: FinalizerThreads { default: FinalizerThreads::Auto, valid: () }
    /// Finalizers and cleaners that may wait to be run. A thread that registers more meanwhile is
    /// slowed down.
    finalizer_backlog: Count { default: 1_000_000, valid: 1..=u32::MAX }
    /// Writable segments of the program and its libraries are roots.
    static_roots: Boolean { default: true, valid: () }
}

impl Options {
    /// The defaults, changed by the environment's `NEAP_<NAME>` variables. What is wrong there is
    /// reported on standard error, once per process, and has no effect.
    pub fn from_environment() -> Options {
        let mut options = Options::DEFAULT;
        options.apply_environment();
        options
    }

    /// Sets one option by name, as the environment and `neap run` would. On error nothing changes.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), OptionError> {
        let Some(entry) = Entry::find(name) else {
            return Err(OptionError::UnknownName(nearest(name)));
        };
        (entry.assign)(self, value).ok_or(OptionError::BadValue(entry))
    }
}

impl OptionError {
    /// A fixed text, for callers that have no room for what `describe` writes.
    pub fn text(self) -> &'static str {
        match self {
            OptionError::UnknownName(_) => "no option has this name",
            OptionError::BadValue(_) => "the value is not valid for this option",
        }
    }

    /// Writes one line, without a line end, that says what is wrong and what would be right.
    /// `prefix` stands before every option's name: `NEAP_` (names are then shown in upper case),
    /// `--`, or nothing.
    pub fn describe(
        &self,
        prefix: &str,
        name: &[u8],
        value: &[u8],
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        let shown = |name| Shown { prefix, name };
        match self {
            OptionError::UnknownName(near) => {
                write!(out, "{} is not an option", shown(name))?;
                if let Some(near) = near {
                    write!(out, " (did you mean {}?)", shown(near.name.as_bytes()))?;
                }
                out.write_str("; options are")?;
                for (index, entry) in TABLE.iter().enumerate() {
                    out.write_str(if index == 0 { " " } else { ", " })?;
                    out.write_str(entry.name)?;
                }
                Ok(())
            }
            OptionError::BadValue(entry) => {
                let own_name = shown(entry.name.as_bytes());
                write!(out, "{own_name}={}: want ", Typed(value))?;
                (entry.show_valid)(out)?;
                out.write_str("; the default is ")?;
                (entry.show_default)(out)
            }
        }
    }
}

/// An option's name as the user writes it in one place.
struct Shown<'a> {
    prefix: &'a str,
    name: &'a [u8],
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.prefix)?;
        let upper = self.prefix.ends_with('_');
        for &byte in self.name {
            let byte = match byte {
                _ if upper => byte.to_ascii_uppercase(),
                // As the help of `neap run` spells them.
                b'_' if self.prefix == "--" => b'-',
                _ => byte,
            };
            write!(out, "{}", byte.escape_ascii())?;
        }
        Ok(())
    }
}

/// A value as the user typed it, but for what would move a terminal's cursor or is no text.
struct Typed<'a>(&'a [u8]);

impl fmt::Display for Typed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() {
                    write!(out, "{}", character.escape_default())?;
                } else {
                    out.write_char(character)?;
                }
            }
            write!(out, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

/// The option whose name takes the fewest edits, if these are few beside the name's length.
fn nearest(name: &[u8]) -> Option<&'static Entry> {
    let (distance, entry) = TABLE
        .iter()
        .map(|entry| (edits(entry.name.as_bytes(), name), entry))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= 3 && distance * 2 < entry.name.len()).then_some(entry)
}

/// Levenshtein distance, case ignored; 'far' for names longer than any option's could be.
fn edits(left: &[u8], right: &[u8]) -> usize {
    const LONGEST: usize = 32;
    if left.len() >= LONGEST || right.len() >= LONGEST {
        return usize::MAX;
    }
    let mut row: [usize; LONGEST] = core::array::from_fn(|column| column);
    for (line, a) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<Options, String> {
        let mut options = Options::DEFAULT;
        match options.set(name.as_bytes(), value.as_bytes()) {
            Ok(()) => Ok(options),
            Err(error) => {
                assert_eq!(options, Options::DEFAULT, "a refused value must change nothing");
                let mut text = String::new();
                error.describe("NEAP_", name.as_bytes(), value.as_bytes(), &mut text).unwrap();
                Err(text)
            }
        }
    }

    #[test]
    fn every_default_is_valid_when_written_out() {
        for entry in TABLE {
            let mut text = String::new();
            (entry.show_default)(&mut text).unwrap();
            let options = set(entry.name, &text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(options, Options::DEFAULT, "{} = {text}", entry.name);
        }
    }

    #[test]
    fn names_are_plain_and_every_option_says_what_it_does() {
        for (index, entry) in TABLE.iter().enumerate() {
            assert!(entry.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
            assert!(entry.name.len() < 32, "edits() would never suggest it");
            assert!(entry.meaning.trim().ends_with('.'), "{}", entry.name);
            assert!(TABLE[..index].iter().all(|other| other.name != entry.name));
        }
        let at_start = TABLE.iter().filter(|entry| entry.is_for_the_start()).count();
        assert_eq!(at_start, 10, "each name that it knows is an option's");
    }

    #[test]
    fn values_by_table() {
        assert_eq!(set("max_heap", "3MiB").unwrap().max_heap, Limit::Bytes(3 << 20));
        assert_eq!(set("MAX-HEAP", "3M").unwrap().max_heap, Limit::Bytes(3 << 20));
        assert_eq!(set("soft_limit", "none").unwrap().soft_limit, Limit::None);
        assert_eq!(set("growth", "0.5").unwrap().growth, 0.5);
        assert_eq!(set("markers", "2").unwrap().markers, 2);
        assert_eq!(set("decay", "250").unwrap().decay, Duration::from_millis(250));
        assert!(!set("past_end", "no").unwrap().past_end);
        assert!(!set("static_roots", "0").unwrap().static_roots);
        assert!(set("log", "cycles").unwrap().log.cycles);
        assert_eq!(set("summary", "-").unwrap().summary, Some(c"-"));
        assert_eq!(set("watch", "none").unwrap().watch, WatchChoice::None);
        assert_eq!(set("stop_signal", "40").unwrap().stop_signal, 40);
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (name, value, wanted) in [
            (
                "max_haep",
                "1",
                "NEAP_MAX_HAEP is not an option (did you mean NEAP_MAX_HEAP?); options are \
                 max_heap, ",
            ),
            ("zzz", "1", "NEAP_ZZZ is not an option; options are max_heap, "),
            (
                "growth",
                "0.01",
                "NEAP_GROWTH=0.01: want a number from 0.05 to 100, or a fraction as 1/2; \
                 the default is 1",
            ),
            (
                "growth",
                "nan",
                "NEAP_GROWTH=nan: want a number from 0.05 to 100, or a fraction as 1/2; \
                 the default is 1",
            ),
            ("check", "4", "NEAP_CHECK=4: want a whole number from 0 to 3; the default is 0"),
            (
                "watch",
                "x\n",
                "NEAP_WATCH=x\\n: want one of: none, auto, pagemap, fork, mprotect, snapshot; the \
                 default is auto",
            ),
            (
                "decay",
                "100\u{b5}m",
                "NEAP_DECAY=100\u{b5}m: want milliseconds from 0 to 86400000 (or with a unit: \
                 500us, 0.5ms, 2s); the default is 4000",
            ),
            ("markers", "'\u{9b}\\\t\u{7f}\"", "NEAP_MARKERS='\\u{9b}\\\\t\\u{7f}\": want a"),
            (
                "log",
                "cycles,x",
                "NEAP_LOG=cycles,x: want none, all, or a comma-separated list of: cycles; the \
                 default is none",
            ),
            (
                "sample",
                "2TiB",
                "NEAP_SAMPLE=2TiB: want bytes, at most 1TiB (units K, M, G, T or KiB, MiB, GiB, \
                 TiB); the default is 0",
            ),
        ] {
            let text = set(name, value).map(|_| ()).unwrap_err();
            assert!(text.starts_with(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_text_is_shown_as_bytes() {
        assert_eq!(Typed(b"1\xc2s\xe2\x82").to_string(), "1\\xc2s\\xe2\\x82");
    }

    #[test]
    fn every_word_that_is_offered_is_a_value() {
        for entry in TABLE {
            for word in entry.words {
                set(entry.name, word).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        assert_eq!(Entry::find(b"log").unwrap().words, ["none", "all", "cycles"]);
    }

    #[test]
    fn edit_distance_by_table() {
        for (left, right, distance) in [
            ("", "", 0),
            ("log", "LOG", 0),
            ("log", "", 3),
            ("kitten", "sitting", 3),
            ("growth", "grwoth", 2),
        ] {
            assert_eq!(edits(left.as_bytes(), right.as_bytes()), distance);
            assert_eq!(edits(right.as_bytes(), left.as_bytes()), distance);
        }
    }
}
