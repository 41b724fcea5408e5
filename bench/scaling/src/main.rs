//! `neap-scaling`: prints what the simulations of this crate come to, and measures the costs that
//! they rest on. docs/design/scaling.md explains the figures.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use neap_scaling::costs::Costs;
use neap_scaling::policy::trigger::Settings;
use neap_scaling::schedule::DEFAULTS;
use neap_scaling::simulation::Ways;
use neap_scaling::tables::{self, Load};
use neap_scaling::{measure, trace};

/// Simulates Neap on larger machines, and its pacing over recorded programs.
#[derive(Parser)]
#[command(name = "neap-scaling", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure what things cost on this machine: takes a minute, and the machine to itself
    Measure,
    /// A steady program on machines with as many processors as it has threads
    Machines {
        /// Threads and processors
        #[arg(default_values_t = [1, 2, 16, 64, 128])]
        sizes: Vec<usize>,
        /// Megabytes that each thread allocates in a second
        #[arg(long, default_value_t = 200.0)]
        rate: f64,
        /// Megabytes alive
        #[arg(long, default_value_t = 1000.0)]
        live: f64,
        /// Pages that each thread writes first in a millisecond
        #[arg(long, default_value_t = 20.0)]
        pages: f64,
        /// How many times what is alive they allocate
        #[arg(long, default_value_t = 8.0)]
        rounds: f64,
        /// Nanoseconds until a processor sees what another has written
        #[arg(long, default_value_t = Costs::HERE.line_ns)]
        line: f64,
        /// What is changed in the collector: asks-late, tree, spins, wakes-once, one-asks,
        /// assists=N, markers=N, blocks=N
        #[arg(long = "way")]
        ways: Vec<String>,
    },
    /// Recorded programs under the policies as they are in the core's sources now
    Pacing {
        /// Tables of cycles [default: those in bench/scaling/traces]
        traces: Vec<PathBuf>,
        /// As the option `growth`
        #[arg(long, default_value_t = DEFAULTS.growth)]
        growth: f64,
        /// As the option `min_trigger`, in KiB
        #[arg(long, default_value_t = DEFAULTS.min_trigger >> 10)]
        min_trigger: usize,
        /// Processors
        #[arg(long, default_value_t = 2)]
        processors: usize,
        /// Threads that share each program's work, instead of those recorded
        #[arg(long)]
        threads: Option<usize>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("neap-scaling: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<String, String> {
    match command {
        Command::Measure => Ok(measure::costs().to_string()),
        Command::Machines { sizes, rate, live, pages, rounds, line, ways } => {
            let load = Load { rate, live: live * 1e6, pages_per_ms: pages, rounds };
            let costs = Costs { line_ns: line, ..Costs::HERE };
            Ok(tables::machines(costs, Ways::CORE.with(&ways)?, &sizes, &load))
        }
        Command::Pacing { traces, growth, min_trigger, processors, threads } => {
            let settings = Settings { growth, min_trigger: min_trigger << 10, ..DEFAULTS };
            let mut read = match traces.is_empty() {
                true => trace::kept()?,
                false => traces.iter().map(|path| trace::open(path)).collect::<Result<_, _>>()?,
            };
            for trace in &mut read {
                trace.program.threads = threads.unwrap_or(trace.program.threads);
            }
            Ok(tables::pacing(&read, settings, processors))
        }
    }
}
