//! The one list of the steps of a cycle: what programs are told of them, what a recording keeps,
//! what traces show.
//!
//! Invariant: numbers are part of the C interface and of the format; steps are only added. Pure.

macro_rules! steps {
    ($( $(#[doc = $meaning:literal])+ $name:ident = $number:literal, $shown:literal; )+) => {
        /// A step of a cycle.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum CycleEvent { $( $(#[doc = $meaning])+ $name = $number, )+ }

        impl CycleEvent {
            /// Every step, in the order of its number.
            pub const ALL: &[CycleEvent] = &[ $( CycleEvent::$name, )+ ];

            /// Its name in traces, probes and documents.
            pub const fn name(self) -> &'static str {
                match self { $( CycleEvent::$name => $shown, )+ }
            }

            /// What it says, one or more lines, each beginning with a space.
            pub const fn meaning(self) -> &'static str {
                match self { $( CycleEvent::$name => concat!($( $meaning, "\n", )+), )+ }
            }

            /// The step of a number.
            pub fn from_number(number: u64) -> Option<CycleEvent> {
                Self::ALL.iter().copied().find(|step| *step as u64 == number)
            }
        }
    };
}

steps! {
    /// A cycle begins; the world runs.
    CycleStart = 0, "cycle_start";
    /// The world is about to be stopped.
    BeforeStop = 1, "before_stop";
    /// It is.
    Stopped = 2, "stopped";
    /// Marking begins.
    MarkStart = 3, "mark_start";
    /// Everything reachable is marked; finalizers and links are not processed yet.
    MarkEnd = 4, "mark_end";
    /// The world is about to be resumed.
    BeforeResume = 5, "before_resume";
    /// It is.
    Resumed = 6, "resumed";
    /// The cycle is over; the world runs and no lock is held.
    CycleEnd = 7, "cycle_end";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_lead_back() {
        for (index, step) in CycleEvent::ALL.iter().enumerate() {
            assert_eq!(*step as usize, index);
            assert_eq!(CycleEvent::from_number(index as u64), Some(*step));
        }
        assert_eq!(CycleEvent::from_number(99), None);
    }
}
