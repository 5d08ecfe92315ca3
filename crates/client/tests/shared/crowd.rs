//! What a crowd of writers does to one indexed table, in tasks (`suite`) and in processes (`processes`) alike: the type,
//! one random change, and the look that no unique value has two owners.

use std::time::Duration;

use tavola_client::eventual::{Intents, Settle, Worker, WorkerSettings};
use tavola_client::index::IndexedTable;
use tavola_client::{Account, Entity, Error, In, Result};

const LEASE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "Crowd", row = "empid_{id:06}", rename_all = "PascalCase", entity_type = "Employee")]
#[entity(index(by_badge, unique, table = "CrowdByBadge", partition = "{badge}", row = "badge"))]
#[entity(index(by_last_name, partition = "name_{last_name}", row = "{id:06}"))]
pub struct Employee {
    id: u32,
    last_name: String,
    badge: Option<String>,
}

pub fn intents(account: &Account) -> Intents {
    Intents::new(account.queue("crowd")).with_lease(LEASE)
}

pub fn table(account: &Account) -> IndexedTable<Employee> {
    IndexedTable::with_intents(account.table("Crowd"), intents(account))
}

pub fn worker(account: &Account) -> Worker {
    // A worker that is killed has been given the intent too.
    let settings = WorkerSettings { deliveries_max: u32::MAX, ..WorkerSettings::default() };
    Worker::new(intents(account), settings).serve(table(account))
}

/// Inserts, changes or deletes one of so many people, who share so many badges. What a crowd does to each other is no
/// error; anything else is a bug.
pub async fn change(
    table: &IndexedTable<Employee>,
    chance: &mut fastrand::Rng,
    people: u32,
    badges: u32,
) -> Result<()> {
    let id = chance.u32(..people);
    let badge = (chance.u8(..5) > 0).then(|| format!("badge{}", chance.u32(..badges)));
    let last_name = format!("name{}", chance.u8(..5));
    let settle = chance.choice([Settle::Wait, Settle::Behind, Settle::Worker]).unwrap_or_default();
    let stored = table.get(("Crowd", format!("empid_{id:06}"))).await?;
    let told = match stored {
        None => table.insert(&Employee { id, last_name, badge }, settle).await.map(|_| ()),
        Some(stored) if chance.u8(..4) == 0 => table.delete(&stored, settle).await,
        Some(mut stored) => {
            (stored.last_name, stored.badge) = (last_name, badge);
            table.save(&mut stored, settle).await
        }
    };
    match told {
        Err(
            Error::Changed
            | Error::Taken { .. }
            | Error::NotFound
            | Error::LeaseLost
            | Error::OutcomeUnknown { .. },
        ) => Ok(()),
        told => told,
    }
}

/// No two entities have one badge. A page is not one moment, so what it shows is looked at again.
pub async fn badges_are_unique(table: &IndexedTable<Employee>) {
    let all = table.table().query::<Employee>(In::partition("Crowd")).collect().await.unwrap();
    for (index, one) in all.iter().enumerate() {
        for other in all[..index].iter().filter(|other| other.badge.is_some() && other.badge == one.badge) {
            let read = async |id: u32| table.get(("Crowd", format!("empid_{id:06}"))).await.unwrap();
            let before = read(one.id).await;
            let between = read(other.id).await;
            let after = read(one.id).await;
            if let (Some(before), Some(between), Some(after)) = (before, between, after) {
                let is_so =
                    before.etag == after.etag && before.badge.is_some() && before.badge == between.badge;
                assert!(!is_so, "{:?} {:?}", before.value, between.value);
            }
        }
    }
}
