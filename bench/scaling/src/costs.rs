//! What things cost: the input of every simulation.
//!
//! Invariant: plain figures, in nanoseconds. Those of [`Costs::HERE`] were measured on one machine,
//! by the command `measure` as far as nothing else is said; docs/design/scaling.md quotes them.

use std::fmt;

/// Blocks that a refill takes at once when a thread allocates much.
pub const HOLD_BLOCKS: usize = 8;

macro_rules! costs {
    ($($(#[doc = $meaning:literal])+ $name:ident = $here:literal,)+) => {
        /// Costs, in nanoseconds.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Costs { $($(#[doc = $meaning])+ pub $name: f64,)+ }

        impl Costs {
            /// As measured: two processors of an AMD EPYC under a hypervisor, Linux 6.18,
            /// 2026-11-25.
            pub const HERE: Self = Self { $($name: $here,)+ };

            /// Each with its name and its meaning.
            pub fn rows(&self) -> Vec<(&'static str, f64, String)> {
                vec![$((
                    stringify!($name),
                    self.$name,
                    [$($meaning),+].map(str::trim).join(" "),
                ),)+]
            }
        }
    };
}

costs! {
    /// To send a signal to a thread that runs: the call.
    signal_ns = 6900.0,
    /// From the call until its handler has answered.
    answer_ns = 11100.0,
    /// To wake a thread that sleeps: the call.
    wake_ns = 4300.0,
    /// From the call until it runs.
    woken_ns = 4400.0,
    /// A question to the kernel about one written page, which protects it again.
    question_ns = 1950.0,
    /// What it takes longer where another processor has to forget the page.
    shoot_down_ns = 10000.0,
    /// And for each processor beyond that: assumed, there is none here.
    shoot_down_more_ns = 500.0,
    /// Each further written page.
    protect_page_ns = 43.0,
    /// Each page that was not written.
    ask_page_ns = 3.0,
    /// A first write to a protected page.
    fault_ns = 730.0,
    /// To add to a word that no other thread uses.
    add_ns = 4.9,
    /// Until a processor sees what another has written.
    line_ns = 25.0,
    /// A hold of the heap's lock for a refill, without its blocks.
    hold_ns = 7.0,
    /// Each block in it, half of it alive, swept.
    hold_block_ns = 16.0,
    /// What a hold takes longer where the one before was another processor's.
    handover_ns = 40.0,
    /// To mark a byte of small objects, one marker: from recordings.
    mark_byte_ns = 0.3,
    /// In a stop, of each thread: its buffers and the roots on its stack: from the cycle log.
    thread_roots_ns = 2200.0,
}

impl fmt::Display for Costs {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, ns, meaning) in self.rows() {
            writeln!(to, "{name:16} {ns:10.2} ns  {meaning}")?;
        }
        Ok(())
    }
}
