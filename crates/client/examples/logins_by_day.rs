//! High volume delete: a table of logins for each day, dropped whole when it is old.

mod support;

use futures_util::TryStreamExt;
use tavola_client::patterns::period::{Dated, Period, PeriodTables};
use tavola_client::{Account, DateTime, Entity, In, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{user}", row = "{at:desc}_{id:04}")]
struct Login {
    user: String,
    at: DateTime,
    id: u16,
}

impl Dated for Login {
    fn moment(&self) -> DateTime {
        self.at
    }
}

fn day(day: u32) -> DateTime {
    DateTime::from_parts((2026, 11, day), (8, 0, 0), 0).unwrap_or(DateTime::MIN)
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let logins = PeriodTables::<Login>::new(account, "Logins", Period::Day)?;
    for id in 10..15 {
        logins.insert(&Login { user: "don".into(), at: day(u32::from(id)), id }).await?;
    }
    let three: Vec<_> = logins.query(day(11), day(14), In::partition("don")).try_collect().await?;
    assert_eq!(three.iter().map(|login| login.id).collect::<Vec<_>>(), [11, 12, 13]);

    // One request a day, however many logins it had.
    let dropped = logins.drop_before(day(13)).await?;
    assert_eq!(dropped, ["Logins20261110", "Logins20261111", "Logins20261112"]);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
