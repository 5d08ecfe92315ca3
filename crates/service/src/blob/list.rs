//! Listing blobs, flat or by hierarchy.
//!
//! A page is read by scans over partitions. A blob with many rows is left after a few of them, and one that lies below
//! a common prefix is left with all its siblings: the next scan begins behind. So a page costs what it shows, whatever
//! the size of the container. It takes memory as it grows, and ends with a marker where there is no more.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{Position, ScanRange, ScannedRow, SpaceId};
use tavola_model::{
    AccountName, BLOBS_PAGE_MAX, BlobCursor, BlobEntry, BlobHeaders, BlobKind, BlobName, BlobPage,
    BlobProperties, BlobTags, BlobVersion, Changed, DateTime, DeletedBlob, ErrorCode, KeyBytes, LeaseShown,
    ListBlobs, ListInclude, ListedBlob, Metadata,
};

use super::Blobs;
use super::record::Record;
use super::reservation::AnswerReservation;
use super::rows::{
    EARLIER, Earlier, RECORD_ROW, Role, STAGE_ROW, Stage, damaged, earlier_row, name_bytes, split_row,
};
use crate::failure::Failure;
use crate::service::AnswerBudget;

/// Rows of a blob that are passed over before the scan starts again behind it.
const PASSED_ROWS_MAX: u32 = 8;

/// What an entry takes beside its texts: its properties, and the names of their elements.
const ENTRY_BYTES: usize = 1024;

/// Names of blobs begin above this byte; below it is the index of tags.
pub(crate) const NAMES_FROM: u8 = 1;

impl Blobs {
    pub async fn list_blobs(
        &self,
        account: &AccountName,
        asked: ListBlobs,
        budget: Option<Arc<dyn AnswerBudget>>,
    ) -> Result<BlobPage, Failure> {
        let container = self.container(account, &asked.container).await?;
        let mut lister = Lister::new(asked, container.space, self.clock.now(), budget);
        let prefix = name_bytes(lister.prefix());
        let before = (!prefix.is_empty()).then(|| Position::partition_start(&behind(prefix.clone())));
        let first = lister.first_partition(prefix);
        let mut from = Position::partition_start(&first);
        if let Some(at) = lister.goes_on_at(&first) {
            // The states before were listed on the pages before. One of them may be the last version, though, by which a
            // blob that is deleted is listed.
            let record = self.row_body(container.space, &first, RECORD_ROW).await?;
            if record.is_some() || !lister.asked.include.deleted_with_versions {
                lister.group.record = record;
                lister.group.stage = self.row_body(container.space, &first, STAGE_ROW).await?;
                from = Position::at(&first, &earlier_row(at));
                lister.group.partition = first;
            }
        }
        loop {
            let range = ScanRange { from, before: before.clone() };
            if range.is_empty() {
                break;
            }
            let mut visit = |row: ScannedRow<'_>| lister.visit(row);
            self.engine.scan(container.space, &range, &mut visit).await?;
            match lister.seek.take() {
                Some(next) if lister.next.is_none() && lister.failure.is_none() => from = next,
                _ => break,
            }
        }
        lister.finish()
    }

    async fn row_body(&self, space: SpaceId, partition: &[u8], row: &[u8]) -> Result<Option<Bytes>, Failure> {
        Ok(self.engine.get(space, partition, row).await?.map(|row| row.body))
    }
}

/// A location in the order of partitions behind all that begin with these bytes: no byte of a name is 255.
fn behind(mut prefix: Vec<u8>) -> Vec<u8> {
    prefix.push(0xFF);
    prefix
}

/// The rows of one blob, as far as a list needs them.
#[derive(Default)]
struct Group {
    /// Empty before the first blob, and behind the last one that was listed.
    partition: Vec<u8>,
    record: Option<Bytes>,
    /// The last version, if the blob may be listed by it.
    last_version: Option<(DateTime, Bytes)>,
    stage: Option<Bytes>,
    passed: u32,
}

struct Lister {
    asked: ListBlobs,
    space: SpaceId,
    now: DateTime,
    max: usize,
    /// Earlier states may be listed, so their rows are looked at.
    shows_earlier: bool,
    entries: Vec<BlobEntry>,
    group: Group,
    /// Where the next scan begins.
    seek: Option<Position>,
    next: Option<BlobCursor>,
    failure: Option<Failure>,
    reservation: AnswerReservation,
}

impl Lister {
    fn new(asked: ListBlobs, space: SpaceId, now: DateTime, budget: Option<Arc<dyn AnswerBudget>>) -> Self {
        let max = asked.max.unwrap_or(BLOBS_PAGE_MAX).min(BLOBS_PAGE_MAX) as usize;
        let ListInclude { snapshots, versions, deleted, deleted_with_versions, .. } = asked.include;
        Self {
            asked,
            space,
            now,
            max,
            shows_earlier: snapshots || versions || deleted || deleted_with_versions,
            entries: Vec::new(),
            group: Group::default(),
            seek: None,
            next: None,
            failure: None,
            reservation: AnswerReservation::new(budget),
        }
    }

    /// Whether the page can have one more entry, which takes so many bytes. A page of nothing would not get its client any
    /// further, so then it is refused.
    fn has_room(&mut self, bytes: usize) -> Result<bool, Failure> {
        if self.entries.len() >= self.max {
            return Ok(false);
        }
        let is_taken = self.reservation.take(bytes);
        if !is_taken && self.entries.is_empty() {
            return Err(ErrorCode::ServerBusy.into());
        }
        Ok(is_taken)
    }

    fn prefix(&self) -> &str {
        self.asked.prefix.as_deref().unwrap_or_default()
    }

    fn first_partition(&self, prefix: Vec<u8>) -> Vec<u8> {
        let cursor = self.asked.from.as_ref().map(|cursor| name_bytes(&cursor.name));
        let start = self.asked.start_from.as_deref().map(name_bytes);
        [Some(prefix), cursor, start].into_iter().flatten().fold(vec![NAMES_FROM], Vec::max)
    }

    /// The time from which on the states of the first blob are listed, if the page before ended amid them.
    fn goes_on_at(&self, first: &[u8]) -> Option<DateTime> {
        let cursor = self.asked.from.as_ref()?;
        let is_amid = self.shows_earlier && DateTime::MIN < cursor.at && cursor.at < DateTime::MAX;
        (is_amid && name_bytes(&cursor.name) == first).then_some(cursor.at)
    }

    fn visit(&mut self, row: ScannedRow<'_>) -> ControlFlow<()> {
        if self.group.partition != row.partition {
            self.flush()?;
            self.group.partition.extend_from_slice(row.partition);
        }
        let group = &mut self.group;
        if row.row == RECORD_ROW {
            group.record = Some(row.body);
        } else if row.row == STAGE_ROW {
            group.stage = Some(row.body);
        } else if row.row.first() == Some(&EARLIER) && self.shows_earlier {
            return self.visit_earlier(row);
        } else {
            group.passed += 1;
            if group.passed > PASSED_ROWS_MAX {
                let next = Position::partition_end(&group.partition);
                self.flush()?;
                self.seek = Some(next);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Lists an earlier state if it is asked for. Its row is not kept.
    fn visit_earlier(&mut self, row: ScannedRow<'_>) -> ControlFlow<()> {
        let listed = self.list_earlier(&row);
        listed.unwrap_or_else(|failure| {
            self.failure = Some(failure);
            ControlFlow::Break(())
        })
    }

    fn list_earlier(&mut self, row: &ScannedRow<'_>) -> Result<ControlFlow<()>, Failure> {
        let damaged = || damaged(self.space);
        let time =
            split_row(row.row).and_then(|(_, time, _)| DateTime::from_ticks(time)).ok_or_else(damaged)?;
        let earlier = Earlier::decode(&row.body).ok_or_else(damaged)?;
        let include = self.asked.include;
        let is_listed = match (earlier.role, earlier.deleted) {
            (_, Some(deleted)) if deleted.until <= self.now => false,
            (Role::Snapshot, deleted) => include.snapshots && (deleted.is_none() || include.deleted),
            (Role::Version, deleted) => include.versions && (deleted.is_none() || include.deleted),
            (Role::Base, _) => include.deleted,
        };
        if earlier.role == Role::Version && include.deleted_with_versions {
            self.group.last_version = Some((time, row.body.clone()));
        }
        if !is_listed {
            return Ok(ControlFlow::Continue(()));
        }
        let name = name_of(&self.group.partition).ok_or_else(damaged)?;
        if let Some(common) = self.common_prefix(name.as_str()) {
            self.group = Group::default();
            return self.list_prefix(common);
        }
        let is_before = |cursor: &BlobCursor| cursor.name == name.as_str() && time < cursor.at;
        if self.asked.from.as_ref().is_some_and(is_before) {
            return Ok(ControlFlow::Continue(()));
        }
        let listed = self.earlier(&name, time, earlier);
        if !self.has_room(entry_bytes(&listed))? {
            self.next = Some(BlobCursor { name: name.as_str().to_owned(), at: time });
            return Ok(ControlFlow::Break(()));
        }
        self.entries.push(BlobEntry::Blob(listed));
        Ok(ControlFlow::Continue(()))
    }

    /// Lists a common prefix; the scan starts again behind it.
    fn list_prefix(&mut self, common: String) -> Result<ControlFlow<()>, Failure> {
        if !self.has_room(ENTRY_BYTES + common.len())? {
            self.next = Some(BlobCursor { name: common, at: DateTime::MAX });
            return Ok(ControlFlow::Break(()));
        }
        self.seek = Some(Position::partition_start(&behind(name_bytes(&common))));
        self.entries.push(BlobEntry::Prefix(common));
        Ok(ControlFlow::Break(()))
    }

    /// Lists the blob whose rows have been seen. Breaks if the page is full or the scan is to start again.
    fn flush(&mut self) -> ControlFlow<()> {
        if self.group.partition.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut group = std::mem::take(&mut self.group);
        let listed = self.list(&group);
        // Its memory serves the next one.
        group.partition.clear();
        self.group.partition = group.partition;
        match listed {
            Ok(flow) => flow,
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn list(&mut self, group: &Group) -> Result<ControlFlow<()>, Failure> {
        let name = name_of(&group.partition).ok_or_else(|| damaged(self.space))?;
        let Some(last) = self.last_state(&name, group)? else { return Ok(ControlFlow::Continue(())) };
        if let Some(common) = self.common_prefix(name.as_str()) {
            return self.list_prefix(common);
        }
        if !self.has_room(entry_bytes(&last))? {
            self.next = Some(BlobCursor { name: name.as_str().to_owned(), at: DateTime::MAX });
            return Ok(ControlFlow::Break(()));
        }
        self.entries.push(BlobEntry::Blob(last));
        Ok(ControlFlow::Continue(()))
    }

    fn common_prefix(&self, name: &str) -> Option<String> {
        let delimiter = self.asked.delimiter.as_deref().filter(|text| !text.is_empty())?;
        let rest = name.get(self.prefix().len()..)?;
        let end = self.prefix().len() + rest.find(delimiter)? + delimiter.len();
        Some(name[..end].to_owned())
    }

    /// The blob itself as it is listed, behind its earlier states.
    fn last_state(&self, name: &BlobName, group: &Group) -> Result<Option<Box<ListedBlob>>, Failure> {
        let include = self.asked.include;
        let damaged = || damaged(self.space);
        Ok(match (&group.record, &group.stage, &group.last_version) {
            (Some(record), _, _) => {
                let record = Record::decode_shared(record).ok_or_else(damaged)?;
                Some(listed(name, record.show(self.now).0))
            }
            (None, _, Some((_, body))) => {
                let earlier = Earlier::decode(body).ok_or_else(damaged)?;
                // The blob is told as it was, but empty and of no version (recorded).
                let mut shown = listed(name, earlier.record.show(self.now).0);
                shown.properties.length = 0;
                shown.properties.version = None;
                shown.has_versions_only = true;
                Some(shown)
            }
            (None, Some(stage), _) if include.uncommitted_blobs => {
                let stage = Stage::decode(stage).ok_or_else(damaged)?;
                let mut shown = listed(name, uncommitted(stage.put));
                shown.is_uncommitted = true;
                Some(shown)
            }
            (None, _, _) => None,
        })
    }

    fn earlier(&self, name: &BlobName, time: DateTime, earlier: Earlier) -> Box<ListedBlob> {
        let mut shown = listed(name, earlier.record.show(self.now).0);
        shown.properties.lease = None;
        shown.properties.version = None;
        match earlier.role {
            Role::Snapshot => shown.snapshot = Some(time),
            Role::Version => shown.properties.version = Some(BlobVersion { id: time, is_current: false }),
            Role::Base => {}
        }
        shown.deleted = earlier
            .deleted
            .map(|deleted| DeletedBlob { at: deleted.at, days_left: days_between(self.now, deleted.until) });
        shown
    }

    fn finish(mut self) -> Result<BlobPage, Failure> {
        if self.next.is_none() && self.failure.is_none() {
            let _ = self.flush();
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(BlobPage { asked: self.asked, entries: self.entries, next: self.next }),
        }
    }
}

/// What an entry of a page takes, in memory and on its way.
fn entry_bytes(listed: &ListedBlob) -> usize {
    let pairs = |(name, value): (&str, &str)| name.len() + value.len();
    let BlobProperties { metadata, tags, .. } = &listed.properties;
    let texts: usize = metadata.iter().map(pairs).chain(tags.iter().map(pairs)).sum();
    ENTRY_BYTES + listed.name.as_str().len() + texts
}

/// The name of the blob of a partition.
fn name_of(partition: &[u8]) -> Option<BlobName> {
    match std::str::from_utf8(partition) {
        Ok(text) => BlobName::parse(text).ok(),
        Err(_) => BlobName::parse(&KeyBytes::to_text(partition)?).ok(),
    }
}

fn listed(name: &BlobName, properties: BlobProperties) -> Box<ListedBlob> {
    Box::new(ListedBlob {
        name: name.clone(),
        snapshot: None,
        deleted: None,
        has_versions_only: false,
        properties,
        is_uncommitted: false,
    })
}

/// A blob of which nothing is committed.
fn uncommitted(put: DateTime) -> BlobProperties {
    BlobProperties {
        kind: BlobKind::Block,
        changed: Changed(put),
        created: put,
        length: 0,
        headers: BlobHeaders::default(),
        metadata: Metadata::default(),
        tags: BlobTags::default(),
        tier: None,
        lease: Some(LeaseShown::default()),
        copy: None,
        version: None,
    }
}

pub(super) fn days_between(now: DateTime, until: DateTime) -> u32 {
    u32::try_from(until.seconds_between(now) / (24 * 60 * 60)).unwrap_or(u32::MAX)
}
