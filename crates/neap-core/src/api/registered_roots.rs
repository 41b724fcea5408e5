//! The surface for roots outside the heap: registered ranges, loaded objects' data, a callback.
//!
//! Invariant: as [`crate::api`]. Called by front ends from mutators.

use core::ops::Range;

use crate::addr::whole_words;
use crate::cycle::report::root_callback::{self, RootCallback};
use crate::world::roots;
pub use crate::world::roots::Answers;

/// Every aligned word of the range is a root from now on. False without memory.
pub fn add_roots(range: Range<usize>) -> bool {
    super::initialize();
    roots::add(whole_words(&range))
}

/// The range is no registered root any more.
pub fn remove_roots(range: Range<usize>) {
    super::initialize();
    roots::remove(whole_words(&range));
}

/// The registered ranges that lie wholly in this one are no roots any more, but for what others of
/// them hold too.
pub fn remove_whole_roots(range: Range<usize>) {
    super::initialize();
    roots::remove_whole(whole_words(&range));
}

/// Nothing is a registered root any more; the writable segments of loaded objects stay roots.
pub fn clear_roots() {
    super::initialize();
    roots::clear();
}

/// Part of a loaded object's data that is no root.
pub fn exclude_roots(range: Range<usize>) {
    super::initialize();
    roots::exclude(range);
}

/// A range that is no root, neither as a loaded object's data nor where it is registered.
pub fn bar_roots(range: Range<usize>) {
    super::initialize();
    roots::bar(range);
}

/// Forgets what [`bar_roots`] was told.
pub fn clear_bars() {
    super::initialize();
    roots::clear_bars();
}

/// Whether the writable segments of loaded objects are roots. Overrides the option.
pub fn set_static_roots(on: bool) {
    super::initialize();
    roots::set_static(on);
}

/// Called in every cycle, world stopped, to name further roots. Must not allocate or lock.
pub fn set_root_callback(callback: Option<RootCallback>) {
    root_callback::set(callback);
}
