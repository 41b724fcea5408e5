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
use super::read_roots::{Owner, read_whole};
use super::written_pages::WrittenPages;
use crate::cycle::collector::Collector;
use crate::cycle::token::Driver;
use crate::watch::Watch;

impl<W: Watch> WrittenPages<W> {
    /// Reads the roots beside the program, one mutator stopped at a time.
    pub fn read_roots_running(&mut self, driver: &mut Driver, collector: &mut Collector) {
        let (roots, watch) = self.roots();
        roots.begin_reading();
        driver.read_roots_running(collector, &mut |marker, owner, range| {
            // SAFETY: a part of what roots there are.
            let read = &mut |part: Range<usize>| unsafe { read_whole(marker, part) };
            match owner {
                Owner::Runs => roots.read_running(watch, range, read),
                Owner::Stands => roots.read_stopped(watch, range, read),
            }
        });
    }

    /// Reads static data, registered ranges and deep stacks, so that a first pause finds them read.
    /// World running, on the collector's thread.
    pub fn read_large_roots(&mut self, driver: &mut Driver, collector: &mut Collector) {
        let (roots, watch) = self.roots();
        roots.begin_reading();
        driver.read_large_roots(collector, &mut |marker, range| {
            roots.read_running(watch, range, &mut |part| {
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            });
        });
    }

    /// Reads what was written of the roots that are watched, which is protected again; says how
    /// much that was, in bytes. World running, on the collector's thread.
    pub fn read_written_roots(&mut self, driver: &mut Driver, collector: &mut Collector) -> usize {
        let (roots, watch) = self.roots();
        let mut bytes = 0;
        driver.read_large_roots(collector, &mut |marker, range| {
            roots.read_again(watch, &range, &mut |part| {
                bytes += part.len();
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            });
        });
        bytes
    }

    /// Reads the roots that are not protected, in a pause.
    pub fn read_unprotected_roots(
        &mut self,
        driver: &mut Driver,
        collector: &mut Collector,
        pause: &Pause,
    ) {
        let (roots, _) = self.roots();
        driver.read_roots_by(collector, pause, &mut |marker, range| {
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
        driver.read_roots_by(collector, pause, &mut |marker, range| {
            roots.read_stopped(watch, range, &mut |part| {
                bytes += part.len();
                // SAFETY: a part of what roots there are.
                unsafe { read_whole(marker, part) };
            });
        });
        bytes
    }
}
