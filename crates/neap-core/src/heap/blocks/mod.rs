//! Blocks: what is known of each, beside the heap, and the lists that they are in.
//!
//! Invariant: a block is some frames in a row that hold cells of one size, or one large object.
//! Its header says which; all else about it is found from there. Changed under the heap's lock,
//! read at any time.

pub mod block_lists;
pub mod block_offsets;
pub mod freed_places;
pub mod frozen;
pub mod header;
pub mod marked_blocks;
pub mod walk;
