//! The costs of this machine: each measured alone, the median of many turns.
//!
//! Invariant: what the collector does is measured by its own code (`neap_core::probe`), what the
//! system does by the same calls. Called by the command, never by the simulation: a simulation has
//! the costs that were written down (`costs.rs`), so that it says the same everywhere.

mod signals;
mod words;

use std::time::Duration;

use neap_core::probe::sharing::{self, MANY_PAGES};

use crate::costs::{Costs, HOLD_BLOCKS};

/// Turns of a measurement of which the median is taken.
const TURNS: usize = 9;

/// Measures. Three are not: what is assumed of larger machines, and what a recording says (marking,
/// and roots of threads in a stop). What the system refuses is 0.
pub fn costs() -> Costs {
    let hold = |threads, together, live| median_ns(|| sharing::hold(threads, together, live));
    let [one, eight] = [1, HOLD_BLOCKS].map(|together| hold(1, together, 2));
    let beside = hold(2, HOLD_BLOCKS, 2);
    let [alone, together] = [0, 1].map(|others| sharing::protecting(others).unwrap_or_default());
    let ns = |duration: Duration| duration.as_nanos() as f64;
    let per_page = |many: Duration, one: f64| (ns(many) - one).max(0.0) / (MANY_PAGES - 1) as f64;
    let signal = signals::signal();
    let wake = signals::wake();
    Costs {
        signal_ns: signal.call_ns,
        answer_ns: signal.answer_ns,
        wake_ns: wake.call_ns,
        woken_ns: wake.answer_ns,
        question_ns: ns(alone.one_page),
        shoot_down_ns: (ns(together.one_page) - ns(alone.one_page)).max(0.0),
        protect_page_ns: per_page(alone.many_pages, ns(alone.one_page)),
        ask_page_ns: ns(alone.many_clean) / MANY_PAGES as f64,
        fault_ns: ns(alone.first_write),
        add_ns: words::add(),
        line_ns: words::line(),
        hold_ns: one - (eight - one) / (HOLD_BLOCKS - 1) as f64,
        hold_block_ns: (eight - one) / (HOLD_BLOCKS - 1) as f64,
        handover_ns: (beside - eight).max(0.0),
        ..Costs::HERE
    }
}

fn median_ns(mut measure: impl FnMut() -> Option<Duration>) -> f64 {
    median((0..TURNS).map(|_| measure().unwrap_or_default().as_nanos() as f64).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
