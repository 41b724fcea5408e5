//! Tables of what simulated runs came to, in Markdown, as the document has them.

use std::fmt::Write;

use crate::costs::Costs;
use crate::policy::trigger::Settings;
use crate::program::Program;
use crate::schedule::DEFAULTS;
use crate::simulation::{Figures, Machine, Simulation, Steps, Ways};
use crate::trace::Trace;

/// A program on machines of these sizes, with as many threads as processors.
pub fn machines(costs: Costs, ways: Ways, sizes: &[usize], load: &Load) -> String {
    let mut text = String::from(
        "| threads and processors | stop: half, longest | to stand; to wake | lock held, \
         waited for | words | stopped | serial | assists, stalls | program's share | \
         longest payment | a cycle: begin, mark, rounds, passes, last stop |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for threads in sizes.iter().copied() {
        let figures = load.run(costs, ways, threads);
        let shares = figures.shares;
        let percent = |ns: f64| format!("{:.2}", figures.part(ns) * 100.0);
        let longest = figures.longest();
        let _ = writeln!(
            text,
            "| {threads} | {:.0}, {:.0} µs | {:.0}; {:.0} µs | {}, {} % | {} % | {} % | {} % | \
             {}, {} % | {:.1} % | {:.1} ms | {} ms |",
            figures.median_stop_ns() / 1e3,
            longest.length_ns() / 1e3,
            longest.stopping_ns / 1e3,
            longest.waking_ns / 1e3,
            percent(shares.held_ns),
            percent(shares.lock_waits_ns),
            percent(shares.words_ns),
            percent(shares.stopped_ns),
            percent(shares.serial_ns()),
            percent(shares.assists_ns),
            percent(shares.stalls_ns),
            figures.efficiency() * 100.0,
            figures.longest_payment_ns / 1e6,
            steps(&figures),
        );
    }
    text
}

/// What the steps of a cycle take, means in milliseconds.
fn steps(figures: &Figures) -> String {
    let Steps { begin_ns, mark_ns, rounds_ns, passes_ns, last_ns } = figures.steps;
    let mean = |ns: f64| format!("{:.1}", ns / 1e6 / figures.cycles.max(1) as f64);
    [begin_ns, mark_ns, rounds_ns, passes_ns, last_ns].map(mean).join(", ")
}

/// What each of the threads of a steady program does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Megabytes that it allocates in a second.
    pub rate: f64,
    /// Bytes alive, of all threads.
    pub live: f64,
    /// Pages that it writes first in a millisecond.
    pub pages_per_ms: f64,
    /// It is measured while it allocates so many times what is alive, and for 20 ms at least.
    pub rounds: f64,
}

impl Load {
    /// On a machine with as many processors as threads.
    pub fn run(&self, costs: Costs, ways: Ways, threads: usize) -> Figures {
        let Self { rate, live, pages_per_ms, rounds } = *self;
        let ms = (live * rounds / (rate * 1e3 * threads as f64)).max(20.0);
        let program = Program::steady(threads, rate, live, pages_per_ms, ms);
        Simulation::run(Machine { processors: threads, costs }, ways, DEFAULTS, &program)
    }
}

/// Recorded programs under these settings, beside what was recorded of them under the usual ones.
pub fn pacing(traces: &[Trace], settings: Settings, processors: usize) -> String {
    let mut text = String::from(
        "| program | wall | most held | cycles | stops, longest | assists | stalls | longest \
         payment |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for trace in traces {
        let machine = Machine { processors, costs: Costs::HERE };
        let figures = Simulation::run(machine, Ways::CORE, settings, &trace.program);
        let _ = writeln!(
            text,
            "| {} | {:.0} ms | {:.1} MB | {} | {}, {:.0} µs | {:.1} ms | {:.1} ms | {:.1} ms |",
            trace.program.name,
            figures.wall_ns / 1e6,
            figures.peak / 1e6,
            figures.cycles,
            figures.stops.len(),
            figures.longest().length_ns() / 1e3,
            figures.shares.assists_ns / 1e6,
            figures.shares.stalls_ns / 1e6,
            figures.longest_payment_ns / 1e6,
        );
        let noted = |figure: &str| trace.recorded.get(figure).copied().unwrap_or_default();
        if !trace.recorded.is_empty() {
            let _ = writeln!(
                text,
                "| – recorded | {:.0} ms | {:.1} MB | {} | {}, {:.0} µs | | | |",
                noted("wall_ns") / 1e6,
                noted("held_bytes") / 1e6,
                noted("cycles"),
                noted("stops"),
                noted("longest_stop_ns") / 1e3,
            );
        }
    }
    text
}
