//! Writes of entities as the pipeline sends them: keys and properties packed, whatever type they came from.

use tavola_model::{EdmValue, EntityKey, Guid, Properties, PropertiesBuilder};
use tavola_protocol::table::{ChangeRequest, EntityRequest, IfMatch};

use crate::error::Result;

pub(crate) use crate::entity::STAMP;

/// The property of an entity that is reserved and not active yet: reads do not show it.
pub(crate) const PENDING: &str = "_Pending";

/// On which version of an entity a write is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Whichever there is.
    Any,
    /// The one of this tag.
    Etag(String),
}

/// What is to happen to an entity.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Insert(Properties),
    InsertOrReplace(Properties),
    InsertOrMerge(Properties),
    Replace(Properties, Condition),
    Merge(Properties, Condition),
    Delete(Condition),
}

/// One write.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: EntityKey,
    pub(crate) change: Change,
    /// In the properties too.
    pub(crate) stamp: Option<Guid>,
}

impl Write {
    pub(crate) fn new(key: EntityKey, change: Change) -> Self {
        Self { key, change, stamp: None }
    }

    /// The same write with an id of its own in the entity, unless it is a delete.
    pub(crate) fn stamped(mut self) -> Result<Self> {
        let stamp = fresh_guid();
        if let Some(properties) = self.change.properties_mut() {
            let mut builder =
                PropertiesBuilder::with_capacity(properties.len() + 1, properties.as_bytes().len() + 32);
            for property in properties.iter().filter(|property| property.name != STAMP) {
                builder.push(property.name, property.value)?;
            }
            builder.push(STAMP, EdmValue::Guid(stamp))?;
            *properties = builder.finish();
            self.stamp = Some(stamp);
        }
        Ok(self)
    }
}

impl Change {
    pub(crate) fn properties(&self) -> Option<&Properties> {
        match self {
            Self::Insert(properties)
            | Self::InsertOrReplace(properties)
            | Self::InsertOrMerge(properties)
            | Self::Replace(properties, _)
            | Self::Merge(properties, _) => Some(properties),
            Self::Delete(_) => None,
        }
    }

    /// Bytes of the packed properties.
    pub(crate) fn packed_bytes(&self) -> usize {
        self.properties().map_or(0, |properties| properties.as_bytes().len())
    }

    fn properties_mut(&mut self) -> Option<&mut Properties> {
        match self {
            Self::Insert(properties)
            | Self::InsertOrReplace(properties)
            | Self::InsertOrMerge(properties)
            | Self::Replace(properties, _)
            | Self::Merge(properties, _) => Some(properties),
            Self::Delete(_) => None,
        }
    }

    /// The service's word for the operation.
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            Self::Insert(_) => "InsertEntity",
            Self::InsertOrReplace(_) => "InsertOrReplaceEntity",
            Self::InsertOrMerge(_) => "InsertOrMergeEntity",
            Self::Replace(..) => "UpdateEntity",
            Self::Merge(..) => "MergeEntity",
            Self::Delete(_) => "DeleteEntity",
        }
    }
}

/// The properties of writes as `protocol` takes them; they borrow from the writes.
pub(crate) struct NamedValues<'a>(Vec<(&'a str, EdmValue<'a>)>);

impl<'a> NamedValues<'a> {
    pub(crate) fn of(write: &'a Write) -> Self {
        let properties = write.change.properties();
        Self(properties.into_iter().flat_map(Properties::iter).map(|one| (one.name, one.value)).collect())
    }
}

/// The write as `protocol` takes it.
pub(crate) fn request<'a>(write: &'a Write, values: &'a NamedValues<'a>) -> EntityRequest<'a> {
    let values = values.0.as_slice();
    let change = match &write.change {
        Change::Insert(_) => ChangeRequest::Insert(values),
        Change::InsertOrReplace(_) => ChangeRequest::InsertOrReplace(values),
        Change::InsertOrMerge(_) => ChangeRequest::InsertOrMerge(values),
        Change::Replace(_, condition) => ChangeRequest::Update(values, condition.if_match()),
        Change::Merge(_, condition) => ChangeRequest::Merge(values, condition.if_match()),
        Change::Delete(condition) => ChangeRequest::Delete(condition.if_match()),
    };
    EntityRequest { key: &write.key, change }
}

impl Condition {
    fn if_match(&self) -> IfMatch<'_> {
        match self {
            Self::Any => IfMatch::Any,
            Self::Etag(etag) => IfMatch::Etag(etag),
        }
    }
}

/// A random guid of version 4.
pub(crate) fn fresh_guid() -> Guid {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has a source of chance");
    bytes[6] = (bytes[6] & 0x0F) | 0x40;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    Guid(bytes)
}
