//! The kinds of requests, and where the next one comes from.
//!
//! Requests that can be repeated are made before the clock starts. What must be new each time (inserts and
//! batches) is put together from a signed head and a fresh body.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;

use crate::AnyError;
use crate::dataset::{BATCH_ROWS, Entities, PARTITION_ROWS, large_json, partition_key, row_key};
use crate::endpoint::{Endpoint, JSON, append_body};

/// Requests made beforehand: enough to reach far beyond any cache, few enough to hold.
const READS_MAX: u64 = 100_000;
const WRITES_MAX: u64 = 10_000;
const LARGE_ENTITIES: u64 = 16;
/// Partitions that inserts are spread over.
const INSERT_PARTITIONS: u64 = 10_000;
/// New entities are numbered from far behind the data set.
const FRESH_FROM: u64 = 1_000_000_000;
/// Whoever works on a table has numbers of its own, so that no two ever insert the same entity.
static SERIES: AtomicU64 = AtomicU64::new(1);
/// One request in so many is a write.
const MIXED_WRITE_ONE_IN: u64 = 20;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// One entity by its keys.
    PointRead,
    /// A new entity in one of many partitions.
    InsertMany,
    /// A new entity in the one partition all others are in.
    InsertHot,
    /// Insert-or-replace of an entity that exists.
    Upsert,
    /// Merge of one property.
    Merge,
    /// Delete, each entity once.
    Delete,
    /// A hundred inserts at once.
    Batch,
    /// A thousand entities: a partition.
    Page,
    /// A hundred entities: a RowKey range.
    Range,
    /// 95 point reads to 5 upserts.
    Mixed,
    /// Upsert of an entity of so many 64 KiB properties.
    LargeWrite(usize),
    /// Read of an entity of so many 64 KiB properties.
    LargeRead(usize),
}

impl Work {
    /// Entities moved by one request.
    pub fn rows(self) -> u64 {
        match self {
            Work::Batch | Work::Range => BATCH_ROWS,
            Work::Page => PARTITION_ROWS,
            _ => 1,
        }
    }
}

/// A table to work on.
#[derive(Clone, Debug)]
pub struct Table {
    pub endpoint: Endpoint,
    pub name: String,
    /// Entities of the data set in it.
    pub rows: u64,
    /// Numbers for new entities.
    fresh: Arc<AtomicU64>,
    entities: Entities,
}

impl Table {
    pub fn new(endpoint: &Endpoint, name: &str, rows: u64) -> Self {
        let series = SERIES.fetch_add(1, Ordering::Relaxed);
        let fresh = Arc::new(AtomicU64::new(FRESH_FROM * series));
        Self { endpoint: endpoint.clone(), name: name.to_owned(), rows, fresh, entities: Entities::default() }
    }

    /// The request that makes the table.
    pub fn creation(&self) -> Result<Vec<u8>, AnyError> {
        let body = format!(r#"{{"TableName":"{}"}}"#, self.name);
        self.endpoint.request_json(&Method::POST, "/Tables", body.as_bytes())
    }

    /// The request that drops it.
    pub fn deletion(&self) -> Result<Vec<u8>, AnyError> {
        self.endpoint.request(&Method::DELETE, &format!("/Tables('{}')", self.name))
    }

    /// The batches that insert the data set.
    pub fn filling(&self) -> Result<Source, AnyError> {
        self.batches(Arc::default(), self.rows.div_ceil(BATCH_ROWS), BATCH_ROWS)
    }

    /// Inserts `count` entities for deletion and gives the requests that do both.
    pub fn doomed(&self, count: u64) -> Result<(Source, Source), AnyError> {
        let batches = count.div_ceil(BATCH_ROWS);
        let first = self.fresh.fetch_add(batches, Ordering::Relaxed);
        let filling = self.batches(Arc::new(AtomicU64::new(first)), first + batches, PARTITION_ROWS)?;
        let mut deletions = Vec::new();
        for batch in first..first + batches {
            for row in batch * PARTITION_ROWS..batch * PARTITION_ROWS + BATCH_ROWS {
                deletions.push(self.endpoint.request(&Method::DELETE, &self.entity_target(row))?);
            }
        }
        Ok((filling, Source::Each { requests: Arc::new(deletions), next: Arc::default() }))
    }

    /// Where the requests of this work come from, on a table that has its rows.
    pub fn source(&self, work: Work) -> Result<Source, AnyError> {
        match work {
            Work::PointRead => self.any(READS_MAX, |table, row| {
                table.endpoint.request(&Method::GET, &table.entity_target(row))
            }),
            Work::InsertMany => self.inserts(Spread::Many),
            Work::InsertHot => self.inserts(Spread::Hot),
            Work::Upsert => self.any(WRITES_MAX, |table, row| {
                let mut body = String::new();
                table.entities.append_json(&mut body, &partition_key(row), &row_key(row), row + 1);
                table.endpoint.request_json(&Method::PUT, &table.entity_target(row), body.as_bytes())
            }),
            Work::Merge => self.any(WRITES_MAX, |table, row| {
                let mut request = table.endpoint.head(&Method::PATCH, &table.entity_target(row))?.into_bytes();
                request.extend_from_slice(b"If-Match: *\r\n");
                append_body(&mut request, JSON, br#"{"Age":41}"#);
                Ok(request)
            }),
            Work::Delete => self.doomed(BATCH_ROWS).map(|(_, deletions)| deletions),
            Work::Batch => self.batches(self.fresh.clone(), u64::MAX, PARTITION_ROWS),
            Work::Page => self.any(WRITES_MAX, |table, row| {
                let filter = format!("PartitionKey%20eq%20%27{}%27", partition_key(row));
                table.endpoint.request(&Method::GET, &format!("/{}()?$filter={filter}", table.name))
            }),
            Work::Range => self.any(WRITES_MAX, |table, row| {
                let first = row / BATCH_ROWS * BATCH_ROWS;
                let filter = format!(
                    "PartitionKey%20eq%20%27{}%27%20and%20RowKey%20ge%20%27{}%27%20and%20RowKey%20le%20%27{}%27",
                    partition_key(first),
                    row_key(first),
                    row_key(first + BATCH_ROWS - 1)
                );
                table.endpoint.request(&Method::GET, &format!("/{}()?$filter={filter}", table.name))
            }),
            Work::Mixed => Ok(Source::Mixed {
                reads: Box::new(self.source(Work::PointRead)?),
                writes: Box::new(self.source(Work::Upsert)?),
            }),
            Work::LargeWrite(properties) => self.large(|table, target, row| {
                let body = large_json("large", &row, properties);
                table.endpoint.request_json(&Method::PUT, &target, body.as_bytes())
            }),
            Work::LargeRead(_) => {
                self.large(|table, target, _| table.endpoint.request(&Method::GET, &target))
            }
        }
    }

    fn any(
        &self,
        count_max: u64,
        request: impl Fn(&Self, u64) -> Result<Vec<u8>, AnyError>,
    ) -> Result<Source, AnyError> {
        let mut random = fastrand::Rng::with_seed(self.rows);
        let rows = (0..count_max.min(self.rows)).map(|_| random.u64(0..self.rows));
        let requests = rows.map(|row| request(self, row)).collect::<Result<Vec<_>, _>>()?;
        Ok(Source::Any(Arc::new(requests)))
    }

    fn large(
        &self,
        request: impl Fn(&Self, String, String) -> Result<Vec<u8>, AnyError>,
    ) -> Result<Source, AnyError> {
        let requests = (0..LARGE_ENTITIES).map(|number| {
            let row = format!("r{number}");
            request(self, format!("/{}(PartitionKey='large',RowKey='{row}')", self.name), row)
        });
        Ok(Source::Any(Arc::new(requests.collect::<Result<Vec<_>, _>>()?)))
    }

    fn inserts(&self, spread: Spread) -> Result<Source, AnyError> {
        let head = self.endpoint.head(&Method::POST, &format!("/{}", self.name))?;
        Ok(Source::Insert {
            head: head.into(),
            spread,
            fresh: self.fresh.clone(),
            entities: self.entities.clone(),
        })
    }

    fn batches(&self, next: Arc<AtomicU64>, end: u64, spacing: u64) -> Result<Source, AnyError> {
        let head = self.endpoint.head(&Method::POST, "/$batch")?;
        let url = format!("http://{}{}", self.endpoint.host, self.endpoint.path(&format!("/{}", self.name)));
        let entities = self.entities.clone();
        Ok(Source::Batch { head: head.into(), url: url.into(), next, end, spacing, entities })
    }

    fn entity_target(&self, row: u64) -> String {
        format!("/{}(PartitionKey='{}',RowKey='{}')", self.name, partition_key(row), row_key(row))
    }
}

/// Where inserts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Many,
    Hot,
}

/// Where the next request comes from; clones share it.
#[derive(Clone, Debug)]
pub enum Source {
    /// Any of these.
    Any(Arc<Vec<Vec<u8>>>),
    /// Each of these once.
    Each { requests: Arc<Vec<Vec<u8>>>, next: Arc<AtomicU64> },
    /// Requests that differ in a number of twelve digits, up to the last one.
    Numbered { before: Arc<[u8]>, after: Arc<[u8]>, next: Arc<AtomicU64>, end: u64 },
    /// Inserts of new entities.
    Insert { head: Arc<str>, spread: Spread, fresh: Arc<AtomicU64>, entities: Entities },
    /// Batches of new entities: batch `n` begins at row `n * spacing`.
    Batch { head: Arc<str>, url: Arc<str>, next: Arc<AtomicU64>, end: u64, spacing: u64, entities: Entities },
    /// Mostly reads.
    Mixed { reads: Box<Source>, writes: Box<Source> },
}

impl Source {
    /// Writes the next request, or breaks when there is none left.
    pub fn next(&self, random: &mut fastrand::Rng, request: &mut Vec<u8>) -> ControlFlow<()> {
        request.clear();
        match self {
            Source::Any(requests) => {
                request.extend_from_slice(&requests[random.usize(..requests.len())]);
            }
            Source::Each { requests, next } => {
                let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
                let Some(found) = requests.get(index) else { return ControlFlow::Break(()) };
                request.extend_from_slice(found);
            }
            Source::Numbered { before, after, next, end } => {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= *end {
                    return ControlFlow::Break(());
                }
                request.extend_from_slice(before);
                request.extend_from_slice(format!("{number:012}").as_bytes());
                request.extend_from_slice(after);
            }
            Source::Insert { head, spread, fresh, entities } => {
                let number = fresh.fetch_add(1, Ordering::Relaxed);
                let partition = match spread {
                    Spread::Many => format!("n{:05}", random.u64(..INSERT_PARTITIONS)),
                    Spread::Hot => "hot".to_owned(),
                };
                let mut body = String::with_capacity(1200);
                entities.append_json(&mut body, &partition, &format!("r{number:012}"), number);
                request.extend_from_slice(head.as_bytes());
                append_body(request, JSON, body.as_bytes());
            }
            Source::Batch { head, url, next, end, spacing, entities } => {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                if batch >= *end {
                    return ControlFlow::Break(());
                }
                let body = batch_body(url, batch * spacing, entities);
                request.extend_from_slice(head.as_bytes());
                append_body(request, "Content-Type: multipart/mixed; boundary=batch_b\r\n", body.as_bytes());
            }
            Source::Mixed { reads, writes } => {
                let source = if random.u64(..MIXED_WRITE_ONE_IN) == 0 { writes } else { reads };
                // One level only: neither side of a mix is a mix.
                return source.next(random, request);
            }
        }
        ControlFlow::Continue(())
    }

    /// Requests made beforehand, each once.
    pub fn once(self) -> Self {
        match self {
            Source::Any(requests) => Source::Each { requests, next: Arc::default() },
            other => other,
        }
    }
}

fn batch_body(url: &str, first_row: u64, entities: &Entities) -> String {
    let mut body = String::with_capacity(130_000);
    body.push_str("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
    for row in first_row..first_row + BATCH_ROWS {
        body.push_str(
            "--changeset_c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST ",
        );
        body.push_str(url);
        body.push_str(
            " HTTP/1.1\r\nContent-Type: application/json\r\nPrefer: return-no-content\r\n\
             Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\r\n",
        );
        entities.append_json(&mut body, &partition_key(row), &row_key(row), row);
        body.push_str("\r\n");
    }
    body.push_str("--changeset_c--\r\n--batch_b--\r\n");
    body
}
