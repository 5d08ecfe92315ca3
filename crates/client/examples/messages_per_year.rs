//! Wide entities: more than 252 properties, and a text of more than 64 KiB, written and read as one.

mod support;

use tavola_client::patterns::series::Series;
use tavola_client::{Account, DynamicEntity, Entity, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "summary_{year:04}")]
struct Summary {
    department: String,
    year: u16,
    text: String,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Messages");
    table.create().await?;

    // A year of days: two entities, one transaction.
    let mut year = DynamicEntity::new(("Sales", "messages_2026"));
    for day in 0..365 {
        year.put(&format!("Day{day:03}"), day);
    }
    table.insert_wide(&year).await?;
    let mut read = table.get_wide::<DynamicEntity>(("Sales", "messages_2026")).await?.map(|wide| wide.parts);
    assert_eq!(read.take(), Some(2));

    // A long text of a typed entity.
    let summary = Summary { department: "Sales".into(), year: 2026, text: "word ".repeat(50_000) };
    table.put_wide(&summary).await?;
    if let Some(mut wide) = table.get_wide::<Summary>(Summary::key_of(("Sales", 2026))?).await? {
        assert_eq!(wide.value, summary);
        wide.text.push_str("and more");
        table.save_wide(&mut wide).await?;
    }

    // A series of more slots than an entity holds is spread in the same way.
    let days = Series::<366>::new(table, "Day");
    days.add(("Sales", "logins_2026"), 300, 7).await?;
    assert_eq!(days.get(("Sales", "logins_2026")).await?[300], Some(7));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
