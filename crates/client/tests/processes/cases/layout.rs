//! Patterns of layout: a table a period, wide entities, series, spreading.

use tavola_client::patterns::period::{Dated, Period, PeriodTables};
use tavola_client::patterns::series::Series;
use tavola_client::patterns::spread::Spread;
use tavola_client::{DateTime, DynamicEntity, Entity, Error, In, Result};

use super::derived::Work;
use super::{Case, Fixture, rows};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{user}", row = "{at:desc}_{id:04}")]
struct Login {
    user: String,
    at: DateTime,
    id: u16,
}

impl Dated for Login {
    fn moment(&self) -> DateTime {
        self.at
    }
}

fn day(day: u32) -> DateTime {
    DateTime::from_parts((2026, 11, day), (10, 0, 0), 0).unwrap()
}

fn logins(fixture: &Fixture) -> PeriodTables<Login> {
    PeriodTables::new(fixture.account.clone(), &format!("{}x", fixture.name), Period::Day).unwrap()
}

async fn log_in(fixture: &Fixture, at: u32) -> Result<()> {
    logins(fixture).insert(&Login { user: "don".into(), at: day(at), id: 1 }).await.map(|_| ())
}

async fn days(fixture: &Fixture) -> Vec<String> {
    let prefix = format!("{}x", fixture.name);
    let tables = fixture.account.tables(Some(&prefix)).await.unwrap();
    tables.into_iter().map(|name| name[prefix.len()..].to_owned()).collect()
}

/// Old periods are dropped.
pub struct Drop;

impl Case for Drop {
    async fn prepare(&self, fixture: &Fixture) {
        for at in 11..=14 {
            log_in(fixture, at).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        logins(fixture).drop_before(day(14)).await.map(|_| ())
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        self.call(fixture).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        assert_eq!(days(fixture).await, ["20261114"], "{}", fixture.name);
    }
}

/// The first entity of a period makes its table.
pub struct FirstOfPeriod;

impl Case for FirstOfPeriod {
    async fn prepare(&self, _: &Fixture) {}

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        log_in(fixture, 14).await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        match self.call(fixture).await {
            Err(Error::Taken { .. }) => Ok(()),
            called => called,
        }
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        assert_eq!(days(fixture).await, ["20261114"], "{}", fixture.name);
        assert_eq!(rows(&fixture.table_of("x20261114")).await.len(), 1, "{}", fixture.name);
    }
}

pub struct WideEntity(pub Work);

const WIDE: (&str, &str) = ("Sales", "2026");

fn year(days: usize) -> DynamicEntity {
    let value = i64::try_from(days).unwrap();
    (0..days).fold(DynamicEntity::new(WIDE), |year, day| year.with(&format!("Day{day:04}"), value))
}

impl Case for WideEntity {
    const HAS_REPAIR: bool = false;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        if self.0 != Work::Insert {
            fixture.table().insert_wide(&year(600)).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let table = fixture.table();
        match self.0 {
            Work::Insert => table.insert_wide(&year(900)).await,
            Work::Change => {
                let mut wide = table.get_wide::<DynamicEntity>(WIDE).await?.ok_or(Error::NotFound)?;
                wide.value = year(900);
                table.save_wide(&mut wide).await
            }
            Work::Delete => table.delete_wide(WIDE).await.map(|_| ()),
        }
    }

    async fn settle(&self, _: &Fixture) -> Result<()> {
        Ok(())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let found = fixture.table().get_wide::<DynamicEntity>(WIDE).await.unwrap();
        let days = found.as_ref().map(|found| found.properties.len());
        let (before, after) = match self.0 {
            Work::Insert => (None, Some(900)),
            Work::Change => (Some(600), Some(900)),
            Work::Delete => (Some(600), None),
        };
        assert!(days == after || !told && days == before, "{} {days:?}", fixture.name);
        let parts = found.map_or(0, |found| found.parts);
        assert_eq!(rows(&fixture.table()).await.len(), parts, "{}: no part is left over", fixture.name);
    }
}

/// A sum that is added to once.
pub struct Add;

impl Case for Add {
    const HAS_REPAIR: bool = false;

    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        Series::<24>::new(fixture.table(), "Hour").set(("Sales", "day"), 3, 10).await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let hours = Series::<24>::new(fixture.table(), "Hour");
        hours.add(("Sales", "day"), 3, 5).await?;
        hours.add_sharded(("Sales", "day"), 1, 3, 7).await.map(|_| ())
    }

    async fn settle(&self, _: &Fixture) -> Result<()> {
        Ok(())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let hours = Series::<24>::new(fixture.table(), "Hour");
        let own = hours.get(("Sales", "day")).await.unwrap()[3];
        let shard = hours.get_sharded(("Sales", "day")).await.unwrap()[3];
        let after = (own, shard) == (Some(15), Some(7));
        let before = shard.is_none() && (own == Some(10) || own == Some(15));
        assert!(after || !told && before, "{} {own:?} {shard:?}", fixture.name);
    }
}

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{hour}", row = "{number:08}")]
struct Event {
    hour: String,
    number: u32,
}

/// More buckets, and every entity moved to its new one.
pub struct Growth;

const EVENTS: u32 = 3;

impl Case for Growth {
    async fn prepare(&self, fixture: &Fixture) {
        fixture.table().create().await.unwrap();
        let events = Spread::<2>::open(fixture.table()).await.unwrap();
        for number in 0..EVENTS {
            events.insert(&Event { hour: "18".into(), number }).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let mut events = Spread::<4>::grow(fixture.table()).await?;
        events.move_grown(None).await?;
        events.settle_growth().await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        self.call(fixture).await
    }

    async fn verify(&self, fixture: &Fixture, _: bool) {
        let events = Spread::<4>::open(fixture.table()).await.unwrap();
        let found = events.query::<Event>(In::partition("18")).collect().await.unwrap();
        let numbers: Vec<u32> = found.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (0..EVENTS).collect::<Vec<_>>(), "{}", fixture.name);
        for number in 0..EVENTS {
            let key = Event::key_of(("18", number)).unwrap();
            assert!(events.get::<Event>(key).await.unwrap().is_some(), "{}", fixture.name);
        }
        assert_eq!(rows(&fixture.table()).await.len(), 1 + EVENTS as usize, "{}", fixture.name);
    }
}
