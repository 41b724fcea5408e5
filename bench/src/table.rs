//! Prints a record as tables: aligned for a terminal, or Markdown for docs/benchmarks.md.
//!
//! Pure: text in, text out. Invariant: both forms have the same rows and columns. Called by `main`.

use crate::experiment::{Bar, Metric};
use crate::grid::Grid;
use crate::machine::Machine;
use crate::record::{ContestantRecord, ExperimentRecord, Record, Row};
use crate::statistics::{largest, median};

/// More processors than this busy with something else, and figures are worth less.
const DISTURBED: f64 = 0.1;
const BEGIN: &str = "<!-- results begin: written by `make bench`, not by hand -->";
const END: &str = "<!-- results end -->";

/// The tables for a terminal: ratios, then what each program needed.
pub fn plain(record: &Record) -> String {
    let head = head(record).join("\n");
    format!("{head}\n\n{}\n{}", ratios(record).plain(), programs(record).plain())
}

/// The same in Markdown.
pub fn markdown(record: &Record) -> String {
    let head = head(record).join("  \n");
    format!("{head}\n\n{}\n{}", ratios(record).markdown(), programs(record).markdown())
}

/// `document` with the Markdown between its two marks replaced by that of `record`.
pub fn into_document(document: &str, record: &Record) -> Result<String, String> {
    between_marks(document, &markdown(record))
}

/// `document` with what is between its two marks replaced by `text`.
pub fn between_marks(document: &str, text: &str) -> Result<String, String> {
    let missing =
        || format!("the document lacks the lines '{BEGIN}' and '{END}', between which results go");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{text}{END}{after}"))
}

fn head(record: &Record) -> Vec<String> {
    let Record { date, machine, quick, experiments } = record;
    let mut head = vec![format!("{date} (UTC). {}.", Machine::line(machine))];
    if *quick {
        head.push(
            "Quick: small sizes. These figures show that everything runs, and nothing else."
                .to_owned(),
        );
    }
    let runs = experiments
        .iter()
        .flat_map(|experiment| &experiment.rows)
        .map(|row| row.runs)
        .filter(|runs| *runs > 0)
        .min();
    if let Some(runs) = runs {
        let plural = if runs == 1 { "" } else { "s" };
        let few =
            if runs < 5 { ": fewer than the 5 that a figure for the record needs" } else { "" };
        head.push(format!("Medians of at least {runs} run{plural}{few}."));
    }
    let disturbed: Vec<String> = experiments
        .iter()
        .filter_map(|experiment| Some((experiment, others(experiment)?)))
        .filter(|(_, others)| *others > DISTURBED)
        .map(|(experiment, others)| format!("{} ({others:.1})", experiment.name))
        .collect();
    if !disturbed.is_empty() {
        let names = disturbed.join(", ");
        head.push(format!(
            "Disturbed: processors that other programs kept busy meanwhile: {names}."
        ));
    }
    let variables: std::collections::BTreeSet<String> = experiments
        .iter()
        .flat_map(|experiment| &experiment.neap_variables)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if !variables.is_empty() {
        head.push(format!(
            "Set by the caller: {}.",
            variables.into_iter().collect::<Vec<_>>().join(" ")
        ));
    }
    let failed = experiments
        .iter()
        .flat_map(|experiment| &experiment.rows)
        .filter(|row| !row.is_complete())
        .count();
    let barred = || {
        experiments.iter().flat_map(|experiment| &experiment.rows).filter(|row| row.bar.is_some())
    };
    let met = barred().filter(|row| row.met == Some(true)).count();
    let missing = match failed {
        0 => String::new(),
        1 => "; 1 row has no figure".to_owned(),
        failed => format!("; {failed} rows have no figure"),
    };
    head.push(format!("{met} of {} bars met{missing}.", barred().count()));
    head
}

/// Processors that others kept busy while an experiment ran: the contestant that fared worst, by
/// its median.
fn others(experiment: &ExperimentRecord) -> Option<f64> {
    let of = |contestant: &ContestantRecord| {
        let values: Vec<f64> = contestant
            .samples
            .iter()
            .filter_map(|sample| sample.get("other_processors").copied())
            .collect();
        median(&values)
    };
    let medians: Vec<f64> = experiment.contestants.iter().filter_map(of).collect();
    largest(&medians)
}

fn ratios(record: &Record) -> Grid<9> {
    let columns = [
        ("what", false),
        ("peer", false),
        ("peer's", true),
        ("ours", true),
        ("ratio", true),
        ("bar", true),
        ("met?", false),
        ("spread", true),
        ("note", false),
    ];
    let rows = record.experiments.iter().flat_map(|experiment| &experiment.rows);
    Grid { columns, rows: rows.map(row_cells).collect() }
}

fn programs(record: &Record) -> Grid<9> {
    let columns = [
        ("experiment", false),
        ("program", false),
        ("runs", true),
        ("wall s", true),
        ("user s", true),
        ("system s", true),
        ("peak MB", true),
        ("collections", true),
        ("longest pause ms", true),
    ];
    let mut rows = Vec::new();
    for experiment in &record.experiments {
        rows.extend(
            experiment
                .contestants
                .iter()
                .map(|contestant| program_cells(&experiment.name, contestant)),
        );
    }
    Grid { columns, rows }
}

fn program_cells(experiment: &str, contestant: &ContestantRecord) -> [String; 9] {
    let middle = |field: &str| {
        let values: Vec<f64> =
            contestant.samples.iter().filter_map(|sample| sample.get(field).copied()).collect();
        median(&values).map_or_else(|| "–".to_owned(), three_digits)
    };
    // Without those in which it was only asked for a summary.
    let runs = contestant.samples.iter().filter(|sample| sample.contains_key("wall_seconds"));
    [
        experiment.to_owned(),
        contestant.label.clone(),
        runs.count().to_string(),
        middle("wall_seconds"),
        middle("user_seconds"),
        middle("system_seconds"),
        middle("peak_mb"),
        middle("collections"),
        middle("longest_pause_ms"),
    ]
}

fn row_cells(row: &Row) -> [String; 9] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let value = |value: Option<f64>| or_dash(value.map(|value| with_unit(value, row.metric)));
    [
        row.what.clone(),
        or_dash(row.peer_name.clone()),
        value(row.peer),
        value(row.ours),
        or_dash(row.ratio.map(three_digits)),
        or_dash(row.bar.map(|bar| bar_text(bar, row.metric))),
        or_dash(row.met.map(|met| if met { "yes" } else { "NO" }.to_owned())),
        or_dash(row.spread.map(|spread| format!("{:.0} %", spread * 100.0))),
        row.note.clone().unwrap_or_default().lines().next().unwrap_or_default().to_owned(),
    ]
}

/// A bar as tables show it.
pub fn bar_text(bar: Bar, metric: Metric) -> String {
    match bar {
        Bar::AtMost(bar) => format!("≤ {bar}"),
        Bar::AtLeast(bar) => format!("≥ {bar}"),
        Bar::ValueAtMost(bar) => format!("≤ {bar} {}", metric.unit()).trim_end().to_owned(),
        Bar::ValueAtLeast(bar) => format!("≥ {bar} {}", metric.unit()).trim_end().to_owned(),
    }
}

fn with_unit(value: f64, metric: Metric) -> String {
    format!("{} {}", three_digits(value), metric.unit())
}

/// Three significant digits, and never fewer than the digits before the point.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::example;

    #[test]
    fn digits_by_table() {
        let table = [
            (7.6123, "7.61"),
            (0.4499, "0.450"),
            (12345.6, "12346"),
            (99.94, "99.9"),
            (0.00123, "0.00123"),
            (0.0, "0"),
            (256.4, "256"),
        ];
        for (value, text) in table {
            assert_eq!(three_digits(value), text);
        }
    }

    #[test]
    fn plain_table_is_aligned_and_complete() {
        let text = plain(&example());
        let lines: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("what"))
            .take_while(|line| !line.is_empty())
            .collect();
        assert_eq!(lines.len(), 4, "{text}");
        let column =
            |line: &str, what: &str| line.find(what).map(|bytes| line[..bytes].chars().count());
        assert_eq!(column(lines[0], "peer "), column(lines[1], "libgc"));
        assert!(
            lines[1].contains("3.80 s")
                && lines[1].contains("0.500")
                && lines[1].contains("NO")
                && lines[1].contains("≤ 0.45"),
            "{text}"
        );
        assert!(lines[2].contains("yes") && lines[2].contains("3 %"), "{text}");
        assert!(lines[3].contains('–') && lines[3].ends_with("it crashed"), "{text}");
        assert!(text.starts_with("2026-01-31 (UTC). Example 1, 2 cores"), "{text}");
        assert!(text.contains("1 of 3 bars met; 1 row has no figure."), "{text}");
    }

    #[test]
    fn programs_are_listed_with_their_medians() {
        let text = plain(&example());
        let line =
            text.lines().find(|line| line.starts_with("one ")).expect("a line for the program");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["one", "neap", "3", "2.00", "–", "–", "10.0", "–", "0.250"]);
    }

    #[test]
    fn few_runs_busy_machine_and_variables_are_said() {
        let mut record = example();
        assert!(!plain(&record).contains("fewer than") && !plain(&record).contains("Disturbed"));
        record.quick = true;
        record.experiments[0].rows[0].runs = 1;
        for sample in &mut record.experiments[0].contestants[0].samples {
            sample.insert("other_processors".to_owned(), 0.8);
        }
        record.experiments[0].neap_variables.insert("NEAP_WATCH".to_owned(), "none".to_owned());
        let text = plain(&record);
        for part in ["fewer than the 5", "Quick", "one (0.8)", "NEAP_WATCH=none"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn markdown_has_the_same_rows() {
        let mut record = example();
        record.experiments[0].rows[0].what = "a|b".to_owned();
        let text = markdown(&record);
        let rows: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'))
            .collect();
        assert_eq!(rows.len(), 2 + 3);
        assert!(
            rows[2].starts_with(
                "| a\\|b | libgc 8.2.2 | 7.60 s | 3.80 s | 0.500 | ≤ 0.45 | NO | 3 % |"
            ),
            "{}",
            rows[2]
        );
        assert!(rows.iter().all(|row| row.replace("\\|", "").matches('|').count() == 10), "{text}");
    }

    #[test]
    fn results_go_between_the_marks() {
        let document = format!("# Title\n\n{BEGIN}\nold\n{END}\nafter\n");
        let once = into_document(&document, &example()).expect("has marks");
        assert!(
            once.starts_with("# Title\n")
                && once.ends_with("after\n")
                && !once.contains("old")
                && once.contains("| first")
        );
        assert_eq!(into_document(&once, &example()).expect("has marks"), once);
        assert!(
            into_document("# Title\n", &example()).expect_err("has none").contains("results begin")
        );
    }
}
