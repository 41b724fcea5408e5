//! An attribute macro that gives a struct another field, as libraries for entities and messages do.
//! Called by the compiler for programs of `tests/ui`.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Adds the field that is its argument.
#[proc_macro_attribute]
pub fn adds_field(field: TokenStream, item: TokenStream) -> TokenStream {
    let add = |token| match token {
        TokenTree::Group(fields) if fields.delimiter() == Delimiter::Brace => {
            let all = field.clone().into_iter().chain(fields.stream()).collect();
            TokenTree::Group(Group::new(Delimiter::Brace, all))
        }
        other => other,
    };
    item.into_iter().map(add).collect()
}
