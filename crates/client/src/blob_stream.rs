//! Blobs by stream: contents of any size in pieces, so that neither side holds them whole.
//!
//! A write stages blocks under ids of its own and then names them all in one request: until then readers see what was
//! there before, and a writer that dies leaves blocks that the service removes after a week. An append adds one block after
//! the other, each at the length that it must find. A read asks for ranges of one version, the one that its first answer
//! told.

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use futures_util::TryStreamExt;
use futures_util::stream::{self, FuturesOrdered, StreamExt};
use tavola_model::{
    BlobConditions, BlobTarget, BlockId, BlockSource, ByteRange, NewBlob, StorageService, TransferSums,
};
use tavola_protocol::blob;

use crate::blob::{ContainerClient, conditional, is_absence};
use crate::error::{Error, Result};
use crate::send::Call;
use crate::write::fresh_guid;

/// Bytes of a block, and of a range that is asked for.
const PIECE_BYTES: usize = 4 * 1024 * 1024;
/// Blocks that are on their way at once.
const BLOCKS_AT_ONCE: usize = 4;
/// The service names so many blocks in one list.
const BLOCKS_MAX: usize = 50_000;

impl ContainerClient {
    /// Writes a block blob from a stream, whatever was there, and gives its length. One request for each 4 MiB, four at
    /// once, and one at the end, by which the whole content is there at once. An error of the stream ends it, and
    /// nothing is changed.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// use bytes::Bytes;
    /// use futures_util::stream;
    /// let pieces = stream::iter((0..100).map(|_| Ok(Bytes::from(vec![7; 1_000_000]))));
    /// assert_eq!(container.put_stream("large.bin", pieces).await?, 100_000_000);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_stream(
        &self,
        name: &str,
        content: impl Stream<Item = Result<Bytes>> + Send,
    ) -> Result<u64> {
        let mut blocks = std::pin::pin!(blocks(content));
        // Ids of one length, as the service asks for, and of this write alone.
        let attempt = fresh_guid();
        let (mut sending, mut ids, mut length) = (FuturesOrdered::new(), Vec::new(), 0);
        while let Some(block) = blocks.try_next().await? {
            length += block.len() as u64;
            let id = format!("{attempt}-{:05}", ids.len());
            let id = BlockId::from_bytes(id.as_bytes()).ok_or(Error::Limit("a block has no id"))?;
            ids.push((BlockSource::Uncommitted, id.clone()));
            if ids.len() > BLOCKS_MAX {
                return Err(Error::Limit("a blob by stream has at most 50,000 blocks of 4 MiB"));
            }
            if sending.len() >= BLOCKS_AT_ONCE {
                sending.next().await.transpose()?;
            }
            sending.push_back(self.put_block(name, id, block));
        }
        while let Some(sent) = sending.next().await {
            sent?;
        }
        let new = NewBlob::default();
        let request = blob::put_block_list(&self.path(name)?, &ids, &new, &BlobConditions::default())?;
        self.call("PutBlockList", &request, blob::blob_put).await.idempotent()?;
        Ok(length)
    }

    /// Appends a stream to an append blob at a known length of it, and gives the length after it. One request for each
    /// 4 MiB, one after the other, and one more only after a lost answer: each block is there once. `Changed` if the blob
    /// has another length: another writer appends to it.
    ///
    /// An error, also of the stream, ends it; the blocks before it stay, and [`length`](Self::length) tells from where to
    /// go on. After a crash that is the same. What gives an `AsyncRead` becomes a stream by `tokio_util::io::ReaderStream`.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// use bytes::Bytes;
    /// use futures_util::stream;
    /// container.create_append("events.log").await?;
    /// let position = container.length("events.log").await?.unwrap_or(0);
    /// let lines = stream::iter((0..1000).map(|n| Ok(Bytes::from(format!("event {n}\n")))));
    /// let length = container.append_stream("events.log", position, lines).await?;
    /// assert!(length > position);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append_stream(
        &self,
        name: &str,
        position: u64,
        content: impl Stream<Item = Result<Bytes>> + Send,
    ) -> Result<u64> {
        let mut blocks = std::pin::pin!(blocks(content));
        let mut length = position;
        while let Some(block) = blocks.try_next().await? {
            length = self.append(name, length, block).await?;
        }
        Ok(length)
    }

    /// The length of a blob in bytes. One request; `None` if it is not there.
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// println!("{:?}", container.length("events.log").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn length(&self, name: &str) -> Result<Option<u64>> {
        let target = BlobTarget::from(self.path(name)?);
        let request = blob::get_blob_properties(&target, &BlobConditions::default())?;
        match self.call("GetBlobProperties", &request, blob::blob_fetched).await.read() {
            Ok(fetched) => Ok(Some(fetched.length)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a blob by stream, a request for each 4 MiB; `None` if it is not there. All of it is of one version: where
    /// another is written meanwhile the stream ends with [`Error::Changed`].
    ///
    /// ```no_run
    /// # async fn example(container: tavola_client::ContainerClient) -> tavola_client::Result<()> {
    /// use futures_util::TryStreamExt;
    /// if let Some(pieces) = container.get_stream("large.bin").await? {
    ///     let mut pieces = std::pin::pin!(pieces);
    ///     while let Some(piece) = pieces.try_next().await? {
    ///         println!("{} bytes", piece.len());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_stream(
        &self,
        name: &str,
    ) -> Result<Option<impl Stream<Item = Result<Bytes>> + Send + use<>>> {
        let first = match self.piece(name, 0, None).await {
            Ok(first) => first,
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (container, name) = (self.clone(), name.to_owned());
        let (etag, length) = (first.etag, first.length);
        let at = first.content.len() as u64;
        let rest =
            stream::try_unfold((container, name, etag, at), move |(container, name, etag, at)| async move {
                if at >= length {
                    return Ok(None);
                }
                let piece = match container.piece(&name, at, Some(&etag)).await {
                    Ok(piece) if !piece.content.is_empty() => piece,
                    Err(error) if !is_absence(&error) && error.code() != Some("ConditionNotMet") => {
                        return Err(error);
                    }
                    _ => return Err(Error::Changed),
                };
                let next = at + piece.content.len() as u64;
                Ok(Some((piece.content, (container, name, etag, next))))
            });
        Ok(Some(stream::once(async move { Ok(first.content) }).chain(rest).filter(is_some_content)))
    }

    async fn put_block(&self, name: &str, id: BlockId, content: Bytes) -> Result<()> {
        let request = blob::put_block(&self.path(name)?, &id, &TransferSums::default(), None, content)?;
        self.call("PutBlock", &request, blob::block_put).await.idempotent().map(|_| ())
    }

    /// A range of a blob, of the version with this tag if it is told.
    async fn piece(&self, name: &str, first: u64, etag: Option<&str>) -> Result<Piece> {
        let target = BlobTarget::from(self.path(name)?);
        let range = ByteRange { first, last: Some(first + PIECE_BYTES as u64 - 1) };
        let mut request = blob::get_blob(&target, Some(range), None, &BlobConditions::default())?;
        if etag.is_some() {
            request = conditional(request, etag)?;
        }
        let call =
            Call { service: StorageService::Blob, operation: "GetBlob", request: &request, deadline: None };
        let tried = self.account().call(&call, |answer| {
            let fetched = blob::blob_fetched(answer)?;
            let content = Bytes::copy_from_slice(answer.body);
            Ok(Piece { content, etag: fetched.stamp.etag, length: fetched.length })
        });
        match tried.await.read() {
            // A blob without content has no range.
            Err(error) if first == 0 && error.code() == Some("InvalidRange") => {
                let (content, etag) = self.get_tagged(name).await?.ok_or(Error::Changed)?;
                let length = content.len() as u64;
                Ok(Piece { content, etag, length })
            }
            told => told,
        }
    }
}

/// A stream in pieces of 4 MiB, the last of which is shorter.
fn blocks(content: impl Stream<Item = Result<Bytes>> + Send) -> impl Stream<Item = Result<Bytes>> + Send {
    let state = (Box::pin(content.fuse()), BytesMut::new());
    stream::try_unfold(state, |(mut content, mut piece)| async move {
        while piece.len() < PIECE_BYTES {
            match content.try_next().await? {
                Some(more) => piece.extend_from_slice(&more),
                None => break,
            }
        }
        let block = piece.split_to(piece.len().min(PIECE_BYTES)).freeze();
        Ok((!block.is_empty()).then_some((block, (content, piece))))
    })
}

struct Piece {
    content: Bytes,
    etag: String,
    /// Of the whole blob.
    length: u64,
}

/// A blob without content has no piece.
fn is_some_content(piece: &Result<Bytes>) -> std::future::Ready<bool> {
    std::future::ready(piece.as_ref().map_or(true, |content| !content.is_empty()))
}
