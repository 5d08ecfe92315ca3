//! One request as the log and the access record tell of it.
//!
//! An [`Observation`] begins with the head of a request and ends exactly once, when it is dropped: with the answer,
//! with the last piece of an answer that is streamed, or, if its client went away before, without a status. Every
//! request has one, whatever becomes of it, and is counted; a record is made only of those that are to be recorded.
//! Neither the log nor the record holds account keys, signatures or contents.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tavola_model::{
    AccountName, BlobOutcome, Command, DateTime, EntityChange, EntityPage, EntityWrite, ErrorCode, Outcome,
    PlanKind, PlanReport, Query, QueueCommand, QueueOutcome, ServiceError, StorageService, TableCommand,
    TableOutcome, Text,
};
use tavola_protocol::{Form, Reply, Response};
use tavola_telemetry::{AccessRecord, Counted, QueryTarget, Recorder, Target, TraceParent};

use crate::cluster::Forwarded;
use crate::log_detail;
use crate::receive::Received;

/// A request while it is answered.
pub(crate) struct Observation<R: Deref<Target = Recorder>> {
    recorder: R,
    received: DateTime,
    begun: Duration,
    /// When its execution began.
    execution_begun: Duration,
    /// The body was not had: whatever the answer says, it is the client's doing.
    pub is_cut_short: bool,
    /// It was refused on request of whoever runs the server: no failure.
    pub is_over_limit: bool,
    /// It changes something.
    pub writes: bool,
    resource: Option<Text>,
    counted: Counted,
    /// It is counted and recorded here: not by another server that has forwarded it, and telemetry is on.
    is_observed: bool,
    /// `None` for a request that is left out under load. What is counted, too, is put into it at the end.
    record: Option<Box<AccessRecord>>,
}

/// Of a request whose answer is streamed after the pipeline is done with it.
pub(crate) type StreamObservation = Observation<Arc<Recorder>>;

impl<'a> Observation<&'a Recorder> {
    /// Begins with the head of a request. What another server has forwarded is counted and recorded there, and not a
    /// second time.
    pub fn begin(
        recorder: &'a Recorder,
        received: DateTime,
        service: StorageService,
        is_forwarded: bool,
    ) -> Self {
        let is_observed = !is_forwarded && recorder.is_on();
        let weight = if is_observed { recorder.begin(service) } else { None };
        let record = weight.map(|weight| {
            let mut record = Box::new(AccessRecord::new(received, service));
            record.weight = weight;
            record
        });
        Self {
            recorder,
            received,
            begun: recorder.now(),
            execution_begun: Duration::ZERO,
            is_cut_short: false,
            is_over_limit: false,
            writes: false,
            resource: None,
            counted: Counted::new(service),
            is_observed,
            record,
        }
    }

    /// The trace that the client is in.
    pub fn note_headers(&mut self, headers: &HeaderMap) {
        if let Some(record) = &mut self.record {
            let parent = headers.get("traceparent").and_then(|parent| parent.to_str().ok());
            record.trace_parent = parent.and_then(TraceParent::parse);
        }
    }

    /// The account that is addressed. Where a log is kept for it, every request is recorded.
    pub fn note_account(&mut self, account: &AccountName, received: &Received, query: Option<&Query<'_>>) {
        let service = self.counted.service;
        if self.is_observed && self.recorder.records_all_of(account, service) {
            let record =
                self.record.get_or_insert_with(|| Box::new(AccessRecord::new(self.received, service)));
            record.weight = 1;
        }
        let Some(record) = &mut self.record else { return };
        if let Some(of) = self.recorder.detail_of(account, service) {
            record.detail = Some(Box::new(log_detail::of(account, received, query, of)));
        }
        record.account = Some(account.clone());
    }

    /// What is asked for.
    pub fn note_command(&mut self, command: &Command, form: &Form) {
        self.writes = command.writes();
        self.counted.operation = Some(command.name());
        self.resource = command.resource().map(Text::from);
        if let Some(record) = &mut self.record {
            record.target = target(command, form);
            if let Some(detail) = &mut record.detail {
                detail.access = log_detail::access(command);
            }
        }
    }

    /// Bytes of the body that have come.
    pub fn note_body(&mut self, bytes: u64) {
        self.counted.bytes_in = bytes;
    }

    /// The execution begins.
    pub fn begin_execution(&mut self) {
        self.execution_begun = self.recorder.now();
        let queued = self.execution_begun.saturating_sub(self.begun);
        self.counted.queued = Some(queued);
        if let Some(record) = &mut self.record {
            record.durations.queued = queued;
        }
    }

    /// The execution has ended.
    pub fn end_execution(&mut self) {
        if let Some(record) = &mut self.record {
            record.durations.executed = self.recorder.now().saturating_sub(self.execution_begun);
        }
    }

    /// Notes and logs the answer. `bytes_out` are those of a body that is sent whole.
    pub fn note_answer(
        &mut self,
        reply: Reply,
        result: &Result<Outcome, ServiceError>,
        response: &Response,
        bytes_out: usize,
    ) {
        let status = response.status;
        self.log(&reply, result, status);
        let counted = &mut self.counted;
        counted.status = status.as_u16();
        counted.bytes_out = bytes_out as u64;
        match result {
            Ok(outcome) => {
                let rows = Rows::of(outcome);
                counted.plan = rows.plan;
                (counted.rows_scanned, counted.rows_returned) = (rows.scanned as u64, rows.returned as u64);
            }
            Err(error) => {
                counted.code = Some(error.code);
                counted.throttled = is_throttled(error.code) && !self.is_cut_short;
            }
        }
        self.log_slow(&reply.request_id);
        let Some(record) = &mut self.record else { return };
        if let Some(detail) = &mut record.detail {
            log_detail::note_response(detail, response);
        }
        record.client_request_id =
            reply.client_request_id.and_then(|id| id.to_str().ok().map(Box::<str>::from));
        record.request_id = reply.request_id.into_boxed_str();
    }

    /// Notes and logs the answer of another server.
    pub fn note_forwarded(&mut self, reply: &Reply, response: &Forwarded) {
        let id = response.headers().get("x-ms-request-id").and_then(|id| id.to_str().ok());
        let (request_id, status) = (id.unwrap_or("-"), response.status().as_u16());
        let (operation, resource) = (self.operation(), self.resource.as_deref().unwrap_or("-"));
        tracing::debug!(request_id, operation, resource, status, "request answered by another server");
        let counted = &mut self.counted;
        counted.status = status;
        counted.bytes_out = response.body().len() as u64;
        if !response.status().is_success() {
            let code = response.headers().get("x-ms-error-code").and_then(|code| code.to_str().ok());
            counted.code = ErrorCode::ALL.iter().find(|known| code == Some(known.as_str())).copied();
            counted.throttled = counted.code.is_some_and(is_throttled);
        }
        self.log_slow(request_id);
        let Some(record) = &mut self.record else { return };
        if let Some(detail) = &mut record.detail {
            log_detail::note_forwarded(detail, response.headers());
        }
        record.request_id = request_id.into();
        record.client_request_id =
            reply.client_request_id.as_ref().and_then(|id| id.to_str().ok().map(Box::<str>::from));
        if response.status().is_success() {
            self.counted.rows_returned = match &record.target {
                Target::Batch { operations, .. } => u64::from(*operations),
                Target::Whole | Target::Entity { .. } | Target::Query(_) => 1,
            };
        }
    }

    /// Notes an answer that nothing else is known of.
    pub fn note_status(&mut self, status: StatusCode) {
        self.counted.status = status.as_u16();
    }

    /// Goes on while the answer is streamed.
    pub fn into_stream(mut self, recorder: &Arc<Recorder>) -> StreamObservation {
        let stream = Observation {
            recorder: recorder.clone(),
            received: self.received,
            begun: self.begun,
            execution_begun: self.execution_begun,
            is_cut_short: self.is_cut_short,
            is_over_limit: self.is_over_limit,
            writes: self.writes,
            resource: self.resource.take(),
            counted: self.counted,
            is_observed: self.is_observed,
            record: self.record.take(),
        };
        // From here on this is the one that ends.
        self.is_observed = false;
        stream
    }

    /// The table, queue or container that is asked for.
    pub fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    fn operation(&self) -> &'static str {
        self.counted.operation.unwrap_or("-")
    }

    /// Logs a request that took long until its answer was there. How long its client takes to read is not counted.
    fn log_slow(&self, request_id: &str) {
        let Some(slow_time) = self.recorder.slow_time() else { return };
        let total = self.recorder.now().saturating_sub(self.begun);
        if total < slow_time {
            return;
        }
        let Counted { status, queued, plan, rows_scanned, rows_returned, bytes_in, .. } = self.counted;
        let (operation, resource) = (self.operation(), self.resource.as_deref().unwrap_or("-"));
        let (ms, queued_ms) = (total.as_millis(), queued.unwrap_or_default().as_millis());
        let plan = plan.map_or("-", |plan| plan.kind.as_str());
        tracing::warn!(
            request_id,
            operation,
            resource,
            status,
            ms,
            queued_ms,
            plan,
            rows_scanned,
            rows_returned,
            bytes_in,
            "slow request"
        );
    }

    fn log(&self, reply: &Reply, result: &Result<Outcome, ServiceError>, status: StatusCode) {
        let (request_id, status) = (reply.request_id.as_str(), status.as_u16());
        let operation = self.operation();
        let resource = self.resource.as_deref().unwrap_or("-");
        match result {
            Ok(_) => tracing::debug!(request_id, operation, resource, status, "request answered"),
            Err(error) => {
                let code = error.code.as_str();
                match error.code {
                    ErrorCode::InternalError | ErrorCode::OperationTimedOut | ErrorCode::ServerBusy
                        if !self.is_cut_short && !self.is_over_limit =>
                    {
                        let cause =
                            error.cause.as_ref().map(|cause| chain(cause.as_ref())).unwrap_or_default();
                        tracing::error!(
                            request_id,
                            operation,
                            resource,
                            status,
                            code,
                            cause,
                            "request failed"
                        );
                    }
                    _ => tracing::info!(request_id, operation, resource, status, code, "request refused"),
                }
            }
        }
    }
}

impl StreamObservation {
    /// A piece of the answer is on its way.
    pub fn note_piece(&mut self, bytes: usize) {
        self.counted.bytes_out += bytes as u64;
    }
}

impl<R: Deref<Target = Recorder>> Drop for Observation<R> {
    fn drop(&mut self) {
        if !self.is_observed {
            return;
        }
        self.counted.total = self.recorder.now().saturating_sub(self.begun);
        self.recorder.end(&self.counted, self.resource.as_deref(), self.record.take());
    }
}

/// Whether load is the reason of a refusal.
fn is_throttled(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::ServerBusy | ErrorCode::OperationTimedOut)
}

/// What of its resource a command asks for.
fn target(command: &Command, form: &Form) -> Target {
    let named = |name: &str| Target::Entity { partition: name.into(), row: Box::default(), properties: 0 };
    match command {
        Command::Account(_) => Target::Whole,
        Command::Table(command) => table_target(command, form),
        Command::Queue(QueueCommand::DeleteMessage(message)) => {
            message.id.map_or(Target::Whole, |id| named(&id.to_string()))
        }
        Command::Queue(QueueCommand::UpdateMessage(update)) => {
            update.message.id.map_or(Target::Whole, |id| named(&id.to_string()))
        }
        Command::Queue(_) => Target::Whole,
        Command::Blob(command) => command.blob().map_or(Target::Whole, |blob| named(blob.name.as_str())),
    }
}

fn table_target(command: &TableCommand, form: &Form) -> Target {
    let count = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    match command {
        TableCommand::GetEntity(get) => Target::Entity {
            partition: get.key.partition.as_str().into(),
            row: get.key.row.as_str().into(),
            properties: count(form.select.names.as_ref().map_or(0, |names| names.len())),
        },
        TableCommand::WriteEntity(_, write) => Target::Entity {
            partition: write.key.partition.as_str().into(),
            row: write.key.row.as_str().into(),
            properties: count(properties(&write.change)),
        },
        TableCommand::TransactEntities(transaction) => batch_target(&transaction.writes),
        TableCommand::QueryEntities(query) => Target::Query(Arc::new(QueryTarget {
            filter: query.filter.clone(),
            select: form.select.names.iter().flatten().map(|name| name.as_str().into()).collect(),
            top: query.top.map(|top| u32::try_from(top).unwrap_or(u32::MAX)),
            is_continuation: query.from.is_some(),
        })),
        TableCommand::QueryTables(_)
        | TableCommand::GetTable(_)
        | TableCommand::CreateTable(_)
        | TableCommand::DeleteTable(_)
        | TableCommand::GetTableAcl(_)
        | TableCommand::SetTableAcl(..)
        | TableCommand::ProbeTable(..) => Target::Whole,
    }
}

fn batch_target(writes: &[EntityWrite]) -> Target {
    let count = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    let first = writes.first().map(|write| &write.key);
    let (mut inserts, mut deletes, mut properties_max) = (0, 0, 0);
    let mut numbers: Option<(&str, &str)> = None;
    for write in writes {
        match &write.change {
            EntityChange::Insert(_) | EntityChange::InsertOrReplace(_) | EntityChange::InsertOrMerge(_) => {
                inserts += 1;
                let row = write.key.row.as_str();
                if digits(row) > 0 {
                    let (fewest, most) = numbers.unwrap_or((row, row));
                    numbers = Some((
                        if digits(row) < digits(fewest) { row } else { fewest },
                        if digits(row) > digits(most) { row } else { most },
                    ));
                }
            }
            EntityChange::Delete(_) => deletes += 1,
            EntityChange::Update(..) | EntityChange::Merge(..) => {}
        }
        properties_max = properties_max.max(properties(&write.change));
    }
    Target::Batch {
        partition: first.map_or("", |key| key.partition.as_str()).into(),
        row: first.map_or("", |key| key.row.as_str()).into(),
        operations: count(writes.len()),
        inserts: count(inserts),
        deletes: count(deletes),
        properties_max: count(properties_max),
        numbers: numbers.map(|(fewest, most)| (fewest.into(), most.into())),
    }
}

/// Digits at the end of a key.
fn digits(key: &str) -> usize {
    key.bytes().rev().take_while(u8::is_ascii_digit).count()
}

/// Properties that an entity is written with.
fn properties(change: &EntityChange) -> usize {
    match change {
        EntityChange::Insert(properties)
        | EntityChange::InsertOrReplace(properties)
        | EntityChange::InsertOrMerge(properties)
        | EntityChange::Update(properties, _)
        | EntityChange::Merge(properties, _) => properties.len(),
        EntityChange::Delete(_) => 0,
    }
}

/// How many rows were read and answered with, or written.
struct Rows {
    scanned: usize,
    returned: usize,
    plan: Option<PlanReport>,
}

impl Rows {
    fn of(outcome: &Outcome) -> Self {
        let written = |count| Self { scanned: 0, returned: count, plan: None };
        let read = |count| Self { scanned: count, returned: count, plan: None };
        match outcome {
            Outcome::Account(_) => written(0),
            Outcome::Table(TableOutcome::EntitiesQueried(EntityPage { plan, .. })) => {
                Self { scanned: plan.scanned, returned: plan.returned, plan: Some(*plan) }
            }
            Outcome::Table(TableOutcome::EntityFetched(_)) => {
                let plan = PlanReport { kind: PlanKind::Point, ranges: 1, scanned: 1, returned: 1 };
                Self { plan: Some(plan), ..read(1) }
            }
            Outcome::Table(TableOutcome::EntityWritten(_)) => written(1),
            Outcome::Table(TableOutcome::EntitiesTransacted(all)) => written(all.len()),
            Outcome::Table(TableOutcome::TablesQueried(page)) => read(page.tables.len()),
            Outcome::Table(_) => written(0),
            Outcome::Queue(QueueOutcome::QueuesListed(page)) => read(page.queues.len()),
            Outcome::Queue(QueueOutcome::MessagesGot(got)) => read(got.len()),
            Outcome::Queue(QueueOutcome::MessagesPeeked(peeked)) => read(peeked.len()),
            Outcome::Queue(
                QueueOutcome::MessagePut(..) | QueueOutcome::MessageUpdated(_) | QueueOutcome::MessageDeleted,
            ) => written(1),
            Outcome::Queue(_) => written(0),
            Outcome::Blob(outcome) => match outcome.as_ref() {
                BlobOutcome::ContainersListed(page) => read(page.containers.len()),
                BlobOutcome::BlobsFound(page) => read(page.blobs.len()),
                BlobOutcome::BlobsListed(page) => read(page.entries.len()),
                BlobOutcome::BlobGot(_) => read(1),
                _ => written(0),
            },
        }
    }
}

/// A cause with all that is underneath it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tavola_model::{EntityKey, GetEntity, Key, Properties, TableName};

    use super::*;

    fn key(row: &str) -> EntityKey {
        EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse(row).unwrap() }
    }

    #[test]
    fn a_batch_tells_its_shortest_and_longest_numbers() {
        let numbers = |rows: &[&str]| {
            let write =
                |row: &&str| EntityWrite { key: key(row), change: EntityChange::Insert(Properties::empty()) };
            let Target::Batch { numbers, .. } = batch_target(&rows.iter().map(write).collect::<Vec<_>>())
            else {
                panic!()
            };
            numbers.map(|(fewest, most)| (fewest.into_string(), most.into_string()))
        };
        assert_eq!(
            numbers(&["x", "item-10", "item-9", "item-100"]),
            Some(("item-9".into(), "item-100".into()))
        );
        assert_eq!(numbers(&["x", "y"]), None);
    }

    #[test]
    fn a_read_tells_how_many_properties_it_wants() {
        let properties = |names: Option<&[&str]>| {
            let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let mut form = Form::default();
            form.select.names = names;
            let get = GetEntity { table: TableName::parse("People").unwrap(), key: key("r") };
            match table_target(&TableCommand::GetEntity(get), &form) {
                Target::Entity { properties, .. } => properties,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((properties(None), properties(Some(&["A", "B"]))), (0, 2));
    }
}
