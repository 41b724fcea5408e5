//! `neap top`: a running process's heap, allocation, cycles, stops and threads, drawn anew at an
//! interval.
//!
//! Invariant: the terminal is given back as it was, also when the process ends, something fails or
//! a signal ends this process. Without a terminal, or with `--batch`, figures are lines of text.
//! Called by `main` and `run`.

mod draw;
pub mod figures;
pub mod history;
pub mod keys;

use crate::Failure;
use crate::live::{self, Process};
use crate::run::held::Held;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use history::History;
use keys::Keys;
use ratatui::DefaultTerminal;
use std::io::IsTerminal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The command line.
pub fn command() -> Command {
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("SECONDS")
        .help("Time between two looks")
        .default_value("0.5")
        .value_parser(|text: &str| match text.parse::<f64>() {
            Ok(seconds) if (0.01..=3600.0).contains(&seconds) => {
                Ok(Duration::from_secs_f64(seconds))
            }
            _ => Err("want seconds from 0.01 to 3600"),
        });
    Command::new("top")
        .about("Watch the heap of a running process: size, allocation, cycles, stops, threads")
        .after_help("Keys: q ends. Looking costs the process nothing.")
        .arg(live::argument())
        .arg(interval)
        .arg(
            Arg::new("batch")
                .long("batch")
                .help("Print lines of text instead of drawing on the terminal")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("count")
                .long("count")
                .value_name("N")
                .help("End after so many looks")
                .value_parser(value_parser!(u64).range(1..)),
        )
}

/// Watches the process that the command line names.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let id = *matches.get_one::<u32>("pid").expect("it is required");
    let process = Process::open(id)?;
    let interval = *matches.get_one::<Duration>("interval").expect("it has a default");
    let count = matches.get_one::<u64>("count").copied();
    if matches.get_flag("batch") || !std::io::stdout().is_terminal() {
        return batch(&process, interval, count);
    }
    let held = Held::new();
    let ended = on_terminal(&held, |terminal, keys| {
        watch(terminal, keys, &process, interval, count, &mut |_| Vec::new())
    })?;
    match ended {
        Ended::Asked | Ended::Counted => Ok(()),
        Ended::Gone => crate::print(&format!(
            "neap: process {} ({}) has ended, or runs another program\n",
            process.id, process.name
        )),
        Ended::Signal { signal, .. } => {
            held.die(signal);
            Ok(())
        }
        Ended::HungUp => Err(Failure::failed("the terminal is gone")),
    }
}

/// Runs `f` with the terminal ready to be drawn on.
pub fn on_terminal<R>(
    held: &Held,
    f: impl FnOnce(&mut DefaultTerminal, &Keys<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let keys = Keys::new(held).map_err(no_terminal)?;
    let mut terminal = ratatui::try_init().map_err(no_terminal)?;
    let result = f(&mut terminal, &keys);
    // One that is gone takes nothing.
    let _ = ratatui::try_restore();
    result
}

fn no_terminal(error: std::io::Error) -> Failure {
    Failure::usage(format!("the terminal: {error}; --batch prints lines of text instead"))
}

/// Why watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user said so.
    Asked,
    /// The process is gone.
    Gone,
    /// As many looks as were wanted.
    Counted,
    /// This process got a signal that ends it; `is_groups` where its children have it, too.
    Signal { signal: i32, is_groups: bool },
    /// The terminal is gone.
    HungUp,
}

/// Draws until the process ends or the user says so. `output` gives the lines of the program's
/// output to show below, for a number of them that have room.
pub fn watch(
    terminal: &mut DefaultTerminal,
    keys: &Keys<'_>,
    process: &Process,
    interval: Duration,
    count: Option<u64>,
    output: &mut dyn FnMut(usize) -> Vec<String>,
) -> Result<Ended, Failure> {
    let began = Instant::now();
    let mut history = History::new(process.id, &process.name, unix_time());
    let mut looks = 0;
    loop {
        let look = process.look().map_err(|error| process.failure(error))?;
        let Some(page) = look else { return Ok(Ended::Gone) };
        history.add(began.elapsed(), page);
        terminal
            .draw(|frame| {
                let lines = output(usize::from(frame.area().height));
                draw::draw(frame, &history, &lines);
            })
            .map_err(no_terminal)?;
        looks += 1;
        if count == Some(looks) {
            return Ok(Ended::Counted);
        }
        if let Some(ended) = keys.wait(interval)? {
            return Ok(ended);
        }
    }
}

/// Draws what is waited for, and below it the program's output.
pub fn draw_waiting(
    terminal: &mut DefaultTerminal,
    text: &str,
    output: &mut dyn FnMut(usize) -> Vec<String>,
) -> Result<(), Failure> {
    let draw = |frame: &mut ratatui::Frame<'_>| {
        let lines = output(usize::from(frame.area().height));
        draw::draw_waiting(frame, text, &lines);
    };
    terminal.draw(draw).map(|_| ()).map_err(no_terminal)
}

/// Now, since 1970.
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Lines of text, a block of them for each look.
fn batch(process: &Process, interval: Duration, count: Option<u64>) -> Result<(), Failure> {
    let began = Instant::now();
    let mut history = History::new(process.id, &process.name, unix_time());
    let mut looks = 0;
    while let Some(page) = process.look().map_err(|error| process.failure(error))? {
        history.add(began.elapsed(), page);
        let mut text = history.title() + "\n";
        for (name, value) in figures::rows(&history) {
            text += &format!("{name:12}{value}\n");
        }
        if !crate::is_printed(&(text + "\n"))? {
            return Ok(());
        }
        looks += 1;
        if count == Some(looks) {
            return Ok(());
        }
        std::thread::sleep(interval);
    }
    Ok(())
}
