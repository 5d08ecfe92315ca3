//! Spreading: one partition in the key, many in the table, so that keys that only grow do not meet on one server.
//!
//! Keys that begin with a time all go to the end of one range (the prepend/append anti-pattern of the guide). A
//! `Spread<N>` puts each entity into one of `N` partitions by a hash of its row key (`Sales~00` … `Sales~0f`); a query
//! asks all of them at once and merges the answers in the order of the rows.
//!
//! Atomic: one entity; there is no transaction over buckets, and the type has no such call. Requests: a write or a point
//! read 1, a query `N` a page. Nothing is eventual, nothing needs repair. `N` is kept in the table: opening it with
//! another `N` is refused, because entities would no longer be found.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use futures_core::Stream;
use futures_util::{StreamExt, stream};
use tavola_model::KeyBytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::dynamic::DynamicEntity;
use crate::edm::EdmValue;
use crate::entities::{as_stored, pack, save_write, told};
use crate::entity::{Entity, Readable, Stored, Writable};
use crate::error::{Error, MapError, Result};
use crate::filter::Filter;
use crate::key::EntityKey;
use crate::scope::In;
use crate::source::Source;
use crate::table::TableClient;
use crate::write::{Change, Condition, Write};

/// Where the number of buckets is kept.
const SETTING: (&str, &str) = ("~spread", "buckets");
const BUCKETS: &str = "Buckets";
const OLD_BUCKETS: &str = "OldBuckets";

/// A table whose partitions are spread over `N` buckets each.
///
/// ```no_run
/// use tavola_client::patterns::spread::Spread;
/// use tavola_client::{DateTime, Entity, In, TableClient};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{hour}", row = "{at}_{id:06}")]
/// struct Event {
///     hour: String,
///     at: DateTime,
///     id: u32,
///     text: String,
/// }
///
/// # async fn example(table: TableClient, event: Event) -> tavola_client::Result<()> {
/// let events = Spread::<16>::open(table).await?;
/// events.insert(&event).await?;
/// let all = events.query::<Event>(In::partition("2026111518")).collect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Spread<const N: usize> {
    table: TableClient,
    /// The number of buckets before it grew, while entities may still be in their places.
    old: Option<usize>,
}

impl<const N: usize> Spread<N> {
    /// The same table, whose requests are counted.
    pub(super) fn counted(&self, requests: &Arc<AtomicU64>) -> Self {
        let table = self.table.account().counted(requests).table(self.table.name());
        Self { table, old: self.old }
    }

    const FITS: () = assert!(N >= 2 && N <= 256, "2 to 256 buckets");

    /// Opens a table: one request, and one more the first time. Refused if it was made with another number of buckets.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let events = tavola_client::patterns::spread::Spread::<16>::open(table).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(table: TableClient) -> Result<Self> {
        let () = Self::FITS;
        let setting = match table.get::<DynamicEntity>(SETTING, None).await? {
            Some(setting) => setting.value,
            None => {
                let setting = DynamicEntity::new(SETTING).with(BUCKETS, bucket_count(N));
                match table.insert(&setting, None).await {
                    Ok(_) => setting,
                    // Another process opened it at the same time.
                    Err(Error::Taken { .. }) => {
                        table.get::<DynamicEntity>(SETTING, None).await?.ok_or(Error::Changed)?.value
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        if count_of(&setting, BUCKETS) != Some(N) {
            return Err(Error::Limit(
                "the table is spread over another number of buckets: grow it, or open it with that",
            ));
        }
        Ok(Self { table, old: count_of(&setting, OLD_BUCKETS) })
    }

    /// Opens a table with more buckets than it had: two requests. Until [`Spread::settle_growth`], point reads and
    /// inserts look into the old bucket too (+1 request) where it differs; queries ask all buckets in any case.
    ///
    /// Other processes must open the table again before they write.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let events = tavola_client::patterns::spread::Spread::<32>::grow(table).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn grow(table: TableClient) -> Result<Self> {
        let () = Self::FITS;
        let setting = table
            .update::<DynamicEntity>(SETTING, |setting| match count_of(setting, BUCKETS) {
                Some(before) if before < N && setting.get(OLD_BUCKETS).is_none() => {
                    setting.put(OLD_BUCKETS, bucket_count(before));
                    setting.put(BUCKETS, bucket_count(N));
                    Ok(())
                }
                Some(before) if before == N => Ok(()),
                _ => Err(Error::Limit("a spread table can only grow, and only once at a time")),
            })
            .await?;
        Ok(Self { table, old: count_of(&setting, OLD_BUCKETS) })
    }

    /// Ends a growth: no entity is left in an old bucket, because [`move_grown`](Self::move_grown) moved them or because
    /// there were none. Two requests.
    ///
    /// ```no_run
    /// # async fn example(mut events: tavola_client::patterns::spread::Spread<32>) -> tavola_client::Result<()> {
    /// events.settle_growth().await
    /// # }
    /// ```
    pub async fn settle_growth(&mut self) -> Result<()> {
        self.table
            .update::<DynamicEntity>(SETTING, |setting| {
                setting.remove(OLD_BUCKETS);
                Ok(())
            })
            .await?;
        self.old = None;
        Ok(())
    }

    /// Inserts an entity: one request.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, patterns::spread::Spread};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// events.insert(&DynamicEntity::new(("2026111518", "0001")).with("Text", "started")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert<E: Writable + Clone>(&self, entity: &E) -> Result<Stored<E>> {
        let key = entity.key()?;
        if let Some(old) = self.old_bucket_key(&key)
            && self.table.get::<DynamicEntity>(old, None).await?.is_some()
        {
            return Err(Error::Taken { index: None });
        }
        self.write(entity, key, Change::Insert).await
    }

    /// Inserts an entity or replaces the one of its key: one request. Not while the table grows: the old one could be in
    /// another bucket.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, patterns::spread::Spread};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// events.upsert(&DynamicEntity::new(("2026111518", "0001")).with("Text", "started")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn upsert<E: Writable + Clone>(&self, entity: &E) -> Result<Stored<E>> {
        let key = entity.key()?;
        if self.old_bucket_key(&key).is_some() {
            return Err(Error::Limit(
                "an upsert could leave a second entity in an old bucket while the table grows",
            ));
        }
        self.write(entity, key, Change::InsertOrReplace).await
    }

    async fn write<E: Writable + Clone>(
        &self,
        entity: &E,
        key: EntityKey,
        change: fn(tavola_model::Properties) -> Change,
    ) -> Result<Stored<E>> {
        let properties = pack(entity)?;
        let write = Write::new(bucket_key(&key, N).checked()?, change(properties.clone()));
        let written = self.table.apply(write, None).await?;
        Ok(as_stored(entity.clone(), key, properties, &written))
    }

    /// Reads one entity by its own key: one request.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, patterns::spread::Spread};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let event = events.get::<DynamicEntity>(("2026111518", "0001")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get<R: Readable>(&self, key: impl Into<EntityKey>) -> Result<Option<Stored<R>>> {
        let key = key.into();
        let mut found = self.table.get::<Bucketed<R>>(bucket_key(&key, N), None).await?;
        if let (None, Some(old)) = (&found, self.old_bucket_key(&key)) {
            found = self.table.get::<Bucketed<R>>(old, None).await?;
        }
        Ok(found.map(unspread))
    }

    /// Saves an entity that was read here, as `TableClient::save` does: one request.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, Stored, patterns::spread::Spread};
    /// # async fn example(events: Spread<16>, mut event: Stored<DynamicEntity>) -> tavola_client::Result<()> {
    /// event.put("Seen", true);
    /// events.save(&mut event).await
    /// # }
    /// ```
    pub async fn save<E: Writable>(&self, stored: &mut Stored<E>) -> Result<()> {
        let save = stored.plan_save()?;
        let Some(mut write) = save_write(stored, &save)? else { return Ok(()) };
        let (new, old) = (bucket_key(stored.stored_key(), N), self.old_bucket_key(stored.stored_key()));
        write.key = new.checked()?;
        let written = match (self.table.apply(write.clone(), None).await, old) {
            (Err(Error::NotFound), Some(old)) => {
                write.key = old.checked()?;
                self.table.apply(write, None).await?
            }
            (written, _) => written?,
        };
        let (etag, timestamp) = told(&written);
        stored.saved(&save, etag, timestamp)
    }

    /// Deletes an entity that was read here, if nobody changed it since: one request.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, Stored, patterns::spread::Spread};
    /// # async fn example(events: Spread<16>, event: Stored<DynamicEntity>) -> tavola_client::Result<()> {
    /// events.delete(&event).await
    /// # }
    /// ```
    pub async fn delete<T>(&self, stored: &Stored<T>) -> Result<()> {
        let delete = |key: EntityKey| -> Result<Write> {
            Ok(Write::new(key.checked()?, Change::Delete(Condition::Etag(stored.etag.clone()))))
        };
        let (new, old) = (bucket_key(stored.stored_key(), N), self.old_bucket_key(stored.stored_key()));
        match (self.table.apply(delete(new)?, None).await, old) {
            (Err(Error::NotFound), Some(old)) => self.table.apply(delete(old)?, None).await.map(|_| ()),
            (deleted, _) => deleted.map(|_| ()),
        }
    }

    /// A query of one partition of the keys, in the order of the rows.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, In, patterns::spread::Spread};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let scope = In::partition("2026111518").rows_with_prefix("00");
    /// let found = events.query::<DynamicEntity>(scope).take(10).collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn query<R: Readable>(&self, scope: In) -> SpreadQuery<R> {
        let buckets = N.max(self.old.unwrap_or(0));
        SpreadQuery {
            table: self.table.clone(),
            scope,
            buckets,
            filter: None,
            take: None,
            target: PhantomData,
        }
    }

    pub(super) fn table(&self) -> &TableClient {
        &self.table
    }

    /// Where the entity was before the table grew, if that is another bucket.
    pub(super) fn old_bucket_key(&self, key: &EntityKey) -> Option<EntityKey> {
        let old = bucket_key(key, self.old?);
        (old != bucket_key(key, N)).then_some(old)
    }
}

/// A query over all buckets. It costs as many requests a page as there are buckets.
///
/// ```no_run
/// # use tavola_client::{DynamicEntity, In, filter, patterns::spread::{Spread, SpreadQuery}};
/// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
/// let query: SpreadQuery<DynamicEntity> = events.query(In::partition("2026111518"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SpreadQuery<R> {
    table: TableClient,
    scope: In,
    buckets: usize,
    filter: Option<Filter<R>>,
    take: Option<usize>,
    target: PhantomData<fn() -> R>,
}

impl<E: Entity> SpreadQuery<E> {
    /// Only entities that satisfy this.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, In, filter, patterns::spread::{Spread, SpreadQuery}};
    /// # use tavola_client::Entity;
    /// # #[derive(Clone, Entity)] #[entity(partition = "{h}", row = "{n:06}")] struct Event { h: String, n: u32, odd: bool }
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let odd = events.query::<Event>(In::partition("2026111518")).filter(|e| e.odd.eq(true)).collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn filter(self, filter: impl FnOnce(E::Properties) -> Filter<E>) -> Self {
        self.filter_by(filter(E::PROPERTIES))
    }
}

impl<R: Readable> SpreadQuery<R> {
    /// Only entities that satisfy this.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, In, filter, patterns::spread::{Spread, SpreadQuery}};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let odd = events.query::<DynamicEntity>(In::partition("2026111518")).filter_by(filter!("odd eq true"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn filter_by(mut self, filter: Filter<R>) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(before) => before & filter,
            None => filter,
        });
        self
    }

    /// So many in all.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, In, filter, patterns::spread::{Spread, SpreadQuery}};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let ten = events.query::<DynamicEntity>(In::partition("2026111518")).take(10).collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn take(mut self, count: usize) -> Self {
        self.take = Some(count);
        self
    }

    /// Entity by entity, in the order of the rows. At most one page of each bucket is held.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, In, filter, patterns::spread::{Spread, SpreadQuery}};
    /// # use futures_util::TryStreamExt;
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let mut events = std::pin::pin!(events.query::<DynamicEntity>(In::partition("2026111518")).stream());
    /// while let Some(event) = events.try_next().await? {
    ///     println!("{}", event.key.row);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> impl Stream<Item = Result<Stored<R>>> + Send {
        let Some(partition) = self.scope.only_partition().map(str::to_owned) else {
            let refused = Error::Limit("a query of a spread table is of one partition");
            return stream::once(async { Err(refused) }).left_stream();
        };
        let take = self.take.unwrap_or(usize::MAX);
        let rows = self.scope.row_bounds();
        let streams = (0..self.buckets).map(|bucket| {
            let scope = In::partition(bucket_partition(&partition, bucket)).rows(rows);
            let mut query = self.table.query::<Bucketed<R>>(scope).take(take);
            if let Some(filter) = &self.filter {
                query = query.filter_by(filter.clone().cast());
            }
            query.stream().map(|found| found.map(unspread)).boxed()
        });
        merged(streams.collect(), |stored: &Stored<R>| KeyBytes::from_text(&stored.stored_key().row))
            .take(take)
            .right_stream()
    }

    /// All of them.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, In, filter, patterns::spread::{Spread, SpreadQuery}};
    /// # async fn example(events: Spread<16>) -> tavola_client::Result<()> {
    /// let all = events.query::<DynamicEntity>(In::partition("2026111518")).collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn collect(self) -> Result<Vec<Stored<R>>> {
        futures_util::TryStreamExt::try_collect(self.stream()).await
    }
}

type Merging<'a, T> = Pin<Box<dyn Stream<Item = Result<T>> + Send + 'a>>;

/// Merges sorted streams into one. All of them are asked at once for their first items; then each when its last item
/// was taken. The first error ends the stream.
fn merged<'a, T: Send + 'a, K: Ord + Send + 'a>(
    streams: Vec<Merging<'a, T>>,
    key: impl Fn(&T) -> K + Send + 'a,
) -> impl Stream<Item = Result<T>> + Send + 'a {
    struct State<'a, T, K, F> {
        streams: Vec<Merging<'a, T>>,
        heads: Vec<Option<T>>,
        order: BinaryHeap<Reverse<(K, usize)>>,
        started: bool,
        key: F,
    }
    let heads = streams.iter().map(|_| None).collect();
    let state = State { streams, heads, order: BinaryHeap::new(), started: false, key };
    stream::try_unfold(state, |mut state| async move {
        if !state.started {
            state.started = true;
            let firsts =
                futures_util::future::join_all(state.streams.iter_mut().map(|stream| stream.next())).await;
            for (index, first) in firsts.into_iter().enumerate() {
                if let Some(first) = first.transpose()? {
                    state.order.push(Reverse(((state.key)(&first), index)));
                    state.heads[index] = Some(first);
                }
            }
        }
        let Some(Reverse((_, index))) = state.order.pop() else { return Ok(None) };
        let next = state.streams[index].next().await.transpose()?;
        if let Some(next) = &next {
            state.order.push(Reverse(((state.key)(next), index)));
        }
        let item = std::mem::replace(&mut state.heads[index], next);
        Ok(item.map(|item| (item, state)))
    })
}

/// An entity as it is in its bucket: read as if it were in its own partition.
struct Bucketed<R>(R);

impl<R: Readable> Readable for Bucketed<R> {
    fn read(source: &Source<'_>) -> Result<Self, MapError> {
        let partition = own_partition(source.partition());
        R::read(&source.with_partition(partition)).map(Bucketed)
    }
}

fn unspread<R>(stored: Stored<Bucketed<R>>) -> Stored<R> {
    let mut key = stored.stored_key().clone();
    key.partition = own_partition(&key.partition).to_owned();
    stored.map(|Bucketed(value)| value).with_key(key)
}

pub(super) fn own_partition(partition: &str) -> &str {
    partition.rsplit_once('~').map_or(partition, |(own, _)| own)
}

pub(super) fn bucket_key(key: &EntityKey, buckets: usize) -> EntityKey {
    let bucket = usize::try_from(xxh3_64(key.row.as_bytes()) % buckets as u64).expect("less than 256");
    EntityKey { partition: bucket_partition(&key.partition, bucket), row: key.row.clone() }
}

fn bucket_partition(partition: &str, bucket: usize) -> String {
    format!("{partition}~{bucket:02x}")
}

fn bucket_count(buckets: usize) -> i32 {
    i32::try_from(buckets).expect("at most 256")
}

fn count_of(setting: &DynamicEntity, name: &str) -> Option<usize> {
    setting.get(name).and_then(EdmValue::as_i64).and_then(|count| usize::try_from(count).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_streams_are_the_sorted_whole(lists in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..20), 0..9)) {
            let mut whole: Vec<u16> = lists.concat();
            whole.sort_unstable();
            let streams = lists.into_iter().map(|mut list| {
                list.sort_unstable();
                stream::iter(list.into_iter().map(Ok)).boxed()
            });
            let all: Vec<u16> = futures_util::FutureExt::now_or_never(
                futures_util::TryStreamExt::try_collect(merged(streams.collect(), |item| *item)),
            ).unwrap().unwrap();
            prop_assert_eq!(all, whole);
        }

        #[test]
        fn a_bucket_gives_its_partition_back(partition in "[a-z~]{0,8}", row in "\\PC{0,8}", buckets in 2usize..=256) {
            let key = EntityKey { partition, row };
            let bucketed = bucket_key(&key, buckets);
            prop_assert_eq!(own_partition(&bucketed.partition), key.partition.as_str());
            prop_assert_eq!(bucketed.row, key.row);
        }
    }

    #[test]
    fn the_bucket_of_a_row_is_the_same_in_every_version() {
        let bucket = |row| bucket_key(&EntityKey::from(("p", row)), 16).partition;
        assert_eq!([bucket(""), bucket("a"), bucket("empid_000123")], ["p~02", "p~0f", "p~09"]);
    }

    #[test]
    fn an_error_of_one_bucket_ends_the_whole() {
        let streams = vec![stream::iter([Ok(1), Err(Error::Changed)]).boxed(), stream::iter([Ok(2)]).boxed()];
        let all: Vec<Result<i32>> =
            futures_util::FutureExt::now_or_never(merged(streams, |item| *item).collect()).unwrap();
        assert!(matches!(all.as_slice(), [Err(Error::Changed)] | [Ok(1), Err(Error::Changed)]));
    }
}
