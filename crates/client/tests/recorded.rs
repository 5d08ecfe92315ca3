//! Every recorded answer of the real service, given to the client: it reads it, or tells the refusal in it.
//!
//! The recordings are in `../shared/corpus`; where they are absent the test says so, and fails with
//! `TAVOLA_REQUIRE_ALL`. Answers that are headers and XML alone are read in the tests of `protocol`; here it is entities,
//! messages and contents, through the calls that give them.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde_json::Value;
use tavola_client::{Account, DynamicEntity, Error, In, Result, RetrySettings, Transport, TransportError};
use tavola_model::{AccountName, Address, AddressStyle, Query};
use tavola_protocol::blob::{self, BlobRoute};
use tavola_protocol::queue::{self, QueueRoute};
use tavola_protocol::table::{self, TableRoute};

/// A recorded request and its answer.
struct Exchange {
    name: String,
    method: Method,
    path: String,
    query: String,
    headers: http::HeaderMap,
    answer: Response<Bytes>,
}

/// The exchanges of a file.
fn load(file: &str) -> Option<Vec<Exchange>> {
    let path = format!("{}/../../../shared/corpus/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        assert!(std::env::var_os("TAVOLA_REQUIRE_ALL").is_none(), "the recordings are not at {path}");
        println!("NOT DECODED: the recordings are not at {path}");
        return None;
    };
    let sessions = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let exchanges = |session: Value| {
        let name = session["name"].as_str().unwrap().to_owned();
        let exchanges = session["exchanges"].as_array().unwrap().clone();
        exchanges.into_iter().filter_map(move |exchange| parse(&name, &exchange))
    };
    Some(sessions.flat_map(exchanges).collect())
}

fn parse(session: &str, exchange: &Value) -> Option<Exchange> {
    let (request, response) = (&exchange["request"], &exchange["response"]);
    let target = request["path"].as_str()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // An aborted request has the status 0.
    let status = StatusCode::from_u16(u16::try_from(response["status"].as_u64()?).ok()?).ok()?;
    let text = response["body"].as_str().unwrap_or_default();
    let body = match response["body_form"].as_str() {
        Some("base64") => STANDARD.decode(text).unwrap(),
        _ => text.as_bytes().to_vec(),
    };
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers(&response["headers"]);
    Some(Exchange {
        name: format!("{session}: {} {target}", request["method"].as_str()?),
        method: request["method"].as_str()?.parse().ok()?,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: headers(&request["headers"]),
        answer,
    })
}

fn headers(headers: &Value) -> http::HeaderMap {
    let pairs = headers.as_object().into_iter().flatten();
    let one = |(name, value): (&String, &Value)| {
        let text = value.as_str().or_else(|| value[0].as_str())?;
        Some((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::from_str(text).ok()?))
    };
    pairs.filter_map(one).collect()
}

/// Answers every request with the recorded answer.
struct Recorded(Response<Bytes>);

impl Transport for Recorded {
    fn send(&self, _: http::Request<Bytes>) -> BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        let mut answer = Response::new(self.0.body().clone());
        *answer.status_mut() = self.0.status();
        *answer.headers_mut() = self.0.headers().clone();
        Box::pin(async move { Ok(answer) })
    }
}

impl Exchange {
    fn account(&self) -> Account {
        let answer = {
            let mut answer = Response::new(self.answer.body().clone());
            *answer.status_mut() = self.answer.status();
            *answer.headers_mut() = self.answer.headers().clone();
            answer
        };
        let once = RetrySettings { tries_max: 1, ..RetrySettings::default() };
        Account::development().unwrap().with_transport(Recorded(answer)).with_retry(once)
    }

    fn address(&self) -> Address<'_> {
        let account = AccountName::parse("recorded").unwrap();
        Address { account, style: AddressStyle::Host, secondary: false, path: &self.path }
    }

    fn parsed_query(&self) -> Query<'_> {
        Query::parse(&self.query).unwrap_or_default()
    }

    fn is_json(&self) -> bool {
        let kind = self.answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.contains("json"))
    }

    /// Whether what the client tells is what was recorded.
    fn is_told<T>(&self, call: &str, told: &Result<T>) -> bool {
        let status = self.answer.status();
        let is_success = status.is_success();
        match told {
            // What is not there, and what is there already, are answers and not errors.
            Ok(_) if call == "create" => is_success || status == StatusCode::CONFLICT,
            Ok(_) => is_success || call == "get" && status == StatusCode::NOT_FOUND,
            Err(Error::Map(_) | Error::Unreadable(_)) => false,
            Err(_) => !is_success,
        }
    }
}

/// What kinds of calls were made, and what the client did not tell as it was recorded.
#[derive(Default)]
struct Told {
    calls: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Told {
    fn take<T: std::fmt::Debug>(&mut self, call: &'static str, exchange: &Exchange, told: Result<T>) {
        *self.calls.entry(call).or_default() += 1;
        if !exchange.is_told(call, &told) {
            self.wrong.push(format!("{} {}: {told:?}", exchange.name, exchange.answer.status()));
        }
    }

    /// Floors keep the test from passing by reading nothing.
    fn check(&self, floors: &[(&str, usize)]) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        println!("{:?}", self.calls);
        for (call, least) in floors {
            assert!(self.calls.get(call).is_some_and(|count| count >= least), "{call}: {:?}", self.calls);
        }
    }
}

#[tokio::test]
async fn recorded_answers_of_tables_are_entities() {
    let Some(exchanges) = load("tables") else { return };
    let mut told = Told::default();
    for exchange in exchanges {
        let table = exchange.account().table("Recorded");
        let query = exchange.parsed_query();
        let is_success = exchange.answer.status().is_success();
        let whole = !exchange.query.contains("select") && (exchange.is_json() || !is_success);
        match table::route(&exchange.method, &exchange.address(), &query, &exchange.headers) {
            Ok(TableRoute::GetEntity(..)) if whole => {
                told.take("get", &exchange, table.get::<DynamicEntity>(("p", "r"), None).await);
            }
            Ok(TableRoute::QueryEntities(..)) if whole => {
                let page = table.query::<DynamicEntity>(In::whole_table()).page(None).await;
                told.take("query", &exchange, page.map(|page| page.items.len()));
            }
            Ok(TableRoute::InsertEntity(_)) => {
                let entity = DynamicEntity::new(("p", "r"));
                told.take("insert", &exchange, table.insert(&entity, None).await);
            }
            Ok(TableRoute::PutEntity(..)) => {
                let entity = DynamicEntity::new(("p", "r"));
                told.take("put", &exchange, table.upsert(&entity, None).await);
            }
            Ok(TableRoute::CreateTable) => told.take("create", &exchange, table.create().await),
            Ok(TableRoute::GetTableAcl(_)) => told.take("policies", &exchange, table.policies().await),
            _ => {}
        }
    }
    told.check(&[
        ("get", 400),
        ("query", 300),
        ("insert", 1000),
        ("put", 50),
        ("create", 500),
        ("policies", 5),
    ]);
}

#[tokio::test]
async fn recorded_answers_of_queues_are_messages() {
    let Some(exchanges) = load("queues") else { return };
    let mut told = Told::default();
    for exchange in exchanges {
        let queue = exchange.account().queue("recorded");
        match queue::route(&exchange.method, &exchange.address(), &exchange.parsed_query()) {
            Ok(QueueRoute::GetMessages(_)) => {
                let got = queue.get(1, None).await;
                told.take(
                    "get",
                    &exchange,
                    got.map(|got| got.iter().map(|one| one.text()).collect::<Vec<_>>()),
                );
            }
            Ok(QueueRoute::PeekMessages(_)) => {
                told.take("peek", &exchange, queue.peek(1).await.map(|got| got.len()))
            }
            // Versions before 2016-05-31, which the client does not ask for, tell nothing of a new message.
            Ok(QueueRoute::PutMessage(_)) if !exchange.answer.body().is_empty() => {
                told.take("put", &exchange, queue.put("text", None).await.map(|put| put.id().to_owned()));
            }
            Ok(QueueRoute::CreateQueue(_)) => told.take("create", &exchange, queue.create().await),
            Ok(QueueRoute::GetQueueMetadata(_)) => told.take("count", &exchange, queue.message_count().await),
            _ => {}
        }
    }
    told.check(&[("get", 50), ("peek", 30), ("put", 150), ("create", 200), ("count", 20)]);
}

#[tokio::test]
async fn recorded_answers_of_blobs_are_contents() {
    let Some(exchanges) = load("blobs") else { return };
    let mut told = Told::default();
    // Without its headers or its query nobody knows the operation.
    let is_known = |exchange: &Exchange| {
        exchange.headers.contains_key("x-ms-version")
            && !exchange.query.contains(['*'])
            && exchange.query != "REDACTED"
    };
    for exchange in exchanges.into_iter().filter(is_known) {
        let container = exchange.account().container("recorded");
        let route =
            blob::route(&exchange.method, &exchange.address(), &exchange.parsed_query(), &exchange.headers);
        match route {
            Ok(BlobRoute::GetBlob(_)) => {
                let got = container.get("a").await;
                told.take("get", &exchange, got.map(|content| content.map(|content| content.len())));
            }
            Ok(BlobRoute::CreateContainer(_)) => told.take("create", &exchange, container.create().await),
            _ => {}
        }
    }
    told.check(&[("get", 150), ("create", 300)]);
}
