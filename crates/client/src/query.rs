//! Queries: a value that is built, looked at and run, as often as wanted.
//!
//! Where it looks is a required argument, so that a table scan is never an accident. Rule: `take` is how many there are
//! in all, `page_size` how many one answer holds at most; neither stands for the other.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tavola_model::{PAGE_ITEMS_MAX, StorageService};
use tavola_protocol::table::{self, EntitiesQuery, EntityContinuation, FetchedEntity};

use crate::entities::{stored, stored_or_pending};
use crate::entity::{Entity, Readable, Stored};
use crate::error::{Error, Result};
use crate::filter::{Columns, Filter};
use crate::scope::{Cost, In};
use crate::send::Call;
use crate::source::Source;
use crate::table::TableClient;

/// Where to go on: plain data, good in another process and after a crash. Any other query refuses it.
///
/// ```
/// use tavola_client::Continuation;
/// let kept = r#"{"next_partition":"1!8!U2FsZXM-","next_row":null,"query":7}"#;
/// let token: Continuation = serde_json::from_str(kept).unwrap();
/// assert_eq!(serde_json::to_string(&token).unwrap(), kept);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    next_partition: String,
    next_row: Option<String>,
    /// Fingerprint of table, filter and projection.
    query: u64,
}

/// One answer of the service. It may be empty and yet not the last.
///
/// ```no_run
/// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
/// use tavola_client::{DynamicEntity, In};
/// let page = table.query::<DynamicEntity>(In::partition("Sales")).page(None).await?;
/// println!("{} and more: {}", page.items.len(), page.next.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Page<O> {
    /// What it holds.
    pub items: Vec<O>,
    /// Where the next one begins; `None` after the last.
    pub next: Option<Continuation>,
}

type Reader<O> = Arc<dyn Fn(&FetchedEntity<'_>) -> Result<Option<O>> + Send + Sync>;

/// A query over entities of type `R` that gives `O`s.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// use tavola_client::{Account, Cost, DynamicEntity, In};
/// let table = Account::development()?.table("Employees");
/// let query = table.query::<DynamicEntity>(In::partition("Sales").rows("empid_000100".."empid_000200")).take(50);
/// assert_eq!(query.cost(), Cost::RangeQuery);
/// assert!(query.filter_text().starts_with("PartitionKey eq 'Sales' and RowKey ge"));
/// # Ok(())
/// # }
/// ```
pub struct Query<R, O = Stored<R>> {
    table: TableClient,
    scope: In,
    filter: Option<Filter<R>>,
    select: Vec<String>,
    take: Option<usize>,
    page_size: Option<usize>,
    reader: Reader<O>,
    target: PhantomData<fn() -> R>,
}

impl<R, O> Clone for Query<R, O> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            scope: self.scope.clone(),
            filter: self.filter.clone(),
            select: self.select.clone(),
            take: self.take,
            page_size: self.page_size,
            reader: self.reader.clone(),
            target: PhantomData,
        }
    }
}

impl<R, O> std::fmt::Debug for Query<R, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query")
            .field("table", &self.table.name())
            .field("take", &self.take)
            .finish_non_exhaustive()
    }
}

impl TableClient {
    /// A query over entities, a set of types, or bags of properties. Nothing is sent yet.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use tavola_client::{DynamicEntity, In};
    /// let all: Vec<_> = table.query::<DynamicEntity>(In::partition("Sales")).stream().try_collect().await?;
    /// println!("{}", all.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn query<R: Readable>(&self, scope: In) -> Query<R> {
        Query {
            table: self.clone(),
            scope,
            filter: None,
            select: Vec::new(),
            take: None,
            page_size: None,
            reader: Arc::new(|fetched| stored(fetched, R::read)),
            target: PhantomData,
        }
    }
}

impl<R: Readable> Query<R> {
    /// Only these properties, by name: others read as if they were not there.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, DynamicEntity, In};
    /// let table = Account::development()?.table("Employees");
    /// let query = table.query::<DynamicEntity>(In::partition("Sales")).select_names(["PartitionKey", "RowKey"]);
    /// # let _ = query;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn select_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.select = names.into_iter().map(str::to_owned).collect();
        self
    }
}

impl<R: Readable> Query<R> {
    /// With entities that are not active yet.
    pub(crate) fn with_pending(mut self) -> Self {
        self.reader = Arc::new(|fetched| stored_or_pending(fetched, R::read).map(Some));
        self
    }
}

impl<E: Entity> Query<E> {
    /// Only these properties, as a typed tuple: less is sent, and what is not asked for cannot be mistaken for a default.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, Entity, In, Query};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{department}", row = "{id:06}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    ///     age: i32,
    ///     email: Option<String>,
    /// }
    ///
    /// let table = Account::development()?.table("Employees");
    /// let query: Query<Employee, (i32, Option<String>)> =
    ///     table.query::<Employee>(In::partition("Sales")).select(|e| (e.age, e.email));
    /// # let _ = query;
    /// # Ok(())
    /// # }
    /// ```
    pub fn select<C: Columns<E>>(self, columns: impl FnOnce(E::Properties) -> C) -> Query<E, C::Out> {
        let columns = columns(E::PROPERTIES);
        let mut names = Vec::new();
        columns.push_names(&mut names);
        Query {
            select: names.into_iter().map(str::to_owned).collect(),
            reader: Arc::new(move |fetched| Ok(Some(columns.read(&Source::fetched(fetched))?))),
            table: self.table,
            scope: self.scope,
            filter: self.filter,
            take: self.take,
            page_size: self.page_size,
            target: PhantomData,
        }
    }
}

impl<E: Entity, O: Send + 'static> Query<E, O> {
    /// Only those for which this holds, and what was filtered before. The compiler checks names and types.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, Entity, In};
    ///
    /// #[derive(Entity)]
    /// #[entity(partition = "{department}", row = "{id:06}")]
    /// struct Employee {
    ///     department: String,
    ///     id: u32,
    ///     age: i32,
    /// }
    ///
    /// let query = Account::development()?
    ///     .table("Employees")
    ///     .query::<Employee>(In::partition("Sales"))
    ///     .filter(|e| e.age.ge(30));
    /// assert_eq!(query.filter_text(), "PartitionKey eq 'Sales' and age ge 30");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn filter(self, filter: impl FnOnce(E::Properties) -> Filter<E>) -> Self {
        self.filter_by(filter(E::PROPERTIES))
    }
}

impl<R, O: Send + 'static> Query<R, O> {
    /// Only those for which this holds, and what was filtered before: for sets of types and bags of properties.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, DynamicEntity, Filter, In, Operator};
    /// let over_30 = Filter::compare("Age", Operator::Ge, &30.into());
    /// let query = Account::development()?.table("Employees").query::<DynamicEntity>(In::whole_table()).filter_by(over_30);
    /// assert_eq!(query.filter_text(), "Age ge 30");
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

    /// So many in all, whatever the pages.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::{DynamicEntity, In};
    /// let first = table.query::<DynamicEntity>(In::partition("Sales")).take(10).collect().await?;
    /// assert!(first.len() <= 10);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn take(mut self, count: usize) -> Self {
        self.take = Some(count);
        self
    }

    /// So many at most in one answer of the service; at most 1,000.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::{DynamicEntity, In};
    /// let all = table.query::<DynamicEntity>(In::partition("Sales")).page_size(100).collect().await?;
    /// # let _ = all;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn page_size(mut self, count: usize) -> Self {
        self.page_size = Some(count.clamp(1, PAGE_ITEMS_MAX));
        self
    }

    pub(crate) fn with_scope(mut self, scope: In) -> Self {
        self.scope = scope;
        self
    }

    /// What it costs the service, before it is sent.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, Cost, DynamicEntity, In};
    /// let table = Account::development()?.table("Employees");
    /// assert_eq!(table.query::<DynamicEntity>(In::whole_table()).cost(), Cost::TableScan);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cost(&self) -> Cost {
        self.scope.cost()
    }

    /// The `$filter` that is sent; empty for none.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, DynamicEntity, In};
    /// let query = Account::development()?.table("Employees").query::<DynamicEntity>(In::partition("Sales"));
    /// assert_eq!(query.filter_text(), "PartitionKey eq 'Sales'");
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter_text(&self) -> String {
        self.scope.with_filter(self.filter.as_ref()).map(|filter| filter.to_string()).unwrap_or_default()
    }

    fn fingerprint(&self, filter: &str) -> u64 {
        let name = self.table.name().to_ascii_lowercase();
        xxhash_rust::xxh3::xxh3_64([&name, "\n", filter, "\n", &self.select.join(",")].concat().as_bytes())
    }

    /// One page; `None` begins at the start. One request.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::{DynamicEntity, In};
    /// let query = table.query::<DynamicEntity>(In::whole_table()).page_size(100);
    /// let page = query.page(None).await?;
    /// let kept = serde_json::to_string(&page.next).expect("plain data");
    /// // …another day:
    /// let next: Option<tavola_client::Continuation> = serde_json::from_str(&kept).expect("our own text");
    /// if let Some(next) = next {
    ///     println!("{}", query.page(Some(&next)).await?.items.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<O>> {
        self.page_of(self.take.unwrap_or(usize::MAX), from).await
    }

    /// One page of at most so many.
    async fn page_of(&self, count: usize, from: Option<&Continuation>) -> Result<Page<O>> {
        let filter = self.filter_text();
        let fingerprint = self.fingerprint(&filter);
        if from.is_some_and(|token| token.query != fingerprint) {
            return Err(Error::ContinuationMismatch);
        }
        if count == 0 {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let top = self.page_size.unwrap_or(PAGE_ITEMS_MAX).min(count);
        let from = from.map(|token| EntityContinuation {
            next_partition: token.next_partition.clone(),
            next_row: token.next_row.clone(),
        });
        let select: Vec<&str> = self.select.iter().map(String::as_str).collect();
        let query = EntitiesQuery {
            filter: Some(filter.as_str()).filter(|filter| !filter.is_empty()),
            select: &select,
            top: (top < PAGE_ITEMS_MAX).then(|| u32::try_from(top).unwrap_or(u32::MAX)),
            from: from.as_ref(),
        };
        let request = table::query_entities(self.table.checked_name()?, &query);
        let call = Call {
            service: StorageService::Table,
            operation: "QueryEntities",
            request: &request,
            deadline: None,
        };
        let tried = self.table.account().call(&call, |answer| {
            let page = table::entities_queried(answer)?;
            let items: Result<Vec<O>> = page
                .entities
                .iter()
                .map(|entity| (self.reader)(entity))
                .filter_map(Result::transpose)
                .collect();
            Ok(items.map(|items| (items, page.next)))
        });
        let (items, next) = tried.await.read()??;
        let next = next.map(|next| Continuation {
            next_partition: next.next_partition,
            next_row: next.next_row,
            query: fingerprint,
        });
        Ok(Page { items, next })
    }

    /// Page by page, from a token or from the start, until the last.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use tavola_client::{DynamicEntity, In};
    /// let mut pages = std::pin::pin!(table.query::<DynamicEntity>(In::whole_table()).pages(None));
    /// while let Some(page) = pages.try_next().await? {
    ///     println!("{} {:?}", page.items.len(), page.next);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages(
        &self,
        from: Option<Continuation>,
    ) -> impl Stream<Item = Result<Page<O>>> + Send + use<R, O> {
        let left = self.take.unwrap_or(usize::MAX);
        let state = (self.clone(), Some(from), left);
        stream::unfold(state, |(query, from, left)| async move {
            let from = from?;
            match query.page_of(left, from.as_ref()).await {
                Ok(page) => {
                    let left = left.saturating_sub(page.items.len());
                    let next = page.next.clone().filter(|_| left > 0).map(Some);
                    Some((Ok(page), (query, next, left)))
                }
                Err(error) => Some((Err(error), (query, None, 0))),
            }
        })
    }

    /// One by one: follows continuations, skips empty pages, stops at `take`.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use futures_util::TryStreamExt;
    /// use tavola_client::{DynamicEntity, In};
    /// let mut first_ten = std::pin::pin!(table.query::<DynamicEntity>(In::partition("Sales")).take(10).stream());
    /// while let Some(entity) = first_ten.try_next().await? {
    ///     println!("{}", entity.key.row);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self) -> impl Stream<Item = Result<O>> + Send + use<R, O> {
        struct State<R, O> {
            query: Query<R, O>,
            ready: VecDeque<O>,
            next: Option<Option<Continuation>>,
            left: usize,
        }
        let state = State {
            query: self.clone(),
            ready: VecDeque::new(),
            next: Some(None),
            left: self.take.unwrap_or(usize::MAX),
        };
        stream::unfold(state, |mut state| async move {
            loop {
                if state.left == 0 {
                    return None;
                }
                if let Some(item) = state.ready.pop_front() {
                    state.left -= 1;
                    return Some((Ok(item), state));
                }
                let from = state.next.take()?;
                match state.query.page_of(state.left, from.as_ref()).await {
                    Ok(page) => {
                        state.ready = page.items.into();
                        state.next = page.next.map(Some);
                    }
                    Err(error) => {
                        state.left = 0;
                        return Some((Err(error), state));
                    }
                }
            }
        })
    }

    /// All of them.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::{DynamicEntity, In};
    /// println!("{}", table.query::<DynamicEntity>(In::partition("Sales")).collect().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn collect(&self) -> Result<Vec<O>> {
        futures_util::TryStreamExt::try_collect(self.stream()).await
    }
}
