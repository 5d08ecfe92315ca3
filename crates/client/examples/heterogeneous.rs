//! Several types in one partition: a set of types reads them with one query, and versions of a type live side by side.

mod support;

use tavola_client::{Account, DynamicEntity, Entity, EntitySet, In, Result};

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
    last_name: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "Department", rename_all = "PascalCase", entity_type = "Department")]
struct Department {
    name: String,
    employee_count: i32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}_{year:04}", entity_type = "Review@1")]
struct Review1 {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}_{year:04}", entity_type = "Review@2")]
struct Review2 {
    department: String,
    id: u32,
    year: u16,
    manager_rating: i32,
    peer_rating: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, EntitySet)]
enum Row {
    Employee(Employee),
    Department(Department),
    OldReview(Review1),
    Review(Review2),
    #[entity_set(other)]
    Other(DynamicEntity),
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Company");
    table.create().await?;
    let sales = || "Sales".to_owned();
    let rows = [
        Row::Department(Department { name: sales(), employee_count: 1 }),
        Row::Employee(Employee { department: sales(), id: 1, last_name: "Hall".into() }),
        Row::OldReview(Review1 { department: sales(), id: 1, year: 2025, rating: 4 }),
        Row::Review(Review2 { department: sales(), id: 1, year: 2026, manager_rating: 5, peer_rating: None }),
        Row::Other(DynamicEntity::new(("Sales", "~notes")).with("Text", "from another program")),
    ];
    let mut transaction = table.transaction("Sales");
    for row in &rows {
        transaction = transaction.insert(row)?;
    }
    transaction.commit().await?;

    // One request for all of them, each as its own type.
    for row in table.query::<Row>(In::partition("Sales")).collect().await? {
        match row.value {
            Row::Employee(employee) => println!("employee {}", employee.last_name),
            Row::Department(department) => println!("{} people", department.employee_count),
            Row::OldReview(review) => println!("{}: {}", review.year, review.rating),
            Row::Review(review) => {
                println!("{}: {} {:?}", review.year, review.manager_rating, review.peer_rating)
            }
            Row::Other(bag) => println!("{:?}", bag.get("Text")),
        }
    }
    let read: Vec<Row> = table
        .query::<Row>(In::partition("Sales"))
        .collect()
        .await?
        .into_iter()
        .map(|row| row.value)
        .collect();
    assert_eq!(read, rows);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
