//! Compound key: the reviews of one employee are one range of rows, read with one request.

mod support;

use tavola_client::{Account, Cost, Entity, In, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}_{year:04}", rename_all = "PascalCase")]
struct Review {
    department: String,
    id: u32,
    year: u16,
    manager_rating: i32,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Reviews");
    table.create().await?;
    for (id, year, manager_rating) in [(123, 2024, 3), (123, 2025, 4), (123, 2026, 5), (124, 2026, 2)] {
        table.insert(&Review { department: "Sales".into(), id, year, manager_rating }, None).await?;
    }
    let of_employee = In::partition("Sales").rows_with_prefix("empid_000123_");
    assert_eq!(of_employee.cost(), Cost::RangeQuery);
    let ratings = table.query::<Review>(of_employee).select(|review| review.manager_rating).collect().await?;
    assert_eq!(ratings, [3, 4, 5]);

    // The parts come back out of the key.
    let one = table.get::<Review>(Review::key_of(("Sales", 123, 2025))?, None).await?;
    assert_eq!(one.map(|review| (review.id, review.year)), Some((123, 2025)));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
