//! The Table service: tables, their entities, and queries over them.

mod cache;
mod catalog;
mod entities;
mod key_set;
mod matches;
mod plan;
mod query;
mod record;
mod settings;
mod tables;
mod transaction;

pub(crate) use catalog::Catalog;
pub(crate) use entities::{fetch_entity, write_entity};
pub use plan::{Plan, plan};
pub(crate) use query::query_entities;
pub(crate) use transaction::transact_entities;
