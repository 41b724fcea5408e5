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

/// What bash needs beside what is generated. It splits words at `=`, and gives that for the word
/// before a value that was begun; of options that take a value by `=` alone the next word is none;
/// and what follows `--` is a line of another command, which bash-completion's function knows how
/// to complete. LIST stands for those options.
const BASH_WORDS: &str = r#"
_neap_words() {
    local i function cur="$2" prev="$3"
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[1]} == run && ${COMP_WORDS[i]} == -- ]] || continue
        COMPREPLY=()
        for function in _comp_command_offset _command_offset; do
            if declare -F $function >/dev/null; then
                $function $((i + 1))
                return
            fi
        done
        ((i + 1 < COMP_CWORD)) || COMPREPLY=( $(compgen -c -- "$cur") )
        return
    done
    if [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ ${COMP_WORDS[COMP_CWORD]} != = ]]; then
        case $prev in
            LIST) prev= ;;
        esac
    fi
    _neap "$1" "$cur" "$prev"
}
complete -F _neap_words -o bashdefault -o default neap
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then
    complete -F _neap_words -o nosort -o bashdefault -o default neap
fi
"#;

/// Prints completions of `command`.
pub fn completions(matches: &ArgMatches, command: Command) -> Result<(), Failure> {
    let shell = *matches.get_one::<Shell>("shell").expect("it is required");
    crate::print(&completions_text(shell, command))
}

fn completions_text(shell: Shell, mut command: Command) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "neap", &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if shell == Shell::Bash {
        let options = command.get_subcommands().flat_map(Command::get_opts);
        let by_equals = options.filter(|option| option.is_require_equals_set());
        let by_equals: Vec<String> = by_equals
            .filter_map(|option| option.get_long().map(|long| format!("--{long}")))
            .collect();
        text.push_str(&BASH_WORDS.replace("LIST", &by_equals.join("|")));
    }
    text
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
        // An empty word, for no date: the same source gives the same page on any day.
        let manual = Man::new(named).title(name.to_uppercase()).date("\"\"").manual("Neap");
        let manual = manual.source(concat!("neap ", env!("CARGO_PKG_VERSION")));
        manual.render(&mut page).expect("memory takes everything");
        // A break at each side of a space is none, as programs that check pages say.
        (name, String::from_utf8_lossy(&page).replace(".br\n\n.br\n", ".sp\n").into_bytes())
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
                if let Some(long) = argument.get_long() {
                    assert!(text.contains(&format!("\nfB--{long}fR")), "{long}: {text}");
                }
            }
        }
        let heading = ".TH NEAP-RUN 1 \"\" \"neap ";
        assert!(page("neap-run").contains(heading), "{}", page("neap-run"));
        assert!(page("neap").contains("neap-report"), "{}", page("neap"));
    }

    #[test]
    fn shells_complete_every_option_of_every_command() {
        type Written = fn(&str) -> String;
        let shells: [(Shell, Written); 3] = [
            (Shell::Bash, |option| format!(" --{option} ")),
            (Shell::Zsh, |option| format!("--{option}")),
            (Shell::Fish, |option| format!(" -l {option} ")),
        ];
        for (shell, written) in shells {
            let text = completions_text(shell, crate::command());
            // Each command has a part of the script, or lines, with its name in them.
            for command in crate::command().get_subcommands() {
                let name = command.get_name();
                assert!(text.contains(name), "{shell}: {name}");
                let own = match shell {
                    Shell::Bash => part(&text, &format!("\n        neap__subcmd__{name})"), ";;"),
                    Shell::Zsh => part(&text, &format!("({name})\n_arguments"), ";;"),
                    _ => text
                        .lines()
                        .filter(|line| line.contains(&format!("using_subcommand {name}\"")))
                        .fold(String::new(), |text, line| text + line + "\n"),
                };
                for option in command.get_arguments().filter_map(Arg::get_long) {
                    assert!(own.contains(&written(option)), "{shell}: {name} --{option}: {own}");
                }
            }
        }
    }

    /// From one text to the next other.
    fn part(text: &str, from: &str, to: &str) -> String {
        let (_, text) = text.split_once(from).unwrap_or_else(|| panic!("{from} in {text}"));
        text.split(to).next().unwrap_or_default().to_owned()
    }
}
