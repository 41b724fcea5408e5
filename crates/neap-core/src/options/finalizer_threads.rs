//! The type of the option that says who runs finalizers.
//!
//! Invariant: what is read, shown and named in messages are the same words and numbers. No
//! allocation. Pure; called where `kinds` is.

use core::fmt;

use super::kinds::Kind;

/// How many threads of the library run finalizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerThreads {
    /// As many as the processors ask for.
    Auto,
    /// None: the program does.
    Manual,
    /// So many.
    Count(u32),
}

const MOST: u32 = 64;

impl Kind for FinalizerThreads {
    type Value = Self;
    type Valid = ();
    const NAME: &'static str = "threads";
    const WORDS: &'static [&'static str] = &["auto", "manual"];

    fn parse(text: &[u8], (): &()) -> Option<Self> {
        if text.eq_ignore_ascii_case(b"auto") {
            return Some(Self::Auto);
        }
        if text.eq_ignore_ascii_case(b"manual") {
            return Some(Self::Manual);
        }
        let digits = text.first()?.is_ascii_digit();
        let count: u32 = core::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()?;
        (1..=MOST).contains(&count).then_some(Self::Count(count))
    }

    fn show(value: &Self, out: &mut dyn fmt::Write) -> fmt::Result {
        match value {
            Self::Auto => out.write_str("auto"),
            Self::Manual => out.write_str("manual"),
            Self::Count(count) => write!(out, "{count}"),
        }
    }

    fn show_valid((): &(), out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "auto, manual, or a whole number from 1 to {MOST}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        for (text, value) in [
            ("auto", Some(FinalizerThreads::Auto)),
            ("MANUAL", Some(FinalizerThreads::Manual)),
            ("1", Some(FinalizerThreads::Count(1))),
            ("64", Some(FinalizerThreads::Count(64))),
            ("65", None),
            ("0", None),
            ("+1", None),
            ("", None),
            ("none", None),
        ] {
            assert_eq!(FinalizerThreads::parse(text.as_bytes(), &()), value, "{text:?}");
        }
        let mut text = String::new();
        FinalizerThreads::show(&FinalizerThreads::Count(7), &mut text).unwrap();
        FinalizerThreads::show(&FinalizerThreads::Manual, &mut text).unwrap();
        assert_eq!(text, "7manual");
    }
}
