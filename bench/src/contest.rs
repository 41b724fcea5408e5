//! Runs an experiment: contestants in turn, every result checked, numbers collected.
//!
//! Invariant: a sample is kept only if the program ended well, said `ok`, ran on the library it was
//! meant for, and printed what its peer printed. A contestant that fails once does not run again.
//! Main thread; one program at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::experiment::{Contestant, Experiment, Library};
use crate::process::{Invocation, Outcome};
use crate::record::{ContestantRecord, Sample};

/// Where things are and how often to run them.
pub struct Setting {
    /// The repository.
    pub root: PathBuf,
    /// The folder with our `libgc.so.1`.
    pub neap: PathBuf,
    /// Turns.
    pub runs: usize,
    /// The longest one run may take.
    pub limit: Duration,
    /// Libraries that cannot take part, and why.
    pub unavailable: BTreeMap<&'static str, String>,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Asked {
    /// Nothing but what is measured.
    Nothing,
    /// That, and Neap's summary.
    Along,
    /// The summary alone.
    Alone,
}

/// Runs all contestants in turn, `setting.runs` times.
pub fn hold(
    experiment: &Experiment,
    setting: &Setting,
    progress: &mut dyn FnMut(&str),
) -> Vec<ContestantRecord> {
    let mut records: Vec<ContestantRecord> =
        experiment.contestants.iter().map(|contestant| enlist(contestant, setting)).collect();
    let mut outputs: Vec<Option<String>> = vec![None; records.len()];
    for turn in 1..=setting.runs {
        for (index, contestant) in experiment.contestants.iter().enumerate() {
            let apart = experiment.turns_apart(contestant, setting.runs);
            let asked = if apart == 0 { Asked::Along } else { Asked::Nothing };
            let further = (turn <= apart).then_some(Asked::Alone);
            for asked in [asked].into_iter().chain(further) {
                if records[index].failure.is_some() {
                    continue;
                }
                let run = invocation(contestant, setting, asked);
                let result = run.run(setting.limit).and_then(|outcome| {
                    check_library(contestant, setting, asked, &outcome)?;
                    check_output(experiment, contestant, &records, &outputs, &outcome.output)?;
                    Ok(outcome)
                });
                let name = match asked {
                    Asked::Alone => format!("{}, asked for a summary", contestant.label),
                    _ => contestant.label.clone(),
                };
                let who = format!("{} {turn}/{}: {}", experiment.name, setting.runs, name);
                match result {
                    Ok(outcome) => {
                        progress(&format!("{who}: {:.2} s", outcome.wall_seconds));
                        records[index].version =
                            version(contestant, &outcome).or(records[index].version.take());
                        records[index].samples.push(sample(contestant, asked, &outcome));
                        outputs[index] = Some(outcome.output);
                    }
                    Err(failure) => {
                        progress(&format!("{who} FAILED: {failure}"));
                        records[index].failure = Some(failure);
                    }
                }
            }
        }
    }
    records
}

/// A record without samples; clients are built here, before anything is measured.
fn enlist(contestant: &Contestant, setting: &Setting) -> ContestantRecord {
    let mut failure = setting.unavailable.get(contestant.library.name()).cloned();
    if failure.is_none() && is_client(contestant) {
        let mut build = invocation(contestant, setting, Asked::Nothing);
        build.arguments = vec!["--build".to_owned()];
        build.environment.clear();
        failure = build.run(setting.limit).err();
    }
    ContestantRecord {
        label: contestant.label.clone(),
        library: contestant.library,
        version: None,
        command: std::iter::once(contestant.program.clone())
            .chain(contestant.arguments.clone())
            .collect(),
        environment: contestant.environment.clone(),
        samples: Vec::new(),
        failure,
    }
}

fn is_client(contestant: &Contestant) -> bool {
    contestant.program.contains('/')
}

/// How to start a contestant: the surroundings decide the library.
fn invocation(contestant: &Contestant, setting: &Setting, asked: Asked) -> Invocation {
    let folder =
        if is_client(contestant) { setting.root.clone() } else { setting.root.join("build/bench") };
    let mut environment: BTreeMap<String, _> = contestant
        .environment
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect();
    if contestant.library == Library::Neap {
        // Clients may load libgc by dlopen or through a launcher: `neap run`, where there is one
        // beside the library, knows how to reach them.
        let launcher = setting.neap.join("../../bin/neap");
        if is_client(contestant) && launcher.is_file() {
            environment.insert(
                "CLIENT_NEAP".to_owned(),
                launcher.canonicalize().unwrap_or(launcher).into_os_string(),
            );
        } else {
            environment.insert("LD_LIBRARY_PATH".to_owned(), setting.neap.clone().into_os_string());
        }
    }
    Invocation {
        program: folder.join(&contestant.program),
        arguments: contestant.arguments.clone(),
        environment,
        keep_neap_variables: contestant.library.is_neap(),
        summary: asked != Asked::Nothing,
    }
}

/// A ratio of a library to itself looks fine and says nothing, so a program on the wrong library
/// fails.
fn check_library(
    contestant: &Contestant,
    setting: &Setting,
    asked: Asked,
    outcome: &Outcome,
) -> Result<(), String> {
    let ours_is_neap = is_neap_library(&setting.neap);
    if is_client(contestant) {
        // Clients do not say which library they ran on, but only Neap writes a summary.
        return match (contestant.library, outcome.summary.is_some()) {
            (Library::Neap, false) if ours_is_neap && asked != Asked::Nothing => {
                Err("it left no NEAP_SUMMARY, so it did not run on Neap".to_owned())
            }
            (Library::Libgc, true) => {
                Err("it left a NEAP_SUMMARY, so it ran on Neap instead of its peer".to_owned())
            }
            _ => Ok(()),
        };
    }
    let line = outcome.line.as_ref().ok_or("it printed no line of JSON")?;
    if line.get("ok") != Some(&Value::Bool(true)) {
        return Err(format!("its check of the result failed: {line}"));
    }
    let Some(path) = line.get("library").and_then(Value::as_str).map(Path::new) else {
        return Ok(());
    };
    let inside = path.starts_with(&setting.neap);
    match contestant.library {
        Library::Neap if !inside => Err(format!(
            "it ran on {} instead of the library in {}",
            path.display(),
            setting.neap.display()
        )),
        Library::Libgc if inside && ours_is_neap => {
            Err(format!("it ran on {}, not on the peer", path.display()))
        }
        _ => Ok(()),
    }
}

/// Whether the folder given as ours lies in a build of Neap; it does not when libgc is measured
/// against itself to see the noise.
fn is_neap_library(folder: &Path) -> bool {
    folder.ends_with("lib/neap")
}

/// Real clients print their results: the same each time, and the same on both libraries.
fn check_output(
    experiment: &Experiment,
    contestant: &Contestant,
    records: &[ContestantRecord],
    outputs: &[Option<String>],
    output: &str,
) -> Result<(), String> {
    let partners = experiment.same_output.iter().filter_map(|(left, right)| {
        (*left == contestant.label || *right == contestant.label).then_some([left, right])
    });
    for label in partners.flatten() {
        let earlier = records
            .iter()
            .position(|record| record.label == *label)
            .and_then(|index| outputs[index].as_deref());
        if earlier.is_some_and(|earlier| earlier != output) {
            return Err(format!("its output differs from that of {label}"));
        }
    }
    Ok(())
}

/// The numbers of one run: those of the program's line, and what we and the library measured. What
/// the library sums up is of the runs in which it was asked to.
fn sample(contestant: &Contestant, asked: Asked, outcome: &Outcome) -> Sample {
    let mut sample = all_numbers(contestant, outcome);
    if asked != Asked::Along {
        let of_summary = |name: &str| {
            ["longest_pause_ms", "collections", "untold_stop_ms"].contains(&name)
                || name.starts_with("summary.")
        };
        sample.retain(|name, _| of_summary(name) == (asked == Asked::Alone));
    }
    sample
}

fn all_numbers(contestant: &Contestant, outcome: &Outcome) -> Sample {
    let mut sample = Sample::new();
    if let Some(line) = &outcome.line {
        flatten("", line, &mut sample);
    }
    if let Some(longest) = sample.get("longest_stop_ms").copied() {
        sample.insert("longest_pause_ms".to_owned(), longest);
    }
    if contestant.library.is_neap()
        && let Some(summary) = &outcome.summary
    {
        // The library times its own stops more closely than events can.
        let mut own = Sample::new();
        flatten("", summary, &mut own);
        for (name, field) in [("longest_pause_ms", "pauses_ms.max"), ("collections", "cycles")] {
            if let Some(value) = own.get(field) {
                sample.insert(name.to_owned(), *value);
            }
        }
        if let Some((seen, told)) = sample.get("longest_in_stop_ms").zip(own.get("pauses_ms.max")) {
            sample.insert("untold_stop_ms".to_owned(), (seen - told).max(0.0));
        }
        sample.extend(own.into_iter().map(|(name, value)| (format!("summary.{name}"), value)));
    }
    sample.insert("wall_seconds".to_owned(), outcome.wall_seconds);
    let processor_seconds = outcome.user_seconds + outcome.system_seconds;
    sample.insert("processor_seconds".to_owned(), processor_seconds);
    sample.insert("user_seconds".to_owned(), outcome.user_seconds);
    sample.insert("system_seconds".to_owned(), outcome.system_seconds);
    sample.insert("peak_mb".to_owned(), outcome.peak_mb);
    if let Some(others) = outcome.other_processors {
        sample.insert("other_processors".to_owned(), others);
    }
    sample
}

fn flatten(prefix: &str, value: &Value, sample: &mut Sample) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, sample);
            }
        }
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                sample.insert(prefix.to_owned(), number);
            }
        }
        _ => {}
    }
}

/// The version that the library itself names; the drop-in names the libgc version it stands for, so
/// for Neap the summary counts.
fn version(contestant: &Contestant, outcome: &Outcome) -> Option<String> {
    let (source, field) = if contestant.library.is_neap() {
        (&outcome.summary, "version")
    } else {
        (&outcome.line, "library_version")
    };
    source.as_ref()?.get(field)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Draw, Figure, Metric};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A repository in a temporary folder whose programs are shell scripts.
    struct Stage {
        folder: tempfile::TempDir,
    }

    impl Stage {
        fn new(programs: &[(&str, &str)]) -> Self {
            let stage = Self { folder: tempfile::tempdir().expect("a folder") };
            for (name, script) in programs {
                let path = match name.contains('/') {
                    true => stage.folder.path().join(name),
                    false => stage.folder.path().join("build/bench").join(name),
                };
                fs::create_dir_all(path.parent().expect("a parent")).expect("made");
                fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
            }
            stage
        }

        fn setting(&self) -> Setting {
            Setting {
                root: self.folder.path().to_owned(),
                neap: self.folder.path().join("build/lib/neap"),
                runs: 2,
                limit: Duration::from_secs(20),
                unavailable: BTreeMap::new(),
            }
        }

        fn hold(&self, contestants: Vec<Contestant>) -> (Vec<ContestantRecord>, Vec<String>) {
            let same_output = contestants
                .windows(2)
                .map(|pair| (pair[0].label.clone(), pair[1].label.clone()))
                .collect();
            let experiment =
                Experiment { name: "x".to_owned(), contestants, figures: Vec::new(), same_output };
            let mut said = Vec::new();
            let records =
                hold(&experiment, &self.setting(), &mut |line| said.push(line.to_owned()));
            (records, said)
        }
    }

    fn contestant(label: &str, library: Library, program: &str) -> Contestant {
        let program = program.to_owned();
        Contestant {
            label: label.to_owned(),
            library,
            program,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
        }
    }

    const BOTH: &str = r#"if [ -n "$LD_LIBRARY_PATH" ] && [ -n "$NEAP_SUMMARY" ]; then
        echo '{"version": "0.1.0", "cycles": 9, "pauses_ms": {"max": 0.25}}' > "$NEAP_SUMMARY"; fi
        echo "{\"n\": {\"m\": 2}, \"longest_stop_ms\": 3, \"collections\": 1, \"library\": \"${LD_LIBRARY_PATH:-/usr/lib}/libgc.so.1\", \"ok\": true}""#;

    fn pair(program: &str) -> Vec<Contestant> {
        vec![
            contestant("libgc", Library::Libgc, program),
            contestant("neap", Library::Neap, program),
        ]
    }

    fn of_both(figures: Vec<Figure>) -> Experiment {
        let name = "x".to_owned();
        Experiment { name, contestants: pair("both"), figures, same_output: Vec::new() }
    }

    #[test]
    fn turns_alternate_and_numbers_are_collected() {
        let stage = Stage::new(&[("both", BOTH)]);
        let experiment = of_both(Vec::new());
        let mut said = Vec::new();
        let records = hold(&experiment, &stage.setting(), &mut |line| said.push(line.to_owned()));
        let order: Vec<&str> =
            said.iter().map(|line| line.split(": ").nth(1).expect("a label")).collect();
        assert_eq!(order, ["libgc", "neap", "libgc", "neap"]);
        assert_eq!((records[0].samples.len(), records[1].samples.len()), (2, 2));
        let (peer, ours) = (&records[0].samples[0], &records[1].samples[0]);
        assert_eq!((peer["n.m"], peer["longest_pause_ms"], peer["collections"]), (2.0, 3.0, 1.0));
        assert_eq!(
            (ours["longest_pause_ms"], ours["collections"], ours["summary.pauses_ms.max"]),
            (0.25, 9.0, 0.25)
        );
        assert!(ours["wall_seconds"] > 0.0 && ours["peak_mb"] > 0.0);
        assert_eq!(records[1].version.as_deref(), Some("0.1.0"));
    }

    #[test]
    fn a_summary_is_no_part_of_the_time_of_a_program() {
        let stage = Stage::new(&[("both", BOTH)]);
        let figure = Figure {
            what: "x".to_owned(),
            metric: Metric::WallSeconds,
            draw: Draw::One { ours: "neap".to_owned(), peer: Some("libgc".to_owned()) },
            bar: None,
        };
        let records = hold(&of_both(vec![figure]), &stage.setting(), &mut |_| ());
        assert_eq!((records[0].samples.len(), records[1].samples.len()), (2, 3));
        let [first, told, second] = &records[1].samples[..] else { panic!("{records:?}") };
        for measured in [first, second] {
            assert!(measured["wall_seconds"] > 0.0 && measured["n.m"] == 2.0, "{measured:?}");
            assert!(!measured.contains_key("longest_pause_ms"), "{measured:?}");
            assert!(!measured.keys().any(|name| name.starts_with("summary.")), "{measured:?}");
        }
        assert_eq!((told["longest_pause_ms"], told["collections"]), (0.25, 9.0));
        assert!(!told.contains_key("wall_seconds") && !told.contains_key("n.m"), "{told:?}");
        assert_eq!(records[1].version.as_deref(), Some("0.1.0"));
    }

    #[test]
    fn the_wrong_library_a_wrong_result_and_a_crash_are_failures() {
        let stage = Stage::new(&[
            ("system", r#"echo '{"library": "/usr/lib/libgc.so.1", "ok": true}'"#),
            ("wrong", r#"echo '{"ok": false}'"#),
            ("silent", "true"),
            ("crash", "kill -ABRT $$"),
        ]);
        let table = [
            ("system", "instead of the library"),
            ("wrong", "check of the result"),
            ("silent", "no line"),
            ("crash", "signal: 6"),
        ];
        for (program, part) in table {
            let (records, said) = stage.hold(vec![contestant("neap", Library::Neap, program)]);
            assert!(
                records[0].failure.as_ref().is_some_and(|failure| failure.contains(part)),
                "{program}: {records:?}"
            );
            assert!(records[0].samples.is_empty());
            assert_eq!(said.len(), 1, "a failure is not repeated");
        }
    }

    #[test]
    fn clients_are_built_first_and_must_agree() {
        let script = r#"[ "$1" = --build ] && { touch built; exit 0; }
            [ -e built ] || exit 1
            [ -z "$LD_LIBRARY_PATH" ] || echo '{"cycles": 1}' > "$NEAP_SUMMARY""#;
        let same = format!("cd \"$(dirname \"$0\")\"\n{script}\necho result");
        let differs =
            format!("cd \"$(dirname \"$0\")\"\n{script}\necho \"result $LD_LIBRARY_PATH\"");
        let stage = Stage::new(&[
            ("tests/clients/same/run", &same),
            ("tests/clients/differs/run", &differs),
        ]);
        let (records, _) = stage.hold(pair("tests/clients/same/run"));
        assert!(
            records.iter().all(|record| record.failure.is_none() && record.samples.len() == 2),
            "{records:?}"
        );
        let (records, _) = stage.hold(pair("tests/clients/differs/run"));
        assert_eq!(records[1].failure.as_deref(), Some("its output differs from that of libgc"));
    }

    #[test]
    fn a_client_that_did_not_reach_neap_fails() {
        let stage = Stage::new(&[("tests/clients/plain/run", "echo result")]);
        let (records, _) = stage.hold(pair("tests/clients/plain/run"));
        assert_eq!(records[0].failure, None);
        assert!(
            records[1]
                .failure
                .as_ref()
                .is_some_and(|failure| failure.contains("did not run on Neap")),
            "{records:?}"
        );
    }

    #[test]
    fn who_cannot_take_part_says_why() {
        let stage = Stage::new(&[("both", BOTH)]);
        let mut setting = stage.setting();
        setting.unavailable.insert(Library::Mimalloc.name(), "not installed".to_owned());
        let contestants = vec![contestant("mimalloc", Library::Mimalloc, "both")];
        let experiment = Experiment {
            name: "x".to_owned(),
            contestants,
            figures: Vec::new(),
            same_output: Vec::new(),
        };
        let records = hold(&experiment, &setting, &mut |_| panic!("nothing runs"));
        assert_eq!(records[0].failure.as_deref(), Some("not installed"));
    }
}
