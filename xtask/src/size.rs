//! `size`: a file is one concept, and one that has grown past 500 lines is more than one. A line
//! has 100 columns at most, comments too. A folder has at most 14 source files. In the core no file
//! name stands twice, so that a name says which file is meant.
//!
//! What cannot be wrapped does not count: what stands in string literals, rows of tables in
//! comments, and a single word, such as an address.
//!
//! Invariant: SIZE_EXCEPTIONS names only files and folders that need it, each with a reason. Called
//! by `main`.

use crate::tree::{Finding, Outcome, SourceFile, Tree};
use columns::Language;
use std::collections::BTreeMap;

mod columns;

/// Larger: files that no one reads through. Smaller: concepts torn apart.
const LONGEST: usize = 500;
/// Larger: folders that no one finds anything in.
const FULLEST: usize = 14;
/// As rustfmt.toml says for code.
const WIDEST: usize = 100;
const EXCEPTIONS: &str = "SIZE_EXCEPTIONS";
/// Where no file name stands twice.
const CORE: &str = "crates/neap-core/src";
const ENDINGS: [&str; 9] = [".rs", ".c", ".h", ".hpp", ".cpp", ".cc", ".d", ".sh", ".py"];

/// Files longer or wider than the limits without an exception, exceptions that nothing needs, and
/// names that stand twice.
pub fn check(tree: &Tree) -> Outcome {
    let text = tree.read_if_any(EXCEPTIONS)?;
    let mut findings = Vec::new();
    let mut exceptions = Exceptions::read(&text, &mut findings);
    let mut folders = BTreeMap::new();
    let files = tree.files("", &ENDINGS)?;
    for file in &files {
        let lines = file.text.lines().count();
        let excepted = exceptions.files.remove(&file.path);
        if lines > LONGEST && excepted.is_none() {
            let message = format!(
                "{lines} lines, more than {LONGEST}: split it by concept, or give a reason in \
                 {EXCEPTIONS}"
            );
            findings.push(Finding::file(&file.path, message));
        } else if let (true, Some(line)) = (lines <= LONGEST, excepted) {
            let message = format!("{} has {lines} lines and needs no exception", file.path);
            findings.push(Finding::line(EXCEPTIONS, line, message));
        }
        findings.extend(too_wide(file));
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder.to_owned()).or_insert(0) += 1;
    }
    for (folder, files) in folders {
        let excepted = exceptions.folders.remove(&folder);
        if files > FULLEST && excepted.is_none() {
            let message = format!(
                "{files} source files, more than {FULLEST}: make folders by concept, or give a \
                 reason in {EXCEPTIONS}"
            );
            findings.push(Finding::file(&folder, message));
        } else if let (true, Some(line)) = (files <= FULLEST, excepted) {
            let message = format!("{folder} has {files} files and needs no exception");
            findings.push(Finding::line(EXCEPTIONS, line, message));
        }
    }
    let unused = exceptions.files.into_iter().map(|(path, line)| (path, line, "source file"));
    let folders = exceptions.folders.into_iter().map(|(path, line)| (path, line, "folder"));
    for (path, line, what) in unused.chain(folders) {
        findings.push(Finding::line(EXCEPTIONS, line, format!("there is no {what} {path}")));
    }
    findings.extend(same_names(&files));
    Ok(findings)
}

/// Names that stand in more than one folder of the core; `mod.rs` is named by its folder.
fn same_names(files: &[SourceFile]) -> Vec<Finding> {
    let mut names = BTreeMap::<_, Vec<_>>::new();
    for file in files {
        if let Some(path) = file.path.strip_prefix(CORE).and_then(|path| path.strip_prefix('/')) {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("the top folder", path));
            names.entry(name).or_default().push(folder);
        }
    }
    let twice = names.into_iter().filter(|(name, folders)| *name != "mod.rs" && folders.len() > 1);
    twice
        .map(|(name, folders)| {
            let folders = folders.join(" and ");
            let message = format!("{name} stands in {folders}: one of them needs another name");
            Finding::file(CORE, message)
        })
        .collect()
}

/// Lines of a file that have too many columns.
fn too_wide(file: &SourceFile) -> Vec<Finding> {
    let columns = columns::counted(&file.text, Language::of(&file.path));
    let lines = columns.into_iter().zip(file.text.lines()).enumerate();
    let wide = lines.filter(|(_, (columns, line))| *columns > WIDEST && can_be_wrapped(line));
    wide.map(|(index, (columns, _))| {
        Finding::line(&file.path, index + 1, format!("{columns} columns, more than {WIDEST}"))
    })
    .collect()
}

/// Whether there is a second word behind the mark of a comment.
fn can_be_wrapped(line: &str) -> bool {
    let marks = ["//", "///", "//!", "#", "*", "/*"];
    line.split_whitespace().filter(|word| !marks.contains(word)).count() > 1
}

/// What SIZE_EXCEPTIONS lets be, each with its line.
struct Exceptions {
    files: BTreeMap<String, usize>,
    folders: BTreeMap<String, usize>,
}

impl Exceptions {
    /// Reads `PATH: REASON` for a long file, and `files of FOLDER: REASON` for a full folder.
    fn read(text: &str, findings: &mut Vec<Finding>) -> Exceptions {
        let mut read = Exceptions { files: BTreeMap::new(), folders: BTreeMap::new() };
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let Some((path, _)) = text.split_once(": ").filter(|(_, why)| !why.trim().is_empty())
            else {
                findings.push(Finding::line(EXCEPTIONS, line, "want `PATH: REASON`"));
                continue;
            };
            match path.strip_prefix("files of ") {
                Some(folder) => read.folders.insert(folder.to_owned(), line),
                None => read.files.insert(path.to_owned(), line),
            };
        }
        read
    }
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
    fn a_wide_line_fails_in_code_and_in_comments() {
        let words =
            |first: &str, count| format!("\n{first} {}\n", "word ".repeat(count).trim_end());
        for (path, first) in [("a.rs", "//!"), ("a.c", "int x;"), ("a.sh", "#"), ("a.d", "///")] {
            let (wide, narrow) = (words(first, 20), words(first, 18));
            let found = findings(check, &[(path, &wide)]);
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(found[0].starts_with(&format!("{path}:2: 10")), "{found:?}");
            assert_eq!(findings(check, &[(path, &narrow)]), [""; 0]);
        }
    }

    #[test]
    fn what_cannot_be_wrapped_passes() {
        let long = "x".repeat(120);
        for text in [
            format!("const A: &str = \"{long} and more\";\n"),
            format!("// https://example.org/{long}\n"),
            format!("//! | table | {long} |\n"),
        ] {
            assert_eq!(findings(check, &[("a.rs", &text)]), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_full_folder_needs_a_reason() {
        let paths: Vec<_> = (0..=FULLEST).map(|number| format!("full/{number}.rs")).collect();
        let mut files: Vec<_> = paths.iter().map(|path| (path.as_str(), "")).collect();
        let found = findings(check, &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("full: 15 source files, more than 14"), "{found:?}");
        assert_eq!(findings(check, &files[1..]), [""; 0]);
        files.push((EXCEPTIONS, "files of full: each is a program\n"));
        assert_eq!(findings(check, &files), [""; 0]);
        assert_eq!(
            findings(check, &files[2..]),
            ["SIZE_EXCEPTIONS:1: full has 13 files and needs no exception"]
        );
    }

    #[test]
    fn a_name_stands_once_in_the_core() {
        let in_core = |path| format!("{CORE}/{path}");
        let [first, second, top] =
            ["alloc/large.rs", "heap/spaces/large.rs", "large.rs"].map(in_core);
        let files = [(first.as_str(), ""), (&second, ""), (&top, "")];
        let wanted = |folders| {
            format!("{CORE}: large.rs stands in {folders}: one of them needs another name")
        };
        assert_eq!(findings(check, &files[..1]), [""; 0]);
        assert_eq!(findings(check, &files[..2]), [wanted("alloc and heap/spaces")]);
        assert_eq!(findings(check, &files[1..]), [wanted("heap/spaces and the top folder")]);
        let modules = ["alloc/mod.rs", "heap/mod.rs"].map(in_core);
        assert_eq!(findings(check, &modules.each_ref().map(|path| (path.as_str(), ""))), [""; 0]);
        assert_eq!(findings(check, &[("a/large.rs", ""), ("b/large.rs", ""), files[0]]), [""; 0]);
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
