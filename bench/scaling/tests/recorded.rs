//! Recorded programs, simulated: the core's policies put together as `schedule.rs` does decide as
//! the core did in the recorded run.

use neap_scaling::costs::Costs;
use neap_scaling::schedule::DEFAULTS;
use neap_scaling::simulation::{Figures, Machine, Simulation, Ways};
use neap_scaling::trace::{self, Trace};

fn simulated(trace: &Trace, growth: f64) -> Figures {
    let machine = Machine { processors: 2, costs: Costs::HERE };
    // The option's default when they were recorded.
    let min_trigger = 2 << 20;
    let settings = neap_scaling::policy::trigger::Settings { growth, min_trigger, ..DEFAULTS };
    Simulation::run(machine, Ways::CORE, settings, &trace.program)
}

#[test]
fn what_was_recorded_comes_out_within_a_third() {
    let traces = trace::kept().unwrap();
    assert_eq!(traces.len(), 3);
    for trace in &traces {
        let (figures, name) = (simulated(trace, DEFAULTS.growth), &trace.program.name);
        for (what, value) in [
            ("cycles", figures.cycles as f64),
            ("held_bytes", figures.peak),
            ("wall_ns", figures.wall_ns),
        ] {
            let ratio = value / trace.recorded[what];
            assert!((0.75..1.34).contains(&ratio), "{name}: {what} is {ratio:.2} of the recorded");
        }
    }
}

#[test]
fn a_change_of_policy_shows() {
    for trace in &trace::kept().unwrap() {
        let [less, more] = [0.5, 2.0].map(|growth| simulated(trace, growth));
        assert!(less.cycles > more.cycles * 3 / 2, "{}", trace.program.name);
        assert!(less.peak < more.peak, "{}", trace.program.name);
    }
}
