//! `#[derive(Entity)]`.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn3::{DeriveInput, Error, Result};

use crate::attributes::{self, EntityStruct, Field, is_named, strip_option};
use crate::index;
use crate::template::{Form, Template, of_parameter, of_self, parameter};

/// The keys of an entity type.
pub struct Keys<'a> {
    pub partition: Template<'a>,
    pub row: Template<'a>,
}

impl Keys<'_> {
    pub fn has(&self, field: &Field<'_>) -> bool {
        self.partition.has(field) || self.row.has(field)
    }
}

pub fn expand(input: &DeriveInput) -> Result<Tokens> {
    let entity = attributes::read(input)?;
    let keys = read_keys(&entity)?;
    let properties = expand_properties(&entity, &keys);
    let mapping = expand_mapping(&entity, &keys);
    let key_of = expand_key_of(&keys);
    let indexes = index::expand(&entity, &keys)?;
    let name = &input.ident;
    let properties_name = format_ident!("{name}Properties");
    let entity_type = entity.entity_type.as_ref().map(syn3::LitStr::value).unwrap_or_default();
    let stored = || entity.fields.iter().filter(|field| !field.skip && !keys.has(field));
    let names = stored().map(|field| &field.wire);
    let encrypted = stored().filter(|field| field.encrypt).map(|field| &field.wire);
    let checks = [keys.partition.checks(), keys.row.checks()];
    let large = expand_large(&entity);
    let newest_first = keys.row.descending_prefix().map(|prefix| {
        quote!(impl ::tavola_client::patterns::tail::NewestFirst for #name { const PREFIX: &'static str = #prefix; })
    });
    Ok(quote! {
        #properties
        #mapping
        #(#checks)*

        impl ::tavola_client::Entity for #name {
            const TYPE: &'static str = #entity_type;
            const NAMES: &'static [&'static str] = &[#(#names),*];
            const ENCRYPTED: &'static [&'static str] = &[#(#encrypted),*];
            type Properties = #properties_name;
            const PROPERTIES: #properties_name = #properties_name::ALL;
            #key_of
        }
        #newest_first
        #large
        #indexes
    })
}

fn read_keys<'a>(entity: &'a EntityStruct<'a>) -> Result<Keys<'a>> {
    let keys = Keys {
        partition: Template::parse(&entity.partition, &entity.fields)?,
        row: Template::parse(&entity.row, &entity.fields)?,
    };
    for field in entity.fields.iter().filter(|field| keys.has(field)) {
        if strip_option(field.ty).is_some() {
            return Err(Error::new(field.ident.span(), "a part of the key cannot be optional"));
        }
    }
    let descending_time =
        |(field, form): (&Field<'_>, Form)| form == Form::Descending && is_named(field.ty, &["DateTime"]);
    if keys.row.parts().any(descending_time) && keys.row.parts().count() == 1 {
        let message =
            "two entities of one tick would share this key: add a part behind the time, such as an id";
        return Err(Error::new(entity.row.span(), message));
    }
    Ok(keys)
}

/// The struct with one `Prop` a property.
fn expand_properties(entity: &EntityStruct<'_>, keys: &Keys<'_>) -> Tokens {
    let (name, visibility) = (&entity.input.ident, &entity.input.vis);
    let properties_name = format_ident!("{name}Properties");
    let mut fields = Vec::new();
    let mut values = Vec::new();
    for (ident, wire, ty) in [
        ("partition_key", "PartitionKey", quote!(::std::string::String)),
        ("row_key", "RowKey", quote!(::std::string::String)),
        ("timestamp", "Timestamp", quote!(::tavola_client::DateTime)),
    ] {
        if entity.fields.iter().all(|field| field.ident != ident) {
            let ident = format_ident!("{ident}");
            fields.push(quote!(pub #ident: ::tavola_client::Prop<#name, #ty>));
            values.push(quote!(#ident: ::tavola_client::Prop::new(#wire)));
        }
    }
    for field in entity.fields.iter().filter(|field| !field.skip && !keys.has(field)) {
        let (ident, ty, wire) = (field.ident, field.ty, &field.wire);
        let kind = match (field.encrypt, field.json) {
            (true, _) => quote!(::tavola_client::Secret),
            (false, true) => quote!(::tavola_client::JsonProp),
            (false, false) => quote!(::tavola_client::Prop),
        };
        fields.push(quote!(pub #ident: #kind<#name, #ty>));
        values.push(quote!(#ident: #kind::new(#wire)));
    }
    let doc = format!("The properties of [`{name}`], for filters and projections.");
    quote! {
        #[doc = #doc]
        #[allow(dead_code, missing_docs)]
        #[derive(Clone, Copy)]
        #visibility struct #properties_name { #(#fields),* }

        impl #properties_name {
            const ALL: Self = Self { #(#values),* };
        }
    }
}

/// `Readable` and `Writable`.
fn expand_mapping(entity: &EntityStruct<'_>, keys: &Keys<'_>) -> Tokens {
    let name = &entity.input.ident;
    let stamped = entity.stamped;
    let (partition_key, row_key) = (keys.partition.build(of_self), keys.row.build(of_self));
    let (partition_template, row_template) = (keys.partition.tokens(), keys.row.tokens());
    let entity_type = entity.entity_type.as_ref().map(|text| {
        quote! {
            out.put("EntityType", ::core::option::Option::Some(
                ::tavola_client::Edm::Borrowed(::tavola_client::EdmRef::String(#text)),
            ));
        }
    });
    // A key without parts is read by nobody else.
    let fixed_partition =
        (keys.partition.parts().next().is_none()).then(|| quote!(source.check_partition(&PARTITION)?;));
    let fixed_row = (keys.row.parts().next().is_none()).then(|| quote!(source.check_row(&ROW)?;));
    let fixed = quote!(#fixed_partition #fixed_row);
    let writes = entity.fields.iter().filter(|field| !field.skip).map(|field| write_field(field, keys));
    let reads = entity.fields.iter().map(|field| read_field(field, keys));
    quote! {
        impl ::tavola_client::Writable for #name {
            const STAMPED: bool = #stamped;

            fn key(&self) -> ::core::result::Result<::tavola_client::EntityKey, ::tavola_client::KeyError> {
                ::core::result::Result::Ok(::tavola_client::EntityKey { partition: #partition_key, row: #row_key })
            }

            #[allow(unused_variables)]
            fn write<'a>(
                &'a self,
                parts: ::tavola_client::KeyParts,
                out: &mut ::tavola_client::Values<'a>,
            ) -> ::core::result::Result<(), ::tavola_client::MapError> {
                #entity_type
                #(#writes)*
                ::core::result::Result::Ok(())
            }

            fn owns(&self, property: &str) -> bool {
                <Self as ::tavola_client::Entity>::NAMES.contains(&property)
            }
        }

        impl ::tavola_client::Readable for #name {
            #[allow(unused_variables)]
            fn read(
                source: &::tavola_client::Source<'_>,
            ) -> ::core::result::Result<Self, ::tavola_client::MapError> {
                const PARTITION: ::tavola_client::key::Template = #partition_template;
                const ROW: ::tavola_client::key::Template = #row_template;
                #fixed
                ::core::result::Result::Ok(Self { #(#reads),* })
            }
        }
    }
}

fn write_field(field: &Field<'_>, keys: &Keys<'_>) -> Tokens {
    let (ident, ty, wire) = (field.ident, field.ty, &field.wire);
    if keys.has(field) {
        return quote! {
            if parts == ::tavola_client::KeyParts::AsProperties {
                out.put(#wire, <#ty as ::tavola_client::key::KeyPart>::part_to_edm(&self.#ident));
            }
        };
    }
    let value = if field.json {
        quote!(::tavola_client::entity::json_edm(#wire, &self.#ident)?)
    } else {
        quote!(<#ty as ::tavola_client::Property>::to_edm(&self.#ident))
    };
    if field.encrypt { quote!(out.put_secret(#wire, #value)?;) } else { quote!(out.put(#wire, #value);) }
}

fn read_field(field: &Field<'_>, keys: &Keys<'_>) -> Tokens {
    let (ident, wire, name) = (field.ident, &field.wire, field.ident.to_string());
    let value = if field.skip {
        quote!(::core::default::Default::default())
    } else if keys.partition.has(field) {
        quote!(source.partition_part(&PARTITION, #name, #wire)?)
    } else if keys.row.has(field) {
        quote!(source.row_part(&ROW, #name, #wire)?)
    } else {
        match (field.encrypt, field.json, field.default) {
            (true, true, _) => quote!(source.secret_json(#wire)?),
            (true, false, _) => quote!(source.secret(#wire)?),
            (false, true, _) => quote!(source.json(#wire)?),
            (false, false, true) => quote!(source.or_default(#wire)?),
            (false, false, false) => quote!(source.property(#wire)?),
        }
    };
    quote!(#ident: #value)
}

/// `Parts` and `key_of`.
fn expand_key_of(keys: &Keys<'_>) -> Tokens {
    let mut parts: Vec<&Field<'_>> = Vec::new();
    for (field, _) in keys.partition.parts().chain(keys.row.parts()) {
        if parts.iter().all(|part| part.ident != field.ident) {
            parts.push(field);
        }
    }
    let types: Vec<Tokens> = parts.iter().map(|field| parameter_type(field, &quote!('a))).collect();
    let names: Vec<_> = parts.iter().map(|field| parameter(field)).collect();
    let (parts_type, pattern) = match (types.as_slice(), names.as_slice()) {
        ([ty], [name]) => (quote!(#ty), quote!(#name)),
        _ => (quote!((#(#types),*)), quote!((#(#names),*))),
    };
    let owned = parts.iter().map(|field| own_parameter(field));
    let (partition, row) = (keys.partition.build(of_parameter), keys.row.build(of_parameter));
    quote! {
        type Parts<'a> = #parts_type;

        fn key_of(
            #pattern: Self::Parts<'_>,
        ) -> ::core::result::Result<::tavola_client::EntityKey, ::tavola_client::KeyError> {
            #(#owned)*
            ::core::result::Result::Ok(::tavola_client::EntityKey { partition: #partition, row: #row })
        }
    }
}

/// `HasLarge`, for a type with fields of type `Large`.
fn expand_large(entity: &EntityStruct<'_>) -> Tokens {
    let large = |field: &&Field<'_>| {
        let ty = strip_option(field.ty).unwrap_or(field.ty);
        !field.skip && !field.json && is_named(ty, &["Large"])
    };
    let fields: Vec<&Field<'_>> = entity.fields.iter().filter(large).collect();
    if fields.is_empty() {
        return Tokens::new();
    }
    let name = &entity.input.ident;
    let pushes = fields.iter().map(|field| {
        let (ident, wire) = (field.ident, &field.wire);
        match strip_option(field.ty) {
            Some(_) => quote!(fields.extend(self.#ident.as_mut().map(|large| (#wire, large)));),
            None => quote!(fields.push((#wire, &mut self.#ident));),
        }
    });
    quote! {
        impl ::tavola_client::patterns::large::HasLarge for #name {
            fn large(
                &mut self,
            ) -> ::std::vec::Vec<(&'static str, &mut ::tavola_client::patterns::large::Large)> {
                let mut fields = ::std::vec::Vec::new();
                #(#pushes)*
                fields
            }
        }
    }
}

/// Text is borrowed by parameters, everything else is small.
pub fn parameter_type(field: &Field<'_>, lifetime: &Tokens) -> Tokens {
    let ty = strip_option(field.ty).unwrap_or(field.ty);
    if is_named(ty, &["String"]) { quote!(&#lifetime str) } else { quote!(#ty) }
}

/// A text parameter as the type that keys are built from.
pub fn own_parameter(field: &Field<'_>) -> Tokens {
    let ident = parameter(field);
    let ty = strip_option(field.ty).unwrap_or(field.ty);
    if is_named(ty, &["String"]) {
        quote!(let #ident = ::std::string::String::from(#ident);)
    } else {
        quote!()
    }
}
