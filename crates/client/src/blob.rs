//! Blobs, as much as the patterns need: whole block blobs, append blobs, and lists of names. Those by stream are in
//! `blob_stream`.
//!
//! A blob here is written once under a name of its own, so a repeated request does no harm. An append says at which
//! length of the blob it is meant, so a block whose answer was lost is never there twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tavola_model::{
    AppendConditions, BlobConditions, BlobName, BlobPath, BlobTarget, ByteRange, ContainerName,
    DeleteSnapshots, EtagMatch, ListInclude, Metadata, NewBlob, NewKind, PublicAccess, StorageService,
    TransferSums, VersionConditions,
};
use tavola_protocol::blob::{self, BlobQuery, FoundEntry, ListedBlobProperties};
use tavola_protocol::{Answer, AnswerError, Refusal, Request};

use crate::account::Account;
use crate::error::{Error, Result};
use crate::send::{Call, Told, Tried};
use crate::table::{Creation, has_code};

/// One container of one account. Cheap to clone.
///
/// ```no_run
/// # async fn example(account: tavola_client::Account) -> tavola_client::Result<()> {
/// let photos = account.container("photos");
/// photos.create().await?;
/// photos.put("000123/2026.jpg", vec![1, 2, 3]).await?;
/// assert_eq!(photos.get("000123/2026.jpg").await?.as_deref(), Some(&[1, 2, 3][..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ContainerClient {
    account: Account,
    name: Arc<str>,
    checked: Option<Arc<ContainerName>>,
}

impl Account {
    /// A container. Nothing is sent; a name that the service does not accept is refused by the first call.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// assert_eq!(tavola_client::Account::development()?.container("photos").name(), "photos");
    /// # Ok(())
    /// # }
    /// ```
    pub fn container(&self, name: &str) -> ContainerClient {
        let checked = ContainerName::parse(name).ok().map(Arc::new);
        ContainerClient { account: self.clone(), name: name.into(), checked }
    }
}

impl ContainerClient {
    /// The name it was made with.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// assert_eq!(tavola_client::Account::development()?.container("logs").name(), "logs");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the container. One request; a container that is there is no error.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// container.create().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(&self) -> Result<Creation> {
        let request = blob::create_container(self.checked_name()?, &Metadata::default(), PublicAccess::None)?;
        let tried = self.call("CreateContainer", &request, blob::container_created).await;
        created(tried, "ContainerAlreadyExists")
    }

    /// Writes a block blob, whatever was there. One request.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// container.put("a/b.txt", "text").await
    /// # }
    /// ```
    pub async fn put(&self, name: &str, content: impl Into<Bytes>) -> Result<()> {
        let (path, new) = (self.path(name)?, NewBlob::default());
        let conditions = BlobConditions::default();
        let request = blob::put_blob(
            &path,
            NewKind::Block,
            &new,
            &TransferSums::default(),
            &conditions,
            content.into(),
        )?;
        let request = with_length(request);
        self.call("PutBlob", &request, blob::blob_put).await.idempotent().map(|_| ())
    }

    /// Reads a whole blob. One request; `None` if it is not there.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// let content = container.get("a/b.txt").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.get_range(name, None).await
    }

    /// A whole blob with its tag.
    pub(crate) async fn get_tagged(&self, name: &str) -> Result<Option<(Bytes, String)>> {
        let target = BlobTarget::from(self.path(name)?);
        let request = blob::get_blob(&target, None, None, &BlobConditions::default())?;
        let tried = self.call("GetBlob", &request, |answer| {
            let fetched = blob::blob_fetched(answer)?;
            Ok((Bytes::copy_from_slice(answer.body), fetched.stamp.etag))
        });
        match tried.await.read() {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a block blob over the version with this tag, or where there is none. `Changed` if there is another; after a
    /// lost answer that can be our own.
    pub(crate) async fn put_tagged(
        &self,
        name: &str,
        content: impl Into<Bytes>,
        etag: Option<&str>,
        deadline: Option<Duration>,
    ) -> Result<()> {
        let (path, new, conditions) = (self.path(name)?, NewBlob::default(), BlobConditions::default());
        let sums = TransferSums::default();
        let request = blob::put_blob(&path, NewKind::Block, &new, &sums, &conditions, content.into())?;
        let request = conditional(with_length(request), etag)?;
        changed(self.call_within("PutBlob", &request, deadline, blob::blob_put).await.idempotent())
    }

    /// Deletes the version with this tag. `Changed` if there is another or none.
    pub(crate) async fn delete_tagged(
        &self,
        name: &str,
        etag: &str,
        deadline: Option<Duration>,
    ) -> Result<()> {
        let target = BlobTarget::from(self.path(name)?);
        let request = blob::delete_blob(&target, DeleteSnapshots::Include, &BlobConditions::default())?;
        let request = conditional(request, Some(etag))?;
        changed(self.call_within("DeleteBlob", &request, deadline, blob::blob_deleted).await.idempotent())
    }

    /// Sets the metadata of a blob, all of it. One request.
    pub(crate) async fn set_metadata(&self, name: &str, pairs: &[(&str, String)]) -> Result<()> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let metadata = Metadata::parse(pairs)?;
        let request = blob::set_blob_metadata(&self.path(name)?, &metadata, &BlobConditions::default())?;
        let request = with_length(request);
        self.call("SetBlobMetadata", &request, blob::metadata_set).await.idempotent().map(|_| ())
    }

    async fn get_range(&self, name: &str, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        let target = BlobTarget::from(self.path(name)?);
        let request = blob::get_blob(&target, range, None, &BlobConditions::default())?;
        let tried = self.call("GetBlob", &request, |answer| {
            blob::blob_fetched(answer)?;
            Ok(Bytes::copy_from_slice(answer.body))
        });
        match tried.await.read() {
            Ok(content) => Ok(Some(content)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a blob, if it is there. One request.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// let was_there = container.delete_if_there("a/b.txt").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn delete_if_there(&self, name: &str) -> Result<bool> {
        let target = BlobTarget::from(self.path(name)?);
        let request = blob::delete_blob(&target, DeleteSnapshots::Include, &BlobConditions::default())?;
        let tried = self.call("DeleteBlob", &request, blob::blob_deleted).await;
        let lost = tried.lost;
        match tried.idempotent() {
            Ok(()) => Ok(true),
            // After a lost answer, its absence is our own work.
            Err(error) if is_absence(&error) => Ok(lost),
            Err(error) => Err(error),
        }
    }

    /// The names of all blobs that begin so, by name. One request for five thousand.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// for name in container.list("logs/2026/11/15/").await? {
    ///     println!("{name}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let listed = self.list_with(prefix, ListInclude::default()).await?;
        Ok(listed.into_iter().map(|blob| blob.name).collect())
    }

    /// All blobs that begin so, with what else is asked for.
    pub(crate) async fn list_with(
        &self,
        prefix: &str,
        include: ListInclude,
    ) -> Result<Vec<ListedBlobProperties>> {
        let (mut blobs, mut marker) = (Vec::new(), None::<String>);
        loop {
            let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
            let query = BlobQuery { prefix, marker: marker.as_deref(), include, ..BlobQuery::default() };
            let request = blob::list_blobs(self.checked_name()?, &query);
            let page = self.call("ListBlobs", &request, blob::blobs_listed).await.read()?;
            blobs.extend(page.entries.into_iter().filter_map(|entry| match entry {
                FoundEntry::Blob(blob) => Some(*blob),
                _ => None,
            }));
            match page.next_marker.filter(|marker| !marker.is_empty()) {
                Some(next) => marker = Some(next),
                None => return Ok(blobs),
            }
        }
    }

    /// Makes an empty append blob. One request; one that is there is left as it is.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// container.create_append("logs/a.log").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_append(&self, name: &str) -> Result<Creation> {
        let (path, new) = (self.path(name)?, NewBlob::default());
        let version =
            VersionConditions { if_none_match: Some(EtagMatch::Any), ..VersionConditions::default() };
        let conditions = BlobConditions { version, ..BlobConditions::default() };
        let sums = TransferSums::default();
        let request = blob::put_blob(&path, NewKind::Append, &new, &sums, &conditions, Bytes::new())?;
        created(self.call("PutBlob", &with_length(request), blob::blob_put).await, "BlobAlreadyExists")
    }

    /// Appends a block at a known length of the blob; gives the length after it. One request, and one more only after a
    /// lost answer. `Changed` if the blob has another length: another writer appends to it.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// let length = container.append("logs/a.log", 0, "first\n").await?;
    /// container.append("logs/a.log", length, "second\n").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append(&self, name: &str, position: u64, content: impl Into<Bytes>) -> Result<u64> {
        let content = content.into();
        let length = position + content.len() as u64;
        let append = AppendConditions { position: Some(position), length_max: None };
        let (sums, conditions) = (TransferSums::default(), BlobConditions::default());
        let request = blob::append_block(&self.path(name)?, &append, &sums, &conditions, content.clone())?;
        let tried = self.call("AppendBlock", &request, blob::block_appended).await;
        let lost = tried.lost;
        match tried.idempotent() {
            Ok(_) => Ok(length),
            Err(Error::Service(refusal)) if has_code(&refusal, "AppendPositionConditionNotMet") => {
                // The block of a lost answer is there if what stands at its position is what was sent.
                if lost && self.holds(name, position, &content).await? {
                    Ok(length)
                } else {
                    Err(Error::Changed)
                }
            }
            // No try was answered: only a find is certain.
            Err(unknown @ Error::OutcomeUnknown { .. }) => match self.holds(name, position, &content).await {
                Ok(true) => Ok(length),
                _ => Err(unknown),
            },
            Err(error) => Err(error),
        }
    }

    async fn holds(&self, name: &str, position: u64, content: &Bytes) -> Result<bool> {
        if content.is_empty() {
            return Ok(true);
        }
        let range = ByteRange { first: position, last: Some(position + content.len() as u64 - 1) };
        Ok(self.get_range(name, Some(range)).await?.is_some_and(|found| found == *content))
    }

    fn checked_name(&self) -> Result<&ContainerName> {
        let refusal =
            || Error::Invalid(format!("the name of the container is not valid (name={})", self.name));
        self.checked.as_deref().ok_or_else(refusal)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn path(&self, name: &str) -> Result<BlobPath> {
        Ok(BlobPath { container: self.checked_name()?.clone(), name: BlobName::parse(name)? })
    }

    pub(crate) async fn call<T>(
        &self,
        operation: &'static str,
        request: &Request,
        read: impl Fn(&Answer<'_>) -> Result<T, AnswerError>,
    ) -> Tried<T> {
        self.call_within(operation, request, None, read).await
    }

    async fn call_within<T>(
        &self,
        operation: &'static str,
        request: &Request,
        deadline: Option<Duration>,
        read: impl Fn(&Answer<'_>) -> Result<T, AnswerError>,
    ) -> Tried<T> {
        let call = Call { service: StorageService::Blob, operation, request, deadline };
        self.account.call(&call, read).await
    }
}

/// The service wants the length of a blob to be told, also when there is none.
fn with_length(mut request: Request) -> Request {
    if request.body.is_empty() {
        request.headers.insert(http::header::CONTENT_LENGTH, http::HeaderValue::from_static("0"));
    }
    request
}

/// Only over the version with this tag, or only where there is none.
pub(crate) fn conditional(mut request: Request, etag: Option<&str>) -> Result<Request> {
    let bad = |_| Error::Unreadable("the tag of a blob cannot be sent".to_owned());
    match etag {
        Some(etag) => {
            request.headers.insert(http::header::IF_MATCH, http::HeaderValue::try_from(etag).map_err(bad)?)
        }
        None => request.headers.insert(http::header::IF_NONE_MATCH, http::HeaderValue::from_static("*")),
    };
    Ok(request)
}

/// A condition that was not met, and what goes with it, is `Changed`.
fn changed<T>(told: Result<T>) -> Result<()> {
    match told {
        Ok(_) => Ok(()),
        Err(Error::Service(refusal))
            if ["ConditionNotMet", "BlobAlreadyExists", "BlobNotFound"]
                .iter()
                .any(|code| has_code(&refusal, code)) =>
        {
            Err(Error::Changed)
        }
        Err(error) => Err(error),
    }
}

/// What a creation did that does not mind what is there.
fn created<T>(tried: Tried<T>, there: &str) -> Result<Creation> {
    match tried.told {
        Told::Refused(refusal) if has_code(&refusal, there) => Ok(Creation::Existed),
        told => Tried { told, ..tried }.idempotent().map(|_| Creation::Created),
    }
}

pub(crate) fn is_absence(error: &Error) -> bool {
    error.refusal().is_some_and(|refusal: &Refusal| refusal.status == http::StatusCode::NOT_FOUND)
        && error.code() != Some("ContainerNotFound")
}
