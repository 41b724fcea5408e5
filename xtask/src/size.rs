//! `size`: a file is one concept, and one that has grown past 500 lines is more than one.
//!
//! Invariant: SIZE_EXCEPTIONS names only files that need it, each with a reason. Called by `main`.

use crate::tree::{Finding, Outcome, Tree};
use std::collections::BTreeMap;

/// Larger: files that no one reads through. Smaller: concepts torn apart.
const LONGEST: usize = 500;
const EXCEPTIONS: &str = "SIZE_EXCEPTIONS";

/// Files longer than the limit without an exception, and exceptions that nothing needs.
pub fn check(tree: &Tree) -> Outcome {
    let text = tree.read_if_any(EXCEPTIONS)?;
    let mut findings = Vec::new();
    let mut exceptions = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(": ") {
            Some((path, reason)) if !reason.trim().is_empty() => {
                exceptions.insert(path.to_owned(), index + 1);
            }
            _ => findings.push(Finding::line(EXCEPTIONS, index + 1, "want `PATH: REASON`")),
        }
    }
    for file in tree.files("", &[".rs", ".c", ".h", ".hpp", ".cpp", ".sh", ".py"])? {
        let lines = file.text.lines().count();
        let excepted = exceptions.remove(&file.path);
        if lines > LONGEST && excepted.is_none() {
            let message = format!(
                "{lines} lines, more than {LONGEST}: split it by concept, or give a reason in {EXCEPTIONS}"
            );
            findings.push(Finding::file(&file.path, message));
        } else if let (true, Some(line)) = (lines <= LONGEST, excepted) {
            let message = format!("{} has {lines} lines and needs no exception", file.path);
            findings.push(Finding::line(EXCEPTIONS, line, message));
        }
    }
    for (path, line) in exceptions {
        findings.push(Finding::line(EXCEPTIONS, line, format!("there is no source file {path}")));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::findings;

    #[test]
    fn a_long_file_needs_a_reason() {
        let long = "\n".repeat(LONGEST + 1);
        let full = "\n".repeat(LONGEST);
        assert_eq!(findings(check, &[("a.rs", &full)]), [""; 0]);
        let found = findings(check, &[("a.rs", &long)]);
        assert!(found[0].starts_with("a.rs: 501 lines, more than 500"), "{found:?}");
        let excepted = [("a.rs", long.as_str()), (EXCEPTIONS, "# why\n\na.rs: one table\n")];
        assert_eq!(findings(check, &excepted), [""; 0]);
    }

    #[test]
    fn exceptions_are_held_to_account() {
        let long = "\n".repeat(LONGEST + 1);
        let found = findings(check, &[("a.rs", &long), (EXCEPTIONS, "a.rs\n")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "SIZE_EXCEPTIONS:1: want `PATH: REASON`");
        let found = findings(check, &[("a.rs", ""), (EXCEPTIONS, "a.rs: x\nb.rs: y\n")]);
        assert_eq!(
            found,
            [
                "SIZE_EXCEPTIONS:1: a.rs has 0 lines and needs no exception",
                "SIZE_EXCEPTIONS:2: there is no source file b.rs"
            ]
        );
    }
}
