//! Large entities: properties that are too large for an entity are kept in blobs.
//!
//! A field of type [`Large`] up to 48 KiB stays in the entity; a larger one goes into a blob, and the entity holds its
//! name, its length and its SHA-256. A blob is written once under a name that is never used again, so whoever reads an
//! entity finds exactly the content that was written with it.
//!
//! **Atomic**: the entity; it never names a blob that is not there. **Eventual**: the removal of blobs that no entity
//! names, an hour later, by a [`Worker`](crate::eventual::Worker) that serves this table. **After a crash**: the same
//! worker removes what a dead writer left. **Requests** of a write: 3 and one for each blob; without a blob 1. Of a read:
//! 1, and 1 for each content that is asked for. **Refuses**: nothing but what the service refuses for a blob.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::account::now;
use crate::blob::ContainerClient;
use crate::edm::{Edm, EdmRef, Property, Unfit};
use crate::entity::{Entity, Stored};
use crate::error::{Error, Result};
use crate::eventual::{After, Intents, Settler};
use crate::key::EntityKey;
use crate::queue::Lease;
use crate::table::TableClient;
use crate::write::fresh_guid;

/// Contents up to this size stay in the entity.
const INLINE_BYTES_MAX: usize = 48 * 1024;
/// A blob that no entity names goes so long after its intent was put. A writer gives up far sooner, and a reader who
/// finds nothing reads the entity again.
const KEPT: Duration = Duration::from_secs(3600);
/// Times that a reader may find an entity changed under it.
const READS_MAX: u32 = 3;

/// Content of any size: in the entity while it is small, in a blob of its own when it is not.
///
/// ```
/// use tavola_client::patterns::large::Large;
/// let small = Large::new(vec![1, 2, 3]);
/// assert_eq!(small.len(), 3);
/// assert!(!small.is_in_blob());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large(Kept);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    /// Here: small, or not written yet.
    Here(Bytes),
    /// In a blob.
    Blob(BlobReference),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BlobReference {
    blob: String,
    bytes: u64,
    sha256: String,
}

impl Large {
    /// New content.
    ///
    /// ```
    /// assert_eq!(tavola_client::patterns::large::Large::new("text").len(), 4);
    /// ```
    pub fn new(content: impl Into<Bytes>) -> Self {
        Self(Kept::Here(content.into()))
    }

    /// How many bytes it has.
    ///
    /// ```
    /// assert_eq!(tavola_client::patterns::large::Large::new("").len(), 0);
    /// ```
    pub fn len(&self) -> u64 {
        match &self.0 {
            Kept::Here(content) => content.len() as u64,
            Kept::Blob(reference) => reference.bytes,
        }
    }

    /// There are none.
    ///
    /// ```
    /// assert!(tavola_client::patterns::large::Large::new("").is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is in a blob already.
    ///
    /// ```
    /// assert!(!tavola_client::patterns::large::Large::new("").is_in_blob());
    /// ```
    pub fn is_in_blob(&self) -> bool {
        matches!(self.0, Kept::Blob(_))
    }
}

/// Stored as Binary while it is in the entity, and as a JSON text when it is in a blob. Content that was not written by a
/// [`LargeTable`] is refused where it is larger than a property can be.
impl Property for Large {
    type Literal = Large;

    fn to_edm(&self) -> Option<Edm<'_>> {
        Some(match &self.0 {
            Kept::Here(content) => Edm::Borrowed(EdmRef::Binary(content)),
            Kept::Blob(reference) => Edm::Text(serde_json::to_string(reference).unwrap_or_default()),
        })
    }

    fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        match value {
            EdmRef::Binary(content) => Ok(Self(Kept::Here(Bytes::copy_from_slice(content)))),
            EdmRef::String(text) => match serde_json::from_str(text) {
                Ok(reference) => Ok(Self(Kept::Blob(reference))),
                Err(cause) => Err(Unfit::Value(cause.to_string())),
            },
            other => Err(Unfit::Type(other.edm_type())),
        }
    }
}

/// An entity type with fields of type [`Large`]. Made by `#[derive(Entity)]`.
///
/// ```
/// use tavola_client::Entity;
/// use tavola_client::patterns::large::{HasLarge, Large};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     photo: Option<Large>,
/// }
///
/// let mut don = Employee { department: "Sales".into(), id: 1, photo: Some(Large::new("jpeg")) };
/// assert_eq!(don.large().len(), 1);
/// ```
pub trait HasLarge: Entity + Clone {
    /// The fields that hold something, with their names on the wire.
    fn large(&mut self) -> Vec<(&'static str, &mut Large)>;
}

/// A table of entities with large fields, and the container of their contents. Cheap to clone.
///
/// ```no_run
/// use tavola_client::eventual::Intents;
/// use tavola_client::patterns::large::{Large, LargeTable};
/// use tavola_client::{Account, Entity};
///
/// #[derive(Clone, Entity)]
/// #[entity(partition = "{department}", row = "{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     photo: Option<Large>,
/// }
///
/// # async fn example(account: Account, jpeg: Vec<u8>) -> tavola_client::Result<()> {
/// let intents = Intents::new(account.queue("photo-intents"));
/// let photos = LargeTable::<Employee>::new(account.table("Employees"), account.container("photos"), intents);
/// photos.insert(Employee { department: "Sales".into(), id: 1, photo: Some(Large::new(jpeg)) }).await?;
/// if let Some(employee) = photos.get(("Sales", "000001")).await?
///     && let Some(photo) = &employee.photo
/// {
///     println!("{} bytes", photos.content(photo).await?.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LargeTable<E> {
    table: TableClient,
    container: ContainerClient,
    intents: Intents,
    kept: Duration,
    entity: std::marker::PhantomData<fn() -> E>,
}

/// What may have to be removed.
#[derive(Serialize, Deserialize)]
struct Intent {
    key: EntityKey,
    blobs: Vec<String>,
    /// Ticks at which they may be removed.
    at: u64,
}

impl<E> Clone for LargeTable<E> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            container: self.container.clone(),
            intents: self.intents.clone(),
            kept: self.kept,
            entity: std::marker::PhantomData,
        }
    }
}

impl<E: HasLarge> LargeTable<E> {
    /// A table, the container of its contents, and the queue by which contents are removed.
    ///
    /// ```
    /// # use tavola_client::{Account, Entity, eventual::Intents, patterns::large::{Large, LargeTable}};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{a}", row = "r")] struct One { a: String, b: Large }
    /// # fn main() -> tavola_client::Result<()> {
    /// let account = Account::development()?;
    /// let intents = Intents::new(account.queue("intents"));
    /// let large = LargeTable::<One>::new(account.table("Ones"), account.container("ones"), intents);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(table: TableClient, container: ContainerClient, intents: Intents) -> Self {
        Self { table, container, intents, kept: KEPT, entity: std::marker::PhantomData }
    }

    /// How long a content stays after the last entity that named it was changed; the default is an hour. If this is shorter
    /// than the longest request of any writer or reader, a reader can find its content gone.
    ///
    /// ```
    /// # use tavola_client::{Entity, patterns::large::{Large, LargeTable}};
    /// # #[derive(Clone, Entity)] #[entity(partition = "{a}", row = "r")] struct One { a: String, b: Large }
    /// # fn example(large: LargeTable<One>) {
    /// let large = large.with_retention(std::time::Duration::from_secs(7200));
    /// # }
    /// ```
    #[must_use]
    pub fn with_retention(mut self, retention: Duration) -> Self {
        self.kept = retention;
        self
    }

    /// Makes the table, the container and the queue; those that are there are no error.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::large::{HasLarge, LargeTable};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>) -> tavola_client::Result<()> {
    /// large.create().await
    /// # }
    /// ```
    pub async fn create(&self) -> Result<()> {
        self.table.create().await?;
        self.container.create().await?;
        self.intents.create().await
    }

    /// Inserts an entity, its large contents into blobs.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::large::{HasLarge, LargeTable};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>, entity: E) -> tavola_client::Result<()> {
    /// let stored = large.insert(entity).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn insert(&self, mut entity: E) -> Result<Stored<E>> {
        let key = entity.key()?;
        let lease = self.upload(&key, &mut entity, &[]).await?;
        let stored = self.table.insert(&entity, None).await?;
        self.leave(lease).await;
        Ok(stored)
    }

    /// Saves an entity that was read, new large contents into blobs; those it no longer names go later.
    ///
    /// ```no_run
    /// # use tavola_client::{Stored, patterns::large::{HasLarge, LargeTable}};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>, mut stored: Stored<E>) -> tavola_client::Result<()> {
    /// large.save(&mut stored).await
    /// # }
    /// ```
    pub async fn save(&self, stored: &mut Stored<E>) -> Result<()> {
        let key = stored.stored_key().clone();
        let before = blobs_of(&mut E::read(&stored.original())?);
        let mut changed = stored.value.clone();
        let lease = self.upload(&key, &mut changed, &before).await?;
        stored.value = changed;
        self.table.save(stored, None).await?;
        self.leave(lease).await;
        Ok(())
    }

    /// Deletes an entity that was read; its contents go later.
    ///
    /// ```no_run
    /// # use tavola_client::{Stored, patterns::large::{HasLarge, LargeTable}};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>, stored: Stored<E>) -> tavola_client::Result<()> {
    /// large.delete(&stored).await
    /// # }
    /// ```
    pub async fn delete(&self, stored: &Stored<E>) -> Result<()> {
        let before = blobs_of(&mut E::read(&stored.original())?);
        let lease = self.announce(stored.stored_key(), before).await?;
        self.table.delete(stored, None).await?;
        self.leave(lease).await;
        Ok(())
    }

    /// Reads an entity, without the contents that are in blobs: one request.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::large::{HasLarge, LargeTable};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>) -> tavola_client::Result<()> {
    /// let stored = large.get(("Sales", "000001")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: impl Into<EntityKey>) -> Result<Option<Stored<E>>> {
        self.table.get(key, None).await
    }

    /// A content of an entity that was read, checked by its SHA-256: one request, none if it is in the entity.
    /// `Changed` if it is gone, because the entity was changed long ago: read the entity again.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::large::{HasLarge, Large, LargeTable};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>, photo: &Large) -> tavola_client::Result<()> {
    /// let bytes = large.content(photo).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn content(&self, large: &Large) -> Result<Bytes> {
        let reference = match &large.0 {
            Kept::Here(content) => return Ok(content.clone()),
            Kept::Blob(reference) => reference,
        };
        let content = self.container.get(&reference.blob).await?.ok_or(Error::Changed)?;
        if sum(&content) != reference.sha256 || content.len() as u64 != reference.bytes {
            return Err(Error::Unreadable(format!("a blob has another content (blob={})", reference.blob)));
        }
        Ok(content)
    }

    /// Reads an entity with all its contents, and again if it is changed meanwhile: one request and one a blob.
    ///
    /// ```no_run
    /// # use tavola_client::patterns::large::{HasLarge, LargeTable};
    /// # async fn example<E: HasLarge>(large: LargeTable<E>) -> tavola_client::Result<()> {
    /// if let Some((employee, contents)) = large.get_whole(("Sales", "000001")).await? {
    ///     println!("{} contents", contents.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_whole(
        &self,
        key: impl Into<EntityKey>,
    ) -> Result<Option<(Stored<E>, Vec<(&'static str, Bytes)>)>> {
        let key = key.into();
        'again: for _ in 0..READS_MAX {
            let Some(stored) = self.get(&key).await? else { return Ok(None) };
            let mut contents = Vec::new();
            let mut copy = stored.value.clone();
            for (name, large) in copy.large() {
                match self.content(large).await {
                    Ok(content) => contents.push((name, content)),
                    Err(Error::Changed) => continue 'again,
                    Err(error) => return Err(error),
                }
            }
            return Ok(Some((stored, contents)));
        }
        Err(Error::Changed)
    }

    /// Announces what may have to be removed, and writes the blobs. Nothing where no blob is old or new.
    async fn upload(&self, key: &EntityKey, entity: &mut E, before: &[String]) -> Result<Option<Lease>> {
        let mut named: Vec<String> = before.to_vec();
        let mut contents: Vec<(String, Bytes)> = Vec::new();
        for (property, large) in entity.large() {
            if let Kept::Here(content) = &large.0
                && content.len() > INLINE_BYTES_MAX
            {
                let content = content.clone();
                let blob = self.blob_name(key, property);
                let reference =
                    BlobReference { blob: blob.clone(), bytes: content.len() as u64, sha256: sum(&content) };
                large.0 = Kept::Blob(reference);
                named.push(blob.clone());
                contents.push((blob, content));
            }
        }
        let lease = self.announce(key, named).await?;
        for (blob, content) in contents {
            self.container.put(&blob, content).await?;
        }
        if let Some(lease) = &lease {
            // A writer that was too slow must not name blobs that a worker may take.
            lease.still_mine()?;
        }
        Ok(lease)
    }

    async fn announce(&self, key: &EntityKey, blobs: Vec<String>) -> Result<Option<Lease>> {
        if blobs.is_empty() {
            return Ok(None);
        }
        let ticks = u64::try_from(self.kept.as_nanos() / 100).unwrap_or(u64::MAX);
        let intent = Intent { key: key.clone(), blobs, at: now().ticks().saturating_add(ticks) };
        let body = serde_json::to_value(&intent).map_err(|error| Error::Step(error.to_string()))?;
        self.intents.put(&self.kind(), body, self.intents.lease()).await.map(Some)
    }

    /// Leaves the intent to a worker, for when the old contents may go. If this fails, it comes back sooner, and the
    /// worker hides it again.
    async fn leave(&self, lease: Option<Lease>) {
        if let Some(lease) = lease {
            let _ = lease.renew(self.kept.max(Duration::from_secs(1))).await;
        }
    }

    /// A name that was never used before.
    fn blob_name(&self, key: &EntityKey, property: &str) -> String {
        let hash = xxhash_rust::xxh3::xxh3_64(format!("{}\n{}", key.partition, key.row).as_bytes());
        format!("{}/{hash:016x}/{property}/{}", self.table.name().to_ascii_lowercase(), fresh_guid())
    }

    async fn remove(&self, intent: Intent) -> Result<After> {
        let now = now().ticks();
        if now < intent.at {
            let left = Duration::from_nanos((intent.at - now).saturating_mul(100));
            return Ok(After::Hide(left.max(Duration::from_secs(1))));
        }
        let named = match self.get(&intent.key).await? {
            Some(stored) => blobs_of(&mut stored.value.clone()),
            None => Vec::new(),
        };
        for blob in intent.blobs.iter().filter(|blob| !named.contains(blob)) {
            self.container.delete_if_there(blob).await?;
        }
        Ok(After::Delete)
    }
}

impl<E: HasLarge> Settler for LargeTable<E> {
    fn kind(&self) -> String {
        format!("large:{}", self.table.name().to_ascii_lowercase())
    }

    fn settle<'a>(&'a self, body: &'a Value, _: &'a Lease) -> BoxFuture<'a, Result<After>> {
        Box::pin(async move {
            let intent = Intent::deserialize(body).map_err(|error| Error::Step(error.to_string()))?;
            self.remove(intent).await
        })
    }
}

fn blobs_of<E: HasLarge>(entity: &mut E) -> Vec<String> {
    let names = entity.large().into_iter().filter_map(|(_, large)| match &large.0 {
        Kept::Blob(reference) => Some(reference.blob.clone()),
        Kept::Here(_) => None,
    });
    names.collect()
}

fn sum(content: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(content))
}
