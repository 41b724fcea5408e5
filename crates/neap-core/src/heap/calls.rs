//! Whether the function of a layout calls the program.
//!
//! Invariant: pure. Part of a layout, which front ends make.

/// Whether a layout's function calls the program. What does is called in pauses only, on a thread
/// of the program: it may need that thread's state, and read what the program is writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// It is the program's.
    Always,
    /// For some objects. For the others it only reads the object and what does not change, and any
    /// marker calls it, also beside the program.
    Sometimes,
    /// The same, but there are no such objects before
    /// [`note_calls`](super::layout::Layouts::note_calls).
    NotYet,
}

impl Calls {
    /// By number.
    pub const ALL: [Self; 3] = [Self::Always, Self::Sometimes, Self::NotYet];
}
