//! Indexes in the partition, in other partitions, and unique over partitions.

use tavola_client::eventual::{Settle, Worker};
use tavola_client::index::{IndexedTable, VerifyMode};
use tavola_client::{Entity, Error, Result};

use super::{Case, Fixture, settings};

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

fn employees(fixture: &Fixture) -> IndexedTable<Employee> {
    IndexedTable::with_intents(fixture.table(), fixture.intents())
}

fn worker(fixture: &Fixture) -> Worker {
    Worker::new(fixture.intents(), settings()).serve(employees(fixture))
}

async fn is_clean(fixture: &Fixture) -> u64 {
    let report = employees(fixture).verify(VerifyMode::Report, None).await.unwrap();
    assert!(report.is_clean(), "{} {report:?}", fixture.name);
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

    async fn prepare(&self, fixture: &Fixture) {
        employees(fixture).create().await.unwrap();
        fixture.intents().create().await.unwrap();
        if self.0 != Work::Insert {
            employees(fixture).insert(&don(), Settle::Wait).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let employees = employees(fixture);
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

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        worker(fixture).drain().await.map(|_| ())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let table = employees(fixture);
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
        assert!(found == changed || !told && found == before, "{} {told} {found:?}", fixture.name);
        assert_eq!(is_clean(fixture).await, u64::from(found.is_some()));
        for badge in ["4711", "4712"] {
            let owner = table.find(Employee::by_badge(badge)).await.unwrap().map(|stored| stored.value);
            assert_eq!(owner, found.clone().filter(|found| found.badge.as_deref() == Some(badge)));
        }
        // Nothing but the entity, its copies and its reservation.
        let entries = found
            .as_ref()
            .map_or(0, |found| 2 + usize::from(found.email.is_some()) + usize::from(found.badge.is_some()));
        assert_eq!(super::rows(&fixture.table()).await.len(), entries, "{}", fixture.name);
    }
}

/// Indexes that are declared after the data was there.
pub struct Rebuild;

impl Case for Rebuild {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, fixture: &Fixture) {
        employees(fixture).create().await.unwrap();
        fixture.intents().create().await.unwrap();
        fixture.table().insert(&don(), None).await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        for index in ["by_email", "by_badge", "by_last_name"] {
            employees(fixture).rebuild(index, None).await?;
        }
        Ok(())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        worker(fixture).drain().await?;
        // `Taken` is by a reservation of the call that was killed: its intent gives it back.
        self.call(fixture).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        assert_eq!(is_clean(fixture).await, 1);
        assert_eq!(super::rows(&fixture.table()).await.len(), 4, "{}", fixture.name);
    }
}
