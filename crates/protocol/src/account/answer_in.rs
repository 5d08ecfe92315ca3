//! Answers about a service as a whole, the same for every service.

use http::StatusCode;
use tavola_model::{DateTime, ServicePropertiesPatch};

use crate::answer_in::{Answer, AnswerError};
use crate::xml;

/// Geo-replication as the secondary endpoint tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeoReplication {
    /// `live`, `bootstrap` or `unavailable`.
    pub status: String,
    /// Everything written before this time is on the secondary; `None` while nothing is known.
    pub last_sync: Option<DateTime>,
}

/// What Get Service Properties gave. Settings that the answer leaves out are `None`.
pub fn service_properties_fetched(answer: &Answer<'_>) -> Result<ServicePropertiesPatch, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    xml::read_service_properties(answer.text()?)
        .ok_or_else(|| answer.unreadable("the body holds no service properties"))
}

/// Whether Set Service Properties succeeded.
pub fn service_properties_set(answer: &Answer<'_>) -> Result<(), AnswerError> {
    answer.expect(&[StatusCode::ACCEPTED])
}

/// What Get Service Stats gave.
pub fn service_stats_fetched(answer: &Answer<'_>) -> Result<GeoReplication, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let root = xml::read_answer(answer.text()?);
    let replication = root.as_ref().and_then(|root| root.child("GeoReplication"));
    let status = replication.and_then(|replication| replication.child_text("Status"));
    let Some((replication, status)) = replication.zip(status) else {
        return Err(answer.unreadable("the body holds no statistics"));
    };
    let last_sync = replication.child_text("LastSyncTime").and_then(DateTime::parse_rfc1123);
    Ok(GeoReplication { status: status.to_owned(), last_sync })
}
