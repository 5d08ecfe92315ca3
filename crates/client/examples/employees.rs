//! The guide's employees: typed entities, point reads, queries, saves, transactions, bulk.
//!
//! `cargo run -p tavola-client --example employees`

mod support;

use futures_util::{StreamExt, TryStreamExt, stream};
use tavola_client::{Account, Changes, Cost, DynamicEntity, Entity, Error, In, Property, Result, filter};

#[derive(Clone, Debug, PartialEq, Property)]
enum Grade {
    Junior,
    Senior,
    #[property(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(
    partition = "{department}",
    row = "empid_{id:06}",
    rename_all = "PascalCase",
    entity_type = "Employee"
)]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    age: i32,
    email: Option<String>,
    grade: Option<Grade>,
    #[entity(json)]
    skills: Vec<String>,
    #[entity(default)]
    visits: i64,
}

fn employee(id: u32, last_name: &str, age: i32) -> Employee {
    Employee {
        department: "Sales".into(),
        id,
        first_name: "Don".into(),
        last_name: last_name.into(),
        age,
        email: Some(format!("{id}@contoso.com")),
        grade: Some(Grade::Senior),
        skills: vec!["SQL".into()],
        visits: 0,
    }
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Employees");
    table.create().await?;

    // One request each. A key that is in use is an error of its own.
    for (id, last_name, age) in [(210, "Hall", 34), (211, "Jones", 51), (212, "O'Hara", 45)] {
        table.insert(&employee(id, last_name, age), None).await?;
    }
    let again = table.insert(&employee(210, "Hall", 34), None).await;
    assert!(matches!(again, Err(Error::Taken { .. })));

    // A point read: `None` is "not there", an error is an error.
    let found = table.get::<Employee>(Employee::key_of(("Sales", 212))?, None).await?;
    assert_eq!(found.as_ref().map(|employee| employee.last_name.as_str()), Some("O'Hara"));
    assert!(table.get::<Employee>(("Sales", "empid_999999"), None).await?.is_none());

    // Where a query looks is an argument, and tells what it costs before it is sent.
    let query = table
        .query::<Employee>(In::partition("Sales").rows("empid_000100".."empid_000300"))
        .filter(|e| e.age.ge(40) & !e.last_name.starts_with("O"))
        .select(|e| (e.first_name, e.email));
    assert_eq!(query.cost(), Cost::RangeQuery);
    let mut people = std::pin::pin!(query.stream());
    while let Some((first_name, email)) = people.try_next().await? {
        println!("{first_name} {email:?}");
    }

    // A filter of text is parsed when the program is compiled; values can only be literals.
    let name = "x' or '1' eq '1";
    let query = table.query::<DynamicEntity>(In::partition("Sales")).filter_by(filter!("LastName eq {name}"));
    assert!(query.collect().await?.is_empty());

    // Page by page, with a token that can be kept and that no other query takes.
    let query = table.query::<Employee>(In::partition("Sales")).page_size(2);
    let first = query.page(None).await?;
    let kept = serde_json::to_string(&first.next).unwrap_or_default();
    let next = serde_json::from_str(&kept).unwrap_or_default();
    let rest: Vec<_> = query.pages(next).try_collect().await?;
    assert_eq!((first.items.len(), rest.iter().map(|page| page.items.len()).sum::<usize>()), (2, 1));

    // A save sends what differs. `None` removes a property; what others added stays.
    if let Some(mut employee) = found {
        employee.age += 1;
        employee.email = None;
        table.save(&mut employee, None).await?;
    }

    // Read, change and save until nobody came between; and a merge without reading.
    table
        .update::<Employee>(("Sales", "empid_000212"), |employee| {
            employee.visits += 1;
            Ok(())
        })
        .await?;
    table.merge(("Sales", "empid_000211"), Changes::<Employee>::new().set(|e| e.age, 52), None).await?;

    // All or nothing, in one partition. What cannot be one transaction is refused before it is sent.
    let department = DynamicEntity::new(("Sales", "Department")).with("EmployeeCount", 4);
    table.transaction("Sales").insert(&employee(213, "Smith", 29))?.insert(&department)?.commit().await?;
    let stranger = DynamicEntity::new(("Marketing", "Department"));
    assert!(table.transaction("Sales").insert(&stranger).is_err());

    // Many at once: transactions of a hundred, in parallel, and not atomic as a whole.
    let many = stream::iter((1000..1300).map(|id| employee(id, "Many", 30)));
    let report = table.bulk_upsert(many, None).await?;
    println!("{} written by {} requests", report.written, report.requests);
    let all: Vec<_> = table.scan_parallel::<DynamicEntity>(In::whole_table(), 4).collect().await;
    assert_eq!(all.len(), 305);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
