//! Lists of keys, and entities that hold a copy of another's properties.

use futures_util::stream;
use tavola_client::entity::Writable;
use tavola_client::eventual::{Settle, Worker};
use tavola_client::index::VerifyMode;
use tavola_client::patterns::denormal::{Denormalized, Embeds};
use tavola_client::patterns::list_index::{ListIndex, Lists};
use tavola_client::{DynamicEntity, Entity, EntityKey, Error, KeyError, Result};

use super::{Case, Fixture, rows, settings};

#[derive(Clone, Copy, PartialEq)]
pub enum Work {
    Insert,
    Change,
    Delete,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    last_name: String,
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{name}", row = "Department")]
struct Department {
    name: String,
    manager: Option<String>,
}

impl Embeds<Employee> for Department {
    fn holders(employee: &Employee) -> Result<Vec<EntityKey>, KeyError> {
        Ok(vec![(employee.department.as_str(), "Department").into()])
    }
    fn embed(&mut self, employee: &Employee) {
        self.manager = Some(employee.last_name.clone());
    }
    fn forget(&mut self, _: &EntityKey) {
        self.manager = None;
    }
}

const KEY: (&str, &str) = ("Sales", "empid_000212");

fn don(last_name: &str) -> Employee {
    Employee { department: "Sales".into(), id: 212, last_name: last_name.into() }
}

/// What the entity's name may be now.
fn is_right(work: Work, told: bool, name: Option<&str>) -> bool {
    let (before, after) = match work {
        Work::Insert => (None, Some("Hall")),
        Work::Change => (Some("Hall"), Some("Jones")),
        Work::Delete => (Some("Hall"), None),
    };
    name == after || !told && name == before
}

/// Where lists are.
#[derive(Clone, Copy, PartialEq)]
pub enum Where {
    Partition,
    Table,
    Blobs,
}

pub struct List {
    pub location: Where,
    pub work: Work,
}

impl List {
    fn index(&self, fixture: &Fixture) -> ListIndex<Employee> {
        let lists = match self.location {
            Where::Partition => Lists::SamePartition,
            Where::Table => Lists::Table { table: fixture.table_of("lists"), intents: fixture.intents() },
            Where::Blobs => Lists::Blobs { container: fixture.container(), intents: fixture.intents() },
        };
        ListIndex {
            table: fixture.table(),
            lists,
            prefix: "lastname_",
            value: |employee| Some(&employee.last_name),
        }
    }
}

impl Case for List {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        fixture.table_of("lists").create().await.unwrap();
        fixture.container().create().await.unwrap();
        fixture.intents().create().await.unwrap();
        let colleague = Employee { id: 1, ..don("Hall") };
        self.index(fixture).insert(&colleague, Settle::Wait).await.unwrap();
        if self.work != Work::Insert {
            self.index(fixture).insert(&don("Hall"), Settle::Wait).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let index = self.index(fixture);
        if self.work == Work::Insert {
            return index.insert(&don("Hall"), Settle::Wait).await.map(|_| ());
        }
        let mut stored = fixture.table().get::<Employee>(KEY, None).await?.ok_or(Error::NotFound)?;
        if self.work == Work::Delete {
            return index.delete(&stored, Settle::Wait).await;
        }
        stored.last_name = "Jones".into();
        index.save(&mut stored, Settle::Wait).await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        let worker = Worker::new(fixture.intents(), settings()).serve(self.index(fixture));
        worker.drain().await.map(|_| ())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let found = fixture.table().get::<Employee>(KEY, None).await.unwrap();
        let name = found.as_ref().map(|found| found.last_name.as_str());
        assert!(is_right(self.work, told, name), "{} {name:?}", fixture.name);
        let report = self.index(fixture).verify(VerifyMode::Report, None).await.unwrap();
        assert!(report.is_clean(), "{} {report:?}", fixture.name);
        let lists = if name == Some("Jones") { 2 } else { 1 };
        let (held, expected) = match self.location {
            Where::Partition => (rows(&fixture.table()).await.len(), lists + 1 + usize::from(name.is_some())),
            Where::Table => (rows(&fixture.table_of("lists")).await.len(), lists),
            Where::Blobs => (fixture.container().list("").await.unwrap().len(), lists),
        };
        assert_eq!(held, expected, "{}", fixture.name);
    }
}

/// An employee whose key is so long that a thousand of them fill a list.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:06}_{tail}")]
struct LongKey {
    department: String,
    id: u32,
    tail: String,
    last_name: String,
}

/// As many as one entity lists: 71 in each of 15 properties.
const FULL: u32 = 15 * 71;

fn long_key(id: u32) -> LongKey {
    LongKey { department: "Sales".into(), id, tail: "x".repeat(450), last_name: "Hall".into() }
}

/// A list that is split by the write that is killed.
pub struct GrownList;

impl GrownList {
    fn index(&self, fixture: &Fixture) -> ListIndex<LongKey> {
        let value: fn(&LongKey) -> Option<&str> = |employee| Some(&employee.last_name);
        ListIndex { table: fixture.table(), lists: Lists::SamePartition, prefix: "lastname_", value }
    }
}

impl Case for GrownList {
    const HAS_REPAIR: bool = false;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        let all: Vec<LongKey> = (0..FULL).map(|number| long_key(2 * number)).collect();
        let rows: Vec<String> = all.iter().map(|one| one.key().unwrap().row).collect();
        fixture.table().bulk_insert(stream::iter(all), None).await.unwrap();
        let texts = rows.chunks(71).map(|rows| serde_json::to_string(rows).unwrap()).enumerate();
        let list = texts.fold(DynamicEntity::new(("Sales", "lastname_Hall")), |list, (number, text)| {
            list.with(&format!("Keys{number:02}"), text)
        });
        fixture.table().insert(&list, None).await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let index = self.index(fixture);
        index.insert(&long_key(1), Settle::Wait).await?;
        let second = index.insert(&long_key(999), Settle::Wait).await?;
        index.delete(&second, Settle::Wait).await
    }

    async fn settle(&self, _: &Fixture) -> Result<()> {
        Ok(())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let report = self.index(fixture).verify(VerifyMode::Report, None).await.unwrap();
        let entities = u64::from(FULL) + 1;
        let is_right = report.entities == entities || !told && report.entities.abs_diff(entities) == 1;
        assert!(report.is_clean() && is_right, "{} {report:?}", fixture.name);
        let listed = self.index(fixture).keys("Sales", "Hall").await.unwrap().len();
        assert_eq!(listed as u64, report.entities, "{}", fixture.name);
    }
}

pub struct Embedded(pub Work);

fn managers(fixture: &Fixture) -> Denormalized<Department, Employee> {
    Denormalized::new(fixture.table(), fixture.table_of("holders"), fixture.intents())
}

impl Case for Embedded {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        fixture.table_of("holders").create().await.unwrap();
        fixture.intents().create().await.unwrap();
        let holder = Department { name: "Sales".into(), manager: None };
        fixture.table_of("holders").insert(&holder, None).await.unwrap();
        if self.0 != Work::Insert {
            managers(fixture).insert(&don("Hall"), Settle::Wait).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        if self.0 == Work::Insert {
            return managers(fixture).insert(&don("Hall"), Settle::Wait).await.map(|_| ());
        }
        let mut stored = fixture.table().get::<Employee>(KEY, None).await?.ok_or(Error::NotFound)?;
        if self.0 == Work::Delete {
            return managers(fixture).delete(&stored, Settle::Wait).await;
        }
        stored.last_name = "Jones".into();
        managers(fixture).save(&mut stored, Settle::Wait).await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        let worker = Worker::new(fixture.intents(), settings()).serve(managers(fixture));
        worker.drain().await.map(|_| ())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let source = fixture.table().get::<Employee>(KEY, None).await.unwrap();
        let name = source.as_ref().map(|source| source.last_name.as_str());
        assert!(is_right(self.0, told, name), "{} {name:?}", fixture.name);
        let holder = fixture.table_of("holders").get::<Department>(("Sales", "Department"), None).await;
        assert_eq!(holder.unwrap().unwrap().manager.as_deref(), name, "{}", fixture.name);
    }
}

/// A source and its holder in one partition.
pub struct Together;

impl Case for Together {
    const HAS_REPAIR: bool = false;

    async fn prepare(&self, fixture: &Fixture) {
        let table = fixture.table();
        table.create().await.unwrap();
        table.insert(&Department { name: "Sales".into(), manager: Some("Hall".into()) }, None).await.unwrap();
        table.insert(&don("Hall"), None).await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let table = fixture.table();
        let mut stored = table.get::<Employee>(KEY, None).await?.ok_or(Error::NotFound)?;
        stored.last_name = "Jones".into();
        table.save_embedded::<Department, _>(&mut stored).await?;
        let child = Employee { id: 213, ..don("Smith") };
        table
            .insert_child(&child, ("Sales", "Department"), |d: &mut Department| {
                d.manager = Some("Smith".into())
            })
            .await
    }

    async fn settle(&self, _: &Fixture) -> Result<()> {
        Ok(())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let table = fixture.table();
        let name = async |row: &str| {
            let found = table.get::<Employee>(("Sales", row), None).await.unwrap();
            found.map(|found| found.last_name.clone())
        };
        let (don, child) = (name("empid_000212").await, name("empid_000213").await);
        let holder = table.get::<Department>(("Sales", "Department"), None).await.unwrap().unwrap();
        assert_eq!(holder.manager, child.clone().or(don), "{}", fixture.name);
        assert!(!told || child.is_some());
    }
}
