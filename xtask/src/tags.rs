//! `tags`: design rules have tags, `area.kind.words`, so that code can name the rule it relies on.
//!
//! A rule is defined where its tag stands in brackets in docs/design/*.md. Wherever a tag appears
//! without them in those documents, or at all in source files, it is cited. Invariant: everything
//! cited is defined, once, and every `inv` rule is cited by source. Called by `main`.

use crate::tree::{Finding, Outcome, SourceFile, Tree};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// What a rule can be: something that always holds, something that code must do, a reason.
const KINDS: &str = "inv|rule|why";
const DESIGN: &str = "docs/design";
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
    for file in tree.files("", &[".rs", ".c", ".h", ".hpp", ".cpp"])? {
        if !file.path.starts_with(NOT_SEARCHED) {
            cite(&file, &mut cited_by_source, &mut findings);
        }
    }
    for (name, (path, line)) in &defined {
        if name.contains(".inv.") && !cited_by_source.contains(name) {
            let message =
                format!("no source cites {name}: nothing says where it is kept or asserted");
            findings.push(Finding::line(path, *line, message));
        }
    }
    Ok(findings)
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
                        "{} is defined already at {path}:{line}; to cite it, leave out the brackets",
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

    #[test]
    fn defined_and_cited_tags_pass() {
        let source = ("crates/a/src/lib.rs", "//! Keeps heap.inv.no-writes.\n");
        assert_eq!(findings(check, &[DESIGNED, source]), [""; 0]);
    }

    #[test]
    fn an_undefined_tag_fails_in_source_and_in_a_document() {
        let source = ("a.c", "/* heap.inv.no-writes */\n\n/* heap.rule.gone */\n");
        assert_eq!(
            findings(check, &[DESIGNED, source]),
            ["a.c:3: heap.rule.gone is defined nowhere in docs/design"]
        );
        let other = ("docs/design/mark.md", "As heap.rule.gone says.\n");
        let source = ("a.c", "/* heap.inv.no-writes */\n");
        assert_eq!(
            findings(check, &[DESIGNED, other, source]),
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
    fn a_second_definition_fails() {
        let again = ("docs/design/mark.md", "[heap.inv.no-writes]\n");
        let source = ("a.rs", "// heap.inv.no-writes\n");
        let found = findings(check, &[DESIGNED, again, source]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("defined already at docs/design/heap.md:3"));
    }

    #[test]
    fn ordinary_code_is_no_citation() {
        let source = ("a.rs", "// heap.inv.no-writes\nself.heap.invert.x; heap.inventory.y;\n");
        assert_eq!(findings(check, &[DESIGNED, source]), [""; 0]);
    }
}
