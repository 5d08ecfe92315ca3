//! Prepend/append: events whose keys only grow, spread over buckets and read back in order.

mod support;

use tavola_client::patterns::spread::Spread;
use tavola_client::{Account, Entity, In, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{hour}", row = "{number:010}")]
struct Event {
    hour: String,
    number: u64,
    text: String,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Events");
    table.create().await?;
    let events = Spread::<8>::open(table).await?;
    for number in 0..50 {
        events.insert(&Event { hour: "2026111518".into(), number, text: format!("event {number}") }).await?;
    }
    let scope = In::partition("2026111518").rows("0000000010".."0000000015");
    let found = events.query::<Event>(scope).collect().await?;
    assert_eq!(found.iter().map(|event| event.number).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
