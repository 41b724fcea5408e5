//! Reading roots under a write watch: large ones are watched, and read again as far as they were
//! written.
//!
//! Invariant: `[cycle.inv.watched-roots]`. Called by the driver of a cycle: the collector's thread,
//! or in a pause who drives that.
//!
//! # Safety
//! Ranges of roots are read as they are given, while who gave them keeps them readable.

#![allow(unsafe_code)]

use core::ops::Range;

use super::pause::Pause;
use super::read_roots::{Resting, Root, read_marking, read_whole};
use super::written_pages::WrittenPages;
use crate::cycle::collector::{Collector, CollectorGuard};
use crate::cycle::token::Driver;
use crate::mark::drain::Marker;
use crate::watch::Watch;

impl<W: Watch> WrittenPages<W> {
    /// Reads the roots beside the program; says how much that was of stacks that rest, in bytes.
    pub fn read_roots_running(
        &mut self,
        driver: &mut Driver,
        collector: &mut CollectorGuard,
    ) -> usize {
        let (roots, watch) = self.roots();
        let mut bytes = 0;
        roots.begin_reading();
        driver.read_roots_running(collector, &mut |marker, root, range| {
            let read = &mut |part: Range<usize>| {
                if matches!(root, Root::Stack | Root::StackAgain) {
                    bytes += part.len();
                }
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            };
            match root {
                Root::Data(piece) => roots.read_part_running(watch, piece, range, read),
                Root::Stack => roots.read_running(watch, range, read),
                Root::StackAgain => roots.read_grown(watch, &range, read),
                Root::Standing => roots.read_stopped(watch, range, read),
            }
        });
        bytes
    }

    /// Reads static data, registered ranges and deep stacks, so that a first pause finds them read.
    /// World running, on the collector's thread.
    pub fn read_large_roots(&mut self, driver: &mut Driver, collector: &mut CollectorGuard) {
        let (roots, watch) = self.roots();
        roots.begin_reading();
        driver.read_large_roots(collector, &mut |marker, root, range| {
            // SAFETY: a part of what roots there are.
            let read = &mut |part: Range<usize>| unsafe { read_whole(marker, part) };
            match root {
                Root::Data(piece) => roots.read_part_running(watch, piece, range, read),
                _ => roots.read_running(watch, range, read),
            }
        });
    }

    /// Reads what was written of the roots that are watched, which is protected again; says how
    /// much that was, in bytes. World running, on the collector's thread.
    pub fn read_written_roots(
        &mut self,
        driver: &mut Driver,
        collector: &mut CollectorGuard,
    ) -> usize {
        let (roots, watch) = self.roots();
        let mut bytes = 0;
        driver.read_large_roots(collector, &mut |marker, root, range| {
            let read = &mut |part: Range<usize>| {
                bytes += part.len();
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            };
            match root {
                // All of it at once: little, as a rule.
                Root::Data(piece) if range.start == piece.start => {
                    roots.read_again(watch, &piece.range(), read);
                }
                Root::Data(_) => {}
                _ => roots.read_grown(watch, &range, read),
            }
        });
        bytes
    }

    /// Reads the roots that are not protected, in a pause that another follows.
    pub fn read_unprotected_roots(
        &mut self,
        driver: &mut Driver,
        collector: &mut Collector,
        pause: &Pause,
    ) {
        let (roots, _) = self.roots();
        driver.read_roots_by(collector, pause, Resting::LeftOut, &mut |marker, range| {
            // SAFETY: a part of what roots there are.
            roots.read_unprotected(range, &mut |part| unsafe { read_whole(marker, part) });
        });
    }

    /// Reads what was written of all roots, in the last pause; says how much that was, in bytes.
    pub fn read_roots_stopped(
        &mut self,
        driver: &mut Driver,
        collector: &mut Collector,
        pause: &Pause,
    ) -> usize {
        let (roots, watch) = self.roots();
        let mut bytes = 0;
        driver.read_roots_by(collector, pause, Resting::Read, &mut |marker, range| {
            roots.read_stopped(watch, range, &mut |part| {
                bytes += part.len();
                // SAFETY: a part of what roots there are.
                unsafe { read_marking(marker, part, Marker::drain) };
            });
        });
        bytes
    }
}
