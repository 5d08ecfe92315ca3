//! Answers of the table service to what they tell a client.

use http::StatusCode;
use tavola_model::{DateTime, EtagCondition, SignedIdentifier};

use super::entity_in::{self, FetchedEntity};
use super::feed_in;
use crate::answer_in::{Answer, AnswerError};
use crate::xml;

/// Where the next page of entities begins. The texts are the service's own: they can be kept, and mean something to
/// the query that gave them and to no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityContinuation {
    /// `x-ms-continuation-NextPartitionKey`.
    pub next_partition: String,
    /// `x-ms-continuation-NextRowKey`, which may be missing.
    pub next_row: Option<String>,
}

/// Where the next page of tables begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableContinuation {
    /// `x-ms-continuation-NextTableName`.
    pub next_table: String,
}

/// One page of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTables {
    /// Their names, in the case in which they were created.
    pub names: Vec<String>,
    /// Where the next page begins.
    pub next: Option<TableContinuation>,
}

/// One page of entities. It may be empty and yet not the last.
#[derive(Debug)]
pub struct FetchedEntities<'a> {
    /// The entities by PartitionKey, then RowKey.
    pub entities: Vec<FetchedEntity<'a>>,
    /// Where the next page begins.
    pub next: Option<EntityContinuation>,
}

/// What a write of an entity gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The new tag; none after a delete.
    pub etag: Option<String>,
}

impl Written {
    /// The new Timestamp, which is what the tag of an entity says.
    pub fn timestamp(&self) -> Option<DateTime> {
        match EtagCondition::parse(self.etag.as_deref()?) {
            Ok(EtagCondition::Is(etag)) => Some(etag.0),
            _ => None,
        }
    }
}

/// What Query Tables gave.
pub fn tables_queried(answer: &Answer<'_>) -> Result<FetchedTables, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let text = answer.text()?;
    let names = if is_xml(text) {
        feed_in::entries(text).and_then(|list| list.into_iter().map(feed_in::Entry::into_table).collect())
    } else {
        entity_in::tables(text)
    };
    let next = continuation(answer, "x-ms-continuation-nexttablename");
    Ok(FetchedTables {
        names: names.map_err(|reason| answer.unreadable(reason))?,
        next: next.map(|next_table| TableContinuation { next_table }),
    })
}

/// What Get one table gave: its name, in the case in which it was created.
pub fn table_fetched(answer: &Answer<'_>) -> Result<String, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let text = answer.text()?;
    let name = if is_xml(text) {
        feed_in::entries(text).and_then(|mut list| list.pop().ok_or("there is no entry")?.into_table())
    } else {
        entity_in::table(text)
    };
    name.map_err(|reason| answer.unreadable(reason))
}

/// Whether Create Table succeeded.
pub fn table_created(answer: &Answer<'_>) -> Result<(), AnswerError> {
    answer.expect(&[StatusCode::CREATED, StatusCode::NO_CONTENT])
}

/// Whether an operation that gives nothing succeeded: Delete Table, Set Table ACL.
pub fn table_done(answer: &Answer<'_>) -> Result<(), AnswerError> {
    answer.expect(&[StatusCode::NO_CONTENT])
}

/// What Get Table ACL gave.
pub fn table_acl_fetched(answer: &Answer<'_>) -> Result<Vec<SignedIdentifier>, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    xml::read_acl(answer.text()?).ok_or_else(|| answer.unreadable("the body holds no identifiers"))
}

/// What Get Entity gave.
pub fn entity_fetched<'a>(answer: &Answer<'a>) -> Result<FetchedEntity<'a>, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    read_entity(answer)
}

/// What Query Entities gave.
pub fn entities_queried<'a>(answer: &Answer<'a>) -> Result<FetchedEntities<'a>, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let text = answer.text()?;
    let entities = if is_xml(text) {
        feed_in::entries(text).and_then(|list| list.into_iter().map(feed_in::Entry::into_entity).collect())
    } else {
        entity_in::entities(text)
    };
    let next = continuation(answer, "x-ms-continuation-nextpartitionkey").map(|next_partition| {
        let next_row = continuation(answer, "x-ms-continuation-nextrowkey");
        EntityContinuation { next_partition, next_row }
    });
    Ok(FetchedEntities { entities: entities.map_err(|reason| answer.unreadable(reason))?, next })
}

/// What Insert, Update, Merge, Insert Or Replace, Insert Or Merge or Delete Entity gave.
pub fn entity_written(answer: &Answer<'_>) -> Result<Written, AnswerError> {
    answer.expect(&[StatusCode::NO_CONTENT, StatusCode::CREATED])?;
    Ok(Written { etag: answer.header("etag").map(str::to_owned) })
}

/// The entity that Insert Entity sends back to a client that wants it.
pub fn entity_inserted<'a>(answer: &Answer<'a>) -> Result<FetchedEntity<'a>, AnswerError> {
    answer.expect(&[StatusCode::CREATED])?;
    read_entity(answer)
}

/// The tag in the header is there at every level of metadata.
fn read_entity<'a>(answer: &Answer<'a>) -> Result<FetchedEntity<'a>, AnswerError> {
    let text = answer.text()?;
    let entity = if is_xml(text) {
        feed_in::entries(text).and_then(|mut list| list.pop().ok_or("there is no entry")?.into_entity())
    } else {
        entity_in::entity(text)
    };
    let mut entity = entity.map_err(|reason| answer.unreadable(reason))?;
    if entity.etag.is_none() {
        entity.etag = answer.header("etag").map(Into::into);
    }
    Ok(entity)
}

fn continuation(answer: &Answer<'_>, name: &str) -> Option<String> {
    answer.header(name).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn is_xml(text: &str) -> bool {
    text.trim_start().starts_with('<')
}
