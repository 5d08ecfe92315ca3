//! Showing contents: hour by hour of each space, the objects of an hour in the order of ids.
//!
//! A bucket need not list in order. What is sorted here, and held in memory, is the spaces, the hours of one space and the
//! names of one hour. Whose a content is stands at the end of its object, so each that is shown costs a small read.

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tavola_engine::{
    Content, ContentCursor, ContentError, ContentId, FoundContent, Owner, SpaceId, VisitContent,
};

use crate::object::{
    TRAILER_FIXED, Trailer, hour_of, hour_path, parse_hour, parse_name, read_trailer, space_path,
    stored_length,
};
use crate::{BucketContents, put, read_failed};

/// Trailers that are read at once.
const READS: usize = 8;
/// Bytes of an object's end that are read first: most trailers are shorter.
const TAIL: u64 = 256;
/// Objects that are deleted between two lists.
const DELETED_AT_ONCE: usize = 256;

pub(crate) async fn visit(
    contents: &BucketContents,
    from: Option<ContentCursor>,
    visit: &mut VisitContent<'_>,
) -> Result<Option<ContentCursor>, ContentError> {
    let from = from.unwrap_or(ContentCursor::space_start(SpaceId([0; 16])));
    let spaces = folders(contents, &contents.root, |path| parse_name(path).map(SpaceId)).await?;
    for space in spaces.into_iter().filter(|space| *space >= from.space) {
        let behind = (space == from.space).then_some(from.id);
        let space_path = space_path(&contents.root, space);
        let hours = folders(contents, &space_path, parse_hour).await?;
        for hour in hours.into_iter().filter(|hour| behind.is_none_or(|behind| *hour >= hour_of(behind))) {
            let hour_path = hour_path(&space_path, hour);
            let stopped = visit_hour(contents, space, &hour_path, behind, visit).await?;
            if stopped.is_some() {
                return Ok(stopped);
            }
        }
    }
    Ok(None)
}

/// What the folders below a path are named, in order. Others than ours are passed over.
async fn folders<T: Ord>(
    contents: &BucketContents,
    path: &Path,
    parse: impl Fn(&Path) -> Option<T>,
) -> Result<Vec<T>, ContentError> {
    let listed = contents.store.list_with_delimiter(Some(path)).await.map_err(read_failed)?;
    let mut names: Vec<T> = listed.common_prefixes.iter().filter_map(parse).collect();
    names.sort();
    Ok(names)
}

/// Shows the contents of an hour behind an id. Gives where the visitor stopped, if it did.
async fn visit_hour(
    contents: &BucketContents,
    space: SpaceId,
    hour_path: &Path,
    behind: Option<ContentId>,
    visit: &mut VisitContent<'_>,
) -> Result<Option<ContentCursor>, ContentError> {
    let listed = contents.store.list(Some(hour_path));
    let named = listed.try_filter_map(|meta| {
        let id = parse_name(&meta.location).map(ContentId);
        std::future::ready(Ok(id.map(|id| (id, meta))))
    });
    let mut objects: Vec<(ContentId, ObjectMeta)> = named.try_collect().await.map_err(read_failed)?;
    objects.retain(|(id, _)| behind.is_none_or(|behind| *id > behind));
    objects.sort_by_key(|(id, _)| *id);
    let looks = objects.into_iter().map(|(id, meta)| find(contents, space, id, meta));
    let mut found = stream::iter(looks).buffered(READS);
    while let Some(found) = found.try_next().await? {
        // It may have been dropped since the list.
        let Some(found) = found else { continue };
        if visit(&found).is_break() {
            return Ok(Some(found.cursor()));
        }
    }
    Ok(None)
}

/// A content, as the end of its object tells it; `None` if it is gone.
async fn find(
    contents: &BucketContents,
    space: SpaceId,
    id: ContentId,
    meta: ObjectMeta,
) -> Result<Option<FoundContent>, ContentError> {
    let mut tail = TAIL;
    loop {
        let range = meta.size.saturating_sub(tail)..meta.size;
        let bytes = match contents.store.get_range(&meta.location, range).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            read => read.map_err(read_failed)?,
        };
        match read_trailer(space, id, &bytes) {
            Trailer::Longer(needed) if needed as u64 > tail => tail = needed as u64,
            Trailer::Told { partition, length } if is_whole(&meta, partition.len(), length) => {
                let content = Content { id, length };
                return Ok(Some(FoundContent { content, owner: Owner { space, partition } }));
            }
            Trailer::Told { .. } | Trailer::Longer(_) | Trailer::Malformed => {
                return Err(ContentError::Damaged { space, id, what: "the end of its object is malformed" });
            }
        }
    }
}

fn is_whole(meta: &ObjectMeta, owner_length: usize, length: u64) -> bool {
    meta.size == stored_length(length) + (TRAILER_FIXED + owner_length) as u64
}

/// Deletes every object of a space that is listed now.
pub(crate) async fn drop_space(contents: &BucketContents, space: SpaceId) -> Result<(), ContentError> {
    let path = space_path(&contents.root, space);
    let listed = contents.store.list(Some(&path)).map_ok(|meta| meta.location).map_err(read_failed);
    let mut some = listed.try_chunks(DELETED_AT_ONCE);
    while let Some(paths) = some.next().await {
        put::delete(contents, paths.map_err(|error| error.1)?).await?;
    }
    Ok(())
}
