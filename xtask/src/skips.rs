//! `skips`: a Rust test that cannot run says so, and does not pass by returning early.
//!
//! Invariant: no function with `#[test]` has a `return` without a value; one that has nothing to
//! test returns what says why (`return skip("…")`, which prints `# SKIP …` for `rust-tests`).
//! Called by `main`.

use crate::tree::{Finding, Outcome, Tree};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

/// Tests that return early without a word.
pub fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    for file in tree.files("", &[".rs"])? {
        let tokens = TokenStream::from_str(&file.text)
            .map_err(|error| format!("{}: not Rust: {error}", file.path))?;
        let mut lines = Vec::new();
        in_tests(tokens, &mut lines);
        let message = "a test that cannot run has to say so: `return skip(\"REASON\")`";
        findings.extend(lines.into_iter().map(|line| Finding::line(&file.path, line, message)));
    }
    Ok(findings)
}

/// The lines of bare returns in functions with `#[test]`.
fn in_tests(tokens: TokenStream, lines: &mut Vec<usize>) {
    let mut is_test = false;
    let mut follows_hash = false;
    for token in tokens {
        let was_hash = std::mem::take(&mut follows_hash);
        match token {
            TokenTree::Punct(mark) => {
                follows_hash = mark.as_char() == '#';
                is_test &= mark.as_char() != ';';
            }
            TokenTree::Group(group) if was_hash => {
                is_test |= group.stream().to_string() == "test";
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if std::mem::take(&mut is_test) {
                    bare_returns(group.stream(), lines);
                } else {
                    in_tests(group.stream(), lines);
                }
            }
            _ => {}
        }
    }
}

/// The lines of `return` with nothing after it.
fn bare_returns(tokens: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => bare_returns(group.stream(), lines),
            TokenTree::Ident(word) if word == "return" => {
                let next = tokens.get(index + 1).map(ToString::to_string);
                if next.is_none_or(|next| next == ";" || next == ",") {
                    lines.push(word.span().start().line);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::findings;

    #[test]
    fn a_test_that_returns_without_a_word_fails() {
        for body in [
            "let Some(x) = y() else { return };",
            "if none() { return; }",
            "match y { Some(x) => x, None => return, }",
        ] {
            let text =
                format!("mod tests {{\n #[test]\n #[ignore]\n fn t() {{\n {body}\n }}\n}}\n");
            let found = findings(check, &[("a.rs", &text)]);
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(found[0].starts_with("a.rs:5: a test that cannot run"), "{found:?}");
        }
    }

    #[test]
    fn one_that_says_why_passes_and_so_does_other_code() {
        for text in [
            "#[test] fn t() { let Some(x) = y() else { return skip(\"no y\") }; }",
            "#[test] fn t() {} fn helper() { if none() { return; } }",
            "#[cfg(test)] use a; fn f() { return; }",
        ] {
            assert_eq!(findings(check, &[("a.rs", text)]), [""; 0], "{text}");
        }
    }
}
