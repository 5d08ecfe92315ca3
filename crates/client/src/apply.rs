//! Writes of entities, alone and in a transaction: sent, repeated, and resolved where an answer was lost.
//!
//! Rule: what the caller is told is what the table holds. `Ok` is said when the service said so or when reading back
//! shows it; a refusal only when nothing was lost before it, or when reading back shows that the write is not there.

use futures_util::future::try_join_all;
use tavola_model::{DateTime, StorageService};
use tavola_protocol::table::{self, Written};
use tavola_protocol::{AnswerError, Refusal};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::options::{Resolve, WriteOptions};
use crate::raw::RawEntity;
use crate::resolve::{self, Verdict};
use crate::send::{Call, Told};
use crate::table::TableClient;
use crate::write::{Change, NamedValues, Write, fresh_guid, request};

/// Ticks of 100 ns.
const TICKS_PER_SECOND: u64 = 10_000_000;

/// An entity that was read back, or its absence, and a time of the service that is not after the first try.
struct ReadBack {
    found: Option<RawEntity>,
    since: DateTime,
}

impl TableClient {
    /// Reads one entity, pending or not.
    pub(crate) async fn fetch(&self, key: &tavola_model::EntityKey) -> Result<Option<RawEntity>> {
        self.fetch_dated(key, &[], None).await.map(|(found, _)| found)
    }

    /// Reads one entity, with the time at which the service answered.
    async fn fetch_dated(
        &self,
        key: &tavola_model::EntityKey,
        select: &[&str],
        deadline: Option<std::time::Duration>,
    ) -> Result<(Option<RawEntity>, Option<DateTime>)> {
        let request = table::get_entity(self.checked_name()?, key, select);
        let call =
            Call { service: StorageService::Table, operation: "GetEntity", request: &request, deadline };
        let tried = self.account().call(&call, |answer| {
            let read = table::entity_fetched(answer).map(|fetched| {
                let date = answer.date();
                RawEntity::read(&fetched).map(|entity| (Some(entity), date))
            });
            match read {
                Err(AnswerError::Refused(refusal)) if is_absence(&refusal) => Ok(Some((None, answer.date()))),
                other => other,
            }
        });
        let read = tried.await.read()?;
        read.ok_or_else(|| Error::Unreadable("an entity breaks the rules of the data model".to_owned()))
    }

    /// Makes one write.
    pub(crate) async fn apply(&self, write: Write, options: Option<&WriteOptions>) -> Result<Written> {
        let WriteOptions { resolve, deadline } = options.cloned().unwrap_or_default();
        let write = if resolve == Resolve::ByStamp { with_stamp(write)? } else { write };
        let values = NamedValues::of(&write);
        let request = table::write_entity(self.checked_name()?, &request(&write, &values))?;
        let operation = write.change.operation();
        let call = Call { service: StorageService::Table, operation, request: &request, deadline };
        let tried = self.account().call(&call, table::entity_written).await;
        let refusal = match tried.told {
            Told::Done(written) => return Ok(written),
            Told::Refused(refusal) if !tried.lost || resolve::is_about_the_request(&refusal) => {
                return Err(meaning(refusal));
            }
            Told::Refused(refusal) => Ok(refusal),
            Told::GaveUp(cause) if tried.lost => Err(cause),
            Told::GaveUp(cause) => return Err(cause),
        };
        // The answer to an earlier try was lost.
        let unknown =
            |cause| Err(Error::OutcomeUnknown { attempts: tried.attempts, cause: Some(Box::new(cause)) });
        match refusal {
            Ok(refusal) if write.is_delete() && is_absence(&refusal) => Ok(Written::default()),
            Ok(refusal) if resolve == Resolve::Never || !resolve::may_be_echo(&refusal) => {
                unknown(meaning(refusal))
            }
            Ok(refusal) => match self.read_back(&write, tried.started).await {
                Ok(back) => match resolve::judge(&write, back.found.as_ref(), back.since) {
                    Verdict::Ours => Ok(as_written(back.found)),
                    Verdict::NotOurs => Err(meaning(refusal)),
                },
                Err(error) => unknown(error),
            },
            Err(cause) if resolve == Resolve::Never => unknown(cause),
            // No try was answered: the last request may still be on its way, so only a find is certain.
            Err(cause) => match self.read_back(&write, tried.started).await {
                Ok(back) if resolve::judge(&write, back.found.as_ref(), back.since) == Verdict::Ours => {
                    Ok(as_written(back.found))
                }
                _ => unknown(cause),
            },
        }
    }

    /// Makes all writes or none. They are of one partition, each entity at most once.
    pub(crate) async fn apply_all(
        &self,
        writes: &[Write],
        options: Option<&WriteOptions>,
    ) -> Result<Vec<Written>> {
        let WriteOptions { resolve, deadline } = options.cloned().unwrap_or_default();
        let stamped: Vec<Write>;
        let writes = match resolve {
            Resolve::ByStamp => {
                stamped = writes.iter().map(|write| with_stamp(write.clone())).collect::<Result<_>>()?;
                stamped.as_slice()
            }
            Resolve::ByContent | Resolve::Never => writes,
        };
        let values: Vec<NamedValues<'_>> = writes.iter().map(NamedValues::of).collect();
        let requests: Vec<_> =
            writes.iter().zip(&values).map(|(write, values)| request(write, values)).collect();
        let base = &self.account().endpoint(StorageService::Table).base;
        let name = self.checked_name()?;
        let request = table::transact_entities(name, &requests, base, [fresh_guid(), fresh_guid()]);
        let request = request.map_err(at_operation)?;
        let operation = "EntityGroupTransaction";
        let call = Call { service: StorageService::Table, operation, request: &request, deadline };
        let tried =
            self.account().call(&call, |answer| table::entities_transacted(answer, writes.len())).await;
        let refusal = match tried.told {
            Told::Done(written) => return Ok(written),
            Told::Refused(refusal) if !tried.lost || resolve::is_about_the_request(&refusal) => {
                return Err(meaning_at(refusal));
            }
            Told::Refused(refusal) => Ok(refusal),
            Told::GaveUp(cause) if tried.lost => Err(cause),
            Told::GaveUp(cause) => return Err(cause),
        };
        let unknown =
            |cause| Err(Error::OutcomeUnknown { attempts: tried.attempts, cause: Some(Box::new(cause)) });
        match refusal {
            Ok(refusal) if resolve == Resolve::Never || !resolve::may_be_echo(&refusal) => {
                unknown(meaning_at(refusal))
            }
            Ok(refusal) => match self.read_back_all(writes, tried.started).await {
                Ok(Some(written)) => Ok(written),
                Ok(None) => Err(meaning_at(refusal)),
                Err(error) => unknown(error),
            },
            Err(cause) if resolve == Resolve::Never => unknown(cause),
            Err(cause) => match self.read_back_all(writes, tried.started).await {
                Ok(Some(written)) => Ok(written),
                _ => unknown(cause),
            },
        }
    }

    async fn read_back(&self, write: &Write, started: Instant) -> Result<ReadBack> {
        let (found, date) = self.fetch_dated(&write.key, &[], None).await?;
        Ok(ReadBack { found, since: before_first_try(date, started) })
    }

    /// What a transaction wrote, if it was done. It is atomic, so one entity with our stamp is enough; without stamps
    /// every entity must be as the transaction makes it.
    async fn read_back_all(&self, writes: &[Write], started: Instant) -> Result<Option<Vec<Written>>> {
        let read = try_join_all(writes.iter().map(|write| self.read_back(write, started))).await?;
        let ours = |(write, back): (&Write, &ReadBack)| {
            resolve::judge(write, back.found.as_ref(), back.since) == Verdict::Ours
        };
        let mut stamped = writes.iter().zip(&read).filter(|(write, _)| write.stamp.is_some()).peekable();
        let done = match stamped.peek() {
            Some(_) => stamped.any(ours),
            None => writes.iter().zip(&read).all(ours),
        };
        Ok(done.then(|| read.into_iter().map(|back| as_written(back.found)).collect()))
    }
}

/// The write with a stamp, the one that it has or a new one.
fn with_stamp(write: Write) -> Result<Write> {
    if write.stamp.is_none() { write.stamped() } else { Ok(write) }
}

/// A time of the service that is not after the first try: the time of an answer, less all that has passed since.
/// The header has whole seconds, rounded down, so this is at most a second and one answer's way too early.
fn before_first_try(answered: Option<DateTime>, started: Instant) -> DateTime {
    let passed = u64::try_from(started.elapsed().as_nanos() / 100).unwrap_or(u64::MAX);
    let passed = passed.saturating_add(TICKS_PER_SECOND / 100);
    let answered = answered.unwrap_or(DateTime::MIN).ticks();
    DateTime::from_ticks(answered.saturating_sub(passed)).unwrap_or(DateTime::MIN)
}

fn as_written(found: Option<RawEntity>) -> Written {
    Written { etag: found.map(|entity| entity.etag).filter(|etag| !etag.is_empty()) }
}

impl Write {
    fn is_delete(&self) -> bool {
        matches!(self.change, Change::Delete(_))
    }
}

/// Whether it says that the entity is not there, rather than its table.
pub(crate) fn is_absence(refusal: &Refusal) -> bool {
    let code = refusal.code.as_ref().map(tavola_protocol::AnswerCode::as_str);
    refusal.status.as_u16() == 404 && matches!(code, None | Some("ResourceNotFound" | "EntityNotFound"))
}

/// The refusal of a write as what the caller can do about it.
fn meaning(refusal: Box<Refusal>) -> Error {
    let code = refusal.code.as_ref().map(tavola_protocol::AnswerCode::as_str);
    match (refusal.status.as_u16(), code) {
        (409, Some("EntityAlreadyExists")) => Error::Taken { index: None },
        (412, _) => Error::Changed,
        (404, _) if is_absence(&refusal) => Error::NotFound,
        _ => Error::Service(refusal),
    }
}

/// The same in a transaction.
fn meaning_at(refusal: Box<Refusal>) -> Error {
    match refusal.index {
        Some(index) => Error::Transaction { index, cause: Box::new(meaning(refusal)) },
        None => Error::Service(refusal),
    }
}

/// A refusal before sending, at its operation.
fn at_operation(error: tavola_model::ServiceError) -> Error {
    match error.index {
        Some(index) => Error::Transaction { index, cause: Box::new(error.into()) },
        None => error.into(),
    }
}
