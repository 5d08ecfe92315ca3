//! What a write did whose answer was lost.
//!
//! A repeat of a write that was already done is refused: an insert because the entity is there, a conditional write
//! because its tag moved, a delete because nothing is left. So a refusal after a lost answer may be the echo of our own
//! success, and reading back tells. Rule: a verdict of `Ours` is only given on what was read; what cannot be told apart
//! (two writers of identical bytes) needs a stamp.

use tavola_model::{DateTime, EdmValue, Properties};
use tavola_protocol::Refusal;

use crate::raw::RawEntity;
use crate::write::{Change, Condition, STAMP, Write};

/// What reading back says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The entity is as this write makes it.
    Ours,
    /// It is not: the write was not done, or another came after it.
    NotOurs,
}

/// Whether a refusal can be the echo of the write's own success, so that reading back is worth it.
pub(crate) fn may_be_echo(refusal: &Refusal) -> bool {
    matches!(refusal.status.as_u16(), 404 | 409 | 412) && !is_about_the_table(refusal)
}

/// A refusal that would have been the same for every try, whatever was done before.
pub(crate) fn is_about_the_request(refusal: &Refusal) -> bool {
    matches!(refusal.status.as_u16(), 400 | 405 | 411 | 413 | 415) || is_about_the_table(refusal)
}

fn is_about_the_table(refusal: &Refusal) -> bool {
    let code = refusal.code.as_ref().map(tavola_protocol::AnswerCode::as_str);
    matches!(code, Some("TableNotFound" | "TableBeingDeleted"))
}

/// Compares what a write would have made with what is there. `since` is a time of the service before the first try.
pub(crate) fn judge(write: &Write, found: Option<&RawEntity>, since: DateTime) -> Verdict {
    let is_ours = match (&write.change, found) {
        (Change::Delete(_), found) => found.is_none(),
        (_, None) => false,
        (_, Some(found)) if write.stamp.is_some() => {
            found.properties.get(STAMP) == write.stamp.map(EdmValue::Guid)
        }
        (Change::Insert(sent), Some(found)) => found.timestamp >= since && equal(sent, &found.properties),
        (Change::InsertOrReplace(sent), Some(found)) => equal(sent, &found.properties),
        (Change::InsertOrMerge(sent), Some(found)) => holds(&found.properties, sent),
        (Change::Replace(sent, condition), Some(found)) => {
            moved(condition, found) && equal(sent, &found.properties)
        }
        (Change::Merge(sent, condition), Some(found)) => {
            moved(condition, found) && holds(&found.properties, sent)
        }
    };
    if is_ours { Verdict::Ours } else { Verdict::NotOurs }
}

fn moved(condition: &Condition, found: &RawEntity) -> bool {
    match condition {
        Condition::Any => true,
        Condition::Etag(etag) => *etag != found.etag,
    }
}

fn equal(sent: &Properties, found: &Properties) -> bool {
    sent.len() == found.len() && holds(found, sent)
}

/// Whether every property that was sent is there with its value.
fn holds(found: &Properties, sent: &Properties) -> bool {
    sent.iter().all(|property| found.get(property.name).is_some_and(|value| same(value, property.value)))
}

/// Equal as values of the service: a number that is none equals itself.
pub(crate) fn same(left: EdmValue<'_>, right: EdmValue<'_>) -> bool {
    match (left, right) {
        (EdmValue::Double(left), EdmValue::Double(right)) => {
            left.to_bits() == right.to_bits() || left == right || (left.is_nan() && right.is_nan())
        }
        (left, right) => left == right,
    }
}
