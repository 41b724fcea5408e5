//! The phases of a cycle as a pure state machine: what may follow what. The collector advances it, tests and models explore it.
//!
//! Invariant `[cycle.inv.phases]`: marking never begins before the last sweep is finished and the bits are cleared, and sweeping never begins before references are settled.

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No cycle; the last one's blocks may still be swept.
    Idle,
    /// Finishing the last sweep, clearing mark bits; the world runs.
    Arm,
    /// The world is stopped; roots are read.
    Roots,
    /// Grey words are followed.
    Mark,
    /// Finalizers and links are settled.
    Settle,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A cycle is wanted.
    Begin,
    /// Everything is swept and unmarked, and the world is stopped.
    Stopped,
    /// All roots were read.
    RootsRead,
    /// No grey word is left.
    Drained,
    /// References are settled; blocks are handed to the sweep and the world runs.
    Finished,
}

impl Phase {
    /// The phase after a step; None where the step is not allowed.
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Idle, Step::Begin) => Some(Self::Arm),
            (Self::Arm, Step::Stopped) => Some(Self::Roots),
            (Self::Roots, Step::RootsRead) => Some(Self::Mark),
            (Self::Mark, Step::Drained) => Some(Self::Settle),
            (Self::Settle, Step::Finished) => Some(Self::Idle),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_way_round() {
        const STEPS: [Step; 5] =
            [Step::Begin, Step::Stopped, Step::RootsRead, Step::Drained, Step::Finished];
        let mut phase = Phase::Idle;
        for step in STEPS {
            let allowed: Vec<_> =
                STEPS.into_iter().filter(|step| phase.after(*step).is_some()).collect();
            assert_eq!(allowed, [step]);
            phase = phase.after(step).unwrap();
        }
        assert_eq!(phase, Phase::Idle);
    }
}
