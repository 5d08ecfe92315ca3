//! Inter-partition secondary index: employees by badge (unique over the whole table) and by last name.

mod support;

use tavola_client::eventual::{Intents, Settle, Worker, WorkerSettings};
use tavola_client::index::{IndexedTable, VerifyMode};
use tavola_client::{Account, Entity, Error, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
#[entity(index(by_badge, unique, table = "EmployeeByBadge", partition = "{badge}", row = "badge"))]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{department}_{id:06}"))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    badge: Option<String>,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let intents = Intents::new(account.queue("badge-intents"));
    intents.create().await?;
    let employees =
        IndexedTable::<Employee>::with_intents(account.table("EmployeesByBadge"), intents.clone());
    employees.create().await?;

    let don =
        Employee { department: "Sales".into(), id: 223, last_name: "Hall".into(), badge: Some("b7".into()) };
    let mut stored = employees.insert(&don, Settle::Wait).await?;
    let found = employees.find(Employee::by_badge("b7")).await?;
    assert_eq!(found.map(|employee| employee.id), Some(223));
    let by_name = employees.find_verified(Employee::by_last_name("Sales", 223, "Hall")).await?;
    assert!(by_name.is_some());

    // Nobody else can have the badge, in whichever department.
    let ann =
        Employee { department: "Marketing".into(), id: 9, last_name: "Ash".into(), badge: Some("b7".into()) };
    let taken = employees.insert(&ann, Settle::Wait).await;
    assert!(matches!(taken, Err(Error::Taken { index: Some("by_badge") })));

    stored.badge = None;
    employees.save(&mut stored, Settle::Wait).await?;
    employees.insert(&ann, Settle::Wait).await?;

    // A process that is killed between its steps leaves an intent, which any worker finishes.
    let worker = Worker::new(intents, WorkerSettings::default()).serve(employees.clone());
    worker.drain().await?;
    let report = employees.verify(VerifyMode::Report, None).await?;
    assert_eq!((report.missing, report.stale, report.orphans), (0, 0, 0));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
