//! Writing and deleting objects.

use bytes::BytesMut;
use futures_util::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStoreExt, WriteMultipart};
use tavola_engine::{ByteSource, Content, ContentError, ContentId, ContentSize, Owner, Pieces};

use crate::object::{SUM, path_of, sum_of, trailer};
use crate::{BucketContents, read_failed, write_failed};

/// Bytes of a part, and the most that is sent in one request: the least that S3 takes as a part that is not the last.
const PART_BYTES: usize = 5 * 1024 * 1024;
/// Parts on their way before the next one is filled.
const PARTS_MAX: usize = 1;

/// Writes a source as the object of a content.
pub(crate) async fn put(
    contents: &BucketContents,
    id: ContentId,
    owner: &Owner,
    size: ContentSize,
    source: &mut dyn ByteSource,
) -> Result<Content, ContentError> {
    let path = path_of(&contents.root, owner.space, id);
    let mut pieces = Pieces::new(source, size);
    let mut object = Object { contents, path: &path, first: BytesMut::new(), upload: None };
    let mut number = 0;
    while let Some(piece) = pieces.next().await? {
        let sum = sum_of(owner.space, id, number, &piece).to_le_bytes();
        object.write(&piece, &sum).await?;
        number += 1;
    }
    let length = pieces.taken();
    object.finish(&trailer(owner, id, length)).await?;
    Ok(Content { id, length })
}

/// An object on its way: up to a part of it is held and sent at once; what is larger is sent in parts.
struct Object<'a> {
    contents: &'a BucketContents,
    path: &'a Path,
    first: BytesMut,
    upload: Option<Upload>,
}

impl Object<'_> {
    async fn write(&mut self, piece: &[u8], sum: &[u8; SUM]) -> Result<(), ContentError> {
        if self.upload.is_none() && self.first.len() + piece.len() + SUM <= PART_BYTES {
            self.first.extend_from_slice(piece);
            self.first.extend_from_slice(sum);
            return Ok(());
        }
        let upload = self.upload().await?;
        upload.wait_for_capacity(PARTS_MAX).await.map_err(read_failed)?;
        upload.write(piece);
        upload.write(sum);
        Ok(())
    }

    /// The upload in parts, begun with what was held so far.
    async fn upload(&mut self) -> Result<&mut WriteMultipart, ContentError> {
        if self.upload.is_none() {
            let upload = self.contents.store.put_multipart(self.path).await.map_err(read_failed)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            upload.write(&std::mem::take(&mut self.first));
            self.upload = Some(Upload(Some(upload)));
        }
        let upload = self.upload.as_mut().and_then(|upload| upload.0.as_mut());
        Ok(upload.expect("it is taken when the object is finished"))
    }

    async fn finish(mut self, trailer: &[u8]) -> Result<(), ContentError> {
        let Some(mut upload) = self.upload.take().and_then(Upload::take) else {
            self.first.extend_from_slice(trailer);
            let payload = self.first.freeze().into();
            return self.contents.store.put(self.path, payload).await.map(|_| ()).map_err(write_failed);
        };
        upload.write(trailer);
        // Which of its steps failed cannot be told.
        let finished = upload.finish().await;
        finished.map(|_| ()).map_err(|error| ContentError::OutcomeUnknown { cause: error.into() })
    }
}

/// Parts that nobody sees yet. If the put is let go they are dropped, in the background.
struct Upload(Option<WriteMultipart>);

impl Upload {
    fn take(mut self) -> Option<WriteMultipart> {
        self.0.take()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(upload), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = upload.abort().await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot remove the parts of a broken upload from the bucket");
                }
            });
        }
    }
}

/// Deletes objects. One that is not there is passed over.
pub(crate) async fn delete(contents: &BucketContents, paths: Vec<Path>) -> Result<(), ContentError> {
    let mut deleted = contents.store.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
    while let Some(path) = deleted.next().await {
        match path {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(write_failed(error)),
        }
    }
    Ok(())
}
