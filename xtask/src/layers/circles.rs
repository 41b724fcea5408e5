//! Circles inside a crate: files of which each imports the next, and the last the first.
//!
//! A file imports another if its code, tests aside, names something in it:
//!
//! - A path leads to the file of the innermost module that it names. Names that a `use` brings in,
//!   `super::…` and re-exports are followed to where the thing is, so `super::x` of a module beside
//!   this one counts as an import of that one, and a re-export makes nobody depend on the parent.
//! - What a parent names of its own children, re-exports and calls alike, is no import: a module's
//!   own file is put together from them. So children may use what their parent's file defines.
//! - `use` of a module alone is none either; the paths that begin with it are.
//! - A visibility (`pub(in …)`), a doc link and a method call name no file.
//!
//! Invariant: a circle fails unless LAYERS lists its place (`circles: PLACE …`: a module of
//! neap-core, or the folder of another crate), and a listed place without a circle fails too.
//! Called by `layers`.

use super::graph::{self, Graph};
use super::paths::{self, CORE, LAYERS, Named};
use crate::tree::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// How many re-exports one name may lead through.
const MOST_STEPS: usize = 20;

/// A crate's modules, by their paths from its top, that have a file of their own.
struct Modules {
    files: BTreeMap<Vec<String>, Source>,
    /// Names that imports bring into a scope, and where they lead.
    imports: BTreeMap<Vec<String>, BTreeMap<String, Vec<String>>>,
}

struct Source {
    path: String,
    named: Vec<Named>,
}

/// Circles that LAYERS does not list, and places listed without one.
pub fn findings(tree: &Tree, listed: &BTreeMap<String, usize>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let mut needed = BTreeSet::new();
    for (folder, modules) in crates(tree)? {
        for circle in graph::circles(&modules.graph()) {
            let place = place(&folder, &circle);
            if !listed.contains_key(&place) {
                let message = format!(
                    "these {} files of `{place}` import each other in a circle; turn an import \
                     round, or move what both need: {}",
                    circle.len(),
                    modules.arrows(&circle)
                );
                findings.push(Finding::file(&folder, message));
            }
            needed.insert(place);
        }
    }
    for (place, line) in listed {
        if !needed.contains(place) {
            let message = format!("`{place}` has no circle any more: take it out of `circles`");
            findings.push(Finding::line(LAYERS, *line, message));
        }
    }
    Ok(findings)
}

/// What LAYERS calls the place of a circle: the module of the core that it is in, else the crate.
fn place(folder: &str, circle: &BTreeSet<String>) -> String {
    let crate_name = folder.trim_end_matches("/src/").rsplit('/').next().unwrap_or_default();
    let top = |path: &String| {
        let inside = path.strip_prefix(CORE)?;
        Some(inside.split(['/', '.']).next().unwrap_or_default().to_owned())
    };
    let tops: BTreeSet<Option<String>> = circle.iter().map(top).collect();
    match tops.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(module)] => module.clone(),
        _ => crate_name.to_owned(),
    }
}

/// The modules of each crate with a `src` folder, by that folder.
fn crates(tree: &Tree) -> Result<BTreeMap<String, Modules>, String> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for file in tree.files("", &[".rs"])? {
        let Some((folder, inside)) = file
            .path
            .rsplit_once("/src/")
            .or_else(|| file.path.strip_prefix("src/").map(|inside| ("", inside)))
        else {
            continue;
        };
        let module = module(inside);
        let named =
            paths::named(&file.text, &module).map_err(|error| format!("{}: {error}", file.path))?;
        let modules = crates
            .entry(format!("{folder}/src/"))
            .or_insert_with(|| Modules { files: BTreeMap::new(), imports: BTreeMap::new() });
        modules.files.insert(module, Source { path: file.path, named });
    }
    crates.values_mut().for_each(Modules::note_imports);
    Ok(crates)
}

/// The path of the module that a file under `src` holds; that of `lib.rs` and `main.rs` is empty.
fn module(inside: &str) -> Vec<String> {
    let inside = inside.trim_end_matches(".rs");
    if inside == "lib" || inside == "main" {
        return Vec::new();
    }
    inside.split('/').filter(|part| *part != "mod").map(str::to_owned).collect()
}

impl Modules {
    fn note_imports(&mut self) {
        for source in self.files.values() {
            for path in &source.named {
                let Some(import) = &path.import else { continue };
                // The name of a glob is `*`: only the last of several is followed.
                let whole = if path.bare && self.is_child(&path.scope, &path.segments[0]) {
                    [path.scope.as_slice(), &path.segments].concat()
                } else if path.bare {
                    continue;
                } else {
                    path.segments.clone()
                };
                let names = self.imports.entry(path.scope.clone()).or_default();
                names.insert(import.name.clone(), whole);
            }
        }
    }

    /// Whether the module `scope` has a file of its own for `name`.
    fn is_child(&self, scope: &[String], name: &str) -> bool {
        self.files.contains_key(&[scope, &[name.to_owned()]].concat())
    }

    /// The module whose file has what a path from the crate's top names, and whether the path names
    /// the module itself.
    fn resolve(&self, path: &[String], steps: usize) -> (Vec<String>, bool) {
        let mut module: Vec<String> = Vec::new();
        for (index, name) in path.iter().enumerate() {
            if self.is_child(&module, name) {
                module.push(name.clone());
                continue;
            }
            let import = self.imports.get(&module).and_then(|names| names.get(name));
            return match import {
                Some(target) if steps > 0 => {
                    let whole = [target.as_slice(), &path[index + 1..]].concat();
                    self.resolve(&whole, steps - 1)
                }
                _ => (module, false),
            };
        }
        (module, true)
    }

    /// Where a path leads from the crate's top; nothing if it is another crate's.
    fn whole(&self, path: &Named) -> Option<Vec<String>> {
        if !path.bare {
            return Some(path.segments.clone());
        }
        let first = &path.segments[0];
        let imported = self.imports.get(&path.scope).and_then(|names| names.get(first));
        if let Some(target) = imported.filter(|_| path.import.is_none()) {
            return Some([target.as_slice(), &path.segments[1..]].concat());
        }
        let is_child = self.is_child(&path.scope, first);
        is_child.then(|| [path.scope.as_slice(), &path.segments].concat())
    }

    /// The module that a path makes `own` import, if any.
    fn imported(&self, own: &[String], path: &Named) -> Option<Vec<String>> {
        let (target, is_module) = self.resolve(&self.whole(path)?, MOST_STEPS);
        let only_named = path.import.is_some() && is_module;
        let is_inside = target.starts_with(own);
        (!path.in_test && !is_inside && !only_named).then_some(target)
    }

    /// Which file imports which.
    fn graph(&self) -> Graph {
        let mut graph = Graph::new();
        for (own, source) in &self.files {
            let imported = source.named.iter().filter_map(|path| self.imported(own, path));
            let paths = imported.filter_map(|module| Some(self.files.get(&module)?.path.clone()));
            graph.insert(source.path.clone(), paths.collect());
        }
        graph
    }

    /// The imports that make a circle, one place each.
    fn arrows(&self, circle: &BTreeSet<String>) -> String {
        let mut arrows = BTreeMap::new();
        for (own, source) in self.files.iter().filter(|(_, source)| circle.contains(&source.path)) {
            for path in &source.named {
                let target = self.imported(own, path).and_then(|module| self.files.get(&module));
                if let Some(target) = target.filter(|target| circle.contains(&target.path)) {
                    let arrow = (source.path.as_str(), target.path.as_str());
                    arrows.entry(arrow).or_insert(path.line);
                }
            }
        }
        let shown = |((from, to), line): ((&str, &str), usize)| {
            format!("{from}:{line} → {}", to.rsplit_once("/src/").map_or(to, |(_, inside)| inside))
        };
        arrows.into_iter().map(shown).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::sample;

    /// The findings about files of the module `world` of the core.
    fn found(listed: &[&str], files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("{CORE}{path}"), *text)).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let listed = listed.iter().map(|place| (place.to_string(), 7)).collect();
        let found = findings(&sample(&files).tree, &listed).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    /// Whether the files `world/mod.rs`, `world/a.rs` and `world/b.rs` hold a circle.
    fn circle(parent: &str, a: &str, b: &str) -> bool {
        let files = [("world/mod.rs", parent), ("world/a.rs", a), ("world/b.rs", b)];
        !found(&[], &files).is_empty()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle_however_it_is_written() {
        for (a, b) in [
            ("use super::b::B;", "use super::a::A;"),
            ("use crate::world::b::B;", "fn f() { super::a::f() }"),
            ("use super::b; fn f() { b::g() }", "use crate::world::{a::{self}}; fn g() { a::f() }"),
            ("use super::{b as c}; fn f() { c::g() }", "x!(crate::world::a::f());"),
            ("mod inside { use super::super::b::B; }", "type T = super::a::T;"),
            ("use crate::world; fn f() { world::b::g() }", "use super::a::A;"),
            ("use super::b::*;", "use super::a::A;"),
        ] {
            assert!(circle("mod a; mod b;", a, b), "{a} {b}");
        }
    }

    #[test]
    fn imports_in_one_direction_are_none() {
        for (a, b) in [
            ("use super::b::B;", ""),
            (
                "use super::b::B;",
                "#[cfg(test)] mod tests { use super::super::a::A; use super::*; }",
            ),
            (
                "use super::b::B;",
                "//! Called by [`super::a::A`].\nconst C: &str = \"super::a::A\";",
            ),
            ("use super::b::B;", "pub(in crate::world::a) struct B;"),
            ("use super::b;", "use super::a::A;"),
        ] {
            assert!(!circle("mod a; mod b;", a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_parent_that_only_gives_names_is_in_no_circle() {
        let parent = "mod a; mod b; pub(crate) use a::A; pub use self::b::B;";
        assert!(!circle(parent, "use super::B;", "use crate::world::C;"));
        // The re-export leads to the file that has the thing.
        assert!(circle(parent, "use super::B;", "use super::A;"));
        assert!(circle(parent, "use super::b::B;", "fn f() { crate::world::A::new() }"));
    }

    #[test]
    fn a_parent_is_put_together_from_its_children() {
        let parent = "mod a; mod b; use a::A; pub fn f() { b::g() }";
        assert!(!circle(parent, "use super::f;", "use crate::world::f;"));
        // Not so what it names of others, which may lead back to its children.
        let files = [
            ("world/mod.rs", "mod a; use crate::heap::c;\nfn f() { c::g() }"),
            ("world/a.rs", ""),
            ("heap/mod.rs", "mod c;"),
            ("heap/c.rs", "use crate::world::f;"),
        ];
        assert!(found(&[], &files)[0].contains("these 2 files of `neap-core`"));
    }

    #[test]
    fn circles_have_their_places_and_are_told_with_their_arrows() {
        let files = [
            ("world/mod.rs", "mod a; mod b;"),
            ("world/a.rs", "use super::b::B;"),
            ("world/b.rs", "\nuse super::a::A;"),
        ];
        let said = found(&[], &files);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("these 2 files of `world` import each other"), "{said:?}");
        let arrows = "crates/neap-core/src/world/a.rs:1 → world/b.rs, \
                      crates/neap-core/src/world/b.rs:2 → world/a.rs";
        assert!(said[0].ends_with(arrows), "{said:?}");
        assert_eq!(found(&["world"], &files), [""; 0]);
        assert_eq!(
            found(&["world", "heap"], &files),
            ["LAYERS:7: `heap` has no circle any more: take it out of `circles`"]
        );
        // One that leaves the module is the crate's.
        let across = [("runtime.rs", "use crate::api::x;"), ("api.rs", "use crate::runtime::y;")];
        assert_eq!(found(&["neap-core"], &across), [""; 0]);
        assert_eq!(found(&["api"], &across).len(), 2);
    }

    #[test]
    fn other_crates_are_looked_at_as_wholes() {
        let files = [
            ("bench/src/main.rs", "mod a; mod b; fn main() { a::f() }"),
            ("bench/src/a.rs", "use crate::b::B;"),
            ("bench/src/b/mod.rs", "mod c; mod d; pub use c::B;"),
            ("bench/src/b/c.rs", "use crate::a::A; use crate::main;"),
            ("bench/src/b/d.rs", "use super::B; use crate::b::c::C;"),
        ];
        let said = findings(&sample(&files).tree, &BTreeMap::new()).unwrap();
        assert!(said[0].to_string().contains("these 2 files of `bench`"), "{said:?}");
        let listed = [("bench".to_owned(), 1)].into();
        assert!(findings(&sample(&files).tree, &listed).unwrap().is_empty());
    }
}
