//! What is made of the declaration of the command line: completions for shells, pages of the
//! manual.
//!
//! Invariant: nothing about a command is written twice. Single-threaded. Called by `main`.

use crate::Failure;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

/// `neap completions`.
pub fn completions_command() -> Command {
    Command::new("completions")
        .about("Print completions for a shell")
        .after_help("bash: neap completions bash > ~/.local/share/bash-completion/completions/neap")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(value_parser!(Shell))
                .help("The shell"),
        )
}

/// `neap manual`.
pub fn manual_command() -> Command {
    Command::new("manual").about("Write the pages of the manual: neap.1, neap-run.1, …").arg(
        Arg::new("folder")
            .value_name("FOLDER")
            .required(true)
            .help("Where to, such as /usr/local/share/man/man1")
            .value_parser(value_parser!(PathBuf)),
    )
}

/// Prints completions of `command`.
pub fn completions(matches: &ArgMatches, mut command: Command) -> Result<(), Failure> {
    let shell = *matches.get_one::<Shell>("shell").expect("it is required");
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "neap", &mut text);
    crate::print(&String::from_utf8_lossy(&text))
}

/// Writes the pages of `command`, one for each of its commands.
pub fn manual(matches: &ArgMatches, command: Command) -> Result<(), Failure> {
    let folder = matches.get_one::<PathBuf>("folder").expect("it is required");
    let refused = |error: std::io::Error| Failure::usage(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(refused)?;
    for (name, page) in pages(command) {
        std::fs::write(folder.join(format!("{name}.1")), page).map_err(refused)?;
    }
    Ok(())
}

/// Names and texts of the pages.
fn pages(command: Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let one = |command: &Command, name: String| {
        let mut page = Vec::new();
        let named = command.clone().name(name.clone()).display_name(name.clone());
        Man::new(named).render(&mut page).expect("memory takes everything");
        (name, page)
    };
    let own = one(&command, "neap".to_owned());
    let others =
        command.get_subcommands().map(|part| one(part, format!("neap-{}", part.get_name())));
    core::iter::once(own).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_arguments() {
        let pages = pages(crate::command());
        let page = |name: &str| {
            let (_, page) = pages.iter().find(|(found, _)| found == name).unwrap();
            String::from_utf8_lossy(page).replace('\\', "")
        };
        for command in crate::command().get_subcommands() {
            let text = page(&format!("neap-{}", command.get_name()));
            assert!(text.contains(".SH SYNOPSIS"), "{text}");
            for argument in command.get_arguments() {
                let id = argument.get_id();
                assert!(argument.get_help().is_some(), "{} {id}", command.get_name());
            }
        }
        assert!(page("neap-run").contains("--max-heap"), "{}", page("neap-run"));
        assert!(page("neap").contains("neap-report"), "{}", page("neap"));
    }

    #[test]
    fn shells_complete_commands_and_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut crate::command(), "neap", &mut text);
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains("max-heap") && text.contains("doctor"), "{shell}");
        }
    }
}
