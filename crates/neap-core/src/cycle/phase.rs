//! The phases of a cycle as a pure state machine: what may follow what. The collector advances it,
//! tests and models explore it.
//!
//! Invariant `[cycle.inv.phases]`: marking never begins before the last sweep is finished and the
//! bits are cleared, and sweeping never begins before references are processed.

/// Where the collector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No cycle; the last one's blocks may still be swept.
    Idle,
    /// Finishing the last sweep, clearing mark bits unless the cycle is a minor one, protecting the
    /// watch; the world runs.
    Protect,
    /// Roots are read: the world is stopped, or one of its threads at a time. What large ones lead
    /// to is marked meanwhile.
    Roots,
    /// Grey words are followed: with the world still stopped, or running and watched.
    Mark,
    /// The world is stopped for good: roots and written pages are read once more.
    Remark,
    /// References are processed: finalizers, links.
    References,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A cycle is wanted.
    Begin,
    /// All is swept and protected; the world was stopped, or its threads will be one by one.
    Protected,
    /// All roots were read, or left to the child that marks.
    RootsRead,
    /// The world was stopped.
    Stopped,
    /// No grey word is left, and the world is stopped.
    Drained,
    /// References are processed; blocks are handed to the sweep and the world runs.
    Finished,
}

impl Phase {
    /// The phase after a step; None where the step is not allowed.
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Idle, Step::Begin) => Some(Self::Protect),
            (Self::Protect, Step::Protected) => Some(Self::Roots),
            (Self::Roots, Step::RootsRead) => Some(Self::Mark),
            (Self::Mark, Step::Stopped) => Some(Self::Remark),
            (Self::Mark | Self::Remark, Step::Drained) => Some(Self::References),
            (Self::References, Step::Finished) => Some(Self::Idle),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_the_live_page_know_every_phase_by_its_name() {
        use Phase::*;
        for phase in [Idle, Protect, Roots, Mark, Remark, References] {
            let name = format!("{phase:?}").to_lowercase();
            assert_eq!(neap_record::live::PHASES[phase as usize], name);
        }
    }

    const STEPS: [Step; 6] = [
        Step::Begin,
        Step::Protected,
        Step::RootsRead,
        Step::Stopped,
        Step::Drained,
        Step::Finished,
    ];

    /// Every way from `phase` back to idle.
    fn ways(phase: Phase, so_far: &mut Vec<Step>, all: &mut Vec<Vec<Step>>) {
        for step in STEPS {
            match phase.after(step) {
                Some(Phase::Idle) => all.push([so_far.as_slice(), &[step]].concat()),
                Some(next) => {
                    so_far.push(step);
                    ways(next, so_far, all);
                    so_far.pop();
                }
                None => {}
            }
        }
    }

    #[test]
    fn there_are_two_ways_round_stopped_and_concurrent() {
        use Step::*;
        let mut all = Vec::new();
        ways(Phase::Idle, &mut Vec::new(), &mut all);
        let concurrent = vec![Begin, Protected, RootsRead, Stopped, Drained, Finished];
        let stopped = vec![Begin, Protected, RootsRead, Drained, Finished];
        assert_eq!(all, [concurrent, stopped]);
    }
}
