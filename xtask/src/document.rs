//! Documents generated from the source: written, or compared with what is there.
//!
//! Invariant: what `write` leaves, `check` passes. Called by `options` and `code-index`.

use crate::tree::{Finding, Outcome, Tree};

/// Replaces the document.
pub fn write(tree: &Tree, path: &str, text: &str) -> Outcome {
    let place = tree.locate(path);
    let folder = place.parent().ok_or_else(|| format!("{path}: no folder"))?;
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&place, text))
        .map_err(|error| format!("{path}: {error}"))?;
    Ok(Vec::new())
}

/// Whether the document on disk is the generated one; `command` is what would write it.
pub fn check(tree: &Tree, path: &str, text: &str, command: &str) -> Outcome {
    let found = tree.read_if_any(path)?;
    if found == text {
        return Ok(Vec::new());
    }
    let message = format!("is not what the source says; run `cargo xtask {command}`");
    let same = found.lines().zip(text.lines()).take_while(|(left, right)| left == right).count();
    Ok(vec![Finding::line(path, same + 1, message)])
}

/// A declaration's lines as one.
pub fn joined(lines: &str) -> String {
    lines.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::sample;

    #[test]
    fn what_is_written_passes_and_what_is_stale_or_missing_fails() {
        let sample = sample(&[("docs/old.md", "one\ntwo\n")]);
        let check = |path| check(&sample.tree, path, "one\nthree\n", "x").unwrap();
        assert!(check("docs/old.md")[0].to_string().starts_with("docs/old.md:2: is not what"));
        assert_eq!(check("docs/new/a.md").len(), 1);
        write(&sample.tree, "docs/new/a.md", "one\nthree\n").unwrap();
        assert!(check("docs/new/a.md").is_empty());
    }
}
