//! Calls of the client library, and the same bytes sent by a bare hyper connection.
//!
//! What the library would send is recorded from the library itself, so both send the same bytes. The time of the
//! thread that calls is counted, kernel included: both have one connection and do everything on that thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustix::time::{ClockId, clock_gettime};
use tavola_auth::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_client::{
    Account, BulkOptions, Credential, Endpoints, Entity, RetrySettings, TableClient, Transport,
    TransportError,
};
use tokio::net::TcpStream;

use crate::AnyError;
use crate::dataset::{BATCH_ROWS, Entities, partition_key, row_key};
use crate::load::stay_awake;

/// Transactions of bulk work on their way at once.
pub const BULK_CONNECTIONS: usize = 16;

/// Names one table of the development account at this host.
pub fn table(host: &str, name: &str) -> Result<TableClient, AnyError> {
    Ok(account(host)?.table(name))
}

fn account(host: &str) -> Result<Account, AnyError> {
    let url = format!("http://{host}/{DEVELOPMENT_ACCOUNT}");
    let endpoints = Endpoints { table: url.clone(), queue: url.clone(), blob: url };
    let (account, key) = (DEVELOPMENT_ACCOUNT.to_owned(), DEVELOPMENT_KEY.to_owned());
    Ok(Account::new(&endpoints, Credential::Key { account, key })?)
}

/// An entity of the data set as a type.
#[derive(Clone, Debug, Entity)]
#[entity(partition = "{partition}", row = "{row}", rename_all = "PascalCase")]
pub struct Person {
    pub partition: String,
    pub row: String,
    pub age: i32,
    pub active: bool,
    pub city: String,
    pub score: f64,
    pub text0: String,
    pub text1: String,
    pub text2: String,
    pub text3: String,
    pub text4: String,
    pub text5: String,
    pub text6: String,
}

impl Person {
    /// The entity that the generator makes of the same seed.
    pub fn new(entities: &Entities, partition: String, row: String, seed: u64) -> Self {
        let text = |index| entities.text(seed, index).to_owned();
        Self {
            partition,
            row,
            age: i32::try_from(seed % 100).unwrap_or(0),
            active: seed.is_multiple_of(2),
            city: "Lisbon".to_owned(),
            score: f64::from(u32::try_from(seed % 1000).unwrap_or(0)) + 0.5,
            text0: text(0),
            text1: text(1),
            text2: text(2),
            text3: text(3),
            text4: text(4),
            text5: text(5),
            text6: text(6),
        }
    }
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One entity by its keys.
    Get,
    /// A new entity.
    Insert,
    /// New entities in bulk, counted one by one.
    Bulk(Order),
}

/// Who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The client library with types.
    Typed,
    /// One hyper connection that is given ready requests.
    Raw,
}

/// What some calls took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Called {
    pub elapsed: Duration,
    /// Of the calling thread, kernel included.
    pub cpu: Duration,
}

/// Calls to make.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    /// `host:port` of the server's tables.
    pub host: &'a str,
    pub table: &'a str,
    /// Rows of the table.
    pub rows: u64,
    pub kind: Kind,
    pub stack: Stack,
    /// New entities have numbers from here on.
    pub first: u64,
    pub count: u64,
}

impl Calls<'_> {
    /// Prepares them, and makes them one after the other unless they are only to be prepared.
    pub fn run(self, is_sent: bool) -> Result<Called, AnyError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let table = table(self.host, self.table)?;
            let (keys, people) = self.prepare();
            match self.stack {
                Stack::Typed if is_sent => call_typed(&table, self.kind, keys, people).await,
                Stack::Typed => {
                    std::hint::black_box((keys, people));
                    Ok(Called::default())
                }
                Stack::Raw => {
                    let requests = record(self.host, self.table, self.kind, keys, people).await?;
                    if is_sent { call_raw(self.host, requests).await } else { Ok(Called::default()) }
                }
            }
        })
    }

    fn prepare(&self) -> (Vec<(String, String)>, Vec<Person>) {
        let entities = Entities::default();
        let mut random = fastrand::Rng::with_seed(self.first);
        let numbers = self.first..self.first + self.count;
        match self.kind {
            Kind::Get => {
                let rows = numbers.map(|_| random.u64(..self.rows));
                (rows.map(|row| (partition_key(row), row_key(row))).collect(), Vec::new())
            }
            Kind::Insert => {
                let person = |number| {
                    let (partition, row) = (format!("c{:05}", number % 1000), format!("r{number:012}"));
                    Person::new(&entities, partition, row, number)
                };
                (Vec::new(), numbers.map(person).collect())
            }
            Kind::Bulk(order) => {
                (Vec::new(), numbers.map(|number| order.person(&entities, number)).collect())
            }
        }
    }
}

/// How the input of bulk work is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A hundred entities of each partition together, as the generator's batches.
    ByPartition,
    /// Each entity in another of 64 partitions than the one before.
    InTurn,
}

impl Order {
    fn person(self, entities: &Entities, number: u64) -> Person {
        let partition = match self {
            Order::ByPartition => format!("b{:09}", number / BATCH_ROWS),
            Order::InTurn => format!("t{:09}", (number / (64 * BATCH_ROWS) * 64) + number % 64),
        };
        Person::new(entities, partition, format!("r{number:012}"), number)
    }
}

async fn call_typed(
    table: &TableClient,
    kind: Kind,
    keys: Vec<(String, String)>,
    people: Vec<Person>,
) -> Result<Called, AnyError> {
    // Connections are opened before the clock starts.
    let connections = if matches!(kind, Kind::Bulk(_)) { BULK_CONNECTIONS } else { 1 };
    let opening = (0..connections).map(|_| table.get::<Person>(("none", "none"), None));
    futures_util::future::try_join_all(opening).await?;
    if matches!(kind, Kind::Bulk(_)) {
        // As the generator does, beside which this is measured. Ends with the runtime.
        tokio::spawn(stay_awake());
    }
    let clock = Clock::start();
    match kind {
        Kind::Get => {
            for (partition, row) in keys {
                let found = table.get::<Person>((partition, row), None).await?;
                std::hint::black_box(found.ok_or("an entity of the data set is missing")?);
            }
        }
        Kind::Insert => {
            for person in &people {
                std::hint::black_box(table.insert(person, None).await?);
            }
        }
        Kind::Bulk(_) => {
            let count = people.len() as u64;
            let options = BulkOptions { concurrency: BULK_CONNECTIONS, ..BulkOptions::default() };
            let report = table.bulk_insert(stream::iter(people), Some(options)).await?;
            if report.written != count {
                return Err(format!("{} of {count} entities were written", report.written).into());
            }
        }
    }
    Ok(clock.stop())
}

/// What the library sends for these calls, without sending it.
async fn record(
    host: &str,
    table_name: &str,
    kind: Kind,
    keys: Vec<(String, String)>,
    people: Vec<Person>,
) -> Result<Vec<Request<Bytes>>, AnyError> {
    let recorder = Recorder::default();
    let retry = RetrySettings { tries_max: 1, ..RetrySettings::default() };
    let account = account(host)?.with_transport(recorder.clone()).with_retry(retry);
    let table = account.table(table_name);
    // Every call ends with the recorder's error.
    match kind {
        Kind::Get => {
            for key in keys {
                let _ = table.get::<Person>(key, None).await;
            }
        }
        Kind::Insert => {
            for person in &people {
                let _ = table.insert(person, None).await;
            }
        }
        Kind::Bulk(_) => return Err("bulk work is not recorded".into()),
    }
    let requests = std::mem::take(&mut *recorder.0.lock().unwrap_or_else(PoisonError::into_inner));
    requests.into_iter().map(|request| origin_form(host, request)).collect()
}

/// As a connection sends it: the pool above it would cut the address off and name the host.
fn origin_form(host: &str, mut request: Request<Bytes>) -> Result<Request<Bytes>, AnyError> {
    let path = request.uri().path_and_query().ok_or("a recorded request has no path")?.clone();
    *request.uri_mut() = Uri::from(path);
    request.headers_mut().insert(header::HOST, HeaderValue::from_str(host)?);
    Ok(request)
}

async fn call_raw(host: &str, requests: Vec<Request<Bytes>>) -> Result<Called, AnyError> {
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let clock = Clock::start();
    for request in requests {
        sender.ready().await?;
        let response = sender.send_request(request.map(Full::new)).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("request refused ({status})\n{}", String::from_utf8_lossy(&body)).into());
        }
        std::hint::black_box(body);
    }
    Ok(clock.stop())
}

/// Keeps what it is given and sends nothing.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Request<Bytes>>>>);

impl Transport for Recorder {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> futures_core::future::BoxFuture<'_, Result<Response<Bytes>, TransportError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Box::pin(async { Err(TransportError::NotSent("it is recorded".to_owned())) })
    }
}

struct Clock {
    started: Instant,
    cpu_before: Duration,
}

impl Clock {
    fn start() -> Self {
        Self { started: Instant::now(), cpu_before: thread_cpu() }
    }

    fn stop(&self) -> Called {
        Called { elapsed: self.started.elapsed(), cpu: thread_cpu().saturating_sub(self.cpu_before) }
    }
}

/// Time that this thread has spent on cores.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
