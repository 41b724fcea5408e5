//! What a type or a field says in `#[trace(…)]`, and `#[repr(packed)]`.
//!
//! Invariant: what is not understood is an error at its place. Called by `derive`.

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, LitStr, Result, Token, WherePredicate};

/// What follows a `where`.
pub type Conditions = Punctuated<WherePredicate, Token![,]>;

/// What a type says.
#[derive(Default)]
pub struct OfType {
    /// It has a destructor of its own.
    pub drop: bool,
    /// No field leads to an object.
    pub no_gc: bool,
    /// The conditions of what is derived, instead of one on each type that it takes.
    pub bound: Option<Conditions>,
}

/// Whether it has this name, also as a raw identifier.
fn is(attribute: &Attribute, name: &str) -> bool {
    attribute.path().get_ident().is_some_and(|own| own.unraw() == name)
}

/// What `#[trace(…)]` and `#[repr(…)]` on a type say.
pub fn of_type(attributes: &[Attribute]) -> Result<OfType> {
    let mut found = OfType::default();
    for attribute in attributes {
        if is(attribute, "repr") {
            attribute.parse_nested_meta(|meta| {
                // Also as a raw identifier.
                if meta.path.get_ident().is_some_and(|name| name.unraw() == "packed") {
                    let why = "a packed type may have pointers where the collector does not look";
                    return Err(meta.error(why));
                }
                // `align(N)`.
                if meta.input.peek(syn::token::Paren) {
                    let inner;
                    syn::parenthesized!(inner in meta.input);
                    inner.parse::<proc_macro2::TokenStream>()?;
                }
                Ok(())
            })?;
        } else if is(attribute, "trace") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("drop") {
                    found.drop = true;
                } else if meta.path.is_ident("no_gc") {
                    found.no_gc = true;
                } else if meta.path.is_ident("bound") {
                    let conditions: LitStr = meta.value()?.parse()?;
                    found.bound = Some(conditions.parse_with(Conditions::parse_terminated)?);
                } else {
                    let what = "`trace(drop)`, `trace(no_gc)` or `trace(bound = \"…\")`";
                    return Err(meta.error(format!("a type says {what}")));
                }
                Ok(())
            })?;
        }
    }
    Ok(found)
}

/// Whether a field says `#[trace(conservative)]`.
pub fn is_conservative(attributes: &[Attribute]) -> Result<bool> {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| is(attribute, "trace")) {
        attribute.parse_nested_meta(|meta| match meta.path.is_ident("conservative") {
            true => {
                found = true;
                Ok(())
            }
            false => Err(meta.error("a field says `trace(conservative)`")),
        })?;
    }
    Ok(found)
}

/// A variant has nothing to say.
pub fn none_on_variant(attributes: &[Attribute]) -> Result<()> {
    match attributes.iter().find(|attribute| is(attribute, "trace")) {
        Some(attribute) => Err(Error::new_spanned(attribute, "`trace` is for types and fields")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn packing_is_refused_however_it_is_written() {
        let refuses = |attribute: Attribute| of_type(&[attribute]).is_err();
        assert!(refuses(parse_quote!(#[repr(packed)])));
        assert!(refuses(parse_quote!(#[repr(r#packed)])));
        assert!(refuses(parse_quote!(#[r#repr(packed)])));
        assert!(refuses(parse_quote!(#[repr(C, packed(2))])));
        assert!(!refuses(parse_quote!(#[repr(C, align(16))])));
    }
}
