//! Data series: the messages of each hour of a day in one entity, drawn as a chart with one request.

mod support;

use tavola_client::patterns::series::Series;
use tavola_client::{Account, Result};

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("MessageCounts");
    table.create().await?;
    let hours = Series::<24>::new(table, "Hour");
    let day = ("Sales", "empid_000123_20261115");
    hours.set(day, 8, 3).await?;
    for _ in 0..5 {
        hours.add(day, 14, 1).await?;
    }
    let chart = hours.get(day).await?;
    assert_eq!((chart[8], chart[14], chart[15]), (Some(3), Some(5), None));

    // Where many write at once, each has an entity of its own.
    hours.add_sharded(day, 1, 14, 2).await?;
    hours.add_sharded(day, 2, 14, 4).await?;
    assert_eq!(hours.get_sharded(day).await?[14], Some(6));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
