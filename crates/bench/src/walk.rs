//! Queries that run over a whole table, page after page on one connection.

use std::time::{Duration, Instant};

use http::Method;

use crate::AnyError;
use crate::connection::Connection;
use crate::cores::{Cores, on_cores};
use crate::load::Target;
use crate::process::cpu_time;
use crate::work::Table;

/// A walk that takes longer is given up.
const WALK_TIME_MAX: Duration = Duration::from_secs(120);

/// What to ask of every page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// All entities.
    Everything,
    /// A property that is no key has a value that no entity has.
    NoMatch,
}

/// What a walk took.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    pub rows: u64,
    pub pages: u64,
    pub elapsed: Duration,
    pub cpu: Duration,
}

/// Walks a table that holds its rows and nothing else, as often as fits into `period` but at least once.
pub fn walk(
    cores: &Cores,
    target: &Target,
    table: &Table,
    query: Query,
    period: Duration,
) -> Result<Walked, AnyError> {
    on_cores(&cores.generator, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cpu_before = cpu_time(target.process_id);
        let started = Instant::now();
        let mut walked = Walked { rows: 0, pages: 0, elapsed: Duration::ZERO, cpu: Duration::ZERO };
        while walked.rows == 0 || started.elapsed() < period {
            walked.pages += runtime.block_on(async {
                tokio::time::timeout(WALK_TIME_MAX, walk_once(target, table, query)).await
            })??;
            walked.rows += table.rows;
        }
        walked.elapsed = started.elapsed();
        walked.cpu = cpu_time(target.process_id).saturating_sub(cpu_before);
        Ok(walked)
    })
}

/// The number of pages.
async fn walk_once(target: &Target, table: &Table, query: Query) -> Result<u64, AnyError> {
    let mut connection = Connection::open(&target.host).await?;
    let first = match query {
        Query::Everything => format!("/{}()", table.name),
        Query::NoMatch => format!("/{}()?$filter=Age%20eq%20-1", table.name),
    };
    let mut page_target = first.clone();
    for pages in 1.. {
        let request = table.endpoint.request(&Method::GET, &page_target)?;
        let answer = connection.exchange(&request).await?;
        if !connection.succeeded(&answer) {
            return Err(format!("query refused ({})", answer.status).into());
        }
        let partition = connection.header(&answer, "x-ms-continuation-NextPartitionKey");
        let row = connection.header(&answer, "x-ms-continuation-NextRowKey");
        let Some(partition) = partition else { return Ok(pages) };
        let separator = if first.contains('?') { '&' } else { '?' };
        page_target = format!("{first}{separator}NextPartitionKey={}", encoded(&partition));
        if let Some(row) = row {
            page_target.push_str(&format!("&NextRowKey={}", encoded(&row)));
        }
    }
    Err("more pages than can be counted".into())
}

/// Tokens are base64 with `!`; only these two of its characters mean something in a query.
fn encoded(token: &str) -> String {
    token.replace('+', "%2B").replace('=', "%3D")
}
