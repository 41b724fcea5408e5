//! The end of marking, told to the program, which may name more that is to stay: for ephemerons and
//! weak maps of its own.
//!
//! Invariant: the program's function is called in the last pause of a cycle, with nothing grey, and
//! again until it names nothing that is not marked. Then nothing is grey. Called by the modes,
//! before references are processed.
//!
//! # Safety
//!
//! Calls a function of the program, which has it that it names addresses that it may.

#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::reference_processing::References;
use crate::cycle::report::callbacks;
use crate::cycle::report::root_callback::RootCallback;
use crate::cycle::token::Driver;
use crate::mark::tracer::Tracer;
use crate::refs::Marking;
use crate::sync::function::AtomicFunction;
use crate::sys::{program_call, side_stack};

static WHEN_MARKED: AtomicFunction<RootCallback> = AtomicFunction::none();

/// Sets the function.
pub fn set(callback: Option<RootCallback>) {
    WHEN_MARKED.set(callback);
}

impl Driver {
    /// Asks the program for more until it names nothing new, and keeps everything if a function of
    /// the program's that was to name roots did not come to its end. World stopped, this marker
    /// alone.
    pub fn ask_when_marked(&mut self) {
        self.ask_for_more();
        self.keep_all_for_lost_roots();
    }

    /// Marks every object there is, if roots were lost: they are not followed, since what they lead
    /// to is marked too.
    pub fn keep_all_for_lost_roots(&mut self) {
        if !program_call::take_lost_roots() {
            return;
        }
        let (heap, marker) = (self.heap, &mut self.marker);
        heap.for_each_block(|block, header| {
            let bits = heap.bits(block);
            heap.for_each_object(block, header, |index, _| {
                if bits.mark::<true>(index) {
                    heap.note_marked(block, header);
                    marker.count(header.cell_bytes());
                }
            });
        });
        marker.report();
    }

    fn ask_for_more(&mut self) {
        let marked = |driver: &mut Self| {
            driver.marker.report();
            driver.heap.state.marked_bytes.load(Relaxed)
        };
        while let Some(callback) = WHEN_MARKED.get().filter(|_| callbacks::are_heard()) {
            let before = marked(self);
            // SAFETY: its contract is the program's to keep.
            side_stack::off(|| unsafe { callback(&mut Tracer::new(&mut self.marker)) });
            References::new(self).drain();
            if marked(self) == before {
                return;
            }
        }
    }
}
