//! The core's writes: single, together, in bulk; and keys that are rotated.

use futures_util::stream;
use tavola_client::encrypt::{EncryptedTable, LocalKeys};
use tavola_client::{DynamicEntity, Entity, In, Result, TableClient};

use super::{Case, Fixture, keys, rows};

fn entity(partition: &str, number: usize) -> DynamicEntity {
    DynamicEntity::new((partition, format!("{number:04}"))).with("A", 1)
}

/// Two entities, one after the other.
pub struct WriteTwo;

async fn write_two(table: &TableClient) -> Result<()> {
    table.upsert(&entity("p", 1), None).await?;
    table.upsert(&entity("p", 2), None).await.map(|_| ())
}

impl Case for WriteTwo {
    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        write_two(&fixture.table()).await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        write_two(&fixture.table()).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        assert_eq!(keys(&fixture.table()).await.len(), 2, "{}", fixture.name);
    }
}

/// Two transactions of many entities.
pub struct Together;

impl Case for Together {
    const HAS_REPAIR: bool = false;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        for first in [0, 50] {
            let all = (first..first + 50).map(|number| entity("p", number));
            let mut txn = fixture.table().transaction("p");
            for entity in all {
                txn = txn.insert(&entity)?;
            }
            txn.commit().await?;
        }
        Ok(())
    }

    async fn settle(&self, _: &Fixture) -> Result<()> {
        Ok(())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let count = rows(&fixture.table()).await.len();
        assert!(count == 100 || !told && [0, 50].contains(&count), "{} {count}", fixture.name);
    }
}

/// Entities of several partitions in bulk, and again.
pub struct BulkInsert;

impl Case for BulkInsert {
    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let all = (0..330).map(|number| entity(["a", "b", "c"][number % 3], number));
        let report = fixture.table().bulk_upsert(stream::iter(all), None).await?;
        assert!(report.refused.is_empty());
        Ok(())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        self.call(fixture).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        assert_eq!(rows(&fixture.table()).await.len(), 330, "{}", fixture.name);
    }
}

/// A partition of many entities, deleted; and again.
pub struct BulkDelete;

impl Case for BulkDelete {
    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        let all = (0..330).map(|number| entity(["a", "b", "a"][number % 3], number));
        fixture.table().bulk_upsert(stream::iter(all), None).await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let report = fixture.table().bulk_delete(In::partition("a"), None).await?;
        assert!(report.refused.is_empty());
        Ok(())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        self.call(fixture).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        let left = keys(&fixture.table()).await;
        assert!(left.len() == 110 && left.iter().all(|key| key.partition == "b"), "{}", fixture.name);
    }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:06}")]
struct Employee {
    department: String,
    id: u32,
    #[entity(encrypt)]
    salary: Option<i64>,
}

/// Entities whose key is rotated.
pub struct Rewrap;

fn employees(fixture: &Fixture, keys: LocalKeys) -> EncryptedTable<Employee> {
    EncryptedTable::new(fixture.table(), keys)
}

impl Case for Rewrap {
    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        for id in 0..4 {
            let one = Employee { department: "Sales".into(), id, salary: Some(5000) };
            employees(fixture, LocalKeys::new("k1", [1; 32])).insert(&one).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let both = LocalKeys::new("k2", [2; 32]).with_old("k1", [1; 32]);
        employees(fixture, both).rewrap(In::partition("Sales")).await.map(|_| ())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        self.call(fixture).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        // The old key is not needed any more.
        for id in 0..4 {
            let new = employees(fixture, LocalKeys::new("k2", [2; 32]));
            let found = new.get(("Sales", format!("{id:06}"))).await.unwrap().unwrap();
            assert_eq!(found.salary, Some(5000), "{}", fixture.name);
        }
    }
}
