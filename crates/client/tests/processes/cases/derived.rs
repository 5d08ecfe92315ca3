//! Lists of keys, and entities that hold a copy of another's properties.

use tavola_client::eventual::{Settle, Worker};
use tavola_client::index::Mend;
use tavola_client::patterns::denormal::{Denormalized, Embeds};
use tavola_client::patterns::list_index::{ListIndex, Lists};
use tavola_client::{Entity, EntityKey, Error, KeyError, Result};

use super::{Case, Place, rows, settings};

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
    pub place: Where,
    pub work: Work,
}

impl List {
    fn index(&self, place: &Place) -> ListIndex<Employee> {
        let lists = match self.place {
            Where::Partition => Lists::SamePartition,
            Where::Table => Lists::Table { table: place.table_of("lists"), intents: place.intents() },
            Where::Blobs => Lists::Blobs { container: place.container(), intents: place.intents() },
        };
        ListIndex {
            table: place.table(),
            lists,
            prefix: "lastname_",
            value: |employee| Some(&employee.last_name),
        }
    }
}

impl Case for List {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, place: &Place) {
        place.table().create().await.unwrap();
        place.table_of("lists").create().await.unwrap();
        place.container().create().await.unwrap();
        place.intents().create().await.unwrap();
        let colleague = Employee { id: 1, ..don("Hall") };
        self.index(place).insert(&colleague, Settle::Wait).await.unwrap();
        if self.work != Work::Insert {
            self.index(place).insert(&don("Hall"), Settle::Wait).await.unwrap();
        }
    }

    async fn call(&self, place: &Place) -> Result<()> {
        let index = self.index(place);
        if self.work == Work::Insert {
            return index.insert(&don("Hall"), Settle::Wait).await.map(|_| ());
        }
        let mut stored = place.table().get::<Employee>(KEY, None).await?.ok_or(Error::NotFound)?;
        if self.work == Work::Delete {
            return index.delete(&stored, Settle::Wait).await;
        }
        stored.last_name = "Jones".into();
        index.save(&mut stored, Settle::Wait).await
    }

    async fn settle(&self, place: &Place) -> Result<()> {
        let worker = Worker::new(place.intents(), settings()).serve(self.index(place));
        worker.drain().await.map(|_| ())
    }

    async fn verify(&self, place: &Place, told: bool) {
        let found = place.table().get::<Employee>(KEY, None).await.unwrap();
        let name = found.as_ref().map(|found| found.last_name.as_str());
        assert!(is_right(self.work, told, name), "{} {name:?}", place.name);
        let report = self.index(place).verify(Mend::Tell, None).await.unwrap();
        assert!(report.is_clean(), "{} {report:?}", place.name);
        let lists = if name == Some("Jones") { 2 } else { 1 };
        let (held, expected) = match self.place {
            Where::Partition => (rows(&place.table()).await.len(), lists + 1 + usize::from(name.is_some())),
            Where::Table => (rows(&place.table_of("lists")).await.len(), lists),
            Where::Blobs => (place.container().list("").await.unwrap().len(), lists),
        };
        assert_eq!(held, expected, "{}", place.name);
    }
}

pub struct Embedded(pub Work);

fn managers(place: &Place) -> Denormalized<Department, Employee> {
    Denormalized::new(place.table(), place.table_of("holders"), place.intents())
}

impl Case for Embedded {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, place: &Place) {
        place.table().create().await.unwrap();
        place.table_of("holders").create().await.unwrap();
        place.intents().create().await.unwrap();
        let holder = Department { name: "Sales".into(), manager: None };
        place.table_of("holders").insert(&holder, None).await.unwrap();
        if self.0 != Work::Insert {
            managers(place).insert(&don("Hall"), Settle::Wait).await.unwrap();
        }
    }

    async fn call(&self, place: &Place) -> Result<()> {
        if self.0 == Work::Insert {
            return managers(place).insert(&don("Hall"), Settle::Wait).await.map(|_| ());
        }
        let mut stored = place.table().get::<Employee>(KEY, None).await?.ok_or(Error::NotFound)?;
        if self.0 == Work::Delete {
            return managers(place).delete(&stored, Settle::Wait).await;
        }
        stored.last_name = "Jones".into();
        managers(place).save(&mut stored, Settle::Wait).await
    }

    async fn settle(&self, place: &Place) -> Result<()> {
        let worker = Worker::new(place.intents(), settings()).serve(managers(place));
        worker.drain().await.map(|_| ())
    }

    async fn verify(&self, place: &Place, told: bool) {
        let source = place.table().get::<Employee>(KEY, None).await.unwrap();
        let name = source.as_ref().map(|source| source.last_name.as_str());
        assert!(is_right(self.0, told, name), "{} {name:?}", place.name);
        let holder = place.table_of("holders").get::<Department>(("Sales", "Department"), None).await;
        assert_eq!(holder.unwrap().unwrap().manager.as_deref(), name, "{}", place.name);
    }
}

/// A source and its holder in one partition.
pub struct Together;

impl Case for Together {
    const HAS_REPAIR: bool = false;

    async fn prepare(&self, place: &Place) {
        let table = place.table();
        table.create().await.unwrap();
        table.insert(&Department { name: "Sales".into(), manager: Some("Hall".into()) }, None).await.unwrap();
        table.insert(&don("Hall"), None).await.unwrap();
    }

    async fn call(&self, place: &Place) -> Result<()> {
        let table = place.table();
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

    async fn settle(&self, _: &Place) -> Result<()> {
        Ok(())
    }

    async fn verify(&self, place: &Place, told: bool) {
        let table = place.table();
        let name = async |row: &str| {
            let found = table.get::<Employee>(("Sales", row), None).await.unwrap();
            found.map(|found| found.last_name.clone())
        };
        let (don, child) = (name("empid_000212").await, name("empid_000213").await);
        let holder = table.get::<Department>(("Sales", "Department"), None).await.unwrap().unwrap();
        assert_eq!(holder.manager, child.clone().or(don), "{}", place.name);
        assert!(!told || child.is_some());
    }
}
