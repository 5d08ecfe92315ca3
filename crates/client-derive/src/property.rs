//! `#[derive(Property)]`: an enum stored as the name of its variant.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn3::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Variant};

use crate::attributes::Case;

pub fn expand(input: &DeriveInput) -> Result<Tokens> {
    let name = &input.ident;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(name.span(), "derive `Property` for enums; implement it for other types"));
    };
    let mut case = Case::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("property")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("rename_all") {
                return Err(meta.error("expected rename_all"));
            }
            case = Case::parse(&meta.value()?.parse::<LitStr>()?)?;
            Ok(())
        })?;
    }
    let mut named: Vec<(&Ident, String)> = Vec::new();
    let mut other: Option<&Ident> = None;
    for variant in &data.variants {
        let (text, takes_others) = read_variant(variant, case)?;
        if takes_others {
            other = Some(&variant.ident);
        } else if named.iter().any(|(_, known)| *known == text) {
            return Err(Error::new(variant.ident.span(), format!("two variants are stored as `{text}`")));
        } else {
            named.push((&variant.ident, text));
        }
    }
    let (variants, texts): (Vec<_>, Vec<_>) = named.into_iter().unzip();
    let other_out = other.map(|other| quote!(Self::#other(text) => text.as_str(),));
    let unknown = match other {
        Some(other) => quote!(::core::result::Result::Ok(Self::#other(text.to_owned()))),
        None => quote!(::core::result::Result::Err(::tavola_client::Unfit::Value(::std::format!(
            "`{text}` is no variant"
        ),))),
    };
    Ok(quote! {
        impl ::tavola_client::Property for #name {
            type Literal = #name;

            fn to_edm(&self) -> ::core::option::Option<::tavola_client::Edm<'_>> {
                let text: &str = match self { #(Self::#variants => #texts,)* #other_out };
                ::core::option::Option::Some(::tavola_client::Edm::Borrowed(::tavola_client::EdmRef::String(text)))
            }

            fn from_edm(
                value: ::tavola_client::EdmRef<'_>,
            ) -> ::core::result::Result<Self, ::tavola_client::Unfit> {
                match value {
                    #(::tavola_client::EdmRef::String(#texts) => ::core::result::Result::Ok(Self::#variants),)*
                    ::tavola_client::EdmRef::String(text) => #unknown,
                    value => ::core::result::Result::Err(::tavola_client::Unfit::Type(value.edm_type())),
                }
            }
        }

        impl ::tavola_client::IntoLiteral<#name> for #name {
            fn into_literal(self) -> ::tavola_client::EdmValue {
                match ::tavola_client::Property::to_edm(&self) {
                    ::core::option::Option::Some(value) => value.into_value(),
                    ::core::option::Option::None => ::tavola_client::EdmValue::from(""),
                }
            }
        }
    })
}

/// The stored text, and whether the variant takes every other text.
fn read_variant(variant: &Variant, case: Case) -> Result<(String, bool)> {
    let (mut text, mut takes_others) = (case.apply(&variant.ident.to_string()), false);
    for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("property")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("rename") {
                text = meta.value()?.parse::<LitStr>()?.value();
            } else if meta.path.is_ident("other") {
                takes_others = true;
            } else {
                return Err(meta.error("expected rename or other"));
            }
            Ok(())
        })?;
    }
    match (&variant.fields, takes_others) {
        (Fields::Unit, false) => Ok((text, false)),
        (Fields::Unnamed(fields), true) if fields.unnamed.len() == 1 => Ok((text, true)),
        (_, true) => Err(Error::new(variant.ident.span(), "the variant for others holds a `String`")),
        (_, false) => {
            Err(Error::new(variant.ident.span(), "a variant holds nothing; only that for others does"))
        }
    }
}
