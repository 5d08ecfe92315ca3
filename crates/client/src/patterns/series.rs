//! Data series: many small numbers in one entity, read by one request.
//!
//! A series of `N` slots is an entity whose properties `Hour00`, `Hour01`, … hold a number each; a slot that nobody
//! wrote has no property. More than 250 slots are kept in several entities of the partition (`row~01`, …).
//!
//! Atomic: one slot. `set` is one blind request, so of two writers the later wins; `add` reads and merges under the
//! ETag, and counts exactly once even if the answer is lost, because every write carries a stamp. Nothing needs repair.

use crate::dynamic::DynamicEntity;
use crate::edm::EdmValue;
use crate::entities::{CHANGED_TRIES_MAX, pause};
use crate::entity::Stored;
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::options::{Resolve, WriteOptions};
use crate::scope::In;
use crate::table::TableClient;

/// Slots of one entity; two properties are left for stamps and for the caller.
const SLOTS_OF_ENTITY: usize = 250;

/// Series of `N` numbers each, in one table.
///
/// ```no_run
/// use tavola_client::{TableClient, patterns::series::Series};
/// # async fn example(table: TableClient) -> tavola_client::Result<()> {
/// let hours = Series::<24>::new(table, "Hour");
/// hours.add(("Sales", "000123_20261115"), 14, 1).await?;
/// let chart = hours.get(("Sales", "000123_20261115")).await?;
/// assert!(chart[14].is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Series<const N: usize> {
    table: TableClient,
    prefix: &'static str,
}

impl<const N: usize> Series<N> {
    const FITS: () = assert!(N > 0 && N <= 25_000, "a series has 1 to 25,000 slots");
    /// Digits of the largest slot, at least two, so that properties sort.
    const DIGITS: usize = {
        let (mut digits, mut rest) = (1, (N - 1) / 10);
        while rest > 0 {
            digits += 1;
            rest /= 10;
        }
        if digits < 2 { 2 } else { digits }
    };

    /// Series whose slots are named by this prefix.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, patterns::series::Series};
    /// let days = Series::<366>::new(Account::development()?.table("Logins"), "Day");
    /// assert_eq!(days.name(7), "Day007");
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(table: TableClient, prefix: &'static str) -> Self {
        let () = Self::FITS;
        Self { table, prefix }
    }

    /// The property of a slot.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, patterns::series::Series};
    /// assert_eq!(Series::<24>::new(Account::development()?.table("Counts"), "Hour").name(7), "Hour07");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self, slot: usize) -> String {
        format!("{}{slot:0width$}", self.prefix, width = Self::DIGITS)
    }

    /// Sets a slot, whatever it held: one request.
    ///
    /// ```no_run
    /// # async fn example(hours: tavola_client::patterns::series::Series<24>) -> tavola_client::Result<()> {
    /// hours.set(("Sales", "000123_20261115"), 0, 42).await
    /// # }
    /// ```
    pub async fn set(&self, key: impl Into<EntityKey>, slot: usize, value: i64) -> Result<()> {
        let key = self.entity_of(key.into(), slot)?;
        let entity = DynamicEntity::new(key).with(&self.name(slot), value);
        self.table.upsert_merge(&entity, None).await
    }

    /// Adds to a slot, exactly once, and gives the sum: two requests, and two more for each writer who came between.
    ///
    /// Refuses a sum that does not fit, and gives up with `Changed` when sixteen tries in a row met another writer:
    /// then give each writer an entity of its own (`add_sharded`).
    ///
    /// ```no_run
    /// # async fn example(hours: tavola_client::patterns::series::Series<24>) -> tavola_client::Result<()> {
    /// let messages = hours.add(("Sales", "000123_20261115"), 14, 1).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add(&self, key: impl Into<EntityKey>, slot: usize, delta: i64) -> Result<i64> {
        let key = self.entity_of(key.into(), slot)?;
        let name = self.name(slot);
        let stamped = WriteOptions { resolve: Resolve::ByStamp, ..WriteOptions::default() };
        for attempt in 1..=CHANGED_TRIES_MAX {
            let found: Option<Stored<DynamicEntity>> = self.table.get(&key, None).await?;
            let before =
                found.as_ref().and_then(|found| found.get(&name)).and_then(EdmValue::as_i64).unwrap_or(0);
            let sum = before.checked_add(delta).ok_or(Error::Limit("the sum does not fit a slot"))?;
            let written = match found {
                Some(mut stored) => {
                    stored.put(&name, sum);
                    self.table.save(&mut stored, Some(stamped.clone())).await
                }
                None => {
                    let entity = DynamicEntity::new(&key).with(&name, sum);
                    self.table.insert(&entity, Some(stamped.clone())).await.map(|_| ())
                }
            };
            match written {
                Ok(()) => return Ok(sum),
                Err(Error::Changed | Error::Taken { .. } | Error::NotFound) => pause(attempt).await,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Changed)
    }

    /// Adds to a slot in an entity of the writer's own, which meets no other writer: two requests, never more.
    ///
    /// A writer must not use one number from two places at once. Read with `get_sharded`.
    ///
    /// ```no_run
    /// # async fn example(hours: tavola_client::patterns::series::Series<24>) -> tavola_client::Result<()> {
    /// hours.add_sharded(("Sales", "000123_20261115"), 3, 14, 1).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn add_sharded(
        &self,
        key: impl Into<EntityKey>,
        writer: u16,
        slot: usize,
        delta: i64,
    ) -> Result<i64> {
        let mut key = key.into();
        key.row.push_str(&format!("~w{writer:05}"));
        self.add(key, slot, delta).await
    }

    /// All slots: one point read, or one range read where there are more slots than an entity holds.
    ///
    /// ```no_run
    /// # async fn example(hours: tavola_client::patterns::series::Series<24>) -> tavola_client::Result<()> {
    /// let chart: Box<[Option<i64>; 24]> = hours.get(("Sales", "000123_20261115")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: impl Into<EntityKey>) -> Result<Box<[Option<i64>; N]>> {
        let key = key.into();
        let parts: Vec<Stored<DynamicEntity>> = if N <= SLOTS_OF_ENTITY {
            self.table.get(&key, None).await?.into_iter().collect()
        } else {
            let last = self.entity_of(key.clone(), N - 1)?;
            let rows = key.row.as_str()..=last.row.as_str();
            let found =
                self.table.query::<DynamicEntity>(In::partition(&key.partition).rows(rows)).collect().await?;
            // Other entities may stand between the parts.
            let own = |row: &str| (0..N).step_by(SLOTS_OF_ENTITY).any(|slot| row == part_row(&key.row, slot));
            found.into_iter().filter(|part| own(&part.key.row)).collect()
        };
        self.sum(&parts)
    }

    /// The sums of all writers: one range read.
    ///
    /// ```no_run
    /// # async fn example(hours: tavola_client::patterns::series::Series<24>) -> tavola_client::Result<()> {
    /// let chart = hours.get_sharded(("Sales", "000123_20261115")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_sharded(&self, key: impl Into<EntityKey>) -> Result<Box<[Option<i64>; N]>> {
        let key = key.into();
        let scope = In::partition(&key.partition).rows_with_prefix(&format!("{}~w", key.row));
        let parts = self.table.query::<DynamicEntity>(scope).collect().await?;
        self.sum(&parts)
    }

    fn sum(&self, parts: &[Stored<DynamicEntity>]) -> Result<Box<[Option<i64>; N]>> {
        let mut slots = vec![None; N];
        for (slot, sum) in slots.iter_mut().enumerate() {
            let name = self.name(slot);
            for value in parts.iter().filter_map(|part| part.get(&name)).filter_map(EdmValue::as_i64) {
                let added = sum.unwrap_or(0i64).checked_add(value);
                *sum = Some(added.ok_or(Error::Limit("the sum does not fit a slot"))?);
            }
        }
        let slots: Box<[Option<i64>; N]> = slots.into_boxed_slice().try_into().expect("made with N slots");
        Ok(slots)
    }

    /// The entity that holds a slot.
    fn entity_of(&self, mut key: EntityKey, slot: usize) -> Result<EntityKey> {
        if slot >= N {
            return Err(Error::Limit("the slot is beyond the series"));
        }
        key.row = part_row(&key.row, slot);
        Ok(key)
    }
}

fn part_row(row: &str, slot: usize) -> String {
    match slot / SLOTS_OF_ENTITY {
        0 => row.to_owned(),
        part => format!("{row}~{part:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_named_so_that_they_sort() {
        let table = crate::Account::development().unwrap().table("Series");
        assert_eq!(Series::<5>::new(table.clone(), "A").name(4), "A04");
        assert_eq!(Series::<100>::new(table.clone(), "A").name(99), "A99");
        assert_eq!(Series::<101>::new(table.clone(), "A").name(99), "A099");
        assert_eq!(Series::<25_000>::new(table, "A").name(24_999), "A24999");
    }

    #[test]
    fn every_entity_of_a_long_series_has_room_for_its_slots() {
        assert_eq!(part_row("r", 249), "r");
        assert_eq!(part_row("r", 250), "r~01");
        assert_eq!(part_row("r", 24_999), "r~99");
    }
}
