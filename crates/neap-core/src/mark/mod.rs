//! Marking: from grey words to marked objects, on one or more markers, reading the heap and writing
//! nothing but mark bits.
//!
//! Invariant `[mark.inv.reachable]`: when every marker is done, every object that a root or a
//! marked object points to is marked, unless memory for the mark stack was refused, which is noted
//! and made good by rescanning. Allocates nothing from the heap; works on a heap built by hand.

pub mod aside;
pub mod before_image;
pub mod deque;
mod deques;
pub mod done;
pub mod drain;
pub mod entry;
pub mod frozen_roots;
pub mod mark_stack;
pub mod markers;
pub mod marking_check;
pub mod rescan;
pub mod scan;
mod sharing;
pub mod tracer;
