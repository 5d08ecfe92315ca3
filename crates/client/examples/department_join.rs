//! Relationships: a one-to-one link, and a join in the client with a small table held in memory.

mod support;

use std::time::Duration;

use tavola_client::patterns::join::{Link, LookupTable};
use tavola_client::{Account, Entity, In, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "Departments", row = "{name}")]
struct Department {
    name: String,
    city: String,
    manager: Option<Link<Employee>>,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let (employees, departments) = (account.table("Staff"), account.table("DepartmentList"));
    employees.create().await?;
    departments.create().await?;
    let ann = Employee { department: "Sales".into(), id: 1, name: "Ann".into() };
    employees.insert(&ann, None).await?;
    let sales = Department { name: "Sales".into(), city: "Bern".into(), manager: Some(Link::to(&ann)?) };
    departments.insert(&sales, None).await?;

    // The link is followed with one request.
    let manager = match &sales.manager {
        Some(link) => link.follow(&employees).await?,
        None => None,
    };
    assert_eq!(manager.map(|manager| manager.name.clone()), Some("Ann".into()));

    // The join asks the service once in ten minutes, whoever is joined.
    let by_name = LookupTable::load(
        departments,
        In::partition("Departments"),
        |department: &Department| department.name.clone(),
        Duration::from_secs(600),
    )
    .await?;
    for employee in employees.query::<Employee>(In::partition("Sales")).collect().await? {
        let city = by_name.get(&employee.department).await?.map(|department| department.city);
        assert_eq!(city.as_deref(), Some("Bern"));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
