//! Which modules of a crate a file's paths name, read from its tokens.
//!
//! Invariant: macro bodies count like other code; a `super` is followed to where it leads through the
//! modules that are opened inside the file. Pure. Called by `layers`.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

/// A top-level name of a crate, and the line that names it.
#[derive(Debug, PartialEq)]
pub struct Used {
    pub name: String,
    pub line: usize,
}

/// The names that follow one of `roots`, or enough `super`s to leave a module `depth` below the top.
pub fn used(text: &str, depth: usize, roots: &[&str]) -> Result<Vec<Used>, String> {
    let tokens = TokenStream::from_str(text).map_err(|error| format!("not Rust: {error}"))?;
    let mut found = Vec::new();
    walk(tokens, depth, roots, &mut found);
    Ok(found)
}

fn walk(tokens: TokenStream, depth: usize, roots: &[&str], found: &mut Vec<Used>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                let opens_module = at >= 2
                    && group.delimiter() == Delimiter::Brace
                    && is_word(&tokens[at - 2], "mod")
                    && matches!(tokens[at - 1], TokenTree::Ident(_));
                let inner = if opens_module { depth.saturating_add(1) } else { depth };
                walk(group.stream(), inner, roots, found);
                at += 1;
            }
            TokenTree::Ident(_) if !follows_separator(&tokens, at) => {
                at = path(&tokens, at, depth, roots, found);
            }
            _ => at += 1,
        }
    }
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
    match tokens.get(at) {
        Some(TokenTree::Ident(name)) => {
            found.push(Used { name: name.to_string(), line: name.span().start().line });
        }
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_first = |index: usize| index == 0 || is_mark(&inner[index - 1], ',');
            (0..inner.len())
                .filter(|&index| is_first(index))
                .for_each(|index| top_names(&inner, index, found));
        }
        // A glob names nothing in particular; LAYERS cannot judge it, so it counts as itself.
        Some(TokenTree::Punct(mark)) if mark.as_char() == '*' => {
            found.push(Used { name: "*".into(), line: mark.span().start().line });
        }
        _ => {}
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

    #[test]
    fn paths_by_table() {
        for (text, depth, wanted) in [
            ("use crate::a::b;", 1, vec!["a"]),
            ("use crate::{a::b, c::{d, e}, f};", 1, vec!["a", "c", "f"]),
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
    fn lines_are_counted_from_one() {
        let used = used("\n\nuse crate::{\n a,\n b};\n", 1, &["crate"]).unwrap();
        assert_eq!(used.iter().map(|used| used.line).collect::<Vec<_>>(), [4, 5]);
    }
}
