//! Indexes in the partition, in other partitions, and unique over partitions.

use tavola_client::eventual::{Settle, Worker};
use tavola_client::index::{IndexedTable, Mend};
use tavola_client::{Entity, Error, Result};

use super::{Case, Place, settings};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}", entity_type = "Employee")]
#[entity(index(by_email, unique, row = "email_{email}"))]
#[entity(index(by_badge, unique, partition = "badge_{badge}", row = "badge"))]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{department}_{id:06}"))]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
    email: Option<String>,
    badge: Option<String>,
}

fn don() -> Employee {
    Employee {
        department: "Sales".into(),
        id: 212,
        last_name: "Hall".into(),
        email: Some("donh@contoso.com".into()),
        badge: Some("4711".into()),
    }
}

const KEY: (&str, &str) = ("Sales", "empid_000212");

fn employees(place: &Place) -> IndexedTable<Employee> {
    IndexedTable::with_intents(place.table(), place.intents())
}

fn worker(place: &Place) -> Worker {
    Worker::new(place.intents(), settings()).serve(employees(place))
}

async fn is_clean(place: &Place) -> u64 {
    let report = employees(place).verify(Mend::Tell, None).await.unwrap();
    assert!(report.is_clean(), "{} {report:?}", place.name);
    report.entities
}

#[derive(Clone, Copy, PartialEq)]
pub enum Work {
    Insert,
    Change,
    Clear,
    Delete,
}

pub struct Index(pub Work);

impl Case for Index {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, place: &Place) {
        employees(place).create().await.unwrap();
        place.intents().create().await.unwrap();
        if self.0 != Work::Insert {
            employees(place).insert(&don(), Settle::Wait).await.unwrap();
        }
    }

    async fn call(&self, place: &Place) -> Result<()> {
        let employees = employees(place);
        if self.0 == Work::Insert {
            return employees.insert(&don(), Settle::Wait).await.map(|_| ());
        }
        let mut stored = employees.get(KEY).await?.ok_or(Error::NotFound)?;
        match self.0 {
            Work::Change => {
                stored.last_name = "Jones".into();
                stored.email = Some("jones@contoso.com".into());
                stored.badge = Some("4712".into());
                employees.save(&mut stored, Settle::Wait).await
            }
            Work::Clear => {
                (stored.email, stored.badge) = (None, None);
                employees.save(&mut stored, Settle::Wait).await
            }
            Work::Insert | Work::Delete => employees.delete(&stored, Settle::Wait).await,
        }
    }

    async fn settle(&self, place: &Place) -> Result<()> {
        worker(place).drain().await.map(|_| ())
    }

    async fn verify(&self, place: &Place, told: bool) {
        let table = employees(place);
        let found = table.get(KEY).await.unwrap().map(|stored| stored.value);
        let changed = match self.0 {
            Work::Insert => Some(don()),
            Work::Change => Some(Employee {
                last_name: "Jones".into(),
                email: Some("jones@contoso.com".into()),
                badge: Some("4712".into()),
                ..don()
            }),
            Work::Clear => Some(Employee { email: None, badge: None, ..don() }),
            Work::Delete => None,
        };
        let before = (self.0 != Work::Insert).then(don);
        assert!(found == changed || !told && found == before, "{} {told} {found:?}", place.name);
        assert_eq!(is_clean(place).await, u64::from(found.is_some()));
        for badge in ["4711", "4712"] {
            let owner = table.find(Employee::by_badge(badge)).await.unwrap().map(|stored| stored.value);
            assert_eq!(owner, found.clone().filter(|found| found.badge.as_deref() == Some(badge)));
        }
        // Nothing but the entity, its copies and its reservation.
        let entries = found
            .as_ref()
            .map_or(0, |found| 2 + usize::from(found.email.is_some()) + usize::from(found.badge.is_some()));
        assert_eq!(super::rows(&place.table()).await.len(), entries, "{}", place.name);
    }
}

/// Indexes that are declared after the data was there.
pub struct Rebuild;

impl Case for Rebuild {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, place: &Place) {
        employees(place).create().await.unwrap();
        place.intents().create().await.unwrap();
        place.table().insert(&don(), None).await.unwrap();
    }

    async fn call(&self, place: &Place) -> Result<()> {
        for index in ["by_email", "by_badge", "by_last_name"] {
            employees(place).rebuild(index, None).await?;
        }
        Ok(())
    }

    async fn settle(&self, place: &Place) -> Result<()> {
        worker(place).drain().await?;
        // `Taken` is by a reservation of the call that was killed: its intent gives it back.
        self.call(place).await
    }

    async fn verify(&self, place: &Place, _: bool) {
        assert_eq!(is_clean(place).await, 1);
        assert_eq!(super::rows(&place.table()).await.len(), 4, "{}", place.name);
    }
}
