//! The wire format of the table service: OData in JSON at three metadata levels and in Atom, multipart batches.
//!
//! The steps of a server are `route`, `decode` and `encode`; the `Form` carries what the answer needs beside the
//! outcome. Those of a client are `request_out` and `answer_in`.

mod answer_in;
mod atom_in;
mod atom_out;
mod batch_in;
mod batch_out;
mod body;
mod change_set;
mod decode;
mod edm_text;
mod encode;
mod entity_in;
mod entity_out;
mod error_body;
mod feed_in;
mod form;
mod format;
mod json_in;
mod json_out;
mod link;
mod query_in;
mod request_out;
mod route;
mod select;
mod token;
mod transaction_in;
mod transaction_out;
mod write_in;

#[cfg(test)]
mod round_trip;

pub use answer_in::{
    EntityContinuation, FetchedEntities, FetchedTables, TableContinuation, Written, entities_queried,
    entity_fetched, entity_inserted, entity_written, table_acl_fetched, table_created, table_done,
    table_fetched, tables_queried,
};
pub use decode::{TableRequest, decode};
pub use edm_text::TextValue;
pub(crate) use encode::{SERVER, encode_error, encode_outcome, sender_of};
pub use entity_in::{FetchedEntity, FetchedProperty};
pub use form::{BatchForm, Form, Layer, PartForm, Style};
pub use format::{Format, MetadataLevel, Preference};
pub use request_out::{
    ChangeRequest, EntitiesQuery, EntityRequest, IfMatch, NamedValues, TablesQuery, create_table,
    delete_table, filter_text, get_entity, get_table, get_table_acl, query_entities, query_tables,
    set_table_acl, write_entity,
};
pub use route::{TableRoute, Unroutable, route};
pub use select::Select;
pub use transaction_in::entities_transacted;
pub use transaction_out::transact_entities;
