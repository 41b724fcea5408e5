//! The code that `#[derive(Trace)]` writes.
//!
//! Invariant: a field's type is checked where its shape is taken, so the bounds of the generated
//! implementation need not say what follows from the fields. Called by the derive macro.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Field, Fields, Generics, Result, Type, TypeGroup, TypeParamBound,
    TypeParen, parse_quote,
};

use crate::attributes::{self, OfType};

/// One field: its type, how it is named in `offset_of!`, and whether it is looked at whole.
struct Part<'a> {
    field: &'a Field,
    index: usize,
    conservative: bool,
}

impl Part<'_> {
    fn type_of(&self) -> &Type {
        &self.field.ty
    }

    /// Whether it is a pointer to a function, which leads to no object. The traits cannot say so of
    /// functions that take a reference of any lifetime.
    fn is_function(&self) -> bool {
        let mut own = self.type_of();
        while let Type::Paren(TypeParen { elem, .. }) | Type::Group(TypeGroup { elem, .. }) = own {
            own = elem;
        }
        matches!(own, Type::BareFn(_))
    }

    /// Its shape, with the check that it may be a field.
    fn shape(&self) -> TokenStream {
        let own = self.type_of();
        if self.is_function() {
            return quote_spanned!(own.span() => &::neap::Shape::leaf::<#own>());
        }
        if self.conservative {
            return quote_spanned! { own.span() => {
                const { ::core::assert!(
                    !::core::mem::needs_drop::<#own>(),
                    "a conservative field must need no drop: its destructor could follow a `Gc`",
                ) };
                &::neap::Shape::words::<#own>()
            }};
        }
        quote_spanned! { own.span() => <#own as ::neap::Trace>::SHAPE }
    }
}

fn parts(fields: &Fields) -> Result<Vec<Part<'_>>> {
    fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let conservative = attributes::is_conservative(&field.attrs)?;
            Ok(Part { field, index, conservative })
        })
        .collect()
}

/// All of it.
pub fn trace(input: &DeriveInput) -> Result<TokenStream> {
    let said = attributes::of_type(&input.attrs)?;
    let mut all = Vec::new();
    let shape = match &input.data {
        Data::Struct(data) => {
            let parts = parts(&data.fields)?;
            let shape = struct_shape(&parts);
            all.extend(parts);
            shape
        }
        Data::Enum(data) => {
            for variant in &data.variants {
                attributes::none_on_variant(&variant.attrs)?;
                all.extend(parts(&variant.fields)?);
            }
            enum_shape(&all)
        }
        Data::Union(data) => {
            let why =
                "a union does not say what it holds: make it a `#[trace(conservative)]` field";
            return Err(Error::new_spanned(data.union_token, why));
        }
    };
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let why = "a collected object may outlive any lifetime but 'static";
        return Err(Error::new_spanned(lifetime, why));
    }
    let mut bounds: Vec<TypeParamBound> = vec![parse_quote!(::neap::Trace)];
    if said.drop || said.no_gc {
        bounds.push(parse_quote!(::neap::NoGc));
    }
    if said.drop {
        bounds.push(parse_quote!(::core::marker::Send));
    }
    let (name, own) = (&input.ident, bounded(&input.generics, &said, &bounds));
    let (generics, arguments, conditions) = own.split_for_impl();
    let no_gc = no_gc(input, &said, &all);
    let no_drop = if said.drop { is_send(input, &own) } else { has_no_drop(input) };
    let as_seen = is_as_seen(input);
    Ok(quote! {
        #[automatically_derived]
        // SAFETY: every field is named, or has no pointers.
        unsafe impl #generics ::neap::Trace for #name #arguments #conditions {
            const SHAPE: &'static ::neap::Shape = #shape;
        }
        #no_gc
        #no_drop
        #as_seen
    })
}

/// Refuses a type that another macro, written below the derive, gave other fields than are seen
/// here, or packed: there are no references to fields that are less aligned than their types.
fn is_as_seen(input: &DeriveInput) -> TokenStream {
    let check = match &input.data {
        Data::Struct(data) => {
            let (members, types) = members(&data.fields);
            quote! {
                let Self { #(#members: _),* } = self;
                #(let _: ::core::marker::PhantomData<#types> =
                    ::neap::__private::type_of(::core::ptr::from_ref(&self.#members));)*
            }
        }
        Data::Enum(data) => {
            let cases = data.variants.iter().map(case);
            quote!(match *self { #(#cases)* })
        }
        Data::Union(_) => TokenStream::new(),
    };
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    quote! {
        const _: () = {
            #[allow(dead_code)]
            trait HasTheFieldsThatTheDeriveSaw {
                fn check(&self);
            }
            impl #generics HasTheFieldsThatTheDeriveSaw for #name #arguments #conditions {
                fn check(&self) {
                    #check
                }
            }
        };
    }
}

/// A variant with all its fields, each of the type that was seen.
fn case(variant: &syn::Variant) -> TokenStream {
    let name = &variant.ident;
    let (members, types) = members(&variant.fields);
    let fields = (0..members.len()).map(|index| quote::format_ident!("field_{index}"));
    let fields: Vec<_> = fields.collect();
    quote! {
        Self::#name { #(#members: ref #fields),* } => {
            #(let _: ::core::marker::PhantomData<#types> =
                ::neap::__private::type_of(::core::ptr::from_ref(#fields));)*
        }
    }
}

fn members(fields: &Fields) -> (Vec<syn::Member>, Vec<&Type>) {
    fields.iter().enumerate().map(|(index, field)| (member(field, index), &field.ty)).unzip()
}

/// A field's name, or its number.
fn member(field: &Field, index: usize) -> syn::Member {
    match &field.ident {
        Some(name) => name.clone().into(),
        None => index.into(),
    }
}

/// The fields at their places.
fn struct_shape(parts: &[Part<'_>]) -> TokenStream {
    let fields = parts.iter().map(|part| {
        let shape = part.shape();
        let name = member(part.field, part.index);
        quote! {
            ::neap::__private::Field { offset: ::core::mem::offset_of!(Self, #name), shape: #shape }
        }
    });
    quote! {
        &::neap::Shape {
            form: ::neap::__private::Form::Fields,
            bytes: ::core::mem::size_of::<Self>(),
            fields: &[#(#fields),*],
        }
    }
}

/// Where the fields of an enum lie is the compiler's to know: any word, unless none has pointers.
fn enum_shape(parts: &[Part<'_>]) -> TokenStream {
    let shapes = parts.iter().map(Part::shape);
    quote! {
        &::neap::Shape::somewhere_any::<Self>(&[#(#shapes),*])
    }
}

/// The generics with the bounds on every type that they take; or with the type's own conditions,
/// and that nothing has another lifetime, which every `Trace` asks for.
fn bounded(generics: &Generics, said: &OfType, bounds: &[TypeParamBound]) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        match &said.bound {
            Some(_) => parameter.bounds.push(parse_quote!('static)),
            None => parameter.bounds.extend(bounds.iter().cloned()),
        }
    }
    if let Some(own) = &said.bound {
        generics.make_where_clause().predicates.extend(own.iter().cloned());
    }
    generics
}

/// `NoGc`: under the condition that all fields are, which the compiler looks at where it is asked;
/// or, where the type says so, checked here.
fn no_gc(input: &DeriveInput, said: &OfType, parts: &[Part<'_>]) -> TokenStream {
    let name = &input.ident;
    let types = parts.iter().filter(|part| !part.is_function()).map(Part::type_of);
    let types: Vec<&Type> = types.collect();
    if !(said.drop || said.no_gc) {
        if parts.iter().any(|part| part.conservative) {
            return TokenStream::new();
        }
        let mut generics = input.generics.clone();
        let conditions = generics.make_where_clause();
        for one in &types {
            // With a lifetime of its own the condition may be false without being an error.
            conditions.predicates.push(parse_quote!(for<'neap> #one: ::neap::NoGc));
        }
        let (generics, arguments, conditions) = generics.split_for_impl();
        return quote! {
            #[automatically_derived]
            // SAFETY: all fields are.
            unsafe impl #generics ::neap::NoGc for #name #arguments #conditions {}
        };
    }
    let own = bounded(&input.generics, said, &[parse_quote!(::neap::NoGc)]);
    let (generics, arguments, conditions) = own.split_for_impl();
    let checks = types
        .iter()
        .map(|one| quote_spanned!(one.span() => no_field_leads_to_objects_of_neap::<#one>();));
    quote! {
        #[automatically_derived]
        // SAFETY: all fields are, as the method below has the compiler check.
        unsafe impl #generics ::neap::NoGc for #name #arguments #conditions {}
        const _: () = {
            fn no_field_leads_to_objects_of_neap<Part: ::neap::NoGc + ?Sized>() {}
            // Of the type, so that a field may be of `Self`.
            #[allow(dead_code)]
            trait NoFieldLeadsToObjectsOfNeap {
                fn check();
            }
            impl #generics NoFieldLeadsToObjectsOfNeap for #name #arguments #conditions {
                fn check() {
                    #(#checks)*
                }
            }
        };
    }
}

/// Refuses a destructor of the type's own: two implementations would then be one too many.
fn has_no_drop(input: &DeriveInput) -> TokenStream {
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    quote! {
        const _: () = {
            trait NoDropUnlessTheTypeSaysTraceDrop {}
            #[allow(drop_bounds)]
            impl<Other: ::core::ops::Drop + ?Sized> NoDropUnlessTheTypeSaysTraceDrop for Other {}
            impl #generics NoDropUnlessTheTypeSaysTraceDrop for #name #arguments #conditions {}
        };
    }
}

/// The destructor runs on another thread.
fn is_send(input: &DeriveInput, own: &Generics) -> TokenStream {
    let name = &input.ident;
    let (generics, arguments, conditions) = own.split_for_impl();
    quote_spanned! { name.span() =>
        const _: () = {
            fn the_destructor_runs_on_another_thread<Own: ::core::marker::Send>() {}
            #[allow(dead_code)]
            trait TheDestructorRunsOnAnotherThread {
                fn check();
            }
            impl #generics TheDestructorRunsOnAnotherThread for #name #arguments #conditions {
                fn check() {
                    the_destructor_runs_on_another_thread::<#name #arguments>();
                }
            }
        };
    }
}
