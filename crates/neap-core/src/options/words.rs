//! Types of options whose values are words: one of several, or any number of several.
//!
//! Invariant: the words that are read, shown and named in messages come from one declaration. No
//! allocation. Pure; called where `kinds` is.

use super::kinds::Kind;
use core::fmt;

/// Declares an enum of which an option holds one.
macro_rules! choice {
    ($(#[$attribute:meta])* $name:ident {
        $( $(#[$doc:meta])* $variant:ident = $text:literal ),+ $(,)?
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $( $(#[$doc])* $variant ),+ }

        impl Kind for $name {
            type Value = $name;
            type Valid = ();
            const NAME: &'static str = "choice";
            const WORDS: &'static [&'static str] = &[$( $text ),+];

            fn parse(text: &[u8], (): &()) -> Option<$name> {
                $( if text.eq_ignore_ascii_case($text.as_bytes()) {
                    return Some($name::$variant);
                } )+
                None
            }

            fn show(value: &$name, out: &mut dyn fmt::Write) -> fmt::Result {
                out.write_str(match value { $( $name::$variant => $text ),+ })
            }

            fn show_valid((): &(), out: &mut dyn fmt::Write) -> fmt::Result {
                show_words("one of: ", Self::WORDS, out)
            }
        }
    };
}

/// Declares a set of topics of which an option names any number.
macro_rules! topics {
    ($(#[$attribute:meta])* $name:ident { $( $(#[$doc:meta])* $topic:ident ),+ $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $( $(#[$doc])* pub $topic: bool ),+ }

        impl $name {
            /// No topic.
            pub const NONE: $name = $name { $( $topic: false ),+ };
            /// Every topic.
            pub const ALL: $name = $name { $( $topic: true ),+ };
        }

        impl Kind for $name {
            type Value = $name;
            type Valid = ();
            const NAME: &'static str = "list";
            const WORDS: &'static [&'static str] = &["none", "all", $( stringify!($topic) ),+];

            fn parse(text: &[u8], (): &()) -> Option<$name> {
                match text {
                    b"" | b"none" => return Some($name::NONE),
                    b"all" => return Some($name::ALL),
                    _ => {}
                }
                let mut topics = $name::NONE;
                for word in text.split(|byte| *byte == b',') {
                    $( if word == stringify!($topic).as_bytes() {
                        topics.$topic = true;
                        continue;
                    } )+
                    return None;
                }
                Some(topics)
            }

            fn show(value: &$name, out: &mut dyn fmt::Write) -> fmt::Result {
                let mut separator = "";
                $( if value.$topic {
                    write!(out, "{separator}{}", stringify!($topic))?;
                    separator = ",";
                } )+
                out.write_str(if separator.is_empty() { "none" } else { "" })
            }

            fn show_valid((): &(), out: &mut dyn fmt::Write) -> fmt::Result {
                let opening = "none, all, or a comma-separated list of: ";
                show_words(opening, &Self::WORDS[2..], out)
            }
        }
    };
}

fn show_words(opening: &str, words: &[&str], out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str(opening)?;
    for (index, word) in words.iter().enumerate() {
        write!(out, "{}{word}", if index == 0 { "" } else { ", " })?;
    }
    Ok(())
}

choice! {
    /// What happens before the program forks.
    Prefork {
        /// Nothing more than that the child's heap will be in order.
        Never = "never",
        /// What is alive is made permanent, so that children go on sharing it.
        OnFork = "on-fork",
    }
}

choice! {
    /// How the collector learns what the program wrote while it marked.
    WatchChoice {
        /// It stops the world for the whole of marking, so there is nothing to learn.
        None = "none",
        /// The first of `pagemap`, `fork` and `none` that works here.
        Auto = "auto",
        /// From the kernel: userfaultfd's asynchronous write protection, read by `PAGEMAP_SCAN`
        /// (Linux 6.7).
        Pagemap = "pagemap",
        /// It need not: a child process marks a snapshot.
        Fork = "fork",
        /// From faults: pages are read-only, and a handler of SIGSEGV notes the first write to
        /// each.
        Mprotect = "mprotect",
        /// It need not: pages are copied before they are written to, and markers see a snapshot.
        Snapshot = "snapshot",
    }
}

choice! {
    /// Which of the heap's memory is asked to be huge pages.
    HugePages {
        /// What lies above the size at which a heap gains by them; under a write watch none, since
        /// clearing one may take milliseconds, in which a thread answers no stop.
        Auto = "auto",
        /// What was made for pointer-free objects.
        Leaf = "leaf",
        /// Everything.
        All = "all",
        /// None.
        Never = "never",
    }
}

choice! {
    /// When a cycle is a minor one.
    MinorCycles {
        /// While it pays.
        Auto = "auto",
        /// Whenever the program does not ask for a cycle and there is room.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

topics! {
    /// What is printed on standard error while the program runs.
    LogTopics {
        /// One line per cycle.
        cycles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    choice! { Tide { Neap = "neap", Spring = "spring" } }
    topics! { Sounds { wind, waves, gulls } }

    #[test]
    fn choices_and_topics() {
        assert_eq!(Tide::parse(b"Spring", &()), Some(Tide::Spring));
        assert_eq!(Tide::parse(b"ebb", &()), None);
        let mut text = String::new();
        Tide::show_valid(&(), &mut text).unwrap();
        assert_eq!(text, "one of: neap, spring");
        for (given, shown) in [
            ("", "none"),
            ("none", "none"),
            ("gulls,wind", "wind,gulls"),
            ("all", "wind,waves,gulls"),
        ] {
            let mut text = String::new();
            Sounds::show(&Sounds::parse(given.as_bytes(), &()).unwrap(), &mut text).unwrap();
            assert_eq!(text, shown);
        }
        for wrong in ["wind,", ",", "wind waves", "rain"] {
            assert_eq!(Sounds::parse(wrong.as_bytes(), &()), None, "{wrong:?}");
        }
    }
}
