//! `headers`: every source file opens with a comment that says what it is.
//!
//! Invariant: Rust files open with `//!`, C and C++ with a comment, scripts with one after `#!`; it
//! has words in it. Called by `main`; `code-index` takes its text from here.

use crate::tree::{Finding, Outcome, SourceFile, Tree};

/// Fewer letters than this say nothing.
const FEWEST_LETTERS: usize = 12;

/// Every ending that the check knows.
pub const ENDINGS: [&str; 7] = [".rs", ".c", ".h", ".hpp", ".cpp", ".sh", ".py"];

/// Files without an opening comment, or with one that says nothing.
pub fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    for file in tree.files("", &ENDINGS)? {
        let letters = opening(&file).chars().filter(|c| c.is_alphabetic()).count();
        if letters == 0 {
            let how = if file.path.ends_with(".rs") { "`//!` lines" } else { "a comment" };
            let message = format!("does not open with {how} that say what it is");
            findings.push(Finding::line(&file.path, 1, message));
        } else if letters < FEWEST_LETTERS {
            findings.push(Finding::line(&file.path, 1, "its opening comment says too little"));
        }
    }
    Ok(findings)
}

/// The first paragraph of a file's opening comment as one line; empty if there is none.
pub fn opening(file: &SourceFile) -> String {
    let lines = file.text.lines();
    let texts: Vec<&str> = if file.path.ends_with(".rs") {
        lines.map_while(|line| line.strip_prefix("//!")).map(str::trim).collect()
    } else if file.path.ends_with(".sh") || file.path.ends_with(".py") {
        let after_interpreter = lines.skip_while(|line| line.starts_with("#!"));
        after_interpreter.map_while(|line| line.strip_prefix('#')).map(str::trim).collect()
    } else if let Some(rest) = file.text.strip_prefix("/*") {
        let comment = rest.split("*/").next().unwrap_or_default();
        comment.lines().map(|line| line.trim().trim_start_matches(['*', '!']).trim()).collect()
    } else {
        lines.map_while(|line| line.strip_prefix("//")).map(str::trim).collect()
    };
    let is_text = |text: &&&str| !text.is_empty() && !text.starts_with("SPDX-");
    let after_blank = texts.iter().skip_while(|text| !is_text(text));
    after_blank.take_while(is_text).copied().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::findings;

    #[test]
    fn files_that_say_what_they_are_pass() {
        let files = [
            ("a.rs", "//! Does what its name says, and a little more.\nfn main() {}\n"),
            ("a.c", "/* Does what its name says, and a little more. */\nint x;\n"),
            ("a.h", "// SPDX-License-Identifier: MIT\n//\n// Does what its name says and more.\n"),
            ("a.sh", "#!/bin/sh\n# Does what its name says, and a little more.\n"),
        ];
        assert_eq!(findings(check, &files), [""; 0]);
    }

    #[test]
    fn files_that_do_not_fail() {
        for (path, text) in [
            ("a.rs", "fn main() {}\n"),
            ("a.rs", "// A comment about nothing in particular.\n"),
            ("a.rs", "use std::fmt;\n//! Too late for a comment of the file.\n"),
            ("a.c", "int x; /* Too late for a comment of the file. */\n"),
            ("a.h", "// SPDX-License-Identifier: MIT OR Apache-2.0\n#define A\n"),
            ("a.sh", "#!/bin/sh\necho does what its name says\n"),
            ("a.rs", "//! Short.\n"),
            ("a.rs", ""),
        ] {
            assert_eq!(findings(check, &[(path, text)]).len(), 1, "{path}: {text}");
        }
    }

    #[test]
    fn the_first_paragraph_becomes_one_line() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let rust = file("a.rs", "//! One\n//! two.\n//!\n//! Three.\n");
        assert_eq!(opening(&rust), "One two.");
        let c = file("a.c", "/*\n * One\n * two.\n *\n * Three.\n */\n");
        assert_eq!(opening(&c), "One two.");
        let script = file("a.py", "#!/usr/bin/env python3\n# One\n# two.\n\nx = 1\n");
        assert_eq!(opening(&script), "One two.");
    }
}
