//! `tags`: design rules have tags, `area.kind.words`, so that code can name the rule it relies on.
//!
//! A rule is defined where its tag stands in brackets in docs/design/*.md. Wherever a tag appears
//! without them in those documents, or at all in source files, it is cited.
//!
//! Invariant: everything cited is defined, once; every `rule` and every `inv` is cited by source;
//! and every `inv` is asserted: its tag stands in a string of Rust code, which is the message of an
//! assertion or what a verifying pass reports. Those that no assertion can state stand in
//! docs/design/not-asserted.md, with the reason. Called by `main`.

use crate::tree::{Finding, Outcome, SourceFile, Tree};
use proc_macro2::{TokenStream, TokenTree};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// What a rule can be: something that always holds, something that code must do, a reason.
const KINDS: &str = "inv|rule|why";
const DESIGN: &str = "docs/design";
/// Invariants without an assertion: a line `- TAG: REASON` each, the tag in backticks.
const NOT_ASSERTED: &str = "docs/design/not-asserted.md";
/// The checks' own tests hold tags that no design defines.
const NOT_SEARCHED: &str = "xtask/";

/// Tags cited but undefined or defined twice, and invariants that no source cites.
pub fn check(tree: &Tree) -> Outcome {
    let tag = format!(r"\b[a-z][a-z0-9_-]*\.(?:{KINDS})\.[a-z0-9][a-z0-9_-]*");
    let tag = Regex::new(&tag).map_err(|error| error.to_string())?;
    let documents = tree.files(DESIGN, &[".md"])?;
    let (defined, mut findings) = definitions(&documents, &tag);
    let cite = |file: &SourceFile, found: &mut BTreeSet<String>, findings: &mut Vec<Finding>| {
        for (index, line) in file.text.lines().enumerate() {
            for cited in tag.find_iter(line).map(|cited| cited.as_str()) {
                found.insert(cited.to_owned());
                if !defined.contains_key(cited) {
                    let message = format!("{cited} is defined nowhere in {DESIGN}");
                    findings.push(Finding::line(&file.path, index + 1, message));
                }
            }
        }
    };
    for document in &documents {
        cite(document, &mut BTreeSet::new(), &mut findings);
    }
    let mut cited_by_source = BTreeSet::new();
    let mut asserted = BTreeSet::new();
    for file in tree.files("", &[".rs", ".c", ".h", ".hpp", ".cpp"])? {
        if file.path.starts_with(NOT_SEARCHED) {
            continue;
        }
        cite(&file, &mut cited_by_source, &mut findings);
        if file.path.ends_with(".rs") && tag.is_match(&file.text) {
            let tokens = TokenStream::from_str(&file.text)
                .map_err(|error| format!("{}: not Rust: {error}", file.path))?;
            strings(tokens, &mut |text| {
                asserted.extend(tag.find_iter(text).map(|found| found.as_str().to_owned()));
            });
        }
    }
    let excused = excuses(&tree.read_if_any(NOT_ASSERTED)?, &mut findings);
    for (name, (path, line)) in &defined {
        let is_invariant = name.contains(".inv.");
        let mut wrong = |message: String| findings.push(Finding::line(path, *line, message));
        if !name.contains(".why.") && !cited_by_source.contains(name) {
            wrong(format!("no source cites {name}: nothing says where it is kept or asserted"));
        } else if is_invariant && !asserted.contains(name) && !excused.contains_key(name) {
            wrong(format!("nothing asserts {name}: name it in a message, or in {NOT_ASSERTED}"));
        }
    }
    for (name, line) in excused {
        if asserted.contains(&name) || !(name.contains(".inv.") && defined.contains_key(&name)) {
            let message = format!("{name} is asserted, or no invariant: take it out");
            findings.push(Finding::line(NOT_ASSERTED, line, message));
        }
    }
    Ok(findings)
}

/// The invariants that NOT_ASSERTED names, with their lines.
fn excuses(text: &str, findings: &mut Vec<Finding>) -> BTreeMap<String, usize> {
    let mut excused = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("- `") else { continue };
        match rest.split_once("`: ").filter(|(_, reason)| !reason.trim().is_empty()) {
            Some((name, _)) => {
                excused.insert(name.to_owned(), index + 1);
            }
            None => findings.push(Finding::line(NOT_ASSERTED, index + 1, "want `- TAG: REASON`")),
        }
    }
    excused
}

/// Every literal of the code but those of attributes, which doc comments are.
fn strings(tokens: TokenStream, see: &mut impl FnMut(&str)) {
    let mut follows_hash = false;
    for token in tokens {
        let was_hash = std::mem::take(&mut follows_hash);
        match token {
            TokenTree::Punct(mark) => {
                // `#![…]` is an attribute too.
                follows_hash = mark.as_char() == '#' || was_hash && mark.as_char() == '!';
            }
            TokenTree::Group(group) if !was_hash => strings(group.stream(), see),
            TokenTree::Literal(literal) => see(&literal.to_string()),
            _ => {}
        }
    }
}

/// Where each tag is defined, and what is wrong with the definitions.
fn definitions(
    documents: &[SourceFile],
    tag: &Regex,
) -> (BTreeMap<String, (String, usize)>, Vec<Finding>) {
    let mut defined: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for document in documents {
        for (index, line) in document.text.lines().enumerate() {
            for found in tag.find_iter(line) {
                let (before, after) = (&line[..found.start()], &line[found.end()..]);
                if !(before.ends_with('[') && after.starts_with(']')) {
                    continue;
                }
                let place = (document.path.clone(), index + 1);
                if let Some((path, line)) = defined.insert(found.as_str().to_owned(), place) {
                    let message = format!(
                        "{} is defined already at {path}:{line}; to cite it, leave out the \
                         brackets",
                        found.as_str()
                    );
                    findings.push(Finding::line(&document.path, index + 1, message));
                }
            }
        }
    }
    (defined, findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::findings;

    const DESIGNED: (&str, &str) = (
        "docs/design/heap.md",
        "# Heap\n\n- [heap.inv.no-writes] None. See `heap.why.fork`.\n- [heap.why.fork] So.\n",
    );

    const EXCUSED: (&str, &str) =
        (NOT_ASSERTED, "# Not asserted\n\n- `heap.inv.no-writes`: nothing shows it.\n");

    #[test]
    fn defined_and_cited_tags_pass() {
        let source =
            ("crates/a/src/lib.rs", "fn f() { assert!(x, \"heap.inv.no-writes: {x}\"); }\n");
        assert_eq!(findings(check, &[DESIGNED, source]), [""; 0]);
    }

    #[test]
    fn an_undefined_tag_fails_in_source_and_in_a_document() {
        let source = ("a.c", "/* heap.inv.no-writes */\n\n/* heap.rule.gone */\n");
        assert_eq!(
            findings(check, &[DESIGNED, EXCUSED, source]),
            ["a.c:3: heap.rule.gone is defined nowhere in docs/design"]
        );
        let other = ("docs/design/mark.md", "As heap.rule.gone says.\n");
        let source = ("a.c", "/* heap.inv.no-writes */\n");
        assert_eq!(
            findings(check, &[DESIGNED, EXCUSED, other, source]),
            ["docs/design/mark.md:1: heap.rule.gone is defined nowhere in docs/design"]
        );
    }

    #[test]
    fn an_invariant_that_no_source_cites_fails() {
        let found = findings(check, &[DESIGNED, ("a.rs", "//! Heap.\n")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("docs/design/heap.md:3: no source cites heap.inv.no-writes"));
    }

    #[test]
    fn an_invariant_has_to_be_asserted_or_excused() {
        for comment in ["// heap.inv.no-writes", "/// heap.inv.no-writes\nfn f() {}"] {
            let found = findings(check, &[DESIGNED, ("a.rs", comment)]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("docs/design/heap.md:3: nothing asserts heap.inv"));
            assert_eq!(findings(check, &[DESIGNED, EXCUSED, ("a.rs", comment)]), [""; 0]);
        }
        let asserted = ("a.rs", "fn f() -> B { B { rule: \"heap.inv.no-writes\" } }");
        let found = findings(check, &[DESIGNED, EXCUSED, asserted]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("docs/design/not-asserted.md:3: heap.inv.no-writes is asserted")
        );
    }

    #[test]
    fn a_rule_that_no_source_cites_fails() {
        let rule = ("docs/design/mark.md", "- [mark.rule.one] Do.\n");
        let found = findings(check, &[rule, ("a.rs", "")]);
        assert!(found[0].starts_with("docs/design/mark.md:1: no source cites mark.rule.one"));
        assert_eq!(findings(check, &[rule, ("a.rs", "// mark.rule.one\n")]), [""; 0]);
    }

    #[test]
    fn a_second_definition_fails() {
        let again = ("docs/design/mark.md", "[heap.inv.no-writes]\n");
        let source = ("a.rs", "// heap.inv.no-writes\n");
        let found = findings(check, &[DESIGNED, EXCUSED, again, source]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("defined already at docs/design/heap.md:3"));
    }

    #[test]
    fn ordinary_code_is_no_citation() {
        let source = ("a.rs", "// heap.inv.no-writes\nself.heap.invert.x; heap.inventory.y;\n");
        assert_eq!(findings(check, &[DESIGNED, EXCUSED, source]), [""; 0]);
    }
}
