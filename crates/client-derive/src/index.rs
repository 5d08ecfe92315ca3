//! Secondary indexes of an entity type: their definitions, and one function a lookup.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn3::{Error, Result};

use crate::attributes::{EntityStruct, Field, Index, strip_option};
use crate::entity::{Keys, own_parameter, parameter_type};
use crate::template::{Template, of_parameter, parameter};

pub fn expand(entity: &EntityStruct<'_>, keys: &Keys<'_>) -> Result<Tokens> {
    if entity.indexes.is_empty() {
        return Ok(Tokens::new());
    }
    let name = &entity.input.ident;
    let mut definitions = Vec::new();
    let mut lookups = Vec::new();
    for (position, index) in entity.indexes.iter().enumerate() {
        if entity.indexes[..position].iter().any(|other| other.name == index.name) {
            return Err(Error::new(index.name.span(), "two indexes have this name"));
        }
        let index_keys = Keys {
            partition: Template::parse(
                index.partition.as_ref().unwrap_or(&entity.partition),
                &entity.fields,
            )?,
            row: Template::parse(&index.row, &entity.fields)?,
        };
        let used: Vec<&Field<'_>> = entity.fields.iter().filter(|field| index_keys.has(field)).collect();
        check_place(entity, keys, index, &index_keys)?;
        definitions.push(definition(entity, index, &index_keys, &used));
        lookups.push(lookup(entity, index, position, &index_keys, &used));
    }
    Ok(quote! {
        impl ::tavola_client::index::Indexed for #name {
            const INDEXES: &'static [::tavola_client::index::Definition<Self>] = &[#(#definitions),*];
        }

        #[allow(dead_code)]
        impl #name { #(#lookups)* }
    })
}

/// Two entities never share a key in an index: it is unique, or it holds every part of the entity's own key.
fn check_place(
    entity: &EntityStruct<'_>,
    keys: &Keys<'_>,
    index: &Index,
    index_keys: &Keys<'_>,
) -> Result<()> {
    let lost = entity.fields.iter().find(|field| keys.has(field) && !index_keys.has(field));
    if let (false, Some(lost)) = (index.unique, lost) {
        let message = format!(
            "two entities could share a key in `{}`: make it `unique`, or add `{}` to its templates",
            index.name, lost.ident
        );
        return Err(Error::new(index.row.span(), message));
    }
    if index.table.is_none()
        && index_keys.partition.text == keys.partition.text
        && index_keys.row.text == keys.row.text
    {
        return Err(Error::new(index.row.span(), "the index has the keys of the entity itself"));
    }
    Ok(())
}

fn definition(
    entity: &EntityStruct<'_>,
    index: &Index,
    index_keys: &Keys<'_>,
    used: &[&Field<'_>],
) -> Tokens {
    let name = &entity.input.ident;
    let (index_name, unique) = (index.name.to_string(), index.unique);
    let location = match (&index.table, &index.partition) {
        (Some(table), _) => quote!(::tavola_client::index::Location::Table(#table)),
        (None, Some(_)) => quote!(::tavola_client::index::Location::Partition),
        (None, None) => quote!(::tavola_client::index::Location::SamePartition),
    };
    let sparse = used.iter().filter(|field| strip_option(field.ty).is_some()).map(|field| field.ident);
    let of_entity = |field: &Field<'_>| {
        let ident = field.ident;
        quote!(&entity.#ident)
    };
    let (partition, row) = (index_keys.partition.build(of_entity), index_keys.row.build(of_entity));
    quote! {
        ::tavola_client::index::Definition {
            name: #index_name,
            location: #location,
            unique: #unique,
            key: |entity: &#name| {
                #(if entity.#sparse.is_none() { return ::core::result::Result::Ok(::core::option::Option::None); })*
                ::core::result::Result::Ok(::core::option::Option::Some(
                    ::tavola_client::EntityKey { partition: #partition, row: #row },
                ))
            },
        }
    }
}

fn lookup(
    entity: &EntityStruct<'_>,
    index: &Index,
    position: usize,
    index_keys: &Keys<'_>,
    used: &[&Field<'_>],
) -> Tokens {
    let (name, visibility, function) = (&entity.input.ident, &entity.input.vis, &index.name);
    let parameters = used.iter().map(|field| {
        let (ident, ty) = (parameter(field), parameter_type(field, &quote!('_)));
        quote!(#ident: #ty)
    });
    let owned = used.iter().map(|field| own_parameter(field));
    let (partition, row) = (index_keys.partition.build(of_parameter), index_keys.row.build(of_parameter));
    let doc = format!("The location of an entity in the index `{function}`.");
    quote! {
        #[doc = #doc]
        #visibility fn #function(#(#parameters),*) -> ::core::result::Result<
            ::tavola_client::index::Lookup<#name>,
            ::tavola_client::KeyError,
        > {
            #(#owned)*
            let key = ::tavola_client::EntityKey { partition: #partition, row: #row };
            ::core::result::Result::Ok(::tavola_client::index::Lookup::new(#position, key))
        }
    }
}
