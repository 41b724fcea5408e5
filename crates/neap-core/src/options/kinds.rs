//! The types an option can have: how each is read from text, checked and written back.
//!
//! Invariant: `parse(show(value))` gives the value again, and `parse` returns nothing that its
//! validator refuses. No allocation from the program's `malloc`. Pure, but for `OptionalPath`,
//! which maps a page to keep its text, since the environment's own bytes may be changed by
//! `setenv`. Called at start-up, and by whoever sets an option by name.
//!
//! # Safety
//! Unsafe only in `keep`, for that page.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::fmt;
use core::ops::{RangeInclusive, RangeToInclusive};
use core::time::Duration;

/// A type of option: the Rust type of its value, and its text form.
pub trait Kind {
    /// What the field in `Options` holds.
    type Value: Copy;
    /// What limits the valid values, `()` where the type itself says it all.
    type Valid;
    /// The type's name in tables.
    const NAME: &'static str;
    /// Words that are values, for shells to offer; there may be other values.
    const WORDS: &'static [&'static str] = &[];
    /// The value that `text` stands for, if it is valid.
    fn parse(text: &[u8], valid: &Self::Valid) -> Option<Self::Value>;
    /// Writes a value as `parse` reads it.
    fn show(value: &Self::Value, out: &mut dyn fmt::Write) -> fmt::Result;
    /// Writes what is valid, to follow 'want'.
    fn show_valid(valid: &Self::Valid, out: &mut dyn fmt::Write) -> fmt::Result;
}

/// A size in bytes, with binary units.
pub struct Bytes;
/// A whole number.
pub struct Count;
/// A number with a fraction: 0.5 or 1/2.
pub struct Float;
/// Yes or no.
pub struct Boolean;
/// A time: milliseconds, or with a unit; a fraction of a nanosecond counts as one.
pub struct Time;
/// A file, or none.
pub struct OptionalPath;
/// The number of a real-time signal, or 0.
pub struct Signal;

const TIME_UNITS: [(&str, usize); 5] = [
    ("us", 1000),
    // The micro sign, and the Greek letter, which keyboards have.
    ("\u{b5}s", 1000),
    ("\u{3bc}s", 1000),
    ("ms", MILLISECOND),
    ("s", 1_000_000_000),
];
/// In nanoseconds.
const MILLISECOND: usize = 1_000_000;
const UNITS: [(&str, usize); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

fn decimal(text: &[u8]) -> Option<u64> {
    // str::parse would take a leading '+', which no one means.
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// A number as Rust reads it.
fn part(text: &[u8]) -> Option<f64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Where a number, with or without a fraction, ends and its unit begins.
fn split_unit(text: &[u8]) -> (&[u8], &[u8]) {
    let in_number = |byte: &&u8| byte.is_ascii_digit() || **byte == b'.';
    text.split_at(text.iter().take_while(in_number).count())
}

/// A number with or without a fraction, so many times: whole ones, what is left over cut off.
fn scaled(number: &[u8], scale: usize) -> Option<usize> {
    let point = number.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        // A fraction of one is none.
        Some(_) if scale == 1 => return None,
        Some(0) => (&b"0"[..], &number[1..]),
        Some(point) => (&number[..point], &number[point + 1..]),
        None => (number, &b"0"[..]),
    };
    let whole = usize::try_from(decimal(whole)?).ok()?.checked_mul(scale)?;
    let parts = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let more = u128::from(decimal(fraction)?).checked_mul(scale as u128)? / parts;
    whole.checked_add(more as usize)
}

impl Kind for Bytes {
    type Value = usize;
    /// The largest.
    type Valid = RangeToInclusive<usize>;
    const NAME: &'static str = "bytes";

    fn parse(text: &[u8], valid: &Self::Valid) -> Option<usize> {
        let (number, unit) = split_unit(text);
        let scale = if unit.is_empty() {
            1
        } else {
            let matches = |name: &str| {
                unit.eq_ignore_ascii_case(name.as_bytes())
                    || unit.eq_ignore_ascii_case(&name.as_bytes()[..1])
            };
            UNITS.iter().find(|(name, _)| matches(name))?.1
        };
        let bytes = scaled(number, scale)?;
        valid.contains(&bytes).then_some(bytes)
    }

    fn show(value: &usize, out: &mut dyn fmt::Write) -> fmt::Result {
        match UNITS.iter().rev().find(|(_, scale)| *value != 0 && value.is_multiple_of(*scale)) {
            Some((name, scale)) => write!(out, "{}{name}", value / scale),
            None => write!(out, "{value}"),
        }
    }

    fn show_valid(valid: &Self::Valid, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("bytes")?;
        if valid.end < usize::MAX {
            out.write_str(", at most ")?;
            Self::show(&valid.end, out)?;
        }
        out.write_str(" (units K, M, G, T or KiB, MiB, GiB, TiB)")
    }
}

impl Kind for Count {
    type Value = u32;
    type Valid = RangeInclusive<u32>;
    const NAME: &'static str = "count";

    fn parse(text: &[u8], valid: &Self::Valid) -> Option<u32> {
        let count = u32::try_from(decimal(text)?).ok()?;
        valid.contains(&count).then_some(count)
    }

    fn show(value: &u32, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{value}")
    }

    fn show_valid(valid: &Self::Valid, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "a whole number from {} to {}", valid.start(), valid.end())
    }
}

impl Kind for Float {
    type Value = f64;
    type Valid = RangeInclusive<f64>;
    const NAME: &'static str = "float";

    fn parse(text: &[u8], valid: &Self::Valid) -> Option<f64> {
        let number = match text.iter().position(|byte| *byte == b'/') {
            Some(slash) => part(&text[..slash])? / part(&text[slash + 1..])?,
            None => part(text)?,
        };
        // A range contains no NaN, and its end is finite: no infinity gets through.
        valid.contains(&number).then_some(number)
    }

    fn show(value: &f64, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{value}")
    }

    fn show_valid(valid: &Self::Valid, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "a number from {} to {}, or a fraction as 1/2", valid.start(), valid.end())
    }
}

impl Kind for Boolean {
    type Value = bool;
    type Valid = ();
    const NAME: &'static str = "bool";
    const WORDS: &'static [&'static str] = &["true", "false"];

    fn parse(text: &[u8], (): &()) -> Option<bool> {
        let is_one_of =
            |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
        if is_one_of(&["1", "true", "yes", "on"]) {
            Some(true)
        } else if is_one_of(&["0", "false", "no", "off"]) {
            Some(false)
        } else {
            None
        }
    }

    fn show(value: &bool, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(if *value { "true" } else { "false" })
    }

    fn show_valid((): &(), out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("true or false (also 1, yes, on; 0, no, off)")
    }
}

impl Kind for Time {
    type Value = Duration;
    /// In milliseconds.
    type Valid = RangeInclusive<u64>;
    const NAME: &'static str = "time";

    fn parse(text: &[u8], valid: &Self::Valid) -> Option<Duration> {
        let (number, unit) = split_unit(text);
        let scale = match unit {
            [] => MILLISECOND,
            unit => {
                TIME_UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name.as_bytes()))?.1
            }
        };
        let nanoseconds = scaled(number, scale)?;
        // 0 means something else than very little.
        let is_zero = number.iter().all(|byte| matches!(byte, b'0' | b'.'));
        let time = Duration::from_nanos(nanoseconds.max(usize::from(!is_zero)) as u64);
        let [least, most] = [valid.start(), valid.end()].map(|end| Duration::from_millis(*end));
        (least..=most).contains(&time).then_some(time)
    }

    fn show(value: &Duration, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", value.as_millis())?;
        let mut rest = value.subsec_nanos() % MILLISECOND as u32;
        if rest > 0 {
            let mut digits = 6;
            while rest.is_multiple_of(10) {
                (rest, digits) = (rest / 10, digits - 1);
            }
            write!(out, ".{rest:0digits$}")?;
        }
        Ok(())
    }

    fn show_valid(valid: &Self::Valid, out: &mut dyn fmt::Write) -> fmt::Result {
        let (least, most) = (valid.start(), valid.end());
        write!(out, "milliseconds from {least} to {most} (or with a unit: 500us, 0.5ms, 2s)")
    }
}

impl Kind for Signal {
    type Value = i32;
    type Valid = ();
    const NAME: &'static str = "signal";

    fn parse(text: &[u8], (): &()) -> Option<i32> {
        let number = i32::try_from(decimal(text)?).ok()?;
        (number == 0 || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number)).then_some(number)
    }

    fn show(value: &i32, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{value}")
    }

    fn show_valid((): &(), out: &mut dyn fmt::Write) -> fmt::Result {
        let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
        write!(out, "0 or a real-time signal from {first} to {last}")
    }
}

impl Kind for OptionalPath {
    type Value = Option<&'static CStr>;
    /// Whether `-` stands for standard error; where not, nobody means a file of that name.
    type Valid = bool;
    const NAME: &'static str = "path";

    fn parse(text: &[u8], to_standard_error: &bool) -> Option<Self::Value> {
        if text.is_empty() {
            return Some(None);
        }
        if text == b"-" && !to_standard_error {
            return None;
        }
        if text.contains(&0) || text.len() >= libc::PATH_MAX as usize {
            return None;
        }
        keep(text).map(Some)
    }

    fn show(value: &Self::Value, out: &mut dyn fmt::Write) -> fmt::Result {
        match value {
            Some(path) => write!(out, "{}", path.to_bytes().escape_ascii()),
            None => Ok(()),
        }
    }

    fn show_valid(to_standard_error: &bool, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str(match to_standard_error {
            true => "a file name, or - for standard error, or nothing",
            false => "a file name other than -, or nothing",
        })
    }
}

/// A copy of `text` that stays for the life of the process; `None` where the system has no page.
fn keep(text: &[u8]) -> Option<&'static CStr> {
    let length = text.len() + 1;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
    let page = unsafe { libc::mmap(core::ptr::null_mut(), length, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is `length` bytes, zeroed, ours alone, and never unmapped.
    let copy = unsafe { core::slice::from_raw_parts_mut(page.cast::<u8>(), length) };
    copy[..text.len()].copy_from_slice(text);
    CStr::from_bytes_with_nul(copy).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_by_table() {
        let any = ..=usize::MAX;
        for (text, value) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("1k", Some(1 << 10)),
            ("2KiB", Some(2 << 10)),
            ("3M", Some(3 << 20)),
            ("4gib", Some(4 << 30)),
            ("5T", Some(5 << 40)),
            ("18446744073709551615", Some(usize::MAX)),
            ("18446744073709551616", None),
            ("17592186044416MiB", None), // 2^64
            ("", None),
            ("M", None),
            ("-1", None),
            ("+1", None),
            ("1.5M", Some(3 << 19)),
            ("0.25GiB", Some(256 << 20)),
            ("0.0001K", Some(0)),
            ("1.5", None),
            (".5M", Some(1 << 19)),
            (".M", None),
            (".", None),
            (".5", None),
            ("1.M", None),
            ("1.5.5M", None),
            ("1.00000000000000000000000000000000000000000M", None),
            ("16777215.9999999T", Some(usize::MAX - 109_951)),
            ("1 M", None),
            ("1MB", None),
            ("1Mi", None),
        ] {
            assert_eq!(Bytes::parse(text.as_bytes(), &any), value, "{text:?}");
        }
        assert_eq!(Bytes::parse(b"21", &(..=20)), None);
        assert_eq!(Bytes::parse(b"20", &(..=20)), Some(20));
    }

    #[test]
    fn bytes_are_shown_in_the_largest_whole_unit() {
        for value in [0, 1, 1023, 1 << 10, 3 << 20, (3 << 20) + 1, 5 << 40, usize::MAX] {
            let mut text = String::new();
            Bytes::show(&value, &mut text).unwrap();
            assert_eq!(Bytes::parse(text.as_bytes(), &(..=usize::MAX)), Some(value), "{text}");
        }
        let mut text = String::new();
        Bytes::show(&(4 << 20), &mut text).unwrap();
        assert_eq!(text, "4MiB");
    }

    #[test]
    fn numbers_by_table() {
        assert_eq!(Count::parse(b"3", &(0..=3)), Some(3));
        for text in ["4", "", "-1", "+1", "0x1", "1 ", "4294967297"] {
            assert_eq!(Count::parse(text.as_bytes(), &(0..=3)), None, "{text:?}");
        }
        assert_eq!(Float::parse(b"2.5e-1", &(0.05..=100.0)), Some(0.25));
        assert_eq!(Float::parse(b"1/2", &(0.05..=100.0)), Some(0.5));
        for text in ["", "nan", "inf", "-1", "0.04", "100.1", "1,5", "1/0", "1/", "/2", "1/2/1"] {
            assert_eq!(Float::parse(text.as_bytes(), &(0.05..=100.0)), None, "{text:?}");
        }
    }

    #[test]
    fn times_by_table() {
        for (text, nanoseconds) in [
            ("0", Some(0)),
            ("1500", Some(1_500_000_000)),
            ("0.5", Some(500_000)),
            ("0.5ms", Some(500_000)),
            ("500us", Some(500_000)),
            ("1.5US", Some(1500)),
            ("100\u{b5}s", Some(100_000)),
            ("0.5\u{3bc}S", Some(500)),
            (".5", Some(500_000)),
            (".25s", Some(250_000_000)),
            (".0", Some(0)),
            ("2s", Some(2_000_000_000)),
            ("0.002s", Some(2_000_000)),
            ("0.0us", Some(0)),
            ("0.0000001", Some(1)),
            ("0.0001us", Some(1)),
            ("2001", None),
            ("2000.001", None),
            ("2.1s", None),
            ("2001000us", None),
            ("", None),
            ("s", None),
            (".", None),
            (".s", None),
            ("1\u{b5}", None),
            ("1\u{b5}ms", None),
            ("1.", None),
            ("-1", None),
            ("+1", None),
            ("1 ms", None),
            ("1m", None),
            ("1ns", None),
            ("1e3", None),
            ("99999999999999999999s", None),
        ] {
            let time = nanoseconds.map(Duration::from_nanos);
            assert_eq!(Time::parse(text.as_bytes(), &(0..=2000)), time, "{text:?}");
        }
        for (nanoseconds, wanted) in
            [(0, "0"), (4_000_000_000, "4000"), (500_000, "0.5"), (1_000_001, "1.000001")]
        {
            let (time, mut text) = (Duration::from_nanos(nanoseconds), String::new());
            Time::show(&time, &mut text).unwrap();
            assert_eq!(
                (text.as_str(), Time::parse(text.as_bytes(), &(0..=9000))),
                (wanted, Some(time))
            );
        }
    }

    #[test]
    fn signals_are_real_time_or_zero() {
        let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
        for (number, valid) in [
            (0, true),
            (first, true),
            (last, true),
            (first - 1, false),
            (last + 1, false),
            (libc::SIGUSR1, false),
        ] {
            let parsed = Signal::parse(number.to_string().as_bytes(), &());
            assert_eq!(parsed, valid.then_some(number));
        }
    }

    #[test]
    fn booleans_by_table() {
        for (text, value) in [
            ("1", Some(true)),
            ("ON", Some(true)),
            ("false", Some(false)),
            ("no", Some(false)),
            ("", None),
            ("2", None),
        ] {
            assert_eq!(Boolean::parse(text.as_bytes(), &()), value, "{text:?}");
        }
    }

    #[test]
    fn a_path_is_copied_and_bounded() {
        let mut source = *b"summary.json";
        let kept = OptionalPath::parse(&source, &true).unwrap().unwrap();
        source.fill(b'x');
        assert_eq!(kept, c"summary.json");
        assert_eq!(OptionalPath::parse(b"", &true), Some(None));
        assert!(OptionalPath::parse(b"-", &true).is_some());
        assert_eq!(OptionalPath::parse(b"-", &false), None);
        assert!(OptionalPath::parse(b"./-", &false).is_some());
        assert_eq!(OptionalPath::parse(b"a\0b", &true), None);
        assert_eq!(OptionalPath::parse(&vec![b'a'; libc::PATH_MAX as usize], &true), None);
    }
}
