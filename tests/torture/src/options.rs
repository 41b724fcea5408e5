//! What a run does: the command line.
//!
//! Invariant: written once, before the first thread; read by all.

use clap::{Args, ValueEnum};
use std::sync::OnceLock;

/// A fault to build in, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// Registered root ranges are not registered: reachable objects are lost.
    Lost,
    /// Now and then a word of an object is changed behind the shadow's back.
    Stale,
    /// What roots let go is held on to: unreachable objects stay.
    Leak,
    /// Handles that are roots are weak ones: reachable objects are lost.
    Weak,
}

/// Arguments of `run`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Decides everything random; with one thread, a run repeats exactly.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Mutator threads besides the first, which waits for them.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Steps of each thread; the run says how many operations on graphs they were.
    #[arg(long, default_value_t = 20_000)]
    pub operations: u64,
    /// Bytes that one thread's objects may hold before it lets roots go.
    #[arg(long, default_value_t = 16 << 20)]
    pub live_bytes: usize,
    /// Largest object, bytes.
    #[arg(long, default_value_t = 1 << 20)]
    pub largest: usize,
    /// Forks per 10,000 operations.
    #[arg(long, default_value_t = 2)]
    pub forks: u32,
    /// Operations on fibers per 10,000.
    #[arg(long, default_value_t = 20)]
    pub fibers: u32,
    /// Threads begun per 10,000 operations.
    #[arg(long, default_value_t = 5)]
    pub spawns: u32,
    /// Explicit collections per 10,000 operations, besides those of the audits.
    #[arg(long, default_value_t = 20)]
    pub collections: u32,
    /// Other calls of the collector per 10,000 operations: memory given back, collections held off,
    /// questions.
    #[arg(long, default_value_t = 60)]
    pub controls: u32,
    /// One in so many objects has a collection each time that it hangs on a stack alone.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..))]
    pub alone: u64,
    /// Audits per 10,000 operations: every object checked, everything unreachable shown to be gone.
    #[arg(long, default_value_t = 8)]
    pub audits: u32,
    /// Objects in 100 that get a finalizer.
    #[arg(long, default_value_t = 5)]
    pub finalizers: u32,
    /// Objects in 100 that get a disappearing link. While there are links, references are processed
    /// in stops.
    #[arg(long, default_value_t = 50)]
    pub links: u32,
    /// Objects in 100 that get a weak handle.
    #[arg(long, default_value_t = 30)]
    pub weak: u32,
    /// Objects in 100 that are the key of an ephemeron.
    #[arg(long, default_value_t = 10)]
    pub pairs: u32,
    /// Operations on monitors per 10,000.
    #[arg(long, default_value_t = 400)]
    pub monitors: u32,
    /// How often per 10,000 operations all finalizers and cleaners are made ready, those of live
    /// objects too.
    #[arg(long, default_value_t = 0)]
    pub all_ready: u32,
    /// No objects with trace functions: a program that has some has no minor cycles.
    #[arg(long)]
    pub no_functions: bool,
    /// Tells the collector that trace functions read their objects alone, which they do.
    #[arg(long)]
    pub local_functions: bool,
    /// An option of the collector, NAME=VALUE; may be given again.
    #[arg(long = "neap", value_name = "NAME=VALUE")]
    pub neap: Vec<String>,
    /// Builds in a fault: the run has to fail.
    #[arg(long)]
    pub sabotage: Option<Sabotage>,
}

static OPTIONS: OnceLock<Options> = OnceLock::new();

/// Sets them, once.
pub fn set(options: Options) {
    OPTIONS.set(options).unwrap_or_else(|_| panic!("options are set once"));
}

/// What this run does.
pub fn get() -> &'static Options {
    OPTIONS.get().expect("options are set before the first thread")
}

impl Options {
    /// Whether this fault is built in.
    pub fn sabotages(&self, what: Sabotage) -> bool {
        self.sabotage == Some(what)
    }

    /// The arguments that make this run again.
    pub fn command(&self) -> String {
        let mut text = format!(
            "neap-torture run --seed {} --threads {} --operations {} --live-bytes {} --largest {} \
             --forks {} --fibers {} --spawns {} --collections {} --controls {} --alone {} \
             --audits {} --finalizers {} --links {} --weak {} --pairs {} --monitors {} \
             --all-ready {}",
            self.seed,
            self.threads,
            self.operations,
            self.live_bytes,
            self.largest,
            self.forks,
            self.fibers,
            self.spawns,
            self.collections,
            self.controls,
            self.alone,
            self.audits,
            self.finalizers,
            self.links,
            self.weak,
            self.pairs,
            self.monitors,
            self.all_ready,
        );
        if self.no_functions {
            text.push_str(" --no-functions");
        }
        if self.local_functions {
            text.push_str(" --local-functions");
        }
        for option in &self.neap {
            text.push_str(" --neap ");
            text.push_str(option);
        }
        if let Some(sabotage) = self.sabotage {
            text.push_str(&format!(" --sabotage {sabotage:?}").to_lowercase());
        }
        text
    }

    /// The value of a collector option on the command line, if it is there.
    pub fn neap_value(&self, name: &str) -> Option<&str> {
        self.neap
            .iter()
            .rev()
            .find_map(|option| option.split_once('=').filter(|(own, _)| *own == name))
            .map(|(_, value)| value)
    }
}
