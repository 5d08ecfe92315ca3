//! Every answer that was recorded from the real service decodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use tavola_model::{AccountName, Address, AddressStyle, Query};
use tavola_protocol::account::{service_properties_fetched, service_properties_set, service_stats_fetched};
use tavola_protocol::blob::{self, BlobRoute};
use tavola_protocol::queue::{self, QueueRoute};
use tavola_protocol::table::{self, TableRoute};
use tavola_protocol::{AccountRoute, Answer, AnswerError};

/// A recorded request and its answer.
struct Exchange {
    name: String,
    method: Method,
    path: String,
    query: String,
    request_headers: HeaderMap,
    /// How many writes the request held, if it was a batch whose body was recorded.
    writes: Option<usize>,
    secondary: bool,
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// The exchanges of a file; none, with a word about it, where the recordings are absent.
fn load(file: &str) -> Vec<Exchange> {
    let path = format!("{}/../../../shared/corpus/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(std::env::var_os("TAVOLA_REQUIRE_ALL").is_none(), "the recordings are not at {path}");
        println!("NOT DECODED: the recordings are not at {path}");
        return Vec::new();
    };
    let mut exchanges = Vec::new();
    for line in text.lines() {
        let session: Value = serde_json::from_str(line).unwrap();
        for exchange in session["exchanges"].as_array().unwrap() {
            exchanges.extend(Exchange::parse(session["name"].as_str().unwrap(), exchange));
        }
    }
    exchanges
}

impl Exchange {
    /// `None` for a request that was aborted.
    fn parse(session: &str, exchange: &Value) -> Option<Self> {
        let (request, response) = (&exchange["request"], &exchange["response"]);
        let target = request["path"].as_str()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let status = u16::try_from(response["status"].as_u64()?).ok().filter(|status| *status > 0)?;
        let sent = request["body"].as_str().filter(|_| request.get("body_form").is_none_or(Value::is_null));
        let is_write = |line: &&str| {
            ["POST ", "PUT ", "MERGE ", "PATCH ", "DELETE "].iter().any(|verb| line.starts_with(verb))
        };
        let text = response["body"].as_str().unwrap_or_default();
        let body = match response["body_form"].as_str() {
            Some("base64") => STANDARD.decode(text).unwrap(),
            _ => text.as_bytes().to_vec(),
        };
        Some(Self {
            name: format!("{session}: {} {target}", request["method"].as_str()?),
            method: request["method"].as_str()?.parse().ok()?,
            path: path.to_owned(),
            query: query.to_owned(),
            request_headers: headers(&request["headers"]),
            writes: sent.map(|sent| sent.lines().filter(is_write).count()),
            secondary: exchange["secondary"] == true,
            status: StatusCode::from_u16(status).ok()?,
            headers: headers(&response["headers"]),
            body,
        })
    }

    fn answer(&self) -> Answer<'_> {
        Answer { status: self.status, headers: &self.headers, body: &self.body }
    }

    fn address(&self) -> Address<'_> {
        Address {
            account: AccountName::parse("recorded").unwrap(),
            style: AddressStyle::Host,
            secondary: self.secondary,
            path: &self.path,
        }
    }

    /// A refusal tells its code and its text, unless it has no body or comes from something before the service.
    fn check_refusal(&self, error: &AnswerError) -> Result<(), String> {
        let Some(refusal) = error.refusal() else { return Err(format!("{}: {error}", self.name)) };
        let is_service = !self.body.is_empty() && !self.body.starts_with(b"<!DOCTYPE");
        let has_code = is_service || self.headers.contains_key("x-ms-error-code");
        let is_told = refusal.code.is_some() == has_code
            && refusal.message.is_empty() == self.body.is_empty()
            && !refusal.message.contains("RequestId")
            && (refusal.request_id.is_some() || !is_service);
        if is_told { Ok(()) } else { Err(format!("{}: {refusal:?}", self.name)) }
    }
}

fn headers(headers: &Value) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers.as_object().into_iter().flatten() {
        let values: Vec<&str> = match value {
            Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
            value => value.as_str().into_iter().collect(),
        };
        for value in values {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value))
            {
                map.append(name, value);
            }
        }
    }
    map
}

fn read_account(route: AccountRoute, answer: &Answer<'_>) -> Result<(), AnswerError> {
    match route {
        AccountRoute::GetServiceProperties => service_properties_fetched(answer).map(drop),
        AccountRoute::SetServiceProperties => service_properties_set(answer),
        AccountRoute::GetServiceStats => service_stats_fetched(answer).map(drop),
        AccountRoute::Preflight => Ok(()),
    }
}

fn read_table(exchange: &Exchange) -> Result<(), AnswerError> {
    let answer = exchange.answer();
    let query = Query::parse(&exchange.query).unwrap_or_default();
    let route = table::route(&exchange.method, &exchange.address(), &query, &exchange.request_headers);
    match route {
        Ok(TableRoute::Account(route)) => read_account(route, &answer),
        Ok(TableRoute::QueryTables) => table::tables_queried(&answer).map(drop),
        Ok(TableRoute::GetTable(_)) => table::table_fetched(&answer).map(drop),
        Ok(TableRoute::CreateTable) => table::table_created(&answer),
        Ok(TableRoute::DeleteTable(_) | TableRoute::SetTableAcl(_)) => table::table_done(&answer),
        Ok(TableRoute::GetTableAcl(_)) => table::table_acl_fetched(&answer).map(drop),
        Ok(TableRoute::QueryEntities(..)) => table::entities_queried(&answer).map(drop),
        Ok(TableRoute::GetEntity(..)) => table::entity_fetched(&answer).map(|entity| {
            let is_whole = !exchange.query.contains("select");
            assert!(entity.etag.is_some(), "{}", exchange.name);
            assert!(!is_whole || entity.to_stored().is_some(), "{}", exchange.name);
        }),
        Ok(TableRoute::InsertEntity(_)) if answer.status == StatusCode::CREATED => {
            table::entity_inserted(&answer).map(|entity| assert!(entity.to_stored().is_some()))
        }
        Ok(TableRoute::InsertEntity(_) | TableRoute::PutEntity(..) | TableRoute::MergeEntity(..)) => {
            let written = table::entity_written(&answer)?;
            // One recorder lost the quotes of tags.
            let etag = written.etag.as_deref().unwrap_or_default();
            assert!(written.timestamp().is_some() != etag.starts_with("W/d"), "{}: {etag}", exchange.name);
            Ok(())
        }
        Ok(TableRoute::DeleteEntity(..)) => table::entity_written(&answer).map(drop),
        Ok(TableRoute::Batch) => read_batch(exchange, &answer),
        // The tables of metrics, which our own server does not have.
        Err(_) if exchange.path.contains("$Metrics") => table::table_fetched(&answer).map(drop),
        Ok(TableRoute::BeyondTable(..)) | Err(_) => table::table_done(&answer),
    }
}

/// A batch of writes; the few recorded ones that hold a query are read only for their refusals.
fn read_batch(exchange: &Exchange, answer: &Answer<'_>) -> Result<(), AnswerError> {
    let text = String::from_utf8_lossy(answer.body);
    let is_query = answer.status == StatusCode::ACCEPTED && !text.contains("changesetresponse");
    if is_query {
        return Ok(());
    }
    let parts = text.matches("HTTP/1.1 ").count();
    let written = table::entities_transacted(answer, exchange.writes.unwrap_or(parts))?;
    assert!(written.len() == parts, "{}", exchange.name);
    Ok(())
}

fn read_queue(exchange: &Exchange) -> Result<(), AnswerError> {
    let answer = exchange.answer();
    let query = Query::parse(&exchange.query).unwrap_or_default();
    match queue::route(&exchange.method, &exchange.address(), &query) {
        Ok(QueueRoute::Account(route)) => read_account(route, &answer),
        Ok(QueueRoute::ListQueues) => queue::queues_listed(&answer).map(drop),
        Ok(QueueRoute::CreateQueue(_)) => queue::queue_created(&answer).map(drop),
        Ok(QueueRoute::GetQueueMetadata(_)) => queue::queue_metadata_fetched(&answer)
            .map(|fetched| assert!(fetched.message_count.is_some(), "{}", exchange.name)),
        Ok(QueueRoute::GetQueueAcl(_)) => queue::queue_acl_fetched(&answer).map(drop),
        Ok(QueueRoute::PutMessage(_)) => queue::message_put(&answer).map(drop),
        Ok(QueueRoute::GetMessages(_)) => queue::messages_got(&answer).map(drop),
        Ok(QueueRoute::PeekMessages(_)) => queue::messages_peeked(&answer).map(drop),
        Ok(QueueRoute::UpdateMessage(..)) => queue::message_updated(&answer).map(drop),
        Ok(
            QueueRoute::DeleteQueue(_)
            | QueueRoute::SetQueueMetadata(_)
            | QueueRoute::SetQueueAcl(_)
            | QueueRoute::ClearMessages(_)
            | QueueRoute::DeleteMessage(..),
        )
        | Err(_) => queue::queue_done(&answer),
    }
}

/// What a client can ask for; the rest is read only for its refusals.
fn read_blob(exchange: &Exchange) -> Result<(), AnswerError> {
    let answer = exchange.answer();
    let query = Query::parse(&exchange.query).unwrap_or_default();
    let asked = &exchange.request_headers;
    // Without its headers nobody knows the operation, nor where a recorder lost the source of a copy.
    let has_lost_its_source =
        exchange.headers.contains_key("x-ms-copy-id") && !asked.contains_key("x-ms-copy-source");
    if !asked.contains_key("x-ms-version") || has_lost_its_source && exchange.method == Method::PUT {
        return Ok(());
    }
    match blob::route(&exchange.method, &exchange.address(), &query, asked) {
        Ok(BlobRoute::Account(route)) => read_account(route, &answer),
        Ok(BlobRoute::ListContainers) => blob::containers_listed(&answer).map(drop),
        Ok(BlobRoute::ListBlobs(_)) => blob::blobs_listed(&answer).map(drop),
        Ok(BlobRoute::CreateContainer(_)) => blob::container_created(&answer).map(drop),
        Ok(BlobRoute::DeleteContainer(_) | BlobRoute::DeleteBlob(_)) => blob::blob_deleted(&answer),
        Ok(BlobRoute::GetContainerProperties(_)) => blob::container_fetched(&answer).map(drop),
        Ok(BlobRoute::SetContainerMetadata(_) | BlobRoute::SetBlobMetadata(_)) => {
            blob::metadata_set(&answer).map(drop)
        }
        Ok(BlobRoute::PutBlob(_) | BlobRoute::PutBlockList(_)) => blob::blob_put(&answer).map(drop),
        Ok(BlobRoute::PutBlock(_)) => blob::block_put(&answer)
            .map(|put| assert!(put.md5.is_some() || put.crc64.is_some(), "{}", exchange.name)),
        Ok(BlobRoute::AppendBlock(_)) => blob::block_appended(&answer).map(drop),
        Ok(BlobRoute::GetBlob(_)) => blob::blob_fetched(&answer)
            .map(|got| assert_eq!(got.range.is_some(), answer.status == StatusCode::PARTIAL_CONTENT)),
        // Some recorders leave the length out, and there is no other place for it.
        Ok(BlobRoute::GetBlobProperties(_)) if exchange.headers.contains_key("content-length") => {
            blob::blob_fetched(&answer).map(drop)
        }
        Ok(BlobRoute::SnapshotBlob(_)) => blob::snapshot_taken(&answer).map(drop),
        Ok(BlobRoute::CopyBlob(_)) => blob::copy_started(&answer).map(drop),
        Ok(BlobRoute::GetBlockList(_)) => blob::block_list_fetched(&answer).map(drop),
        Ok(BlobRoute::LeaseBlob(_) | BlobRoute::LeaseContainer(_)) => match asked.get("x-ms-lease-action") {
            Some(action) if action == "break" => blob::lease_broken(&answer).map(drop),
            Some(action) if action == "release" => blob::lease_released(&answer),
            Some(_) => blob::lease_held(&answer).map(drop),
            None => Ok(()),
        },
        _ if answer.status.is_success() => Ok(()),
        _ => Err(blob::blob_deleted(&answer).unwrap_err()),
    }
}

/// Reads all exchanges of a file. Floors keep the test from passing by reading nothing.
fn check(
    file: &str,
    read: fn(&Exchange) -> Result<(), AnswerError>,
    (outcomes_min, refusals_min): (usize, usize),
) {
    let exchanges = load(file);
    if exchanges.is_empty() {
        return;
    }
    let (mut outcomes, mut refusals, mut failures) = (0, 0, Vec::new());
    for exchange in &exchanges {
        let answer = exchange.answer();
        match read(exchange) {
            Ok(()) => outcomes += 1,
            // The recorder blanked the query, so nobody knows the operation.
            Err(_) if matches!(exchange.query.as_str(), "*" | "REDACTED") && answer.status.is_success() => {}
            Err(error) => {
                failures.extend(exchange.check_refusal(&error).err());
                refusals += 1;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("{file}: {outcomes} outcomes and {refusals} refusals read");
    assert!(outcomes >= outcomes_min && refusals >= refusals_min);
}

#[test]
fn every_recorded_answer_of_tables_decodes() {
    check("tables", read_table, (5200, 450));
}

#[test]
fn every_recorded_answer_of_queues_decodes() {
    check("queues", read_queue, (1100, 150));
}

#[test]
fn every_recorded_answer_of_blobs_decodes() {
    check("blobs", read_blob, (2300, 250));
}
