//! The nouns of the table service.

mod command;
mod entity;
mod etag;
mod filter;
mod key;
mod limits;
mod name;
mod outcome;
mod properties;
mod value;

pub use command::{
    EntityChange, EntityGroupTransaction, EntityWrite, GetEntity, QueryEntities, QueryTables, TableCommand,
    TableToken,
};
pub use entity::{EntityKey, EntityToken, StoredEntity};
pub use etag::{Etag, EtagCondition};
pub use filter::{Comparison, Filter, FilterBuilder, FilterNode, NodeId, Operator, PropertyRef};
pub use key::Key;
pub use limits::*;
pub use name::TableName;
pub use outcome::{EntityPage, PlanKind, PlanReport, TableOutcome, TablePage, WriteOutcome};
pub use properties::{
    Properties, PropertiesBuilder, Property, StoredProperty, StoredValue, UncheckedProperty,
    validate_property_name,
};
pub use value::{EdmType, EdmValue};
