//! `#[derive(Trace)]` for the crate `neap`, which documents it: where a type's pointers are, from
//! its fields.
//!
//! Invariant: what is derived is an implementation of an unsafe trait whose promise the generated
//! code makes the compiler check: every field that is not looked at whole is `Trace`, no type has a
//! destructor of its own unless it asked for that and leads to no object, and none is packed.
//! Called by the compiler.

mod attributes;
mod derive;

/// Derives `neap::Trace`, and `neap::NoGc` where it holds. See there.
#[proc_macro_derive(Trace, attributes(trace))]
pub fn derive_trace(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    derive::trace(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}
