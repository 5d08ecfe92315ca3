//! Relationships: one-to-one links, and joins in the client.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::edm::{Edm, EdmRef, EdmValue, IntoLiteral, Property, Unfit};
use crate::entity::{Readable, Stored, Writable};
use crate::error::{KeyError, Result};
use crate::key::EntityKey;
use crate::scope::In;
use crate::table::TableClient;

/// A one-to-one link to an entity, kept as one text property: the explicit form. The implicit one needs no property:
/// two types whose templates have the same parts.
///
/// ```
/// use tavola_client::patterns::join::Link;
/// use tavola_client::Entity;
///
/// #[derive(Entity)]
/// #[entity(partition = "{department}", row = "{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
/// }
///
/// #[derive(Entity)]
/// #[entity(partition = "{name}", row = "Department")]
/// struct Department {
///     name: String,
///     manager: Option<Link<Employee>>,
/// }
///
/// let manager = Link::to(&Employee { department: "Sales".into(), id: 1 }).unwrap();
/// assert_eq!(manager.key.row, "000001");
/// ```
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct Link<E> {
    /// The key of the other entity.
    pub key: EntityKey,
    #[serde(skip)]
    entity: PhantomData<fn() -> E>,
}

impl<E> Link<E> {
    /// A link to an entity.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, patterns::join::Link};
    /// assert_eq!(Link::to(&DynamicEntity::new(("p", "r"))).unwrap().key.row, "r");
    /// ```
    pub fn to(entity: &E) -> Result<Self, KeyError>
    where
        E: Writable,
    {
        Ok(Self { key: entity.key()?, entity: PhantomData })
    }

    /// Reads the other entity: one request. `None` if it is gone; a link does not keep it.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, TableClient, patterns::join::Link};
    /// # async fn example(table: TableClient, link: Link<DynamicEntity>) -> tavola_client::Result<()> {
    /// let manager = link.follow(&table).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn follow(&self, table: &TableClient) -> Result<Option<Stored<E>>>
    where
        E: Readable,
    {
        table.get(&self.key, None).await
    }

    fn to_text(&self) -> String {
        serde_json::to_string(&[&self.key.partition, &self.key.row]).unwrap_or_default()
    }
}

impl<E> Clone for Link<E> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), entity: PhantomData }
    }
}

impl<E> PartialEq for Link<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> fmt::Debug for Link<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.key).finish()
    }
}

/// Stored as `["partition","row"]`.
impl<E> Property for Link<E> {
    type Literal = Link<E>;

    fn to_edm(&self) -> Option<Edm<'_>> {
        Some(Edm::Text(self.to_text()))
    }

    fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        let text = String::from_edm(value)?;
        match serde_json::from_str::<[String; 2]>(&text) {
            Ok([partition, row]) => Ok(Self { key: EntityKey { partition, row }, entity: PhantomData }),
            Err(cause) => Err(Unfit::Value(cause.to_string())),
        }
    }
}

impl<E> IntoLiteral<Link<E>> for Link<E> {
    fn into_literal(self) -> EdmValue {
        EdmValue::String(self.to_text())
    }
}

/// A small table, or a part of one, held in memory to be joined with: read whole, and again when it is old.
///
/// `load` reads one page of a thousand entities a request; `get` sends nothing until the copy is older than `age_max`.
/// What others change meanwhile is not seen: a join is as old as its copy.
///
/// ```no_run
/// use std::time::Duration;
/// use tavola_client::patterns::join::LookupTable;
/// use tavola_client::{Entity, In, TableClient};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{name}", row = "Department")]
/// struct Department {
///     name: String,
///     employee_count: i32,
/// }
///
/// # async fn example(departments: TableClient) -> tavola_client::Result<()> {
/// let by_name = LookupTable::load(departments, In::whole_table(), |d: &Department| d.name.clone(), Duration::from_secs(600)).await?;
/// if let Some(department) = by_name.get("Sales").await? {
///     println!("{}", department.employee_count);
/// }
/// # Ok(())
/// # }
/// ```
pub struct LookupTable<K, R> {
    table: TableClient,
    scope: In,
    key: fn(&R) -> K,
    age_max: Duration,
    copy: RwLock<Copy<K, R>>,
    /// Held by the one that loads, so that others do not load as well.
    loading: tokio::sync::Mutex<()>,
}

struct Copy<K, R> {
    rows: Arc<HashMap<K, R>>,
    at: Instant,
}

impl<K: Hash + Eq, R: Readable + Sync> LookupTable<K, R> {
    /// Reads all entities of the scope.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, patterns::join::LookupTable};
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let scope = tavola_client::In::partition("Departments");
    /// let key = |department: &DynamicEntity| department.key.row.clone();
    /// let lookup = LookupTable::load(table, scope, key, std::time::Duration::from_secs(600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load(table: TableClient, scope: In, key: fn(&R) -> K, age_max: Duration) -> Result<Self> {
        let copy = RwLock::new(Copy { rows: Arc::new(HashMap::new()), at: Instant::now() });
        let lookup = Self { table, scope, key, age_max, copy, loading: tokio::sync::Mutex::new(()) };
        lookup.reload().await?;
        Ok(lookup)
    }

    /// All entities, read again if the copy is old.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, patterns::join::LookupTable};
    /// # async fn example(lookup: LookupTable<String, DynamicEntity>) -> tavola_client::Result<()> {
    /// println!("{}", lookup.rows().await?.len());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rows(&self) -> Result<Arc<HashMap<K, R>>> {
        if let Some(rows) = self.fresh() {
            return Ok(rows);
        }
        let _loading = self.loading.lock().await;
        match self.fresh() {
            Some(rows) => Ok(rows),
            None => self.reload().await,
        }
    }

    /// The entity of this key.
    ///
    /// ```no_run
    /// # use tavola_client::{DynamicEntity, patterns::join::LookupTable};
    /// # async fn example(lookup: LookupTable<String, DynamicEntity>) -> tavola_client::Result<()> {
    /// let sales = lookup.get("Sales").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get<Q>(&self, key: &Q) -> Result<Option<R>>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        R: Clone,
    {
        Ok(self.rows().await?.get(key).cloned())
    }

    fn fresh(&self) -> Option<Arc<HashMap<K, R>>> {
        let copy = self.copy.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        (copy.at.elapsed() <= self.age_max).then(|| copy.rows.clone())
    }

    async fn reload(&self) -> Result<Arc<HashMap<K, R>>> {
        let found = self.table.query::<R>(self.scope.clone()).collect().await?;
        let rows: HashMap<K, R> =
            found.into_iter().map(|stored| ((self.key)(&stored.value), stored.value)).collect();
        let rows = Arc::new(rows);
        let copy = Copy { rows: rows.clone(), at: Instant::now() };
        *self.copy.write().unwrap_or_else(std::sync::PoisonError::into_inner) = copy;
        Ok(rows)
    }
}
