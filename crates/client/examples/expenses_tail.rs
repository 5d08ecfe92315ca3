//! Log tail: the ten newest expense claims of an employee, with one request.

mod support;

use tavola_client::{Account, DateTime, Entity, Guid, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{employee}", row = "{at:desc}_{claim}", rename_all = "PascalCase")]
struct Expense {
    employee: String,
    at: DateTime,
    claim: String,
    amount: f64,
    receipt: Option<Guid>,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Expenses");
    table.create().await?;
    for day in 1..=20u32 {
        let at = DateTime::from_parts((2026, 11, day), (9, 0, 0), 0).unwrap_or(DateTime::MIN);
        let expense = Expense {
            employee: "empid_000123".into(),
            at,
            claim: format!("claim{day}"),
            amount: f64::from(day),
            receipt: None,
        };
        table.insert(&expense, None).await?;
    }
    let newest = table.latest::<Expense>("empid_000123", 10).await?;
    assert_eq!((newest.len(), newest[0].claim.as_str()), (10, "claim20"));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
