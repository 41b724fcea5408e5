//! `layers`: modules of neap-core import only what the file LAYERS lets them; front ends see only
//! what it lets them see of the core; and inside a crate no files import each other in a circle.
//!
//! Invariant: every path that names a module of the crate from another one is seen: `crate::…`,
//! `$crate::…`, `super::…` that leaves the module, groups, and paths inside macros. Paths are read
//! from tokens, so comments and strings do not count. Called by `main`.

use crate::tree::{Finding, Outcome, Tree};
use paths::{CORE, LAYERS};
use std::collections::{BTreeMap, BTreeSet};

mod circles;
mod graph;
mod paths;

/// What LAYERS says: for each module of the core, and each crate, what it may import. `*` is all.
#[derive(Default)]
struct Table {
    modules: BTreeMap<String, BTreeSet<String>>,
    /// What their tests may import besides.
    tests: BTreeMap<String, BTreeSet<String>>,
    crates: BTreeMap<String, BTreeSet<String>>,
    /// Modules and crates whose circles are not mended yet, with the line that says so.
    circles: BTreeMap<String, usize>,
}

impl Table {
    /// The entry that `outer::inner` falls under: one of its own, else that of `outer`.
    fn module(&self, outer: &str, inner: Option<&str>) -> String {
        let whole = format!("{outer}::{}", inner.unwrap_or_default());
        if self.modules.contains_key(&whole) { whole } else { outer.to_owned() }
    }
}

/// Imports that LAYERS does not allow, modules that it does not know, and lines that it could lose.
pub fn check(tree: &Tree) -> Outcome {
    let mut findings = Vec::new();
    let table = parse(&tree.read(LAYERS)?, &mut findings);
    for file in tree.files(CORE, &[".rs"])? {
        let inside = file.path[CORE.len()..].trim_end_matches(".rs");
        let module: Vec<&str> = inside.split('/').filter(|part| *part != "mod").collect();
        if module == ["lib"] {
            continue;
        }
        let own = table.module(module[0], module.get(1).copied());
        let Some(allowed) = table.modules.get(&own) else {
            let message = format!("{LAYERS} does not say what module `{own}` may import");
            findings.push(Finding::file(&file.path, message));
            continue;
        };
        let module: Vec<String> = module.into_iter().map(str::to_owned).collect();
        let named =
            paths::named(&file.text, &module).map_err(|error| format!("{}: {error}", file.path))?;
        for path in named.into_iter().filter(|path| !path.bare) {
            let (line, in_test) = (path.line, path.in_test);
            let Some(name) = path.segments.first() else { continue };
            let inner = path.segments.get(1).filter(|inner| *inner != "*");
            let name = table.module(name, inner.map(String::as_str));
            let is_module = table.modules.contains_key(&name);
            let for_test =
                in_test && table.tests.get(&own).is_some_and(|more| permits(more, &name));
            if name != own && is_module && !permits(allowed, &name) && !for_test {
                let message = format!("`{own}` must not import `{name}` ({LAYERS})");
                findings.push(Finding::line(&file.path, line, message));
            } else if !is_module && !permits(allowed, "*") {
                let message = format!(
                    "`crate::{name}` is no module that {LAYERS} knows; import it from where it is"
                );
                findings.push(Finding::line(&file.path, line, message));
            }
        }
    }
    front_ends(tree, &table, &mut findings)?;
    findings.extend(circles::findings(tree, &table.circles)?);
    Ok(findings)
}

/// Paths `neap_core::X` in the crates that LAYERS lists, and dependence on the core in others.
fn front_ends(tree: &Tree, table: &Table, findings: &mut Vec<Finding>) -> Result<(), String> {
    for file in tree.files("", &[".rs"])? {
        let owner = owner(tree, &file.path);
        if owner == "neap-core" {
            continue;
        }
        let named =
            paths::named(&file.text, &[]).map_err(|error| format!("{}: {error}", file.path))?;
        for path in named.into_iter().filter(|path| path.bare && path.segments[0] == "neap_core") {
            let Some(name) = path.segments.get(1) else { continue };
            let line = path.line;
            if !table.crates.get(owner).is_some_and(|allowed| permits(allowed, name)) {
                let message = format!("`{owner}` must not use `neap_core::{name}` ({LAYERS})");
                findings.push(Finding::line(&file.path, line, message));
            }
        }
    }
    Ok(())
}

/// The name of the folder of the crate that a file belongs to.
fn owner<'a>(tree: &Tree, path: &'a str) -> &'a str {
    let mut folder = path;
    while let Some((outer, _)) = folder.rsplit_once('/') {
        if tree.locate(outer).join("Cargo.toml").exists() {
            return outer.rsplit('/').next().unwrap_or(outer);
        }
        folder = outer;
    }
    ""
}

fn permits(allowed: &BTreeSet<String>, name: &str) -> bool {
    allowed.contains("*") || allowed.contains(name)
}

/// Reads LAYERS: `module: names…`, `test MODULE: names…`, `group = names…`, `crate NAME: names…`,
/// `circles: names…`. A module may name only what stands above it, so that there can be no circle.
fn parse(text: &str, findings: &mut Vec<Finding>) -> Table {
    let mut table = Table::default();
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some(split) =
            line.find(": ").or(line.find('=')).or(line.strip_suffix(':').map(str::len))
        else {
            if !line.is_empty() {
                let message = "want `module: names`, `group = names` or `crate NAME: names`";
                findings.push(Finding::line(LAYERS, index + 1, message));
            }
            continue;
        };
        let (name, names) = (line[..split].trim(), line[split + 1..].split_whitespace());
        if line[split..].starts_with('=') {
            groups.insert(name, names.collect());
            continue;
        }
        if name == "circles" {
            table.circles.extend(names.map(|name| (name.to_owned(), index + 1)));
            continue;
        }
        let expand = |name| groups.get(name).cloned().unwrap_or_else(|| vec![name]);
        let allowed: BTreeSet<String> = names.flat_map(expand).map(str::to_owned).collect();
        if let Some(name) = name.strip_prefix("crate ") {
            table.crates.insert(name.trim().to_owned(), allowed);
            continue;
        }
        for below in &allowed {
            if below != "*" && !table.modules.contains_key(below) {
                let message =
                    format!("`{name}` may name only modules above it, and `{below}` is none");
                findings.push(Finding::line(LAYERS, index + 1, message));
            }
        }
        match name.strip_prefix("test ") {
            Some(name) => table.tests.insert(name.trim().to_owned(), allowed),
            None => table.modules.insert(name.to_owned(), allowed),
        };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::findings;

    const TABLE: (&str, &str) = (
        LAYERS,
        "addr:\nsync:\nbase = addr sync # both\nheap: base\nmark: heap base\nruntime: *\ncrate \
         neap-c: api\n",
    );

    fn with(path: &str, text: &str) -> Vec<String> {
        let crates = ["crates/neap-core", "crates/neap-c", "bench", "tests/deep"];
        let manifests = crates.map(|folder| format!("{folder}/Cargo.toml"));
        let mut files: Vec<(&str, &str)> =
            manifests.iter().map(|path| (path.as_str(), "")).collect();
        files.extend([TABLE, (path, text)]);
        findings(check, &files)
    }

    #[test]
    fn imports_downward_pass() {
        let text = "use crate::heap::{self, Block};\nuse crate::{addr::Address, sync};\nuse \
            super::drain;\n";
        assert_eq!(with("crates/neap-core/src/mark/scan.rs", text), [""; 0]);
        let text = "use crate::anything::at_all;\n";
        assert_eq!(with("crates/neap-core/src/runtime.rs", text), [""; 0]);
        let text = "use neap_core::api;\nfn f() { neap_core::api::collect() }\n";
        assert_eq!(with("crates/neap-c/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn imports_upward_fail_however_they_are_written() {
        for (path, text) in [
            ("crates/neap-core/src/heap/block.rs", "use crate::mark;\n"),
            ("crates/neap-core/src/heap/block.rs", "use crate::{addr::Address, mark::drain};\n"),
            ("crates/neap-core/src/heap/block.rs", "fn f() { crate::mark::drain() }\n"),
            ("crates/neap-core/src/heap/block.rs", "use super::super::mark;\n"),
            ("crates/neap-core/src/heap.rs", "use super::mark::drain;\n"),
            ("crates/neap-core/src/heap/mod.rs", "use super::mark::drain;\n"),
            ("crates/neap-core/src/heap.rs", "mod tests { use super::super::mark; }\n"),
            ("crates/neap-core/src/heap.rs", "x!(crate::mark::y);\n"),
            ("crates/neap-core/src/heap.rs", "macro_rules! m { () => { $crate::mark::y } }\n"),
        ] {
            let found = with(path, text);
            assert_eq!(
                found,
                [format!("{path}:1: `heap` must not import `mark` (LAYERS)")],
                "{text}"
            );
        }
    }

    #[test]
    fn a_part_of_a_module_can_stand_lower_than_the_rest() {
        let layers = (LAYERS, "sys::futex:\nsync: sys::futex\nsys: sync sys::futex\n");
        let check = |path, text| findings(check, &[layers, (path, text)]);
        let sync = "crates/neap-core/src/sync.rs";
        assert_eq!(
            check(sync, "use crate::sys::futex::wait;\nuse crate::sys::{futex};\n"),
            [""; 0]
        );
        assert_eq!(
            check(sync, "use crate::sys::{futex, map};\n"),
            [format!("{sync}:1: `sync` must not import `sys` (LAYERS)")]
        );
        assert_eq!(check("crates/neap-core/src/sys/map.rs", "use crate::sync::Lock;\n"), [""; 0]);
        assert_eq!(check("crates/neap-core/src/sys/futex.rs", "use crate::sync::Lock;\n").len(), 1);
    }

    #[test]
    fn tests_can_be_let_import_more() {
        let layers = (LAYERS, "alloc:\nmark:\ntest mark: alloc\n");
        let check = |text| findings(check, &[layers, ("crates/neap-core/src/mark/scan.rs", text)]);
        assert_eq!(check("#[cfg(test)] mod tests { use crate::alloc; }\n"), [""; 0]);
        assert_eq!(check("use crate::alloc;\n#[cfg(test)] mod tests {}\n").len(), 1);
    }

    #[test]
    fn what_only_looks_like_an_import_passes() {
        let text = "// use crate::mark;\nconst A: &str = \"crate::mark\";\npub(crate) fn f() \
            {}\nmod tests { use super::*; }\n";
        assert_eq!(with("crates/neap-core/src/heap.rs", text), [""; 0]);
    }

    #[test]
    fn unknown_modules_and_front_ends_that_reach_inside_fail() {
        assert_eq!(with("crates/neap-core/src/new.rs", "").len(), 1);
        assert_eq!(with("crates/neap-core/src/heap.rs", "use crate::reexported;\n").len(), 1);
        let found = with("crates/neap-c/src/lib.rs", "\nuse neap_core::heap::Block;\n");
        assert_eq!(
            found,
            ["crates/neap-c/src/lib.rs:2: `neap-c` must not use `neap_core::heap` (LAYERS)"]
        );
        assert_eq!(with("bench/src/main.rs", "use neap_core::api;\n").len(), 1);
        let found = with("tests/deep/src/main.rs", "use neap_core::api;\n");
        assert!(found[0].contains("`deep` must not use `neap_core::api`"), "{found:?}");
    }

    #[test]
    fn a_table_that_could_hold_a_circle_fails() {
        let found = findings(check, &[(LAYERS, "a: b\nb: a\nnonsense\n")]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("LAYERS:1: `a` may name only modules above it"));
        assert!(found[1].starts_with("LAYERS:3: want"));
    }
}
