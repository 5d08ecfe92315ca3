//! Encryption in the client: the salary is ciphertext on the server, and a value here. Needs the feature `encryption`.

mod support;

use tavola_client::encrypt::{EncryptedTable, LocalKeys};
use tavola_client::{Account, Changes, DynamicEntity, EdmType, Entity, In, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    name: String,
    #[entity(encrypt)]
    salary: Option<i64>,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Salaries");
    table.create().await?;
    let employees = EncryptedTable::<Employee>::new(table.clone(), LocalKeys::new("2025", [1; 32]));
    let ann = Employee { department: "Sales".into(), id: 1, name: "Ann".into(), salary: Some(5000) };
    employees.insert(&ann).await?;
    let stored = table.get::<DynamicEntity>(("Sales", "empid_000001"), None).await?;
    assert_eq!(
        stored.and_then(|raw| raw.get("Salary").map(|salary| salary.edm_type())),
        Some(EdmType::Binary)
    );

    if let Some(mut opened) = employees.get(("Sales", "empid_000001")).await? {
        opened.salary = Some(5500);
        employees.save(&mut opened).await?;
    }
    // What is not encrypted can be merged; `set(|e| e.salary, …)` does not compile.
    employees.merge(("Sales", "empid_000001"), Changes::<Employee>::new().set(|e| e.name, "Anne")).await?;

    // A new key: what is there is wrapped again, and the old key can go.
    let both = LocalKeys::new("2026", [2; 32]).with_old("2025", [1; 32]);
    let report = EncryptedTable::<Employee>::new(table.clone(), both).rewrap(In::whole_table()).await?;
    assert_eq!((report.rewrapped, report.changed), (1, 0));
    let employees = EncryptedTable::<Employee>::new(table, LocalKeys::new("2026", [2; 32]));
    let opened = employees.get(("Sales", "empid_000001")).await?;
    assert_eq!(opened.map(|opened| (opened.name.clone(), opened.salary)), Some(("Anne".into(), Some(5500))));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
