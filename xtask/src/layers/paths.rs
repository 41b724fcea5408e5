//! Which paths a Rust file names, read from its tokens.
//!
//! Invariant: macro bodies count like other code; `crate`, `self` and `super` are followed to where
//! they lead, through the modules that are opened inside the file too. Pure. Called by `layers` and
//! by `circles`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

/// The file that says who may import whom.
pub const LAYERS: &str = "LAYERS";
/// Where the core's modules are.
pub const CORE: &str = "crates/neap-core/src/";

/// A path that a file names.
#[derive(Debug, PartialEq)]
pub struct Named {
    /// From the top of the crate, unless `bare`. A glob ends in `*`.
    pub segments: Vec<String>,
    /// It begins with a name of its scope: an import, a module inside, or another crate.
    pub bare: bool,
    /// The module that it stands in.
    pub scope: Vec<String>,
    pub line: usize,
    /// Under `#[cfg(test)]`.
    pub in_test: bool,
    /// What a `use` makes of it.
    pub import: Option<Import>,
}

/// One name that a `use` brings into its scope.
#[derive(Debug, PartialEq)]
pub struct Import {
    pub name: String,
    /// `pub use`, of whatever range.
    pub is_public: bool,
}

/// Every path of two names or more in the file of the module `module`, and every import.
pub fn named(text: &str, module: &[String]) -> Result<Vec<Named>, String> {
    let tokens = TokenStream::from_str(text).map_err(|error| format!("not Rust: {error}"))?;
    let mut found = Vec::new();
    walk(tokens, &Place { scope: module.to_vec(), in_test: false }, &mut found);
    Ok(found)
}

/// Where in a file's modules the walk is.
#[derive(Clone)]
struct Place {
    scope: Vec<String>,
    in_test: bool,
}

fn walk(tokens: TokenStream, outer: &Place, found: &mut Vec<Named>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut outer = outer.clone();
    // What holds for the item being read, from its attributes to its `;` or its braces.
    let mut place = outer.clone();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let is_brace = group.delimiter() == Delimiter::Brace;
                if !is_visibility(&tokens, at) {
                    walk(group.stream(), &inside(&tokens, at, &place), found);
                }
                if is_brace {
                    place = outer.clone();
                } else if is_test_attribute(&tokens, at) {
                    place.in_test = true;
                    outer.in_test |= is_mark(&tokens[at - 1], '!');
                }
                at += 1;
            }
            TokenTree::Ident(word) if word == "use" && !is_capture(&tokens, at) => {
                let length = tokens[at..].iter().take_while(|token| !is_mark(token, ';')).count();
                let is_public = follows_visibility(&tokens, at);
                let tree = &tokens[at + 1..at + length];
                imports(tree, &[], &place, is_public, found);
                at += length;
            }
            TokenTree::Ident(_) if !follows_separator(&tokens, at) => {
                at = path(&tokens, at, &place, found);
            }
            TokenTree::Punct(mark) => {
                if mark.as_char() == ';' {
                    place = outer.clone();
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Whether the `use` at `at` is one of `impl Trait + use<'a>`.
fn is_capture(tokens: &[TokenTree], at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|token| is_mark(token, '<'))
}

/// The place inside the group at `at`: one module deeper if the group is a module's.
fn inside(tokens: &[TokenTree], at: usize, place: &Place) -> Place {
    let mut inner = place.clone();
    if at >= 2
        && is_word(&tokens[at - 2], "mod")
        && let (TokenTree::Ident(name), TokenTree::Group(group)) = (&tokens[at - 1], &tokens[at])
        && group.delimiter() == Delimiter::Brace
    {
        inner.scope.push(name.to_string());
    }
    inner
}

/// Whether the group at `at` makes `#[cfg(test)]`, `#![cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    let TokenTree::Group(group) = &tokens[at] else { return false };
    let follows_hash = at >= 1 && is_mark(&tokens[at - 1], '#')
        || at >= 2 && is_mark(&tokens[at - 1], '!') && is_mark(&tokens[at - 2], '#');
    let text: String = group.stream().to_string().split_whitespace().collect();
    follows_hash && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Whether the group at `at` is that of `pub(…)`, which imports nothing.
fn is_visibility(tokens: &[TokenTree], at: usize) -> bool {
    at >= 1 && is_word(&tokens[at - 1], "pub")
}

/// Whether the item that begins at `at` has `pub` or `pub(…)` before it.
fn follows_visibility(tokens: &[TokenTree], at: usize) -> bool {
    at >= 1 && (is_word(&tokens[at - 1], "pub") || is_visibility(tokens, at - 1))
}

/// The names that a tree of imports brings in, behind `prefix`.
fn imports(
    tree: &[TokenTree],
    prefix: &[(String, usize)],
    place: &Place,
    is_public: bool,
    found: &mut Vec<Named>,
) {
    let mut names = prefix.to_vec();
    let mut renamed = None;
    let mut rest = tree.iter();
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Ident(word) if word == "as" => renamed = rest.next().map(text_of),
            TokenTree::Ident(word) => names.push((word.to_string(), line_of(token))),
            TokenTree::Punct(mark) if mark.as_char() == '*' => {
                names.push(("*".into(), line_of(token)));
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let parts =
                    inner.split(|token| is_mark(token, ',')).filter(|part| !part.is_empty());
                parts.for_each(|part| imports(part, &names, place, is_public, found));
                return;
            }
            _ => {}
        }
    }
    // `self` at the end of a tree is the module before it.
    if names.len() > 1 && names.last().is_some_and(|(name, _)| name == "self") {
        names.pop();
    }
    let Some((last, _)) = names.last().cloned() else { return };
    let name = renamed.unwrap_or(last);
    push(&names, place, Some(Import { name, is_public }), found);
}

/// Reads the path that begins at `at`; gives where to go on.
fn path(tokens: &[TokenTree], at: usize, place: &Place, found: &mut Vec<Named>) -> usize {
    let mut names = vec![(text_of(&tokens[at]), line_of(&tokens[at]))];
    let mut next = at + 1;
    while separator(tokens, next) && matches!(tokens.get(next + 2), Some(TokenTree::Ident(_))) {
        names.push((text_of(&tokens[next + 2]), line_of(&tokens[next + 2])));
        next += 3;
    }
    if names.len() > 1 {
        push(&names, place, None, found);
    }
    next
}

/// Adds a path, its beginning followed to where it leads.
fn push(names: &[(String, usize)], place: &Place, import: Option<Import>, found: &mut Vec<Named>) {
    let mut segments = Vec::new();
    let mut bare = true;
    for (index, (name, _)) in names.iter().enumerate() {
        match name.as_str() {
            "crate" if index == 0 => bare = false,
            "self" if index == 0 && names.len() > 1 => {
                segments.clone_from(&place.scope);
                bare = false;
            }
            "super" => {
                if index == 0 {
                    segments.clone_from(&place.scope);
                }
                segments.pop();
                bare = false;
            }
            _ => segments.push(name.clone()),
        }
    }
    let line = names.last().map_or(0, |(_, line)| *line);
    let (scope, in_test) = (place.scope.clone(), place.in_test);
    found.push(Named { segments, bare, scope, line, in_test, import });
}

fn text_of(token: &TokenTree) -> String {
    token.to_string()
}

fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(name) if name == word)
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

fn separator(tokens: &[TokenTree], at: usize) -> bool {
    tokens.len() > at + 1 && is_mark(&tokens[at], ':') && is_mark(&tokens[at + 1], ':')
}

/// Whether the tokens before are `::` after a name or `>`: `at` is then no beginning.
fn follows_separator(tokens: &[TokenTree], at: usize) -> bool {
    at >= 3
        && separator(tokens, at - 2)
        && (matches!(tokens[at - 3], TokenTree::Ident(_)) || is_mark(&tokens[at - 3], '>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, module: &str) -> Vec<Named> {
        named(text, &module.split("::").map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    /// The paths from the top of the crate, joined.
    fn joined(text: &str, module: &str) -> Vec<String> {
        let whole = read(text, module).into_iter().filter(|path| !path.bare);
        whole.map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn paths_by_table() {
        for (text, module, wanted) in [
            ("use crate::a::b;", "m", vec!["a::b"]),
            ("use crate::{a::b, c::{d, e}, f};", "m", vec!["a::b", "c::d", "c::e", "f"]),
            ("use ::crate_of_another::a;", "m", vec![]),
            ("use other::crate_like::a; other::super_like::x()", "m", vec![]),
            ("use super::a;", "m", vec!["a"]),
            ("use super::a;", "m::n", vec!["m::a"]),
            ("use super::super::{a, b::c};", "m::n", vec!["a", "b::c"]),
            ("mod t { use super::super::a; }", "m", vec!["a"]),
            ("mod t { use super::a; }", "m", vec!["m::a"]),
            ("mod t { mod u { use super::super::super::a; } }", "m", vec!["a"]),
            (
                "fn f() -> crate::a::B { crate::c::d(crate::e::F) }",
                "m",
                vec!["a::B", "c::d", "e::F"],
            ),
            ("use self::super::a; self::b::c()", "m", vec!["a", "m::b::c"]),
            ("use crate::*; use super::*;", "m", vec!["*", "*"]),
            ("mod t { use super::*; }", "m", vec!["m::*"]),
            ("use crate::a::{self, b::{self, c}};", "m", vec!["a", "a::b", "a::b::c"]),
            ("pub(in crate::a) struct B(pub(crate) u8);", "m", vec![]),
            ("/// crate::a\nstruct B; // crate::c", "m", vec![]),
            ("f!{ x => crate::a::b }", "m", vec!["a::b"]),
            ("macro_rules! m { () => { $crate::a::b } }", "m", vec!["a::b"]),
            ("let x = crate::a::B::<crate::c>::new();", "m", vec!["a::B", "c"]),
        ] {
            assert_eq!(joined(text, module), wanted, "{text}");
        }
    }

    #[test]
    fn paths_that_begin_with_a_name_are_bare_and_know_their_scope() {
        let found = read("use a::b; mod t { fn f() { c::d::e(); V::<x>::y(); } }", "m");
        let shown: Vec<String> = found
            .iter()
            .map(|path| format!("{} in {}", path.segments.join("::"), path.scope.join("::")))
            .collect();
        assert_eq!(shown, ["a::b in m", "c::d::e in m::t"]);
        assert!(found.iter().all(|path| path.bare));
        let found = read("use neap_core::{api, heap};", "m");
        assert_eq!(found[1].segments, ["neap_core", "heap"]);
    }

    #[test]
    fn imports_have_their_names_and_say_whether_they_are_public() {
        let text = "use crate::a; pub use b::C as D; pub(crate) use e::{self as f, g}; h::i();";
        let imports: Vec<_> = read(text, "m")
            .into_iter()
            .map(|path| path.import.map(|import| (import.name, import.is_public)))
            .collect();
        let named = |name: &str, is_public| Some((name.to_owned(), is_public));
        let wanted =
            [named("a", false), named("D", true), named("f", true), named("g", true), None];
        assert_eq!(imports, wanted);
    }

    #[test]
    fn code_for_tests_is_told_from_the_rest() {
        for (text, wanted) in [
            ("#[cfg(test)] mod t { fn f() { crate::a } } use crate::b;", vec![true, false]),
            ("#[cfg(test)] use crate::a; use crate::b;", vec![true, false]),
            ("#[cfg(all(test, not(loom)))] pub(crate) mod t { use crate::a; }", vec![true]),
            ("#![cfg(test)] use crate::a; mod t { use crate::b; }", vec![true, true]),
            ("#[cfg(not(test))] use crate::a;", vec![false]),
            ("#[cfg(any(test, x))] use crate::a;", vec![false]),
            ("#[cfg(test)] #[allow(y)] fn f() {} fn g() { crate::a }", vec![false]),
        ] {
            let found = read(text, "m");
            assert_eq!(found.iter().map(|path| path.in_test).collect::<Vec<_>>(), wanted, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let found = read("\n\nuse crate::{\n a,\n b};\n", "m");
        assert_eq!(found.iter().map(|path| path.line).collect::<Vec<_>>(), [4, 5]);
    }
}
