//! `String`: a growing text whose memory is collected.
//!
//! Invariant: its bytes are UTF-8. Used by any thread.
//!
//! # Safety
//!
//! Takes the bytes for a text, which each function leaves them.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use super::Vec;

/// A growing text whose memory is collected: it may be part of a collected object, which needs no
/// destructor for its sake, as it would for a [`std::string::String`]. For text that stays as it is
/// there is `Gc<str>`.
///
/// ```
/// use neap::{Gc, Trace};
/// use std::cell::RefCell;
///
/// #[derive(Trace)]
/// struct Log {
///     text: RefCell<neap::String>,
/// }
///
/// let log = Gc::new(Log { text: RefCell::default() });
/// log.text.borrow_mut().push_str("high tide");
/// assert_eq!(*log.text.borrow(), "high tide");
/// assert!(!std::mem::needs_drop::<Log>());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct String {
    pub(super) bytes: Vec<u8>,
}

impl String {
    /// An empty one, without memory.
    ///
    /// ```
    /// assert!(neap::String::new().is_empty());
    /// ```
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// An empty one with room for so many bytes.
    ///
    /// ```
    /// assert!(neap::String::with_capacity(10).capacity() >= 10);
    /// ```
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Bytes that there is room for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        // SAFETY: the invariant.
        unsafe { std::str::from_utf8_unchecked(&self.bytes) }
    }

    /// Puts a text at the end.
    pub fn push_str(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Puts a character at the end.
    pub fn push(&mut self, character: char) {
        self.push_str(character.encode_utf8(&mut [0; 4]));
    }

    /// Takes the last character.
    ///
    /// ```
    /// let mut text = neap::String::from("spring tide ü");
    /// assert_eq!((text.pop(), text.pop()), (Some('ü'), Some(' ')));
    /// assert_eq!(text, "spring tide");
    /// ```
    pub fn pop(&mut self) -> Option<char> {
        let last = self.as_str().chars().next_back()?;
        self.bytes.truncate(self.bytes.len() - last.len_utf8());
        Some(last)
    }

    /// Keeps the first bytes; panics where a character would be cut.
    ///
    /// ```should_panic
    /// neap::String::from("ü").truncate(1);
    /// ```
    pub fn truncate(&mut self, bytes: usize) {
        if bytes < self.bytes.len() {
            assert!(self.as_str().is_char_boundary(bytes), "a character would be cut");
            self.bytes.truncate(bytes);
        }
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

impl Deref for String {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for String {
    fn from(text: &str) -> Self {
        let mut string = Self::with_capacity(text.len());
        string.push_str(text);
        string
    }
}

impl From<std::string::String> for String {
    fn from(text: std::string::String) -> Self {
        text.as_str().into()
    }
}

/// ```
/// use std::fmt::Write;
///
/// let mut text = neap::String::new();
/// write!(text, "{} m", 3.5).unwrap();
/// assert_eq!(text, "3.5 m");
/// ```
impl fmt::Write for String {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

impl Extend<char> for String {
    fn extend<I: IntoIterator<Item = char>>(&mut self, characters: I) {
        characters.into_iter().for_each(|character| self.push(character));
    }
}

impl FromIterator<char> for String {
    fn from_iter<I: IntoIterator<Item = char>>(characters: I) -> Self {
        let mut string = Self::new();
        string.extend(characters);
        string
    }
}

impl Borrow<str> for String {
    fn borrow(&self) -> &str {
        self
    }
}

impl PartialEq<str> for String {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for String {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for String {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for String {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other)
    }
}

/// As the text, by which it is found in maps.
impl Hash for String {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for String {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
    }
}

impl fmt::Debug for String {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LESS, Random};
    use super::*;
    use crate::HashMap;

    #[test]
    fn it_does_what_the_standard_librarys_does() {
        let mut random = Random(3);
        let (mut text, mut model) = (String::new(), std::string::String::new());
        for step in 0..20_000 / LESS {
            match random.below(8) {
                0 => assert_eq!(text.pop(), model.pop()),
                1 if step % (1000 / LESS) < 8 => {
                    let cut = (0..=random.below(1000) as usize)
                        .rev()
                        .find(|place| model.is_char_boundary(*place))
                        .unwrap_or(0);
                    text.truncate(cut);
                    model.truncate(cut);
                }
                2 => {
                    text.push_str("tide ö");
                    model.push_str("tide ö");
                }
                _ => {
                    let any = char::from_u32(random.below(0x11_0000) as u32).unwrap_or('x');
                    text.push(any);
                    model.push(any);
                }
            }
            assert_eq!(text.len(), model.len());
            if step % (1000 / LESS) == 0 {
                crate::collect();
                assert!(std::str::from_utf8(&text.bytes).is_ok());
                assert_eq!(text, *model, "step {step}");
            }
        }
        assert_eq!(format!("{text}{text:?}"), format!("{model}{model:?}"));
        assert!(text.clone() == text && text.cmp(&"\u{10ffff}x".into()).is_lt());
    }

    #[test]
    fn maps_find_it_by_its_text() {
        let map: HashMap<String, u8> =
            [("high".into(), 1), ("low".into(), 2)].into_iter().collect();
        assert_eq!((map.get("low"), map.get("neap")), (Some(&2), None));
    }
}
