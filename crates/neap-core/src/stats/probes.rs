//! USDT probes: places in the library that `bpftrace`, `perf` and SystemTap can watch in any
//! running program (`bpftrace -l 'usdt:LIBRARY:neap:*'`).
//!
//! Invariant: there is a probe for each step of a cycle, of the step's name (a step without one
//! does not compile), and one for a cycle that is over. Unwatched, a probe is one instruction that
//! does nothing; arguments are in registers or memory already. From the threads that drive cycles,
//! also with the world stopped.

use neap_record::{Cycle, CycleEvent};
use probe::probe;

use super::KEPT;

/// A cycle reached a step.
#[inline(always)]
pub fn step(event: CycleEvent) {
    if !KEPT || cfg!(miri) {
        return;
    }
    match event {
        CycleEvent::CycleStart => probe!(neap, cycle_start),
        CycleEvent::BeforeStop => probe!(neap, before_stop),
        CycleEvent::Stopped => probe!(neap, stopped),
        CycleEvent::MarkStart => probe!(neap, mark_start),
        CycleEvent::MarkEnd => probe!(neap, mark_end),
        CycleEvent::BeforeResume => probe!(neap, before_resume),
        CycleEvent::Resumed => probe!(neap, resumed),
        CycleEvent::CycleEnd => probe!(neap, cycle_end),
    }
}

/// A cycle is over: its number, its last stop in nanoseconds, bytes handed out since the one
/// before, bytes found live.
#[inline(always)]
pub fn cycle(cycle: &Cycle) {
    if !KEPT || cfg!(miri) {
        return;
    }
    probe!(neap, cycle, cycle.number, cycle.pause_ns, cycle.allocated_bytes, cycle.live_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `readelf -n` says of this very program.
    fn notes() -> String {
        let file = std::env::current_exe().unwrap();
        let output = std::process::Command::new("readelf").arg("-n").arg(file).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri runs no assembly")]
    fn every_step_has_a_probe_of_its_name() {
        CycleEvent::ALL.iter().for_each(|event| step(*event));
        cycle(&Cycle::default());
        let notes = notes();
        for name in CycleEvent::ALL.iter().map(|event| event.name()).chain(["cycle"]) {
            assert!(notes.contains(&format!("Name: {name}\n")), "{name}");
        }
    }
}
