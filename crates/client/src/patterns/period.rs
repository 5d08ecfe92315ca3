//! High-volume delete: a table for each period, dropped whole when it is old.
//!
//! Entities of a day go into the table of that day (`Logins20261115`). To delete two months ago is then one request a
//! day, instead of one a hundred entities.
//!
//! Atomic: the drop of one table. Dropping many is repeated after a crash, which does no harm: names are never used
//! again, so that the time for which a service holds a dropped name back does not matter. Requests: an insert 1; the
//! first of a period up to 3 more (the table is missing, is made, and the insert goes again); a query one a page of each
//! period, and one to list the tables.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::time::Duration;

use futures_core::Stream;
use futures_util::{StreamExt, TryStreamExt, stream};
use tavola_model::TableName;

use crate::account::{Account, now};
use crate::edm::DateTime;
use crate::entity::{Entity, Stored};
use crate::error::{Error, Result};
use crate::query::Query;
use crate::scope::In;
use crate::table::TableClient;

/// How long the span of one table is. There is nothing shorter than an hour: that would be more tables than deletes.
///
/// ```
/// use tavola_client::patterns::period::Period;
/// assert_ne!(Period::Day, Period::Month);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// `Logins2026111518`.
    Hour,
    /// `Logins20261115`.
    Day,
    /// `Logins202611`.
    Month,
}

/// An entity type that has a moment, by which its table is chosen.
///
/// ```
/// use tavola_client::patterns::period::Dated;
/// use tavola_client::{DateTime, Entity};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{user}", row = "{at:desc}_{id}")]
/// struct Login {
///     user: String,
///     at: DateTime,
///     id: String,
/// }
///
/// impl Dated for Login {
///     fn moment(&self) -> DateTime {
///         self.at
///     }
/// }
/// ```
pub trait Dated: Entity {
    /// The moment.
    fn moment(&self) -> DateTime;
}

/// The tables of one kind of entity, one a period.
///
/// ```no_run
/// use std::time::Duration;
/// use tavola_client::patterns::period::{Dated, Period, PeriodTables};
/// use tavola_client::{Account, DateTime, Entity, In};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{user}", row = "{at:desc}_{id}")]
/// struct Login {
///     user: String,
///     at: DateTime,
///     id: String,
/// }
///
/// impl Dated for Login {
///     fn moment(&self) -> DateTime {
///         self.at
///     }
/// }
///
/// # async fn example(account: Account, login: Login) -> tavola_client::Result<()> {
/// let logins = PeriodTables::<Login>::new(account, "Logins", Period::Day)?;
/// logins.insert(&login).await?;
/// let dropped = logins.drop_older_than(Duration::from_secs(60 * 86_400)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PeriodTables<E> {
    account: Account,
    prefix: String,
    period: Period,
    /// Tables that are known to be there.
    made: Mutex<HashSet<String>>,
    entity: PhantomData<fn() -> E>,
}

/// So many tables are asked at once.
const PERIODS_AT_ONCE: usize = 8;
/// The table of the next period is made so long before it begins.
const AHEAD: Duration = Duration::from_secs(3600);

impl<E: Dated + Clone> PeriodTables<E> {
    /// Tables whose names begin so. Refused if a name would be invalid or longer than 63 characters.
    ///
    /// ```
    /// # use tavola_client::patterns::period::{Dated, Period, PeriodTables};
    /// # use tavola_client::{Account, DateTime, Entity};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{user}", row = "{at}")] struct Login { user: String, at: DateTime }
    /// # impl Dated for Login { fn moment(&self) -> DateTime { self.at } }
    /// # fn main() -> tavola_client::Result<()> {
    /// let logins = PeriodTables::<Login>::new(Account::development()?, "Logins", Period::Day)?;
    /// assert_eq!(logins.name(DateTime::parse("2026-11-15T18:00:00Z").unwrap()), "Logins20261115");
    /// assert!(PeriodTables::<Login>::new(Account::development()?, "No good", Period::Day).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(account: Account, prefix: &str, period: Period) -> Result<Self> {
        let tables = Self {
            account,
            prefix: prefix.to_owned(),
            period,
            made: Mutex::new(HashSet::new()),
            entity: PhantomData,
        };
        match TableName::parse(&tables.name(DateTime::MAX)) {
            Ok(_) => Ok(tables),
            Err(_) => Err(Error::Limit(
                "the names of the tables would be invalid: letters and digits, at most 63 in all",
            )),
        }
    }

    /// The name of the table of a moment.
    ///
    /// ```
    /// # use tavola_client::{DateTime, Entity, patterns::period::{Dated, Period, PeriodTables}};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{a}", row = "{at:desc}_{id:04}")] struct Login { a: String, at: DateTime, id: u16 }
    /// # impl Dated for Login { fn moment(&self) -> DateTime { self.at } }
    /// # fn main() -> tavola_client::Result<()> {
    /// let account = tavola_client::Account::development()?;
    /// let logins = PeriodTables::<Login>::new(account, "Logins", Period::Day)?;
    /// assert_eq!(logins.name(DateTime::parse("2026-11-15T18:00:00Z").unwrap()), "Logins20261115");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self, moment: DateTime) -> String {
        format!("{}{}", self.prefix, self.period.text(moment))
    }

    /// Inserts an entity into the table of its moment, which is made if it is missing.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::period::{Dated, PeriodTables};
    /// # async fn example<E: Dated + Clone>(tables: PeriodTables<E>, entity: E) -> tavola_client::Result<()> {
    /// let stored = tables.insert(&entity).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(&self, entity: &E) -> Result<Stored<E>> {
        let moment = entity.moment();
        let table = self.account.table(&self.name(moment));
        let inserted = match table.insert(entity, None).await {
            Err(error) if is_missing(&error) => {
                self.make(&table).await?;
                table.insert(entity, None).await?
            }
            inserted => inserted?,
        };
        self.note(table.name());
        self.make_ahead(moment).await?;
        Ok(inserted)
    }

    /// Entities from `from` up to, but not including, `to`: period by period, in the order of the keys within each.
    ///
    /// ```no_run
    /// # use futures_util::TryStreamExt;
    /// # use tavola_client::{DateTime, In, patterns::period::{Dated, PeriodTables}};
    /// # async fn example<E: Dated + Clone>(tables: PeriodTables<E>, from: DateTime, to: DateTime) -> tavola_client::Result<()> {
    /// let entities: Vec<_> = tables.query(from, to, In::whole_table()).try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(
        &self,
        from: DateTime,
        to: DateTime,
        scope: In,
    ) -> impl Stream<Item = Result<Stored<E>>> + Send + use<E> {
        let (account, prefix, period) = (self.account.clone(), self.prefix.clone(), self.period);
        let tables = async move {
            let mut found = Vec::new();
            for name in account.tables(Some(&prefix)).await? {
                let span = name.strip_prefix(prefix.as_str()).and_then(|text| period.parse(text));
                if span.is_some_and(|(start, end)| start < to && end > from) {
                    found.push(account.table(&name).query::<E>(scope.clone()));
                }
            }
            Ok::<_, Error>(found)
        };
        stream::once(tables)
            .map_ok(|queries| {
                // The first pages of several periods are asked for at once; the rest of each follows in order.
                stream::iter(queries).map(first_page).buffered(PERIODS_AT_ONCE)
            })
            .try_flatten()
            .map_ok(|entities| entities.boxed())
            .try_flatten()
            .try_filter(move |stored| {
                let moment = stored.moment();
                std::future::ready(from <= moment && moment < to)
            })
    }

    /// Drops every table whose period was over so long ago: one request, and one a table. Gives their names.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::period::{Dated, PeriodTables};
    /// # async fn example<E: Dated + Clone>(tables: PeriodTables<E>) -> tavola_client::Result<()> {
    /// let dropped = tables.drop_older_than(std::time::Duration::from_secs(60 * 86_400)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drop_older_than(&self, age: Duration) -> Result<Vec<String>> {
        let ticks = u64::try_from(age.as_nanos() / 100).unwrap_or(u64::MAX);
        let before = DateTime::from_ticks(now().ticks().saturating_sub(ticks)).unwrap_or(DateTime::MIN);
        self.drop_before(before).await
    }

    /// Drops every table whose period ended at or before this moment: one request, and one a table. Gives their names.
    ///
    /// ```no_run
    /// # use tavola_client::{DateTime, patterns::period::{Dated, PeriodTables}};
    /// # async fn example<E: Dated + Clone>(tables: PeriodTables<E>) -> tavola_client::Result<()> {
    /// let dropped = tables.drop_before(DateTime::parse("2026-11-01").unwrap()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drop_before(&self, moment: DateTime) -> Result<Vec<String>> {
        let mut dropped = Vec::new();
        for name in self.account.tables(Some(&self.prefix)).await? {
            let span = name.strip_prefix(self.prefix.as_str()).and_then(|text| self.period.parse(text));
            if span.is_some_and(|(_, end)| end <= moment) {
                match self.account.table(&name).delete_table().await {
                    Ok(()) => dropped.push(name),
                    // Another process drops as well.
                    Err(error) if is_missing(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(dropped)
    }

    /// Makes the table of the next period, once, when it is near.
    async fn make_ahead(&self, moment: DateTime) -> Result<()> {
        let ahead = moment.plus_seconds(AHEAD.as_secs()).map(|later| self.name(later));
        let Some(next) = ahead.filter(|next| *next != self.name(moment)) else { return Ok(()) };
        let known = self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains(&next);
        // Only near the present: an entity of long ago must not bring back the table of another day.
        if known || moment.seconds_between(now()) > 2 * AHEAD.as_secs() {
            return Ok(());
        }
        self.make(&self.account.table(&next)).await
    }

    async fn make(&self, table: &TableClient) -> Result<()> {
        table.create().await?;
        self.note(table.name());
        Ok(())
    }

    fn note(&self, name: &str) {
        let mut made = self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !made.contains(name) {
            made.insert(name.to_owned());
        }
    }
}

/// The first page of a query is waited for, the rest comes as it is asked for. A table that was dropped meanwhile has
/// nothing.
async fn first_page<E: Entity>(query: Query<E>) -> Result<impl Stream<Item = Result<Stored<E>>> + Send> {
    let page = match query.page(None).await {
        Ok(page) => Some(page),
        Err(error) if is_missing(&error) => None,
        Err(error) => return Err(error),
    };
    let (items, next) = page.map_or((Vec::new(), None), |page| (page.items, page.next));
    let rest = match next {
        Some(next) => query.pages(Some(next)).left_stream(),
        None => stream::empty().right_stream(),
    };
    let rest = rest.map_ok(|page| stream::iter(page.items.into_iter().map(Ok))).try_flatten();
    Ok(stream::iter(items.into_iter().map(Ok)).chain(rest))
}

fn is_missing(error: &Error) -> bool {
    error.code() == Some("TableNotFound") || error.code() == Some("ResourceNotFound")
}

impl Period {
    fn text(self, moment: DateTime) -> String {
        let ((year, month, day), (hour, ..)) = (moment.date(), moment.time_of_day());
        match self {
            Self::Hour => format!("{year:04}{month:02}{day:02}{hour:02}"),
            Self::Day => format!("{year:04}{month:02}{day:02}"),
            Self::Month => format!("{year:04}{month:02}"),
        }
    }

    /// Start and end of the period that a name ends with.
    fn parse(self, text: &str) -> Option<(DateTime, DateTime)> {
        let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
        let width = match self {
            Self::Hour => 10,
            Self::Day => 8,
            Self::Month => 6,
        };
        if text.len() != width || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (year, month) = (number(0, 4)?, number(4, 6)?);
        let day = if self == Self::Month { 1 } else { number(6, 8)? };
        let hour = if self == Self::Hour { number(8, 10)? } else { 0 };
        let start = DateTime::from_parts((year, month, day), (hour, 0, 0), 0)?;
        let end = match self {
            Self::Hour => start.plus_seconds(3600),
            Self::Day => start.plus_seconds(86_400),
            Self::Month if month == 12 => DateTime::from_parts((year + 1, 1, 1), (0, 0, 0), 0),
            Self::Month => DateTime::from_parts((year, month + 1, 1), (0, 0, 0), 0),
        };
        Some((start, end.unwrap_or(DateTime::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_moment_is_in_the_period_of_its_name(ticks in 0..=DateTime::MAX.ticks()) {
            let moment = DateTime::from_ticks(ticks).unwrap();
            for period in [Period::Hour, Period::Day, Period::Month] {
                let (start, end) = period.parse(&period.text(moment)).unwrap();
                prop_assert!(start <= moment && (moment < end || end == DateTime::MAX));
            }
        }
    }

    #[test]
    fn names_of_other_tables_are_no_periods() {
        for text in ["", "2026111", "202611150", "20261301", "2026111x", "+0261115"] {
            assert_eq!(Period::Day.parse(text), None, "{text}");
        }
    }
}
