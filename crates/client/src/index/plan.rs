//! What a write of an indexed entity does, before anything is sent: pure, so that it can be tested and shown.

use std::collections::BTreeSet;

use crate::error::KeyError;
use crate::eventual::Target;
use crate::index::{Indexed, Location};
use crate::key::EntityKey;

/// The keys that a write touches.
///
/// ```
/// assert!(tavola_client::index::Plan::default().is_atomic());
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Copies that are written in the one transaction with the entity: index and key.
    pub copies: Vec<(usize, EntityKey)>,
    /// Those of them that must be new, because their index is unique and their key changed.
    pub inserted: Vec<usize>,
    /// Copies that are removed in it.
    pub removed: Vec<EntityKey>,
    /// Copies elsewhere that an intent must name before the first write: index and key, to write or to remove.
    pub elsewhere: BTreeSet<(String, EntityKey)>,
    /// Values that are reserved or given back elsewhere: index, old key, new key.
    pub moved: Vec<(usize, Option<EntityKey>, Option<EntityKey>)>,
}

/// Plans a write from what an entity was to what it will be.
///
/// ```
/// use tavola_client::Entity;
/// use tavola_client::index::plan;
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "{id:06}")]
/// #[entity(index(by_email, unique, row = "email_{email}"))]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
/// }
///
/// let don = Employee { department: "Sales".into(), id: 1, email: "d@c.com".into() };
/// let plan = plan(None, Some(&don)).unwrap();
/// assert_eq!(plan.copies[0].1.row, "email_d@c.com");
/// assert_eq!(plan.inserted, [0]);
/// ```
pub fn plan<E: Indexed>(before: Option<&E>, after: Option<&E>) -> Result<Plan, KeyError> {
    let mut plan = Plan::default();
    for (index, definition) in E::INDEXES.iter().enumerate() {
        let old = before.map(definition.key).transpose()?.flatten();
        let new = after.map(definition.key).transpose()?.flatten();
        match definition.location {
            Location::SamePartition => {
                if old != new {
                    if definition.unique && new.is_some() {
                        plan.inserted.push(index);
                    }
                    plan.removed.extend(old);
                }
                plan.copies.extend(new.map(|key| (index, key)));
            }
            Location::Partition | Location::Table(_) if definition.unique => {
                if old != new {
                    plan.moved.push((index, old, new));
                }
            }
            Location::Partition | Location::Table(_) => {
                let named = old.into_iter().chain(new).map(|key| (definition.name.to_owned(), key));
                plan.elsewhere.extend(named);
            }
        }
    }
    Ok(plan)
}

impl Plan {
    /// Nothing is written outside the entity's partition.
    ///
    /// ```
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # #[entity(index(by_email, unique, row = "email_{email}"))]
    /// # struct Employee { department: String, id: u32, email: String }
    /// use tavola_client::index::plan;
    /// let don = Employee { department: "Sales".into(), id: 1, email: "d@c.com".into() };
    /// assert!(plan(None, Some(&don)).unwrap().is_atomic());
    /// ```
    pub fn is_atomic(&self) -> bool {
        self.elsewhere.is_empty() && self.moved.is_empty()
    }

    pub(crate) fn targets(&self) -> BTreeSet<Target> {
        self.elsewhere.iter().map(|(of, key)| Target { of: of.clone(), key: key.clone() }).collect()
    }
}
