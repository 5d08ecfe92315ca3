//! Transactions: writes to one partition of one table, all or nothing, in one request.
//!
//! What the service would refuse for its form is refused as it is added: another partition, an entity twice, more than a
//! hundred, more than 4 MiB. Nothing here ever splits: whoever has more uses `bulk`, and gives up atomicity knowingly.

use std::collections::HashSet;

use tavola_model::{TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};

use crate::entities::{pack, save_write};
use crate::entity::{Changes, Entity, Save, Stored, Writable};
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::options::{Resolve, WriteOptions};
use crate::table::TableClient;
use crate::values::Values;
use crate::write::{Change, Condition, Write};

/// Bytes that the head of one operation takes, about, beside its keys and properties.
const OPERATION_BYTES: usize = 400;

/// Operations on one partition.
///
/// ```no_run
/// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
/// use tavola_client::{DynamicEntity, Error};
/// let employee = DynamicEntity::new(("Sales", "empid_000212")).with("Age", 34);
/// if let Some(mut department) = table.get::<DynamicEntity>(("Sales", "Department"), None).await? {
///     department.put("EmployeeCount", 154);
///     match table.transaction("Sales").insert(&employee)?.save(&department)?.commit().await {
///         Err(Error::Transaction { index: 0, .. }) => println!("there is such an employee; nothing was written"),
///         done => println!("{:?}", done?.etags),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction does nothing until it is committed"]
#[derive(Clone, Debug)]
pub struct Transaction {
    table: TableClient,
    partition: String,
    operations: Vec<Operation>,
    rows: HashSet<String>,
    bytes: usize,
    options: WriteOptions,
}

#[derive(Clone, Debug)]
struct Operation {
    write: Write,
    /// A delete that is left out when there is nothing to delete.
    if_there: bool,
}

/// What a transaction did.
///
/// ```no_run
/// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
/// let entity = tavola_client::DynamicEntity::new(("Sales", "empid_000001")).with("Age", 34);
/// let committed = table.transaction("Sales").insert(&entity)?.commit().await?;
/// println!("{:?}", committed.etags[0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The new tag of each entity, in the order of the operations; `None` for deletes.
    pub etags: Vec<Option<String>>,
    /// Deletes that were left out because there was nothing to delete. Each cost one more request.
    pub absent: Vec<usize>,
}

impl TableClient {
    /// Begins a transaction. All or nothing; one partition, at most 100 operations, at most 4 MiB; one request.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, DynamicEntity};
    /// let table = Account::development()?.table("Employees");
    /// let other = DynamicEntity::new(("Marketing", "empid_000001"));
    /// assert!(table.transaction("Sales").insert(&other).is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&self, partition: impl Into<String>) -> Transaction {
        Transaction {
            table: self.clone(),
            partition: partition.into(),
            operations: Vec::new(),
            rows: HashSet::new(),
            bytes: 0,
            options: WriteOptions::default(),
        }
    }
}

impl Transaction {
    /// With options for the whole transaction.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use std::time::Duration;
    /// use tavola_client::WriteOptions;
    /// let options = WriteOptions { deadline: Some(Duration::from_secs(5)), ..WriteOptions::default() };
    /// let transaction = table.transaction("Sales").with_options(options);
    /// # let _ = transaction;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds the insert of a new entity.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let entity = tavola_client::DynamicEntity::new(("Sales", "empid_000001")).with("Age", 34);
    /// table.transaction("Sales").insert(&entity)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert<E: Writable>(self, entity: &E) -> Result<Self> {
        let change = Change::Insert(pack(entity)?);
        self.stamped::<E>().add(&entity.key()?, change)
    }

    /// Adds the write of an entity whether or not there is one, replacing all of it.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let entity = tavola_client::DynamicEntity::new(("Sales", "empid_000001")).with("Age", 34);
    /// table.transaction("Sales").upsert(&entity)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn upsert<E: Writable>(self, entity: &E) -> Result<Self> {
        let change = Change::InsertOrReplace(pack(entity)?);
        self.stamped::<E>().add(&entity.key()?, change)
    }

    /// Adds the write of an entity whether or not there is one; properties that are not among these stay.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let entity = tavola_client::DynamicEntity::new(("Sales", "empid_000001")).with("Age", 34);
    /// table.transaction("Sales").upsert_merge(&entity)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn upsert_merge<E: Writable>(self, entity: &E) -> Result<Self> {
        let change = Change::InsertOrMerge(pack(entity)?);
        self.stamped::<E>().add(&entity.key()?, change)
    }

    /// Adds the save of a changed entity, on the condition that nobody changed it since. Where nothing differs, the
    /// condition is still part of the transaction.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient, mut stored: tavola_client::Stored<tavola_client::DynamicEntity>) -> tavola_client::Result<()> {
    /// stored.put("Age", 35);
    /// table.transaction("Sales").save(&stored)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn save<E: Writable>(self, stored: &Stored<E>) -> Result<Self> {
        let save = match stored.plan_save()? {
            Save::Nothing => Save::Merge(Values::new()),
            save => save,
        };
        let write = save_write(stored, &save)?.ok_or(Error::NotFound)?;
        self.stamped::<E>().add(stored.stored_key(), write.change)
    }

    /// Adds a merge of these properties into an entity that is there, whatever its version.
    ///
    /// ```no_run
    /// # #[derive(Clone, tavola_client::Entity)]
    /// # #[entity(partition = "{department}", row = "{id:06}")]
    /// # struct Employee { department: String, id: u32, age: i32 }
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// use tavola_client::Changes;
    /// let changes = Changes::<Employee>::new().set(|e| e.age, 35);
    /// table.transaction("Sales").merge(("Sales", "000123"), &changes)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge<E: Entity>(self, key: impl Into<EntityKey>, changes: &Changes<E>) -> Result<Self> {
        let change = Change::Merge(changes.to_values().pack()?, Condition::Any);
        self.stamped::<E>().add(&key.into(), change)
    }

    /// Adds the delete of an entity, on the condition that nobody changed it since.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient, stored: tavola_client::Stored<tavola_client::DynamicEntity>) -> tavola_client::Result<()> {
    /// table.transaction("Sales").delete(&stored)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete<T>(self, stored: &Stored<T>) -> Result<Self> {
        self.add(stored.stored_key(), Change::Delete(Condition::Etag(stored.etag.clone())))
    }

    /// Adds the delete of an entity, whatever its version. If there is none, it is left out and the rest is sent again.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// table.transaction("Sales").delete_if_there(("Sales", "empid_000001"))?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_if_there(self, key: impl Into<EntityKey>) -> Result<Self> {
        let mut with = self.add(&key.into(), Change::Delete(Condition::Any))?;
        if let Some(last) = with.operations.last_mut() {
            last.if_there = true;
        }
        Ok(with)
    }

    /// How many operations there are.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let table = tavola_client::Account::development()?.table("Employees");
    /// assert_eq!(table.transaction("Sales").delete_if_there(("Sales", "a"))?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// There is none.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let table = tavola_client::Account::development()?.table("Employees");
    /// assert!(table.transaction("Sales").is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn stamped<E: Writable>(mut self) -> Self {
        if E::STAMPED && self.options.resolve == Resolve::ByContent {
            self.options.resolve = Resolve::ByStamp;
        }
        self
    }

    pub(crate) fn add(mut self, key: &EntityKey, change: Change) -> Result<Self> {
        let index = self.operations.len();
        let refuse = |rule| Err(Error::Transaction { index, cause: Box::new(Error::Limit(rule)) });
        if key.partition != self.partition {
            return refuse("a transaction is of one partition");
        }
        if index == TRANSACTION_OPERATIONS_MAX {
            return refuse("a transaction has at most 100 operations");
        }
        let bytes = change.properties().map_or(0, |properties| properties.as_bytes().len());
        self.bytes += bytes + 2 * (key.partition.len() + key.row.len()) + OPERATION_BYTES;
        // The text of properties is hardly ever shorter than their packed form; the exact size is checked in `commit`.
        if self.bytes > TRANSACTION_BYTES_MAX {
            return refuse("a transaction has at most 4 MiB");
        }
        if !self.rows.insert(key.row.clone()) {
            return refuse("a transaction has each entity at most once");
        }
        self.operations.push(Operation { write: Write::new(key.checked()?, change), if_there: false });
        Ok(self)
    }

    /// Sends it. The error names the operation that was refused ([`Error::Transaction`]); nothing was written then.
    ///
    /// ```no_run
    /// # async fn example(table: tavola_client::TableClient) -> tavola_client::Result<()> {
    /// let entity = tavola_client::DynamicEntity::new(("Sales", "empid_000001")).with("Age", 34);
    /// let committed = table.transaction("Sales").upsert(&entity)?.commit().await?;
    /// assert_eq!(committed.etags.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn commit(self) -> Result<Committed> {
        let mut left: Vec<(usize, Operation)> = self.operations.into_iter().enumerate().collect();
        let mut committed = Committed { etags: vec![None; left.len()], absent: Vec::new() };
        loop {
            if left.is_empty() {
                return Ok(committed);
            }
            let writes: Vec<Write> = left.iter().map(|(_, operation)| operation.write.clone()).collect();
            match self.table.apply_all(&writes, Some(&self.options)).await {
                Ok(written) => {
                    for ((index, _), written) in left.iter().zip(written) {
                        committed.etags[*index] = written.etag;
                    }
                    return Ok(committed);
                }
                Err(Error::Transaction { index, cause }) => {
                    let refused =
                        left.get(index).map(|(position, operation)| (*position, operation.if_there));
                    match (refused, &*cause) {
                        (Some((position, true)), Error::NotFound) => {
                            left.remove(index);
                            committed.absent.push(position);
                        }
                        (refused, _) => {
                            let index = refused.map_or(index, |(position, _)| position);
                            return Err(Error::Transaction { index, cause });
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
