//! What the collector does in one step, from the beginning of a cycle to its end.
//!
//! Invariant: the order of phases is the core's own phase machine; a step that it does not allow
//! panics. Within a phase the steps are those of `cycle/modes/incremental_update.rs` (full and
//! minor) and `cycle/modes/stop_the_world.rs` (stopped). Pure; called by the model.

use crate::cycles::{Mutant, State};
use crate::heap::{FRAMES, Heap, Set, THREADS, each};
use crate::phase::{Phase, Step};

/// How a cycle goes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Everything is marked anew, world running.
    #[default]
    Full,
    /// What is marked stays marked, world running.
    Minor,
    /// Everything is marked anew, world stopped.
    Stopped,
}

/// What the collector is at, within the phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum At {
    /// Between cycles, or between two activities.
    #[default]
    Rest,
    /// Taking written pages, of the frames still in `rows`.
    Pages,
    /// Clearing the marks.
    Clear,
    /// Reading the roots still in `roots`.
    Roots,
    /// Following grey words.
    Drain,
    /// Processing references, world running.
    References,
}

/// One step of the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// Sweeps the block that begins there.
    Sweep(u8),
    /// All is swept: free frames count as written from now on.
    UnprotectFree,
    /// A cycle begins.
    Begin(Kind),
    /// Says which frames are protected: those that are, and blocks with marked objects, or all.
    Choose {
        /// All blocks.
        all: bool,
    },
    /// Asks whether the next frame was written, and protects it again, at once.
    Take,
    /// Clears all mark bits.
    Clear,
    /// Reads the next root: the variable, or the registers of a thread that is stopped for it.
    Root,
    /// Reads a field, if its object is marked.
    Read(u8),
    /// Marks the object of a grey word.
    Visit(u8),
    /// Objects are born marked from now on.
    TurnBlack,
    /// The last stop, or the only one, up to its end.
    Stop {
        /// The world runs again before references are settled.
        early: bool,
    },
    /// References are settled: blocks may be swept, and the world runs.
    Finish,
}

/// The variable and every thread.
const ROOTS: Set = (1 << (THREADS + 1)) - 1;

impl State {
    /// The collector's possible next steps.
    pub fn moves(&self, rounds: u8, mutant: Mutant, mut f: impl FnMut(Move)) {
        let early = mutant == Mutant::SweepsWhileMarking;
        if self.phase == Phase::Idle || (early && self.phase == Phase::Mark) {
            each(self.heap.unswept)
                .filter(|block| !(self.heap.large && *block == 2))
                .for_each(|block| f(Move::Sweep(block)));
        }
        match (self.phase, self.at) {
            (Phase::Idle, _) if self.heap.unswept != 0 && !early => {}
            (Phase::Idle, _) if !self.unprotected => f(Move::UnprotectFree),
            (Phase::Idle, _) if self.cycles > 0 => {
                let kinds = [Kind::Full, Kind::Minor, Kind::Stopped];
                kinds.into_iter().for_each(|kind| f(Move::Begin(kind)));
            }
            (Phase::Idle, _) => {}
            (Phase::Protect, At::Rest) => {
                [false, true].into_iter().for_each(|all| f(Move::Choose { all }))
            }
            (_, At::Pages) if self.reads != 0 => {
                each(self.reads).for_each(|field| f(Move::Read(field)))
            }
            (_, At::Pages) => f(Move::Take),
            (_, At::Clear) => f(Move::Clear),
            (Phase::Roots, _) if self.kind == Kind::Stopped => f(Move::Stop { early: false }),
            (_, At::Roots) => f(Move::Root),
            (_, At::Drain) => {
                each(self.reads).for_each(|field| f(Move::Read(field)));
                each(self.grey).for_each(|cell| f(Move::Visit(cell)));
            }
            (Phase::Mark, At::Rest) => {
                if self.rounds > 0 {
                    [false, true].into_iter().for_each(|early| f(Move::Stop { early }));
                }
                if self.rounds > 0 && !self.told.black {
                    f(Move::TurnBlack);
                }
                if self.rounds < rounds {
                    f(Move::Choose { all: false });
                }
            }
            (Phase::References, _) => f(Move::Finish),
            (phase, at) => unreachable!("nothing to do in {phase:?} at {at:?}"),
        }
    }

    /// Takes a step.
    pub fn advance(&mut self, step: Move, mutant: Mutant) {
        match step {
            Move::Sweep(block) => self.heap.sweep(block),
            Move::UnprotectFree => {
                self.heap.protected &= self.heap.formed;
                self.unprotected = true;
            }
            Move::Begin(kind) => {
                self.phase(Step::Begin);
                (self.cycles, self.kind) = (self.cycles - 1, kind);
                self.told.marking = kind == Kind::Minor;
                self.at = if kind == Kind::Stopped { At::Clear } else { At::Rest };
            }
            Move::Choose { all } => self.choose(all, mutant),
            Move::Take => self.take(mutant),
            Move::Clear => {
                self.heap.marked = 0;
                self.begin_roots();
            }
            Move::Root => self.read_root(),
            Move::Read(field) => {
                self.reads &= !(1 << field);
                self.read(field);
                // The mutant protects a page when it was read.
                if mutant == Mutant::ArmsAfterScan && self.at == At::Pages && self.reads == 0 {
                    self.heap.clean |= 1 << Heap::page(field);
                }
                self.rest_if_done();
            }
            Move::Visit(cell) => {
                self.grey &= !(1 << cell);
                self.visit(cell);
                self.rest_if_done();
            }
            Move::TurnBlack => self.told.black = true,
            Move::Stop { early } => {
                self.stop(mutant);
                // `cycle/phases/finish.rs`: until references are settled nothing is swept, and
                // everything is born marked.
                self.heap.unswept = self.heap.formed;
                if early {
                    (self.at, self.told.black) = (At::References, true);
                }
            }
            Move::Finish => {
                self.phase(Step::Finished);
                (self.told, self.at) = Default::default();
                (self.rounds, self.unprotected, self.found_late) = (0, false, false);
                self.seen = 0;
                self.kind = Kind::Full;
            }
        }
    }

    fn phase(&mut self, step: Step) {
        let next = self.phase.after(step);
        self.phase = next.unwrap_or_else(|| panic!("{step:?} is not allowed in {:?}", self.phase));
    }

    /// `Watched::protect` up to the first question to the kernel.
    fn choose(&mut self, all: bool, mutant: Mutant) {
        if mutant == Mutant::StaleMarkedBlocks {
            self.seen = self.heap.marked_blocks();
        }
        let heap = &mut self.heap;
        let firsts = heap.marked_blocks() & !heap.protected;
        let chosen = match all {
            true => heap.formed & !heap.protected,
            false => each(firsts).fold(0, |set, block| set | heap.span(block) & !heap.protected),
        };
        self.rows = heap.formed & (heap.protected | chosen);
        heap.protected |= self.rows;
        self.at = At::Pages;
        if self.rows == 0 {
            self.pages_done();
        }
    }

    /// `Watch::take_written` of one frame.
    fn take(&mut self, mutant: Mutant) {
        let page = self.rows.trailing_zeros() as u8;
        self.rows &= self.rows - 1;
        let written = self.heap.clean & 1 << page == 0;
        // A full cycle protects before anything is marked: what is reported then is dropped.
        let dropped = self.phase == Phase::Protect
            && (self.kind == Kind::Full || mutant == Mutant::ForgetsRemembered);
        if written && !dropped {
            // Marks set later are those of objects born marked: their fields are null, and a store
            // to one makes the page a written one again.
            self.reads = each(Heap::fields_on(page))
                .filter(|field| self.heap.marked & 1 << self.heap.owner(*field) != 0)
                .fold(0, |fields, field| fields | 1 << field);
        }
        if mutant != Mutant::ArmsAfterScan || self.reads == 0 {
            self.heap.clean |= 1 << page;
        }
        if self.rows == 0 && self.reads == 0 {
            self.pages_done();
        }
    }

    fn pages_done(&mut self) {
        match (self.phase, self.kind) {
            (Phase::Protect, Kind::Full) => self.at = At::Clear,
            (Phase::Protect, _) => self.begin_roots(),
            _ => (self.at, self.roots) = (At::Roots, ROOTS),
        }
    }

    fn begin_roots(&mut self) {
        self.phase(Step::Protected);
        self.told.marking = self.kind != Kind::Stopped;
        (self.at, self.roots) = (At::Roots, ROOTS);
    }

    fn read_root(&mut self) {
        let root = self.roots.trailing_zeros() as usize;
        self.roots &= self.roots - 1;
        match root.checked_sub(1) {
            None => self.grey_word(self.heap.variable),
            Some(thread) => {
                self.heap.registers[thread].into_iter().for_each(|word| self.grey_word(word))
            }
        }
        if self.roots == 0 {
            match self.phase {
                Phase::Roots => self.phase(Step::RootsRead),
                _ => self.rounds += 1,
            }
            self.at = At::Drain;
            self.rest_if_done();
        }
    }

    fn grey_word(&mut self, word: u8) {
        if let Some(cell) = word.checked_sub(1) {
            self.grey |= 1 << cell;
        }
    }

    /// Reads a field of a marked object.
    fn read(&mut self, field: u8) {
        if self.heap.marked & 1 << self.heap.owner(field) != 0 {
            self.grey_word(self.heap.fields[field as usize]);
        }
    }

    /// Looks a grey word up, and marks what is there.
    fn visit(&mut self, cell: u8) {
        let Some(cell) = self.heap.target(cell + 1) else { return };
        if self.heap.allocated & !self.heap.marked & 1 << cell != 0 {
            self.heap.marked |= 1 << cell;
            self.reads |= self.heap.fields_of(cell);
        }
    }

    fn rest_if_done(&mut self) {
        if self.reads != 0 {
            return;
        }
        match self.at {
            At::Drain if self.grey == 0 => self.at = At::Rest,
            At::Pages if self.rows == 0 => self.pages_done(),
            _ => {}
        }
    }

    /// The stop: roots, written pages, and whatever they lead to. Nobody else moves, so it is one
    /// step.
    fn stop(&mut self, mutant: Mutant) {
        let before = self.heap.marked;
        if self.kind == Kind::Stopped {
            self.phase(Step::RootsRead);
        } else {
            self.phase(Step::Stopped);
            self.rescan_written(mutant);
        }
        if mutant != Mutant::NoStacksInRemark || self.kind == Kind::Stopped {
            self.heap.registers.concat().into_iter().for_each(|word| self.grey_word(word));
        }
        self.grey_word(self.heap.variable);
        while self.reads | self.grey != 0 {
            each(core::mem::take(&mut self.reads)).for_each(|field| self.read(field));
            each(core::mem::take(&mut self.grey)).for_each(|cell| self.visit(cell));
        }
        self.found_late = self.kind != Kind::Stopped && self.heap.marked != before;
        (self.at, self.roots) = (At::Rest, 0);
        self.phase(Step::Drained);
    }

    /// `Watched::remark`: asks without protecting; blocks that are not protected count as written
    /// if they have marked objects.
    fn rescan_written(&mut self, mutant: Mutant) {
        let heap = &self.heap;
        let mut pages = match mutant {
            Mutant::NoPagesInRemark => 0,
            _ => heap.formed & heap.protected & !heap.clean,
        };
        if mutant != Mutant::UnarmedNotWritten {
            let marked = match mutant {
                Mutant::StaleMarkedBlocks => self.seen,
                _ => heap.marked_blocks(),
            };
            let unprotected = marked & !heap.protected;
            pages |= each(unprotected).fold(0, |set, block| set | heap.span(block));
        }
        self.reads = (0..FRAMES)
            .filter(|page| pages & 1 << page != 0)
            .fold(0, |fields, page| fields | Heap::fields_on(page));
    }
}
