//! Finding blobs by their tags.
//!
//! The index is in the space of the container, in partitions that no blob can have: a zero byte, the name of a tag, a
//! zero byte, its value; a row is the name of a blob. Entries are written before the record and once more after it, and
//! removed after it unless somebody has written them since. So every blob with a tag is in the index, and what is there
//! beside is found out by reading the record of each hit.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use tavola_engine::{Change, Position, ScanRange, ScannedRow, SpaceId};
use tavola_model::{
    AccountName, BLOBS_PAGE_MAX, BlobName, BlobPath, BlobTags, ContainerName, FindBlobs, FindCursor,
    FoundBlob, FoundPage, KeyBytes, TagComparison, TagFilter,
};

use super::Blobs;
use super::change::BlobLocation;
use super::rows::{damaged, name_bytes, partition};
use crate::catalog::{Resource, ResourceKind};
use crate::failure::Failure;

/// The first byte of the partitions of the index.
const INDEX: u8 = 0;
/// What a row of the index holds: nothing yet, in this version.
const ENTRY: &[u8] = &[1];
/// Hits that are held against their records in one go.
const HITS_MAX: usize = 10_000;

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

    pub async fn find_blobs(&self, account: &AccountName, asked: FindBlobs) -> Result<FoundPage, Failure> {
        let max = asked.max.unwrap_or(BLOBS_PAGE_MAX).min(BLOBS_PAGE_MAX) as usize;
        let (mut blobs, mut next) = (Vec::new(), None);
        for (container, space) in self.containers_to_search(account, &asked).await? {
            let from = match &asked.from {
                Some(cursor) if cursor.container == container.as_str() => name_bytes(&cursor.name),
                _ => Vec::new(),
            };
            let hits = self.hits(space, asked.filter.as_ref(), &from).await?;
            let is_cut = hits.len() >= HITS_MAX;
            let mut last = None;
            for hit in hits {
                let name = KeyBytes::to_text(&hit)
                    .and_then(|text| BlobName::parse(&text).ok())
                    .ok_or_else(|| damaged(space))?;
                if blobs.len() >= max {
                    next = Some(cursor(&container, &name));
                    break;
                }
                last = Some(name.clone());
                let path = BlobPath { container: container.clone(), name };
                let location =
                    BlobLocation { account: account.clone(), partition: partition(&path.name), path, space };
                let Some(record) = self.record(&location).await? else { continue };
                let is_meant = asked.filter.as_ref().is_none_or(|filter| filter.admits(&record.tags));
                if is_meant && !record.tags.is_empty() {
                    let tags = asked
                        .filter
                        .as_ref()
                        .map_or(record.tags.clone(), |filter| named(filter, &record.tags));
                    blobs.push(FoundBlob { container: container.clone(), name: location.path.name, tags });
                }
            }
            if let (None, true, Some(last)) = (&next, is_cut, last) {
                // More hits may follow than were looked at.
                next = BlobName::parse(&format!("{last}\u{1}")).ok().map(|name| cursor(&container, &name));
            }
            if next.is_some() {
                break;
            }
        }
        Ok(FoundPage { asked, blobs, next })
    }

    async fn containers_to_search(
        &self,
        account: &AccountName,
        asked: &FindBlobs,
    ) -> Result<Vec<(ContainerName, SpaceId)>, Failure> {
        if let Some(name) = &asked.container {
            return Ok(vec![(name.clone(), self.container(account, name).await?.space)]);
        }
        let from = asked.from.as_ref().map(|cursor| cursor.container.clone()).unwrap_or_default();
        let mut found = Vec::new();
        let mut visit = |container: Resource| {
            let is_meant = asked.in_container.as_deref().is_none_or(|name| *name == *container.name);
            if let (true, Ok(name)) = (is_meant, ContainerName::parse(&container.name)) {
                found.push((name, container.space));
            }
            ControlFlow::Continue(())
        };
        self.catalog.list(account, ResourceKind::Container, &from, &mut visit).await?;
        Ok(found)
    }

    /// The names in the index that may be meant, the first ones from a name on.
    async fn hits(
        &self,
        space: SpaceId,
        filter: Option<&TagFilter>,
        from: &[u8],
    ) -> Result<BTreeSet<Vec<u8>>, Failure> {
        let (first, before) = filter.and_then(driving_range).unwrap_or((vec![INDEX], vec![INDEX + 1]));
        let range = ScanRange {
            from: Position::partition_start(&first),
            before: Some(Position::partition_start(&before)),
        };
        let mut hits = BTreeSet::new();
        let mut visit = |row: ScannedRow<'_>| {
            if row.row >= from {
                hits.insert(row.row.to_vec());
                if hits.len() > HITS_MAX {
                    hits.pop_last();
                }
            }
            ControlFlow::Continue(())
        };
        self.engine.scan(space, &range, &mut visit).await?;
        Ok(hits)
    }
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

fn cursor(container: &ContainerName, name: &BlobName) -> FindCursor {
    FindCursor { container: container.as_str().to_owned(), name: name.as_str().to_owned() }
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
