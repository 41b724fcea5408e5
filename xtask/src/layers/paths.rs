//! Which modules of a crate a file's paths name, read from its tokens.
//!
//! Invariant: macro bodies count like other code; a `super` is followed to where it leads through the
//! modules that are opened inside the file. Pure. Called by `layers`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

/// A top-level name of a crate with the name in it that is meant, and the line that names it.
#[derive(Debug, PartialEq)]
pub struct Used {
    pub name: String,
    pub inner: Option<String>,
    pub line: usize,
    /// Under `#[cfg(test)]`.
    pub in_test: bool,
}

/// The names that follow one of `roots`, or enough `super`s to leave a module `depth` below the top.
pub fn used(text: &str, depth: usize, roots: &[&str]) -> Result<Vec<Used>, String> {
    let tokens = TokenStream::from_str(text).map_err(|error| format!("not Rust: {error}"))?;
    let mut found = Vec::new();
    let outer = Place { depth, in_test: false };
    walk(tokens, outer, roots, &mut found);
    Ok(found)
}

/// Where in a file's modules the walk is.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    in_test: bool,
}

fn walk(tokens: TokenStream, outer: Place, roots: &[&str], found: &mut Vec<Used>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut outer = outer;
    // What holds for the item being read, from its attributes to its `;` or its braces.
    let mut place = outer;
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let is_brace = group.delimiter() == Delimiter::Brace;
                let opens_module = at >= 2
                    && is_brace
                    && is_word(&tokens[at - 2], "mod")
                    && matches!(tokens[at - 1], TokenTree::Ident(_));
                let deeper = usize::from(opens_module);
                let inner = Place { depth: place.depth.saturating_add(deeper), ..place };
                walk(group.stream(), inner, roots, found);
                if is_brace {
                    place = outer;
                } else if is_test_attribute(&tokens, at) {
                    place.in_test = true;
                    outer.in_test |= is_mark(&tokens[at - 1], '!');
                }
                at += 1;
            }
            TokenTree::Ident(_) if !follows_separator(&tokens, at) => {
                let first = found.len();
                at = path(&tokens, at, place.depth, roots, found);
                found[first..].iter_mut().for_each(|used| used.in_test = place.in_test);
            }
            TokenTree::Punct(mark) => {
                if mark.as_char() == ';' {
                    place = outer;
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Whether the group at `at` makes `#[cfg(test)]`, `#![cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_test_attribute(tokens: &[TokenTree], at: usize) -> bool {
    let TokenTree::Group(group) = &tokens[at] else { return false };
    let follows_hash = at >= 1 && is_mark(&tokens[at - 1], '#')
        || at >= 2 && is_mark(&tokens[at - 1], '!') && is_mark(&tokens[at - 2], '#');
    let text: String = group.stream().to_string().split_whitespace().collect();
    follows_hash && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// Reads the path that begins at `at`; gives where to go on.
fn path(
    tokens: &[TokenTree],
    at: usize,
    depth: usize,
    roots: &[&str],
    found: &mut Vec<Used>,
) -> usize {
    let mut next = at;
    let mut supers = 0;
    if is_word(&tokens[next], "self") && separator(tokens, next + 1) {
        next += 3;
    }
    while next < tokens.len() && is_word(&tokens[next], "super") && separator(tokens, next + 1) {
        supers += 1;
        next += 3;
    }
    let is_root = roots.iter().any(|root| is_word(&tokens[at], root)) && separator(tokens, at + 1);
    if is_root {
        top_names(tokens, at + 3, found);
    } else if supers > 0 && supers >= depth {
        top_names(tokens, next, found);
    }
    // A group after the path is left to `walk`, for paths inside it.
    next.max(at + 1).min(tokens.len())
}

/// The name at `at`, or each first name of the group there.
fn top_names(tokens: &[TokenTree], at: usize, found: &mut Vec<Used>) {
    for (name, line, after) in first_names(tokens, at) {
        let follows = if separator(&after, 0) { first_names(&after, 2) } else { Vec::new() };
        if follows.is_empty() {
            found.push(Used { name: name.clone(), inner: None, line, in_test: false });
        }
        for (inner, line, _) in follows {
            // `self` in a group means the module itself, and a glob all of it.
            let inner = Some(inner).filter(|inner| inner != "self" && inner != "*");
            found.push(Used { name: name.clone(), inner, line, in_test: false });
        }
    }
}

/// A name, its line, and the tokens after it.
type Named = (String, usize, Vec<TokenTree>);

/// The name at `at`, or those that begin the parts of the group there; `*` for a glob.
fn first_names(tokens: &[TokenTree], at: usize) -> Vec<Named> {
    match tokens.get(at) {
        Some(TokenTree::Ident(name)) => {
            vec![(name.to_string(), name.span().start().line, tokens[at + 1..].to_vec())]
        }
        Some(TokenTree::Punct(mark)) if mark.as_char() == '*' => {
            vec![("*".into(), mark.span().start().line, Vec::new())]
        }
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let parts = inner.split(|token| is_mark(token, ','));
            parts.flat_map(|part| first_names(part, 0)).collect()
        }
        _ => Vec::new(),
    }
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

/// Whether the token before is `::` that itself follows a name: `at` is then no beginning.
fn follows_separator(tokens: &[TokenTree], at: usize) -> bool {
    at >= 3 && separator(tokens, at - 2) && matches!(tokens[at - 3], TokenTree::Ident(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, depth: usize) -> Vec<String> {
        used(text, depth, &["crate"]).unwrap().into_iter().map(|used| used.name).collect()
    }

    fn pairs(text: &str) -> Vec<String> {
        let used = used(text, 1, &["crate"]).unwrap().into_iter();
        used.map(|used| used.name + "." + used.inner.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn paths_by_table() {
        for (text, depth, wanted) in [
            ("use crate::a::b;", 1, vec!["a"]),
            ("use crate::{a::b, c::{d, e}, f};", 1, vec!["a", "c", "c", "f"]),
            ("use ::crate_of_another::a;", 1, vec![]),
            ("use other::crate_like::a; other::super_like::x()", 1, vec![]),
            ("use super::a;", 1, vec!["a"]),
            ("use super::a;", 2, vec![]),
            ("use super::super::{a, b::c};", 2, vec!["a", "b"]),
            ("mod t { use super::super::a; }", 1, vec!["a"]),
            ("mod t { use super::a; }", 1, vec![]),
            ("mod t { mod u { use super::super::super::a; } }", 1, vec!["a"]),
            ("fn f() -> crate::a::B { crate::c::d(crate::e::F) }", 1, vec!["a", "c", "e"]),
            ("use self::super::a;", 1, vec!["a"]),
            ("use crate::*;", 1, vec!["*"]),
            ("use super::*;", 1, vec!["*"]),
            ("mod t { use super::*; }", 1, vec![]),
            ("pub(in crate::a) struct B(pub(crate) u8);", 1, vec!["a"]),
            ("/// crate::a\nstruct B; // crate::c", 1, vec![]),
            ("f!{ x => crate::a::b }", 1, vec!["a"]),
        ] {
            assert_eq!(names(text, depth), wanted, "{text}");
        }
    }

    #[test]
    fn the_name_inside_is_seen_too() {
        assert_eq!(pairs("use crate::a;"), ["a.-"]);
        assert_eq!(pairs("use crate::a::b::c;"), ["a.b"]);
        assert_eq!(pairs("use crate::a::{b::x, c, self};"), ["a.b", "a.c", "a.-"]);
        assert_eq!(pairs("use crate::{a::{b, c}, d::*, e::f};"), ["a.b", "a.c", "d.-", "e.f"]);
        assert_eq!(pairs("let x = crate::a::b(1, crate::c);"), ["a.b", "c.-"]);
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
            let used = used(text, 1, &["crate"]).unwrap();
            assert_eq!(used.iter().map(|used| used.in_test).collect::<Vec<_>>(), wanted, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let used = used("\n\nuse crate::{\n a,\n b};\n", 1, &["crate"]).unwrap();
        assert_eq!(used.iter().map(|used| used.line).collect::<Vec<_>>(), [4, 5]);
    }
}
