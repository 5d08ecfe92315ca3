//! Log data: lines in append blobs by hour, and a reader of a span of time.

mod support;

use futures_util::TryStreamExt;
use tavola_client::patterns::log::{LogSettings, LogWriter, read_log};
use tavola_client::{Account, DateTime, Result};

fn at(hour: u32, minute: u32) -> DateTime {
    DateTime::from_parts((2026, 11, 15), (hour, minute, 0), 0).unwrap_or(DateTime::MIN)
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let container = account.container("logs");
    container.create().await?;
    let log = LogWriter::new(container.clone(), "orders", LogSettings::default());
    for minute in 0..60 {
        log.line(at(18, minute), &format!("order {minute} accepted")).await?;
    }
    // What this returned for is durable.
    log.flush().await?;

    let lines: Vec<_> = read_log(&container, "orders", at(18, 10), at(18, 20)).try_collect().await?;
    assert_eq!((lines.len(), lines[0].1.as_str()), (10, "order 10 accepted"));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
