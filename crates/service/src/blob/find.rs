//! Finding blobs by their tags.
//!
//! The index is in the space of the container, in partitions that no blob can have: a zero byte, the name of a tag, a
//! zero byte, its value; a row is the name of a blob. Entries are written before the record and once more after it, and
//! removed after it, or if it is refused, unless somebody has written them since. So every blob with a tag is in the index,
//! and what is there beside is found out by reading the record of each hit. Snapshots and earlier versions are not in it. A
//! page goes on where the one before ended in the index, so blobs come by container, tag, value and name.

use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{Change, Position, ScanRange, ScannedRow, SpaceId};
use tavola_model::{
    AccountName, BLOBS_PAGE_MAX, BlobName, BlobPath, BlobTags, ContainerName, ErrorCode, FindBlobs,
    FindCursor, FoundBlob, FoundPage, KeyBytes, TagComparison, TagFilter,
};

use super::Blobs;
use super::change::BlobLocation;
use super::reservation::AnswerReservation;
use super::rows::{damaged, name_bytes, partition};
use crate::catalog::{Resource, ResourceKind};
use crate::failure::Failure;
use crate::service::AnswerBudget;

/// The first byte of the partitions of the index.
const INDEX: u8 = 0;
/// What a row of the index holds: nothing yet, in this version.
const ENTRY: &[u8] = &[1];
/// Entries that one request looks at: a page may end before it is full.
const HITS_MAX: usize = 10_000;
/// Entries that are held at a time.
const HITS_A_STEP: usize = 500;
/// Containers that are held at a time.
const CONTAINERS_A_STEP: usize = 1000;
/// What a blob takes on a page beside its texts.
const BLOB_BYTES: usize = 256;

impl Blobs {
    /// Writes the entries of a blob's tags.
    pub async fn index_tags(&self, location: &BlobLocation, tags: &BlobTags) -> Result<(), Failure> {
        for (name, value) in tags.iter() {
            let index = BlobLocation { partition: index_partition(name, value), ..location.clone() };
            let row = name_bytes(location.path.name.as_str());
            self.transact(&index, &[&row], |_, _| {
                Ok((vec![Change::Put { index: 0, body: bytes::Bytes::from_static(ENTRY) }], ()))
            })
            .await?;
        }
        Ok(())
    }

    /// Writes the entries once more, behind the record that has the tags: somebody who removes those of an older state may
    /// have taken them. The blob is changed by now, so a failure is told to the log and not to the client.
    pub async fn index_tags_again(&self, location: &BlobLocation, tags: &BlobTags) {
        if let Err(error) = self.index_tags(location, tags).await {
            tracing::warn!(%error, "cannot index the tags of a blob; Find Blobs by Tags misses them until they are set again");
        }
    }

    /// Removes the entries of tags that a blob has no more, unless somebody has written them since.
    pub async fn unindex_tags(
        &self,
        location: &BlobLocation,
        old: &BlobTags,
        new: &BlobTags,
    ) -> Result<(), Failure> {
        for (name, value) in old.iter().filter(|(name, value)| new.get(name) != Some(*value)) {
            let index = BlobLocation { partition: index_partition(name, value), ..location.clone() };
            let row = name_bytes(location.path.name.as_str());
            let Some(seen) = self.engine.get(location.space, &index.partition, &row).await? else { continue };
            let record = self.record(location).await?;
            if record.is_some_and(|record| record.tags.get(name) == Some(value)) {
                continue;
            }
            self.transact(&index, &[&row], |_, rows| {
                let is_same = rows[0].as_ref().is_some_and(|row| row.version == seen.version);
                Ok((is_same.then_some(Change::Delete { index: 0 }).into_iter().collect(), ()))
            })
            .await?;
        }
        Ok(())
    }

    /// Removes the entries of tags that a refused change has not given to a blob.
    pub async fn unindex_refused<T>(
        &self,
        location: &BlobLocation,
        tags: &BlobTags,
        done: &Result<T, Failure>,
    ) {
        // A change that may have been kept may need them.
        if !done.as_ref().is_err_and(|failure| !failure.is_unknown()) {
            return;
        }
        if let Err(error) = self.unindex_tags(location, tags, &BlobTags::default()).await {
            tracing::debug!(%error, "cannot remove index entries of refused tags; Find Blobs by Tags skips them");
        }
    }

    pub async fn find_blobs(
        &self,
        account: &AccountName,
        asked: FindBlobs,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<FoundPage, Failure> {
        let max = asked.max.unwrap_or(BLOBS_PAGE_MAX).min(BLOBS_PAGE_MAX) as usize;
        let mut page = Page {
            blobs: Vec::new(),
            next: None,
            max,
            hits_left: HITS_MAX,
            reservation: AnswerReservation::new(budget),
        };
        let mut after: Option<ContainerName> = None;
        loop {
            let containers = self.containers_to_search(account, &asked, after.as_ref()).await?;
            for (container, space) in &containers {
                self.find_in(account, container, *space, &asked, &mut page).await?;
                if page.next.is_some() {
                    return Ok(FoundPage { asked, blobs: page.blobs, next: page.next });
                }
            }
            let is_full = containers.len() >= CONTAINERS_A_STEP;
            match containers.into_iter().last() {
                Some((last, _)) if is_full => after = Some(last),
                _ => return Ok(FoundPage { asked, blobs: page.blobs, next: None }),
            }
        }
    }

    /// Finds blobs of one container, until the page ends.
    async fn find_in(
        &self,
        account: &AccountName,
        container: &ContainerName,
        space: SpaceId,
        asked: &FindBlobs,
        page: &mut Page,
    ) -> Result<(), Failure> {
        let range =
            asked.filter.as_ref().and_then(driving_range).unwrap_or((vec![INDEX, 1], vec![INDEX + 1]));
        let cursor = asked.from.as_ref().filter(|cursor| cursor.container == container.as_str());
        let mut from = Position::partition_start(&range.0);
        if let Some(cursor) = cursor {
            let entries = index_partition(&cursor.tag, &cursor.value);
            // A marker that somebody has made up leads nowhere else.
            if entries >= range.0 {
                from = Position::at(&entries, &name_bytes(&cursor.name));
            }
        }
        loop {
            let (hits, next) = self.hits(space, from, &range.1).await?;
            for hit in hits {
                let name = KeyBytes::to_text(&hit.row)
                    .and_then(|text| BlobName::parse(&text).ok())
                    .ok_or_else(|| damaged(space))?;
                let path = BlobPath { container: container.clone(), name };
                let location =
                    BlobLocation { account: account.clone(), partition: partition(&path.name), path, space };
                let found = self.record(&location).await?.filter(|record| {
                    let is_meant = asked.filter.as_ref().is_none_or(|filter| filter.admits(&record.tags));
                    is_meant && first_entry(&record.tags, &range).as_ref() == Some(&hit.partition)
                });
                let found = found.map(|record| match &asked.filter {
                    Some(filter) => named(filter, &record.tags),
                    None => record.tags,
                });
                if !page.add(&location.path, found)? {
                    page.next = Some(hit.cursor(&location.path).ok_or_else(|| damaged(space))?);
                    return Ok(());
                }
            }
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Some containers in which blobs may be found, in order.
    async fn containers_to_search(
        &self,
        account: &AccountName,
        asked: &FindBlobs,
        after: Option<&ContainerName>,
    ) -> Result<Vec<(ContainerName, SpaceId)>, Failure> {
        if let Some(name) = &asked.container {
            return Ok(vec![(name.clone(), self.container(account, name).await?.space)]);
        }
        let from = asked.from.as_ref().map(|cursor| cursor.container.as_str()).unwrap_or_default();
        let from = after.map_or(from, ContainerName::as_str);
        let mut found = Vec::new();
        let mut visit = |container: Resource| {
            let is_meant = asked.in_container.as_deref().is_none_or(|name| *name == *container.name)
                && after.is_none_or(|after| *after.as_str() != *container.name);
            if let (true, Ok(name)) = (is_meant, ContainerName::parse(&container.name)) {
                found.push((name, container.space));
            }
            if found.len() < CONTAINERS_A_STEP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        self.catalog.list(account, ResourceKind::Container, from, &mut visit).await?;
        Ok(found)
    }

    /// Some entries of the index that may be meant, in order, and where the next ones begin.
    async fn hits(
        &self,
        space: SpaceId,
        from: Position,
        before: &[u8],
    ) -> Result<(Vec<Hit>, Option<Position>), Failure> {
        let range = ScanRange { from, before: Some(Position::partition_start(before)) };
        let (mut hits, mut next) = (Vec::new(), None);
        if range.is_empty() {
            return Ok((hits, next));
        }
        let mut visit = |row: ScannedRow<'_>| {
            if hits.len() >= HITS_A_STEP {
                next = Some(Position::at(row.partition, row.row));
                return ControlFlow::Break(());
            }
            hits.push(Hit { partition: row.partition.to_vec(), row: row.row.to_vec() });
            ControlFlow::Continue(())
        };
        self.engine.scan(space, &range, &mut visit).await?;
        Ok((hits, next))
    }
}

/// An entry of the index.
struct Hit {
    partition: Vec<u8>,
    row: Vec<u8>,
}

impl Hit {
    /// The place of this entry; `None` if it is no entry.
    fn cursor(&self, path: &BlobPath) -> Option<FindCursor> {
        let text = std::str::from_utf8(self.partition.get(1..)?).ok()?;
        let (tag, value) = text.split_once('\0')?;
        Some(FindCursor {
            container: path.container.as_str().to_owned(),
            tag: tag.to_owned(),
            value: value.to_owned(),
            name: path.name.as_str().to_owned(),
        })
    }
}

/// What was found for a page.
struct Page {
    blobs: Vec<FoundBlob>,
    next: Option<FindCursor>,
    max: usize,
    /// Entries that may still be looked at.
    hits_left: usize,
    reservation: AnswerReservation,
}

impl Page {
    /// Adds a blob, or passes over one that is not meant; false if the page ends before it.
    fn add(&mut self, path: &BlobPath, found: Option<BlobTags>) -> Result<bool, ErrorCode> {
        let Some(hits_left) = self.hits_left.checked_sub(1) else { return Ok(false) };
        self.hits_left = hits_left;
        let Some(tags) = found else { return Ok(true) };
        let texts: usize = tags.iter().map(|(name, value)| name.len() + value.len()).sum();
        if self.blobs.len() >= self.max {
            return Ok(false);
        }
        if !self.reservation.take(BLOB_BYTES + path.name.as_str().len() + texts) {
            return if self.blobs.is_empty() { Err(ErrorCode::ServerBusy) } else { Ok(false) };
        }
        let (container, name) = (path.container.clone(), path.name.clone());
        self.blobs.push(FoundBlob { container, name, tags });
        Ok(true)
    }
}

/// The first entry of a blob within a range of the index: a blob with several there is found by this one.
fn first_entry(tags: &BlobTags, (first, before): &(Vec<u8>, Vec<u8>)) -> Option<Vec<u8>> {
    let entries = tags.iter().map(|(name, value)| index_partition(name, value));
    entries.filter(|entry| first <= entry && entry < before).min()
}

fn index_partition(name: &str, value: &str) -> Vec<u8> {
    [&[INDEX], name.as_bytes(), &[0], value.as_bytes()].concat()
}

/// The partitions of the index that hold all hits of a condition, if one part of it says so.
fn driving_range(filter: &TagFilter) -> Option<(Vec<u8>, Vec<u8>)> {
    match filter {
        TagFilter::Compare { name, comparison, value } => {
            let (start, at) = (index_partition(name, ""), index_partition(name, value));
            let after = |mut bytes: Vec<u8>| {
                bytes.push(0);
                bytes
            };
            let end = [&[INDEX], name.as_bytes(), &[1]].concat();
            match comparison {
                TagComparison::Equal => Some((at.clone(), after(at))),
                TagComparison::Less => Some((start, at)),
                TagComparison::LessOrEqual => Some((start, after(at))),
                TagComparison::Greater | TagComparison::GreaterOrEqual => Some((at, end)),
                TagComparison::NotEqual => None,
            }
        }
        TagFilter::And(parts) => {
            let is_equality = |part: &&TagFilter| {
                matches!(part, TagFilter::Compare { comparison: TagComparison::Equal, .. })
            };
            parts.iter().find(is_equality).or_else(|| parts.first()).and_then(driving_range)
        }
        TagFilter::Or(_) => None,
    }
}

/// The tags of a blob that a condition names.
fn named(filter: &TagFilter, tags: &BlobTags) -> BlobTags {
    let mut names = Vec::new();
    collect_names(filter, &mut names);
    let pairs = tags.iter().filter(|(name, _)| names.contains(name));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    BlobTags::parse(pairs).unwrap_or_default()
}

fn collect_names<'a>(filter: &'a TagFilter, names: &mut Vec<&'a str>) {
    match filter {
        TagFilter::Compare { name, .. } => names.push(name),
        TagFilter::And(parts) | TagFilter::Or(parts) => {
            parts.iter().for_each(|part| collect_names(part, names));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::hex;

    #[test]
    fn entries_of_the_index_keep_their_layout() {
        assert_eq!(hex(&index_partition("Colour", "blue")), "00436f6c6f757200626c7565");
        assert_eq!(ENTRY, [1]);
    }
}
