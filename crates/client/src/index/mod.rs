//! Secondary indexes: declared on the type, kept by the call.
//!
//! Where the entries live decides what is promised. In the entity's own partition they are written in one transaction
//! with it: always consistent. Elsewhere they follow by the settle engine, after any crash. A unique index elsewhere
//! holds reservations instead of copies, so that a value is never taken twice.

mod plan;
mod table;
mod unique;
mod verify;

use std::marker::PhantomData;

pub use plan::{Plan, plan};
pub use table::IndexedTable;
pub use verify::{Report, VerifyMode};

use crate::entity::Entity;
use crate::error::KeyError;
use crate::key::EntityKey;

/// The property of a copy that names its index; an entity itself has none.
pub(crate) const INDEX: &str = "_Index";

/// Where the entries of an index live.
///
/// ```
/// # #[derive(Clone, tavola_client::Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # #[entity(index(by_email, unique, row = "email_{email}"))]
/// # struct Employee { department: String, id: u32, email: String }
/// use tavola_client::index::{Indexed, Location};
/// assert_eq!(Employee::INDEXES[0].location, Location::SamePartition);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// In the entity's partition: one transaction, always consistent.
    SamePartition,
    /// In another partition of the table: eventually consistent.
    Partition,
    /// In another table of the account: eventually consistent.
    Table(&'static str),
}

/// One index of a type. Made by `#[derive(Entity)]` from `index(...)`.
///
/// ```
/// # #[derive(Clone, tavola_client::Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # #[entity(index(by_email, unique, row = "email_{email}"))]
/// # struct Employee { department: String, id: u32, email: String }
/// use tavola_client::index::Indexed;
/// let definition = &Employee::INDEXES[0];
/// assert_eq!((definition.name, definition.unique), ("by_email", true));
/// ```
#[derive(Debug)]
pub struct Definition<E> {
    /// Its name.
    pub name: &'static str,
    /// Where its entries live.
    pub location: Location,
    /// Whether two entities may have the same value.
    pub unique: bool,
    /// The key of an entity's entry; `None` where the entity is not in the index.
    pub key: fn(&E) -> Result<Option<EntityKey>, KeyError>,
}

impl<E> Definition<E> {
    /// A value is reserved in another partition, rather than copied there.
    pub(crate) fn reserves(&self) -> bool {
        self.unique && self.location != Location::SamePartition
    }
}

/// A type with indexes. Made by `#[derive(Entity)]`.
///
/// ```
/// use tavola_client::Entity;
/// use tavola_client::index::{Indexed, Location};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "empid_{id:06}")]
/// #[entity(index(by_email, unique, row = "email_{email}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: Option<String>,
/// }
///
/// assert_eq!(Employee::INDEXES[0].location, Location::SamePartition);
/// assert_eq!(Employee::by_email("Sales", "d@c.com").unwrap().key.row, "email_d@c.com");
/// ```
pub trait Indexed: Entity + Clone {
    /// Its indexes.
    const INDEXES: &'static [Definition<Self>];
}

/// The location of one value in one index. Made by the function that the derive macro makes for each index.
///
/// ```
/// # #[derive(Clone, tavola_client::Entity)]
/// # #[entity(partition = "{department}", row = "{id:06}")]
/// # #[entity(index(by_email, unique, row = "email_{email}"))]
/// # struct Employee { department: String, id: u32, email: String }
/// let lookup = Employee::by_email("Sales", "d@c.com").unwrap();
/// assert_eq!(lookup.key.row, "email_d@c.com");
/// ```
pub struct Lookup<E> {
    /// The index, by its index in [`Indexed::INDEXES`].
    pub index: usize,
    /// Where the entry is.
    pub key: EntityKey,
    entity: PhantomData<fn() -> E>,
}

impl<E> Lookup<E> {
    /// For the derive macro.
    ///
    /// ```
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// use tavola_client::index::Lookup;
    /// let lookup = Lookup::<Employee>::new(0, ("Sales", "email_d@c.com").into());
    /// assert_eq!(lookup.index, 0);
    /// ```
    pub fn new(index: usize, key: EntityKey) -> Self {
        Self { index, key, entity: PhantomData }
    }
}
