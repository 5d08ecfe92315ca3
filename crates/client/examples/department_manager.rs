//! Denormalization and one-to-many: a department holds what is shown of its manager, and counts its employees.

mod support;

use tavola_client::patterns::denormal::Embeds;
use tavola_client::{Account, Entity, EntityKey, KeyError, Result};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    name: String,
    email: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "Department", rename_all = "PascalCase")]
struct Department {
    name: String,
    employee_count: i32,
    manager_name: Option<String>,
    manager_email: Option<String>,
}

impl Embeds<Employee> for Department {
    fn holders(employee: &Employee) -> Result<Vec<EntityKey>, KeyError> {
        // The manager is the first employee of the department.
        let manages = employee.id == 1;
        manages.then(|| Department::key_of(&employee.department)).into_iter().collect()
    }

    fn embed(&mut self, manager: &Employee) {
        self.manager_name = Some(manager.name.clone());
        self.manager_email = manager.email.clone();
    }

    fn forget(&mut self, _: &EntityKey) {
        self.manager_name = None;
        self.manager_email = None;
    }
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("Departments");
    table.create().await?;
    let sales =
        Department { name: "Sales".into(), employee_count: 0, manager_name: None, manager_email: None };
    table.insert(&sales, None).await?;

    // The employee and the count change together.
    let ann = Employee { department: "Sales".into(), id: 1, name: "Ann Ash".into(), email: None };
    table.insert_child(&ann, ("Sales", "Department"), |d: &mut Department| d.employee_count += 1).await?;

    // So do the manager and what the department shows of her.
    if let Some(mut manager) = table.get::<Employee>(("Sales", "empid_000001"), None).await? {
        manager.email = Some("ann@contoso.com".into());
        table.save_embedded::<Department, _>(&mut manager).await?;
    }
    let read =
        table.get::<Department>(("Sales", "Department"), None).await?.map(|department| department.value);
    assert_eq!(
        read,
        Some(Department {
            employee_count: 1,
            manager_name: Some("Ann Ash".into()),
            manager_email: Some("ann@contoso.com".into()),
            ..sales
        })
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
