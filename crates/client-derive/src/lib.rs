//! The derive macros of `tavola-client`: entities, sets of entity types, enums as properties, and checked filters.
//!
//! A macro refuses what could only fail later: a key that would not sort or parse back, a name that the service keeps
//! for itself, an index in which two entities could collide, a filter that the service would not parse. Everything it
//! writes is named by absolute paths and contains no logic beyond calls into the client.

mod attributes;
mod entity;
mod entity_set;
mod filter;
mod index;
mod property;
#[cfg(test)]
mod refusals;
mod template;

use proc_macro::TokenStream;
use syn3::{DeriveInput, LitStr, parse_macro_input};

/// Makes a struct an entity type: `tavola_client::Entity`.
///
/// On the struct, `#[entity(...)]`:
/// - `partition = "..."`, `row = "..."`: templates of the keys (`tavola_client::key` lists the forms);
/// - `entity_type = "..."`: kept in the property `EntityType`, by which an `EntitySet` tells types apart;
/// - `rename_all = "PascalCase"`, `"camelCase"` or `"snake_case"`: names on the wire;
/// - `stamp`: every write carries a Guid, so that a write whose answer was lost is told from an equal one of others;
/// - `index(name, unique, table = "...", partition = "...", row = "...")`: a secondary index.
///
/// On a field:
/// - `rename = "..."`: its name on the wire;
/// - `json`: kept as JSON text, by serde;
/// - `encrypt`: encrypted by the client;
/// - `default`: a missing property reads as the default;
/// - `skip`: not stored; reads as the default.
#[proc_macro_derive(Entity, attributes(entity))]
pub fn derive_entity(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    entity::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes an enum of entity types one that can be read and written: `tavola_client::Readable` and `Writable`.
///
/// The `EntityType` property picks the variant whose type has that name. On a variant, `#[entity_set(...)]`:
/// - `row_prefix = "..."`: picked by the beginning of the RowKey instead;
/// - `other`: takes every entity that no variant takes; its type is usually `DynamicEntity`.
#[proc_macro_derive(EntitySet, attributes(entity_set))]
pub fn derive_entity_set(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    entity_set::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Makes an enum a property that is stored as the name of its variant: `tavola_client::Property`.
///
/// `#[property(rename_all = "...")]` on the enum and `#[property(rename = "...")]` on a variant change the text;
/// `#[property(other)]` on a variant that holds a `String` keeps every text that no other variant has.
#[proc_macro_derive(Property, attributes(property))]
pub fn derive_property(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    property::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// A filter from text of the query language, parsed when the program is compiled.
///
/// `{expression}` stands for a value, never for text of the query; the type of the value decides the type of the
/// literal.
#[proc_macro]
pub fn filter(input: TokenStream) -> TokenStream {
    let text = parse_macro_input!(input as LitStr);
    filter::expand(&text).unwrap_or_else(|error| error.to_compile_error()).into()
}
