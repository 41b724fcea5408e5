//! The ask page: shared memory by which another process of the same user asks a running program for
//! a heap snapshot, and through which the program's child hands it over.
//!
//! Words of four bytes, and behind them room for a piece of the text. The asker writes a number of
//! its own to `REQUEST`, counts `WAKES` up and wakes who sleeps on it: the collector's thread. That
//! one sets `ANSWER` to `TAKEN`. For each piece its child writes the length, then `FULL`, and waits
//! for `TAKEN`, which the asker writes when it has copied the piece. The last answer is `DONE`, or
//! `FAILED` and an error number. Who waits sleeps on `ANSWER`, and gives up after `PATIENCE_MS`
//! without a change.
//!
//! Invariant: only who may look into the process can open the page, since it is found among its
//! open files. Pure; `observe/ask_page.rs` of the core and `heap/ask.rs` of the command-line tool
//! are the two sides.

/// The name under which the page's memory is found among a process's open files.
pub const NAME: &str = "neap-ask";
/// Where the text begins.
pub const TEXT_AT: usize = 4096;
/// Bytes of a piece of text, at most.
pub const TEXT_BYTES: usize = 64 << 10;
/// Bytes in all.
pub const BYTES: usize = TEXT_AT + TEXT_BYTES;
/// How long each side waits for the other, milliseconds.
pub const PATIENCE_MS: u64 = 10_000;

/// Words, by place.
pub mod word {
    /// Reasons for the collector's thread to wake.
    pub const WAKES: usize = 0;
    /// The number of who asks; 0 for nobody.
    pub const REQUEST: usize = 1;
    /// One of the answers.
    pub const ANSWER: usize = 2;
    /// Bytes of the piece.
    pub const LENGTH: usize = 3;
    /// Words in use.
    pub const COUNT: usize = 4;
}

/// Answers.
pub mod answer {
    /// Nobody has looked at the request yet.
    pub const NOTHING: u32 = 0;
    /// The request is being answered; there is room for a piece.
    pub const TAKEN: u32 = 1;
    /// There is a piece.
    pub const FULL: u32 = 2;
    /// That was all.
    pub const DONE: u32 = 3;
    /// From here on: failed, with the error number beyond this one.
    pub const FAILED: u32 = 4;
}
