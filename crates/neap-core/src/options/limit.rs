//! The type of an option that limits memory: so many bytes, whatever the control group leaves, or
//! nothing.
//!
//! Invariant: as in `kinds`. Pure; called where `kinds` is.

use super::kinds::{Bytes, Kind};
use core::fmt;

/// A limit on memory.
pub struct MemoryLimit;

/// What such an option holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// None.
    None,
    /// Follows the limits of the process's control groups; none where these have none.
    Cgroup,
    /// So many bytes, whatever the control groups say.
    Bytes(usize),
}

impl Limit {
    /// `bytes`, where 0 stands for no limit.
    pub const fn of(bytes: usize) -> Self {
        if bytes == 0 { Limit::None } else { Limit::Bytes(bytes) }
    }
}

impl Kind for MemoryLimit {
    type Value = Limit;
    type Valid = ();
    const NAME: &'static str = "limit";
    const WORDS: &'static [&'static str] = &["cgroup", "none"];

    fn parse(text: &[u8], (): &()) -> Option<Limit> {
        if text.eq_ignore_ascii_case(b"cgroup") {
            return Some(Limit::Cgroup);
        }
        if text.eq_ignore_ascii_case(b"none") {
            return Some(Limit::None);
        }
        Bytes::parse(text, &(..=usize::MAX)).map(Limit::of)
    }

    fn show(value: &Limit, out: &mut dyn fmt::Write) -> fmt::Result {
        match value {
            Limit::None => out.write_str("none"),
            Limit::Cgroup => out.write_str("cgroup"),
            Limit::Bytes(bytes) => Bytes::show(bytes, out),
        }
    }

    fn show_valid((): &(), out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("cgroup, none, or ")?;
        Bytes::show_valid(&(..=usize::MAX), out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_by_table() {
        for (text, value, shown) in [
            ("cgroup", Limit::Cgroup, "cgroup"),
            ("CGroup", Limit::Cgroup, "cgroup"),
            ("none", Limit::None, "none"),
            ("0", Limit::None, "none"),
            ("64MiB", Limit::Bytes(64 << 20), "64MiB"),
        ] {
            assert_eq!(MemoryLimit::parse(text.as_bytes(), &()), Some(value), "{text}");
            let mut out = String::new();
            MemoryLimit::show(&value, &mut out).unwrap();
            assert_eq!(out, shown);
        }
        for wrong in ["", "-1", "cgroups", "64MB"] {
            assert_eq!(MemoryLimit::parse(wrong.as_bytes(), &()), None, "{wrong}");
        }
    }
}
