//! Encrypted fields on a server.

use futures_util::TryStreamExt;
use tavola_client::encrypt::{EncryptedTable, LocalKeys, Rewrapped};
use tavola_client::{Changes, DynamicEntity, EdmType, Entity, Error, In, MapError};

use crate::Counted;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:06}", rename_all = "PascalCase")]
struct Employee {
    department: String,
    id: u32,
    name: String,
    #[entity(encrypt)]
    salary: Option<i64>,
    #[entity(encrypt, json)]
    accounts: Vec<String>,
}

fn employee(id: u32) -> Employee {
    Employee {
        department: "Sales".into(),
        id,
        name: "Don".into(),
        salary: Some(5000),
        accounts: vec!["DE02".into()],
    }
}

#[tokio::test]
async fn secrets_are_bytes_on_the_server_and_values_here() {
    let counted = Counted::start();
    let table = counted.table("Employees").await;
    let employees = EncryptedTable::<Employee>::new(table.clone(), LocalKeys::new("k1", [1; 32]));
    let (inserted, requests) = counted.count(employees.insert(&employee(1))).await;
    inserted.unwrap();
    assert_eq!(requests, 1);
    let raw = table.get::<DynamicEntity>(("Sales", "000001"), None).await.unwrap().unwrap();
    for name in ["Salary", "Accounts", "_ClientEncryptionMetadata2"] {
        assert_eq!(raw.get(name).map(|value| value.edm_type()), Some(EdmType::Binary), "{name}");
    }

    let (opened, requests) = counted.count(employees.get(("Sales", "000001"))).await;
    let mut opened = opened.unwrap().unwrap();
    assert_eq!((&*opened, requests), (&employee(1), 1));
    let plain = table.get::<Employee>(("Sales", "000001"), None).await;
    assert!(matches!(plain, Err(Error::Map(MapError::Encrypted { .. }))));
    assert!(matches!(table.insert(&employee(2), None).await, Err(Error::Map(MapError::Encrypted { .. }))));

    opened.name = "Donald".into();
    let (saved, requests) = counted.count(employees.save(&mut opened)).await;
    saved.unwrap();
    assert_eq!(requests, 1);
    let after = table.get::<DynamicEntity>(("Sales", "000001"), None).await.unwrap().unwrap();
    assert_eq!(after.get("Salary"), raw.get("Salary"), "an unchanged secret is not touched");
    opened.salary = None;
    opened.accounts.push("DE03".into());
    employees.save(&mut opened).await.unwrap();
    let (saved, requests) = counted.count(employees.save(&mut opened)).await;
    saved.unwrap();
    assert_eq!(requests, 0, "nothing differs");
    let again = employees.get(("Sales", "000001")).await.unwrap().unwrap();
    assert_eq!((again.salary, again.accounts.len(), again.name.as_str()), (None, 2, "Donald"));
    employees.merge(("Sales", "000001"), Changes::<Employee>::new().set(|e| e.name, "Don")).await.unwrap();
    assert_eq!(employees.get(("Sales", "000001")).await.unwrap().unwrap().name, "Don");
}

#[tokio::test]
async fn keys_are_rotated_without_touching_what_they_seal() {
    let counted = Counted::start();
    let table = counted.table("Employees").await;
    let old = EncryptedTable::<Employee>::new(table.clone(), LocalKeys::new("k1", [1; 32]));
    for id in 1..=3 {
        old.insert(&employee(id)).await.unwrap();
    }
    let both = LocalKeys::new("k2", [2; 32]).with_old("k1", [1; 32]);
    let both = EncryptedTable::<Employee>::new(table.clone(), both);
    both.insert(&employee(4)).await.unwrap();
    let (report, requests) = counted.count(both.rewrap(In::partition("Sales"))).await;
    assert_eq!(report.unwrap(), Rewrapped { seen: 4, rewrapped: 3, changed: 0 });
    assert_eq!(requests, 4, "one page and one an entity");
    let new = EncryptedTable::<Employee>::new(table.clone(), LocalKeys::new("k2", [2; 32]));
    let all: Vec<_> = new.query(In::partition("Sales"), None).try_collect().await.unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|employee| employee.salary == Some(5000)));
    assert!(matches!(old.get(("Sales", "000001")).await, Err(Error::Encryption(_))));
    assert_eq!(both.rewrap(In::partition("Sales")).await.unwrap().rewrapped, 0);
}

#[tokio::test]
async fn a_secret_put_under_another_entity_does_not_open() {
    let counted = Counted::start();
    let table = counted.table("Employees").await;
    let employees = EncryptedTable::<Employee>::new(table.clone(), LocalKeys::new("k1", [1; 32]));
    employees.insert(&employee(1)).await.unwrap();
    let mut stolen = table.get::<DynamicEntity>(("Sales", "000001"), None).await.unwrap().unwrap().value;
    stolen.key.row = "000002".into();
    table.insert(&stolen, None).await.unwrap();
    assert!(matches!(employees.get(("Sales", "000002")).await, Err(Error::Encryption(_))));
}
