//! The Table service: tables, their entities, and queries over them; and the settings of all services.

mod cache;
mod catalog;
mod cells;
mod entities;
mod key_set;
mod matches;
mod plan;
mod query;
pub(crate) mod record;
mod settings;
mod tables;
mod transaction;

pub(crate) use cache::Leased;
pub(crate) use catalog::{Catalog, account_partition};
pub(crate) use entities::{fetch_entity, write_entity};
pub use plan::{Plan, plan};
pub(crate) use query::query_entities;
pub(crate) use tables::{fresh_space, to_its_end};
pub(crate) use transaction::transact_entities;
