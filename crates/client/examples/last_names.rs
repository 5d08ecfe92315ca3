//! Index entities: all employees of one last name, by lists in the partition, in another table and in blobs, and, better
//! where names are written often, by one small entity a member.

mod support;

use tavola_client::eventual::{Intents, Settle};
use tavola_client::index::IndexedTable;
use tavola_client::patterns::list_index::{ListIndex, Lists};
use tavola_client::{Account, Entity, In, KeyParts, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{department}_{id:06}"))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
}

fn employee(id: u32, last_name: &str) -> Employee {
    Employee { department: "Sales".into(), id, last_name: last_name.into() }
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let intents = Intents::new(account.queue("name-intents"));
    intents.create().await?;

    // Lists in the partition: one transaction with the employee.
    let here = ListIndex::<Employee> {
        table: account.table("EmployeesListedHere"),
        lists: Lists::SamePartition,
        prefix: "lastname_",
        value: |employee| Some(&employee.last_name),
    };
    here.table.create().await?;
    here.insert(&employee(1, "Jones"), Settle::Wait).await?;
    let mut second = here.insert(&employee(2, "Jones"), Settle::Wait).await?;
    assert_eq!(here.find("Sales", "Jones").await?.len(), 2);
    second.last_name = "Hall".into();
    here.save(&mut second, Settle::Wait).await?;
    assert_eq!(here.find("Sales", "Jones").await?.len(), 1);

    // Lists in another table: one list for all departments, settled by intents.
    let lists = account.table("LastNames");
    lists.create().await?;
    let there = ListIndex::<Employee> {
        table: account.table("EmployeesListedThere"),
        lists: Lists::Table { table: lists, intents: intents.clone() },
        prefix: "lastname_",
        value: |employee| Some(&employee.last_name),
    };
    there.table.create().await?;
    there.insert(&employee(3, "Jones"), Settle::Wait).await?;
    assert_eq!(there.find("Sales", "Jones").await?.len(), 1);

    // Lists in blobs: the same, for names that more people have than an entity can list.
    let container = account.container("last-names");
    container.create().await?;
    let blobs = ListIndex::<Employee> {
        table: account.table("EmployeesListedInBlobs"),
        lists: Lists::Blobs { container, intents: intents.clone() },
        prefix: "lastname_",
        value: |employee| Some(&employee.last_name),
    };
    blobs.table.create().await?;
    let mut jones = blobs.insert(&employee(3, "Jones"), Settle::Wait).await?;
    jones.last_name = "Hall".into();
    blobs.save(&mut jones, Settle::Wait).await?;
    assert!(blobs.find("Sales", "Jones").await?.is_empty());
    assert_eq!(blobs.find("Sales", "Hall").await?.len(), 1);

    // One small entity a member: no list to fight for, no limit, and one range query finds all.
    let employees = IndexedTable::<Employee>::with_intents(account.table("EmployeesByName"), intents);
    employees.create().await?;
    for id in 4..=6 {
        employees.insert(&employee(id, "Jones"), Settle::Wait).await?;
    }
    let copies = employees.table().query::<tavola_client::DynamicEntity>(In::partition("name_Jones"));
    let mut found = Vec::new();
    for copy in copies.collect().await? {
        let source = copy.as_source().with_parts(KeyParts::AsProperties);
        found.push(<Employee as tavola_client::Readable>::read(&source)?);
    }
    assert_eq!(found.iter().map(|employee| employee.id).collect::<Vec<_>>(), [4, 5, 6]);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
