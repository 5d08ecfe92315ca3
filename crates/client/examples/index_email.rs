//! Intra-partition secondary index: employees by email, in one transaction with the employee.

mod support;

use tavola_client::eventual::Settle;
use tavola_client::index::IndexedTable;
use tavola_client::{Account, Entity, Error, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
#[entity(index(by_email, unique, row = "email_{email}"))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    email: Option<String>,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let employees = IndexedTable::<Employee>::new(account.table("EmployeesByEmail"));
    employees.create().await?;
    let don = Employee {
        department: "Sales".into(),
        id: 223,
        last_name: "Hall".into(),
        email: Some("donh@contoso.com".into()),
    };
    let mut stored = employees.insert(&don, Settle::Wait).await?;

    // One point read of the copy.
    let found = employees.find(Employee::by_email("Sales", "donh@contoso.com")).await?;
    assert_eq!(found.map(|employee| employee.id), Some(223));

    // Unique: the second one is refused, and nothing is written.
    let other = Employee { id: 224, ..don.clone() };
    let taken = employees.insert(&other, Settle::Wait).await;
    assert!(matches!(taken, Err(Error::Taken { index: Some("by_email") })));

    // A save moves the copy in the same transaction.
    stored.email = Some("don@contoso.com".into());
    employees.save(&mut stored, Settle::Wait).await?;
    assert!(employees.find(Employee::by_email("Sales", "donh@contoso.com")).await?.is_none());
    assert!(employees.find(Employee::by_email("Sales", "don@contoso.com")).await?.is_some());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
