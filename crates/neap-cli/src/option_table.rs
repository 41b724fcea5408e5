//! The library's options as `neap options` prints them and as `neap run` takes them.
//!
//! Invariant: everything comes from the core's table; a value is refused here with the same words
//! as the library would warn with. Called by `main` and `run`.

use crate::Failure;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, ValueHint};
use neap_core::options::{Entry, Options, TABLE};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// Columns of text beside the table's others, for an ordinary terminal.
const MEANING_WIDTH: usize = 60;

/// How values of the types that have units are written; each of the examples is one.
const UNITS: [(&str, &str, &[&str]); 2] = [
    (
        "bytes, limit",
        "Bytes, or with one of the units K, M, G and T, which are KiB, MiB, GiB and TiB",
        &["65536", "512K", "1.5GiB", ".5G"],
    ),
    (
        "time",
        "Milliseconds, or with one of the units us or \u{b5}s, ms and s",
        &["4000", "100us", "0.5ms", "2s"],
    ),
];

/// The table for people: all of it, or the options whose name, type or meaning has this word in it;
/// and the units, or those that the word is about.
pub fn text(word: Option<&str>) -> Result<String, Failure> {
    let mut rows = vec![["NAME", "TYPE", "DEFAULT"].map(str::to_owned)];
    let mut meanings = vec!["MEANING".to_owned()];
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word_in = |texts: &[&str]| {
        word.is_none_or(|word| texts.iter().any(|text| plain(text).contains(&plain(word))))
    };
    for entry in TABLE.iter().filter(|entry| word_in(&[entry.name, entry.kind, entry.meaning])) {
        let default = shown(entry.show_default);
        let default = if default.is_empty() { "(nothing)".into() } else { default };
        rows.push([entry.name.to_owned(), entry.kind.to_owned(), default]);
        let words: Vec<&str> = entry.meaning.split_whitespace().collect();
        let valid = shown(entry.show_valid);
        meanings.push(format!("{} Valid: {valid}.", words.join(" ")));
    }
    let units = units(word_in);
    if meanings.len() == 1 && units.is_empty() {
        let word = word.unwrap_or_default();
        return Err(Failure::usage(format!(
            "no option has {word:?} in its name, type or meaning; `neap options` prints all"
        )));
    }
    if meanings.len() == 1 {
        return Ok(units);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut out = String::new();
    for ([name, kind, default], meaning) in rows.iter().zip(&meanings) {
        let mut columns =
            format!("{name:0$}  {kind:1$}  {default:2$}", widths[0], widths[1], widths[2]);
        for line in wrap(meaning, MEANING_WIDTH) {
            let _ = writeln!(out, "{columns}  {line}");
            columns = " ".repeat(columns.len());
        }
    }
    if !units.is_empty() {
        let _ = write!(out, "\n{units}");
    }
    out.push_str(
        "\nEach is an environment variable, NEAP_ and the name in upper case, and an argument of \
         `neap run`:\nNEAP_MAX_HEAP=1GiB PROGRAM, or neap run --max-heap=1GiB -- PROGRAM.\n",
    );
    Ok(out)
}

/// The units in whose texts the word is that `word_in` looks for; empty if it is in none.
fn units(word_in: impl Fn(&[&str]) -> bool) -> String {
    let mut out = String::new();
    for (kinds, meaning, examples) in UNITS {
        if word_in(&["units", kinds, meaning]) {
            let examples = examples.join(", ");
            let _ = writeln!(out, "Type {kinds}: {meaning}:\n    {examples}");
        }
    }
    out
}

/// The error, whose hint may be an option in the other spelling that is taken, with `_`.
pub fn spelled_as_in_the_help(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::SuggestedArg) {
        let option = option.replace('_', "-");
        error.insert(ContextKind::SuggestedArg, ContextValue::String(option));
    }
    error
}

/// `text` in lines of at most `width` characters, broken at spaces.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is always a last line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn shown(show: fn(&mut dyn Write) -> std::fmt::Result) -> String {
    let mut out = String::new();
    show(&mut out).expect("writing to a String does not fail");
    out
}

/// One argument `--name=VALUE` or `--name VALUE` for each option; of a repeated one the last
/// counts.
pub fn arguments() -> Vec<Arg> {
    let one = |entry: &'static Entry| {
        let words: Vec<&str> = entry.meaning.split_whitespace().collect();
        let argument = Arg::new(entry.name)
            .long(entry.name.replace('_', "-"))
            .help(words.join(" "))
            .value_name(entry.kind.to_uppercase())
            .value_parser(Checked(entry))
            .overrides_with(entry.name)
            .value_hint(if entry.kind == "path" { ValueHint::FilePath } else { ValueHint::Other })
            // Shells offer words also where there are other values. Of these the meaning tells.
            .hide_possible_values(entry.kind != "choice")
            .help_heading("The library's options");
        let argument = if entry.name.contains('_') { argument.alias(entry.name) } else { argument };
        if entry.kind == "bool" {
            // Else the next word, which is the program, would be its value.
            argument.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            argument
        }
    };
    TABLE.iter().map(one).collect()
}

/// The environment variables that the given arguments stand for.
pub fn variables(matches: &ArgMatches) -> Vec<(String, OsString)> {
    let value = |entry: &Entry| matches.get_one::<OsString>(entry.name).cloned();
    let variable = |entry: &Entry| format!("NEAP_{}", entry.name.to_uppercase());
    TABLE.iter().filter_map(|entry| Some((variable(entry), value(entry)?))).collect()
}

/// Refuses what the library would, and offers what it takes.
#[derive(Clone)]
struct Checked(&'static Entry);

impl TypedValueParser for Checked {
    type Value = OsString;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<OsString, clap::Error> {
        match refusal(self.0, value.as_bytes()) {
            None => Ok(value.to_owned()),
            Some(text) => {
                let error = clap::Error::raw(ErrorKind::ValueValidation, text + "\n");
                Err(error.with_cmd(command))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = offered(self.0);
        (!values.is_empty()).then(|| Box::new(values.into_iter().map(PossibleValue::new)) as _)
    }
}

/// Values for shells to offer: words, or the numbers if there are few.
fn offered(entry: &Entry) -> Vec<String> {
    let few = 0..10_u32;
    let is_valid = |number: u32| refusal(entry, number.to_string().as_bytes()).is_none();
    if entry.kind == "count" && !is_valid(few.end) {
        return few.filter(|number| is_valid(*number)).map(|number| number.to_string()).collect();
    }
    entry.words.iter().map(|word| (*word).to_owned()).collect()
}

/// Why the library would not take this value.
fn refusal(entry: &Entry, value: &[u8]) -> Option<String> {
    let mut options = Options::DEFAULT;
    let error = options.set(entry.name.as_bytes(), value).err()?;
    let mut text = String::new();
    let described = error.describe("--", entry.name.as_bytes(), value, &mut text);
    described.expect("writing to a String does not fail");
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Vec<(String, OsString)>, String> {
        let command = Command::new("x").args(super::arguments()).no_binary_name(true);
        match command.try_get_matches_from(arguments) {
            Ok(matches) => Ok(variables(&matches)),
            Err(error) => Err(spelled_as_in_the_help(error).to_string()),
        }
    }

    #[test]
    fn arguments_become_variables() {
        let variable = |name: &str, value: &str| (name.to_owned(), OsString::from(value));
        assert_eq!(parse(&[]), Ok(vec![]));
        assert_eq!(parse(&["--max-heap=1GiB"]), Ok(vec![variable("NEAP_MAX_HEAP", "1GiB")]));
        assert_eq!(parse(&["--max_heap=1GiB"]), Ok(vec![variable("NEAP_MAX_HEAP", "1GiB")]));
        assert_eq!(parse(&["--max-heap", "1.5GiB"]), Ok(vec![variable("NEAP_MAX_HEAP", "1.5GiB")]));
        assert_eq!(parse(&["--past-end"]), Ok(vec![variable("NEAP_PAST_END", "true")]));
        assert_eq!(parse(&["--past-end=no"]), Ok(vec![variable("NEAP_PAST_END", "no")]));
        assert_eq!(parse(&["--check=1", "--check=2"]), Ok(vec![variable("NEAP_CHECK", "2")]));
    }

    #[test]
    fn bad_values_are_refused_with_what_would_be_right() {
        let error = parse(&["--growth=0"]).unwrap_err();
        assert!(error.contains("--growth=0: want a number from 0.05 to 100"), "{error}");
        let error = parse(&["--decay=100\u{b5}"]).unwrap_err();
        assert!(error.contains("--decay=100\u{b5}: want milliseconds"), "{error}");
        let error = parse(&["--min-trigger=x"]).unwrap_err();
        assert!(error.contains("--min-trigger=x: want"), "{error}");
        assert!(parse(&["--grwoth=1"]).unwrap_err().contains("--growth"));
        let error = parse(&["--maxheap=1GiB"]).unwrap_err();
        assert!(error.contains("'--max-heap'"), "{error}");
    }

    #[test]
    fn a_word_chooses_options() {
        let text = super::text(Some("Max-Heap")).unwrap();
        assert!(text.contains("\nmax_heap ") && !text.contains("\ngrowth "), "{text}");
        let refused = super::text(Some("no such thing")).unwrap_err().to_string();
        assert!(refused.contains("\"no such thing\""), "{refused}");
    }

    #[test]
    fn units_are_explained_by_values_that_are_taken() {
        let text = super::text(Some("units")).unwrap();
        for (kinds, _, examples) in UNITS {
            for entry in TABLE.iter().filter(|entry| kinds.split(", ").any(|x| x == entry.kind)) {
                for example in examples {
                    assert_eq!(refusal(entry, example.as_bytes()), None);
                    assert!(text.contains(example), "{text}");
                }
            }
        }
        assert!(super::text(Some("\u{b5}s")).unwrap().contains("100us"));
        assert!(!super::text(Some("watch")).unwrap().contains("100us"));
    }

    #[test]
    fn values_are_offered_where_they_are_known() {
        let offered = |name: &str| super::offered(Entry::find(name.as_bytes()).unwrap());
        assert_eq!(
            offered("watch"),
            ["none", "auto", "pagemap", "fork", "mprotect", "snapshot"].map(str::to_owned)
        );
        assert_eq!(offered("check"), ["0", "1", "2", "3"]);
        assert_eq!(offered("past_end"), ["true", "false"]);
        assert_eq!(offered("max_heap"), ["cgroup", "none"]);
        assert_eq!(offered("markers"), [""; 0]);
    }

    #[test]
    fn every_option_is_printed() {
        let text = text(None).unwrap();
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        for entry in TABLE {
            assert!(text.contains(&format!("\n{} ", entry.name)), "{}", entry.name);
        }
    }
}
