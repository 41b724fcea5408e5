//! `headers`: every source file opens with a comment that says what it is.
//!
//! Invariant: Rust files open with `//!`, C and C++ with a comment, scripts with one after `#!`; it
//! has words in it. That of a Rust file that opts in to unsafe code has a section `# Safety`.
//! Called by `main`; `code-index` takes its text from here.

use crate::tree::{Finding, Outcome, SourceFile, Tree};

/// Fewer letters than this say nothing.
const FEWEST_LETTERS: usize = 12;

/// Every ending that the check knows.
pub const ENDINGS: [&str; 7] = [".rs", ".c", ".h", ".hpp", ".cpp", ".sh", ".py"];

/// Whose files have no such section yet; an entry that nothing needs is an error.
const NOT_YET: &[&str] = &["crates/neap-core/src/cycle/"];

/// Files without an opening comment, with one that says nothing, or that leaves out why its unsafe
/// code is sound.
pub fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let mut needed = vec![false; NOT_YET.len()];
    for file in tree.files("", &ENDINGS)? {
        if lacks_safety(&file) {
            match NOT_YET.iter().position(|folder| file.path.starts_with(folder)) {
                Some(index) => needed[index] = true,
                None => findings.push(Finding::line(&file.path, 1, NO_SAFETY)),
            }
        }
        let letters = opening(&file).chars().filter(|c| c.is_alphabetic()).count();
        if letters == 0 {
            let how = if file.path.ends_with(".rs") { "`//!` lines" } else { "a comment" };
            let message = format!("does not open with {how} that say what it is");
            findings.push(Finding::line(&file.path, 1, message));
        } else if letters < FEWEST_LETTERS {
            findings.push(Finding::line(&file.path, 1, "its opening comment says too little"));
        }
    }
    for (folder, needed) in NOT_YET.iter().zip(needed) {
        if !needed && tree.locate(folder).exists() {
            findings
                .push(Finding::file(folder, "no file lacks `# Safety`: take it out of NOT_YET"));
        }
    }
    Ok(findings)
}

const NO_SAFETY: &str = "opts in to unsafe code, and its `//!` header has no section `# Safety`";

/// Whether a Rust file allows unsafe code and its opening comment does not say why that is sound.
fn lacks_safety(file: &SourceFile) -> bool {
    let allows = |line: &str| line.trim_start().starts_with("#![allow(unsafe_code");
    let mut opening = file.text.lines().take_while(|line| line.starts_with("//!"));
    file.path.ends_with(".rs")
        && file.text.lines().any(allows)
        && !opening.any(|line| line.trim_end() == "//! # Safety")
}

/// The first paragraph of a file's opening comment as one line, without what is for shellcheck;
/// empty if there is none.
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
    let is_for_tools = |text: &str| text.starts_with("SPDX-") || text.starts_with("shellcheck ");
    let is_text = |text: &&&str| !text.is_empty() && !is_for_tools(text);
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
            ("a.sh", "# shellcheck shell=bash disable=SC2034 # what it sets is for others\n"),
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
    fn a_file_with_unsafe_code_says_why_it_is_sound() {
        let opening = "//! Does what its name says, and a little more.\n";
        let allow = "\n#![allow(unsafe_code)]\n";
        let found = findings(check, &[("a.rs", &format!("{opening}{allow}"))]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: opts in to unsafe code"), "{found:?}");
        let late = format!("{opening}{allow}mod a {{\n//! # Safety\n}}");
        assert_eq!(findings(check, &[("a.rs", &late)]).len(), 1);
        let said = format!("{opening}//!\n//! # Safety\n//!\n//! None is needed.\n{allow}");
        assert_eq!(findings(check, &[("a.rs", &said)]), [""; 0]);
        let not_yet = format!("{}a.rs", NOT_YET[0]);
        assert_eq!(findings(check, &[(&not_yet, &format!("{opening}{allow}"))]), [""; 0]);
        assert_eq!(findings(check, &[(&not_yet, &said)]).len(), 1);
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
