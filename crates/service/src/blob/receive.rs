//! Keeping bytes before a row names them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tavola_engine::{ByteSource, ContentSize, ContentStore, Owner, SourceError, SpaceId};
use tavola_model::TransferSums;

use super::Blobs;
use super::change::BlobLocation;
use super::pieces::{Data, INLINE_BYTES_MAX};
use super::sums::{SummedSource, Sums};
use crate::failure::Failure;

/// Bytes that no row names yet. A content is dropped with this, unless a row comes to name it.
pub(crate) struct Unnamed {
    contents: Arc<dyn ContentStore>,
    space: SpaceId,
    data: Option<Data>,
}

impl Unnamed {
    /// The bytes, as a row will name them.
    pub fn data(&self) -> Data {
        self.data.clone().expect("it is taken only at the end")
    }

    /// A row names them now, or may: they stay.
    pub fn keep(mut self) {
        self.data = None;
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        let Some(Data::Content(content)) = self.data.take() else { return };
        let (contents, space) = (self.contents.clone(), self.space);
        // Without a runtime the process is ending; the scrubber finds the content.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = contents.drop_contents(space, &[content.id]).await {
                tracing::debug!(%error, "cannot drop a content that no row names; the scrubber will");
            }
        });
    }
}

impl Blobs {
    /// Keeps what a source gives: in the row that will name it if it is little, else as a content. Bytes that are not
    /// what the client has announced are dropped again.
    pub async fn receive(
        &self,
        location: &BlobLocation,
        source: &mut dyn ByteSource,
        size: ContentSize,
        announced: &TransferSums,
        with_md5: bool,
    ) -> Result<(Unnamed, Sums), Failure> {
        let mut summed = SummedSource::new(source, with_md5 || announced.md5.is_some());
        let mut first = BytesMut::new();
        let mut has_more = true;
        while has_more && first.len() <= INLINE_BYTES_MAX {
            match summed.next().await.map_err(Failure::of_source)? {
                Some(piece) if first.is_empty() && piece.len() > INLINE_BYTES_MAX => {
                    return self.receive_content(location, Some(piece), summed, size, announced).await;
                }
                Some(piece) => first.extend_from_slice(&piece),
                None => has_more = false,
            }
        }
        let first = first.freeze();
        if has_more {
            return self.receive_content(location, Some(first), summed, size, announced).await;
        }
        size.check(first.len() as u64)?;
        let sums = summed.finish().await.map_err(Failure::of_source)?;
        sums.check(announced)?;
        Ok((self.unnamed(location, Data::Inline(first)), sums))
    }

    async fn receive_content(
        &self,
        location: &BlobLocation,
        first: Option<Bytes>,
        mut summed: SummedSource<'_>,
        size: ContentSize,
        announced: &TransferSums,
    ) -> Result<(Unnamed, Sums), Failure> {
        let owner = Owner { space: location.space, partition: location.partition.clone() };
        let mut source = Chained { first, rest: &mut summed };
        let content = self.contents.put(&owner, size, &mut source).await?;
        let unnamed = self.unnamed(location, Data::Content(content));
        let sums = summed.finish().await.map_err(Failure::of_source)?;
        sums.check(announced)?;
        Ok((unnamed, sums))
    }

    pub fn unnamed(&self, location: &BlobLocation, data: Data) -> Unnamed {
        Unnamed { contents: self.contents.clone(), space: location.space, data: Some(data) }
    }
}

/// Bytes that were taken from a source already, and the rest of it.
struct Chained<'a, 'b> {
    first: Option<Bytes>,
    rest: &'a mut SummedSource<'b>,
}

#[async_trait]
impl ByteSource for Chained<'_, '_> {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.rest.next().await,
        }
    }
}
