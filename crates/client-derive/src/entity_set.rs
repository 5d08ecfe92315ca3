//! `#[derive(EntitySet)]`.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn3::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Type, Variant};

enum Pick {
    EntityType,
    RowPrefix(LitStr),
    Other,
}

pub fn expand(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(name.span(), "an `EntitySet` is an enum of entity types"));
    };
    let (mut by_prefix, mut by_type, mut checks, mut other) = (Vec::new(), Vec::new(), Vec::new(), None);
    let mut variants: Vec<&Ident> = Vec::new();
    for variant in &data.variants {
        let (ident, ty) = (&variant.ident, inner_type(variant)?);
        variants.push(ident);
        let read = quote!(<#ty as ::tavola_client::Readable>::read(source).map(#name::#ident));
        match read_pick(variant)? {
            Pick::Other if other.is_some() => {
                return Err(Error::new(ident.span(), "only one variant can take all others"));
            }
            Pick::Other => other = Some(read),
            Pick::RowPrefix(prefix) => {
                by_prefix.push(quote!(if source.row().starts_with(#prefix) { return #read; }));
            }
            Pick::EntityType => {
                let message = format!(
                    "`{ident}` cannot be told from others: give its type an `entity_type`, or the variant a `row_prefix`"
                );
                checks.push(quote! {
                    const _: () = assert!(!<#ty as ::tavola_client::Entity>::TYPE.is_empty(), #message);
                });
                by_type.push(quote!(if found == <#ty as ::tavola_client::Entity>::TYPE { return #read; }));
            }
        }
    }
    let other = other.unwrap_or_else(|| {
        quote!(::core::result::Result::Err(::tavola_client::MapError::EntityType { found: found.to_owned() }))
    });
    Ok(quote! {
        #(#checks)*

        impl ::tavola_client::Readable for #name {
            fn read(
                source: &::tavola_client::Source<'_>,
            ) -> ::core::result::Result<Self, ::tavola_client::MapError> {
                #(#by_prefix)*
                #[allow(unused_variables)]
                let found = match source.get("EntityType") {
                    ::core::option::Option::Some(::tavola_client::EdmRef::String(text)) => text,
                    _ => "",
                };
                #(#by_type)*
                #other
            }
        }

        impl ::tavola_client::Writable for #name {
            fn key(&self) -> ::core::result::Result<::tavola_client::EntityKey, ::tavola_client::KeyError> {
                match self { #(Self::#variants(entity) => ::tavola_client::Writable::key(entity)),* }
            }

            fn write<'a>(
                &'a self,
                parts: ::tavola_client::KeyParts,
                out: &mut ::tavola_client::Values<'a>,
            ) -> ::core::result::Result<(), ::tavola_client::MapError> {
                match self { #(Self::#variants(entity) => ::tavola_client::Writable::write(entity, parts, out)),* }
            }

            fn owns(&self, property: &str) -> bool {
                match self { #(Self::#variants(entity) => ::tavola_client::Writable::owns(entity, property)),* }
            }
        }
    })
}

fn inner_type(variant: &Variant) -> Result<&Type> {
    match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(&fields.unnamed[0].ty),
        _ => Err(Error::new(variant.ident.span(), "a variant holds one entity, as in `Employee(Employee)`")),
    }
}

fn read_pick(variant: &Variant) -> Result<Pick> {
    let mut pick = Pick::EntityType;
    for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("entity_set")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("other") {
                pick = Pick::Other;
            } else if meta.path.is_ident("row_prefix") {
                pick = Pick::RowPrefix(meta.value()?.parse()?);
            } else {
                return Err(meta.error("expected other or row_prefix"));
            }
            Ok(())
        })?;
    }
    Ok(pick)
}
