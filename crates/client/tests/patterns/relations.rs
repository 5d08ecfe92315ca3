//! Log tail, links and joins.

use std::time::Duration;

use tavola_client::patterns::join::{Link, LookupTable};
use tavola_client::{DateTime, Entity, In};

use crate::Counted;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{employee}", row = "exp_{at:desc}_{claim}")]
struct Expense {
    employee: String,
    at: DateTime,
    claim: String,
    amount: f64,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "Department")]
struct Department {
    name: String,
    manager: Option<Link<Employee>>,
}

#[tokio::test]
async fn the_newest_are_the_first_rows() {
    let counted = Counted::start();
    let table = counted.table("Expenses").await;
    for day in 1..=9u32 {
        let at = DateTime::from_parts((2026, 11, day), (0, 0, 0), day).unwrap();
        let expense =
            Expense { employee: "000123".into(), at, claim: format!("c_{day}"), amount: f64::from(day) };
        table.insert(&expense, None).await.unwrap();
    }
    let (newest, requests) = counted.count(table.latest::<Expense>("000123", 3)).await;
    let newest: Vec<(f64, String)> = newest.unwrap().iter().map(|e| (e.amount, e.claim.clone())).collect();
    assert_eq!(newest, [(9.0, "c_9".into()), (8.0, "c_8".into()), (7.0, "c_7".into())]);
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn a_link_is_followed_and_a_small_table_is_joined_in_memory() {
    let counted = Counted::start();
    let table = counted.table("Company").await;
    let don = Employee { department: "Sales".into(), id: 7, name: "Don".into() };
    table.insert(&don, None).await.unwrap();
    let sales = Department { name: "Sales".into(), manager: Some(Link::to(&don).unwrap()) };
    table.insert(&sales, None).await.unwrap();

    let read = table.get::<Department>(("Sales", "Department"), None).await.unwrap().unwrap();
    assert_eq!(read.value, sales);
    let (manager, requests) = counted.count(read.manager.as_ref().unwrap().follow(&table)).await;
    assert_eq!((manager.unwrap().unwrap().value, requests), (don, 1));
    let filter = table.query::<Department>(In::partition("Sales").rows("Department"..="Department"));
    let by_link = filter.filter(|d| d.manager.eq(read.manager.clone().unwrap())).collect().await.unwrap();
    assert_eq!(by_link.len(), 1);

    let departments = counted.table("Departments").await;
    departments.insert(&sales, None).await.unwrap();
    let load = LookupTable::load(
        departments,
        In::whole_table(),
        |d: &Department| d.name.clone(),
        Duration::from_secs(600),
    );
    let (lookup, requests) = counted.count(load).await;
    let lookup = lookup.unwrap();
    assert_eq!(requests, 1);
    let (joined, requests) = counted.count(lookup.get("Sales")).await;
    assert_eq!((joined.unwrap(), requests), (Some(sales), 0));
    assert_eq!(lookup.get("Marketing").await.unwrap(), None);
}

#[tokio::test]
async fn an_old_copy_is_read_again_by_one_of_all_who_ask() {
    let counted = Counted::start();
    let departments = counted.table("Departments").await;
    let load = LookupTable::load(
        departments.clone(),
        In::whole_table(),
        |d: &Department| d.name.clone(),
        Duration::ZERO,
    );
    let lookup = load.await.unwrap();
    departments.insert(&Department { name: "New".into(), manager: None }, None).await.unwrap();
    assert!(lookup.get("New").await.unwrap().is_some());
}
