//! Attribute macros that give a struct another field, or another layout, as libraries for entities
//! and messages do. Called by the compiler for programs of `tests/ui`.

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

/// Packs a struct.
#[proc_macro_attribute]
pub fn packs(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut packed: TokenStream = "#[repr(C, packed)]".parse().expect("an attribute");
    packed.extend(item);
    packed
}
