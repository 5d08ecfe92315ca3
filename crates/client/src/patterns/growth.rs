//! Moving the entities of a spread table into the buckets that they have after a growth.
//!
//! An entity is copied first and deleted from its old bucket after that, if it was not changed in between. So it is in
//! one bucket or in both, never in neither, and a move that was killed is done by running it again.

use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt};

use super::spread::{Spread, bucket_key, own_partition};
use crate::bulk::{ProgressCallback, Watch};
use crate::dynamic::DynamicEntity;
use crate::entity::Stored;
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::scope::In;

/// Entities that are moved at once.
const CONCURRENCY: usize = 8;

impl<const N: usize> Spread<N> {
    /// Moves every entity that is in a bucket of the old number to its own, and gives how many it moved. Then
    /// [`settle_growth`](Self::settle_growth) ends the growth. Requests: a scan of the table, and two for each entity that
    /// moves. Can be run again after a crash. Until the old one is deleted a query gives an entity twice.
    ///
    /// Every writer must have opened the table after the growth began: it then finds an entity in either bucket.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::patterns::spread::Spread;
    /// let mut events = Spread::<32>::grow(table).await?;
    /// println!("{} moved", events.move_grown(None).await?);
    /// events.settle_growth().await
    /// # }
    /// ```
    pub async fn move_grown(&self, progress: Option<ProgressCallback>) -> Result<u64> {
        let mut watch = Watch::new(progress);
        let this = &self.counted(&watch.requests);
        let scan = this.table().scan_raw(In::whole_table(), 1);
        let moves = scan.map(|entity| async move { this.move_one(entity?).await });
        let mut moves = pin!(moves.buffer_unordered(CONCURRENCY));
        let mut moved = 0;
        while let Some(one) = moves.try_next().await? {
            moved += u64::from(one);
            watch.tell();
        }
        Ok(moved)
    }

    async fn move_one(&self, mut entity: Stored<DynamicEntity>) -> Result<bool> {
        let here = entity.stored_key().clone();
        let own = EntityKey { partition: own_partition(&here.partition).to_owned(), row: here.row.clone() };
        let there = bucket_key(&own, N);
        // What is in no bucket is the setting, or a stranger.
        if self.old_bucket_key(&own).as_ref() != Some(&here) {
            return Ok(false);
        }
        let mut copied: Option<Stored<DynamicEntity>> = None;
        loop {
            let copy = DynamicEntity { key: there.clone(), properties: entity.properties.clone() };
            copied = match copied {
                // What another wrote over our copy is newer than what is here.
                Some(mut earlier) => {
                    earlier.value = copy;
                    self.table().replace(&mut earlier, None).await?;
                    Some(earlier)
                }
                None => match self.table().insert(&copy, None).await {
                    Ok(written) => Some(written),
                    // A move that was killed has copied it, and writers have used the copy since.
                    Err(Error::Taken { .. }) => None,
                    Err(error) => return Err(error),
                },
            };
            match self.table().delete(&entity, None).await {
                Ok(()) | Err(Error::NotFound) => return Ok(true),
                Err(Error::Changed) => match self.table().get::<DynamicEntity>(&here, None).await? {
                    Some(changed) => entity = changed,
                    None => return Ok(true),
                },
                Err(error) => return Err(error),
            }
        }
    }
}
