//! `boehm`: docs/boehm-interface.md, the table of all that libgc's headers and documents offer,
//! from `crates/neap-bdw/symbols.txt` and the tests that name each entry.
//!
//! Invariant: an entry stands in the list once, what the drop-in's source exports stands in it, and
//! what stands in it as exported is in the source. That the built library agrees is checked by
//! `tests/bdw/run.sh`. Called by `main`.

use crate::document;
use crate::tree::{Finding, Outcome, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const LIST: &str = "crates/neap-bdw/symbols.txt";
const PATH: &str = "docs/boehm-interface.md";
const SOURCE: &str = "crates/neap-bdw/src";
/// Where the macros are that export libc's functions.
const CORE: &str = "crates/neap-core/src/runtime/interposed";
const TESTS: &str = "tests/bdw";
/// Entries that may do nothing without a test that notices.
const UNNOTICED: &str = "tests/bdw/unnoticed.txt";
/// Tests of `libneap`, which stands before libc's functions by the same code.
const TESTS_OF_LIBC: &str = "tests/c";

/// The kinds of entries as the list has them, and what the document calls them.
const KINDS: [(&str, &str); 5] = [
    ("function", "Functions"),
    ("data", "Variables"),
    ("environment", "Environment variables"),
    ("macro", "Macros"),
    ("libc", "Functions of libc that the library stands before"),
];
const AS_DOCUMENTED: &str = "as documented";

/// A line of the list.
struct Entry<'t> {
    line: usize,
    kind: &'t str,
    name: &'t str,
    effect: &'t str,
}

/// Writes the document.
pub fn write(tree: &Tree) -> Outcome {
    document::write(tree, PATH, &text(tree)?)
}

/// Whether the list, the source and the document agree.
pub fn check(tree: &Tree) -> Outcome {
    let list = tree.read_if_any(LIST)?;
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    let mut words = BTreeSet::new();
    let mut exported = BTreeSet::new();
    for file in tree.files(SOURCE, &[".rs", ".c"])?.into_iter().chain(tree.files(CORE, &[".rs"])?) {
        words.extend(words_of(&file.text).map(str::to_owned));
        exported.extend(exports_of(&file.text).map(str::to_owned));
    }
    let mut known = BTreeMap::new();
    for entry in entries(&list) {
        let title = KINDS.iter().find(|(kind, _)| *kind == entry.kind);
        if title.is_none() {
            findings.push(Finding::line(LIST, entry.line, "begins with no kind of entry"));
        }
        if known.insert((entry.kind == "macro", entry.name), entry.line).is_some() {
            findings.push(Finding::line(LIST, entry.line, "stands here twice"));
        }
        if entry.kind != "macro" && entry.effect == AS_DOCUMENTED && !words.contains(entry.name) {
            let message = format!("{} is not in {SOURCE}: say what becomes of it", entry.name);
            findings.push(Finding::line(LIST, entry.line, message));
        }
    }
    for name in exported.iter().filter(|name| !known.contains_key(&(false, name.as_str()))) {
        findings.push(Finding::file(LIST, format!("{name} is exported and has no line")));
    }
    findings.extend(document::check(tree, PATH, &text(tree)?, "boehm")?);
    Ok(findings)
}

fn entries(list: &str) -> impl Iterator<Item = Entry<'_>> {
    list.lines().enumerate().filter(|(_, line)| !line.starts_with('#')).filter_map(|(at, line)| {
        let (entry, effect) = line.split_once(": ").unwrap_or((line, AS_DOCUMENTED));
        let (kind, name) = entry.split_once(' ')?;
        Some(Entry { line: at + 1, kind, name, effect })
    })
}

/// Everything in a text that may be a name.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .filter(|word| !word.is_empty())
}

/// Names of functions that a Rust file exports in plain sight.
fn exports_of(text: &str) -> impl Iterator<Item = &str> {
    text.split("pub extern \"C\" fn ").skip(1).filter_map(|rest| {
        words_of(rest).next().filter(|name| name.starts_with("GC_") && !rest.starts_with('$'))
    })
}

/// Names of those that a test could notice.
fn gaps(unnoticed: &str) -> impl Iterator<Item = &str> {
    unnoticed.lines().filter_map(|line| {
        let (entry, reason) = line.split_once(": ")?;
        if reason.starts_with("gap") { entry.split(' ').next() } else { None }
    })
}

fn text(tree: &Tree) -> Result<String, String> {
    let list = tree.read_if_any(LIST)?;
    let libc: BTreeSet<&str> =
        entries(&list).filter(|entry| entry.kind == "libc").map(|entry| entry.name).collect();
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let programs: &[&str] = &[".c", ".cc", ".cpp", ".h"];
    let scripts: &[&str] = &[".c", ".cc", ".cpp", ".h", ".sh"];
    for (folder, shown, endings) in [(TESTS, "", scripts), (TESTS_OF_LIBC, "c/", programs)] {
        for file in tree.files(folder, endings)? {
            let test = file.path.rsplit('/').next().unwrap_or_default();
            for word in words_of(&file.text) {
                if folder == TESTS || libc.contains(word) {
                    tests.entry(word.to_owned()).or_default().insert(format!("{shown}{test}"));
                }
            }
        }
    }
    let unnoticed = tree.read_if_any(UNNOTICED)?;
    let gaps: BTreeSet<&str> = gaps(&unnoticed).collect();
    let untested = entries(&list).filter(|entry| !tests.contains_key(entry.name)).count();
    let mut out = format!(
        "# Boehm's interface, entry by entry\n\n\
         <!-- Generated by `cargo xtask boehm` from crates/neap-bdw/symbols.txt and tests/bdw. \
         -->\n\n\
         What a program, its user or its compiler may name of libgc, what it does here,\n\
         and the tests in `tests/bdw`, or `tests/c` for libc's functions, that name it. *As \
         documented* is what `gc.h`, its sister\n\
         headers and libgc's own documents say; [boehm.md](boehm.md) says where that leaves\n\
         something open. Of {} entries\n\
         {untested} are named by no test there: these rows end in a dash. A star: the tests would\n\
         pass if it did nothing, or if a setting were only kept.\n",
        entries(&list).count()
    );
    for (kind, title) in KINDS {
        let _ = write!(out, "\n## {title}\n\n| name | effect | tests |\n| --- | --- | --- |\n");
        for entry in entries(&list).filter(|entry| entry.kind == kind) {
            let named = tests.get(entry.name).map_or("–".to_owned(), |tests| {
                tests.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
            });
            let star = if gaps.contains(entry.name) { " *" } else { "" };
            let _ = writeln!(out, "| `{}` | {} | {named}{star} |", entry.name, entry.effect);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::sample;

    const SHOWN: (&str, &str) = (
        "crates/neap-bdw/src/a.rs",
        "#[unsafe(no_mangle)]\npub extern \"C\" fn GC_one() {}\nstatic GC_two: i32 = 0;\n",
    );

    fn findings(list: &str) -> Vec<String> {
        let tree = sample(&[SHOWN, (LIST, list), ("tests/bdw/t.c", "GC_one();")]);
        write(&tree.tree).unwrap();
        check(&tree.tree).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_list_the_source_and_the_document_agree() {
        let list = "# a comment\nfunction GC_one\ndata GC_two: kept; for a reason\nmacro GC_TWO\n";
        assert!(findings(list).is_empty());
        let unnoticed = (UNNOTICED, "# why\nGC_one empty: gap\nGC_two apart: a constant\n");
        let tree = sample(&[SHOWN, (LIST, list), ("tests/bdw/t.c", "GC_one();"), unnoticed]);
        let text = text(&tree.tree).unwrap();
        assert!(text.contains("| `GC_one` | as documented | t.c * |\n"));
        assert!(text.contains("| `GC_two` | kept; for a reason | – |\n"));
        assert!(text.contains("Of 3 entries\n2 are named by no test"));
        assert_eq!(check(&tree.tree).unwrap().len(), 1, "the document is missing");
    }

    #[test]
    fn gaps_are_named() {
        assert!(findings("data GC_two\n")[0].contains("GC_one is exported and has no line"));
        assert!(findings("function GC_one\nfunction GC_three\n")[0].contains(":2: GC_three"));
        assert!(findings("function GC_one\nfunction GC_one\n")[0].contains("twice"));
        assert!(findings("function GC_one\nthing GC_two\n")[0].contains("no kind"));
    }
}
