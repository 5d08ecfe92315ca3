//! The record of a blob: all that is known of it but its bytes, and those too if they are few.
//!
//! ```text
//! u8 version = 1 | kind: u8 0 block, 1 append (u64 blocks | flag sealed), 2 page (u64 sequence number)
//! | time changed | time created | 5 option(text) headers | option(16 bytes MD5)
//! | metadata | tags: lists of (text | text)
//! | option(tier: u8 | option(time changed) | option(u8 tier to come to | u8 priority))
//! | option(lease) | option(copy) | u32 snapshots | flag shared | option(time version) | body
//! body: u8 0 | data, or u8 1 | u64 generation | u32 rows | u32 pieces | u64 length
//!     , or u8 2 | list of u64 generations | u64 length
//! ```
//!
//! `changed` is the ETag and Last-Modified. It is not the version of the row: a lease changes the row and keeps the ETag.

use bytes::Bytes;
use tavola_engine::ContentId;
use tavola_model::{
    AccessTier, BlobHeaders, BlobKind, BlobProperties, BlobTags, BlobVersion, Changed, CopyShown, CopyStatus,
    DateTime, Guid, Metadata, RehydratePriority, TIER_DEFAULT, TierShown,
};

use super::pieces::Data;
use crate::codec::{Reader, put_list, put_option, put_text, put_time};
use crate::lease::Lease;

const VERSION: u8 = 1;
/// How long a blob takes from the archive to another tier. The service takes hours; nothing has to be fetched here, but
/// clients that wait for the end meet the pending state first.
const REHYDRATION_SECONDS: u64 = 60;

/// What is known of a blob.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub kind: BlobKind,
    pub changed: DateTime,
    pub created: DateTime,
    pub headers: BlobHeaders,
    pub metadata: Metadata,
    pub tags: BlobTags,
    /// `None` while nobody has set one.
    pub tier: Option<StoredTier>,
    pub lease: Option<Lease>,
    pub copy: Option<CopyShown>,
    /// How many snapshots there are, deleted ones left out.
    pub snapshots: u32,
    /// An earlier state may have the same body.
    pub is_shared: bool,
    /// Its version, where versions are kept.
    pub version: Option<DateTime>,
    pub body: Body,
}

/// A tier that somebody has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredTier {
    pub tier: AccessTier,
    pub changed: Option<DateTime>,
    pub rehydrate_to: Option<(AccessTier, RehydratePriority)>,
}

impl StoredTier {
    /// The tier by then: what leaves the archive has left it after a while, and nobody has to write that down.
    fn at(self, now: DateTime) -> Self {
        let (Some((tier, _)), Some(asked)) = (self.rehydrate_to, self.changed) else { return self };
        match asked.plus_seconds(REHYDRATION_SECONDS) {
            Some(done) if done <= now => Self { tier, changed: Some(done), rehydrate_to: None },
            _ => self,
        }
    }
}

/// Where the bytes of a blob are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// In one location.
    Data(Data),
    /// In the first `count` pieces of the rows of a generation. Later ones belong to the blob as it is now, if this is
    /// a snapshot.
    Pieces { generation: u64, rows: u32, count: u32, length: u64 },
    /// In pages: those of the first generation that has them.
    Pages { generations: Vec<u64>, length: u64 },
}

impl Body {
    pub fn length(&self) -> u64 {
        match self {
            Self::Data(data) => data.length(),
            Self::Pieces { length, .. } | Self::Pages { length, .. } => *length,
        }
    }

    /// The content that it names itself; those that its rows name are left out.
    pub fn content(&self) -> Option<ContentId> {
        match self {
            Self::Data(data) => data.content(),
            Self::Pieces { .. } | Self::Pages { .. } => None,
        }
    }

    /// The generations of rows it relies on.
    pub fn generations(&self) -> &[u64] {
        match self {
            Self::Data(_) => &[],
            Self::Pieces { generation, .. } => std::slice::from_ref(generation),
            Self::Pages { generations, .. } => generations,
        }
    }
}

impl Record {
    /// The record as properties show it, and where its bytes are.
    pub fn show(self, now: DateTime) -> (BlobProperties, Body) {
        let properties = BlobProperties {
            kind: self.kind,
            changed: Changed(self.changed),
            created: self.created,
            length: self.body.length(),
            tier: self.show_tier(now),
            lease: Some(Lease::show(self.lease.as_ref(), now)),
            headers: self.headers,
            metadata: self.metadata,
            tags: self.tags,
            copy: self.copy,
            version: self.version.map(|id| BlobVersion { id, is_current: true }),
        };
        (properties, self.body)
    }

    /// The tier that was set, as it is by now.
    pub fn tier(&self, now: DateTime) -> Option<StoredTier> {
        self.tier.map(|tier| tier.at(now))
    }

    fn show_tier(&self, now: DateTime) -> Option<TierShown> {
        match (self.tier(now), self.kind) {
            (Some(StoredTier { tier, changed, rehydrate_to }), _) => {
                Some(TierShown { tier, is_inferred: false, changed, rehydrate_to })
            }
            (None, BlobKind::Block) => {
                Some(TierShown { tier: TIER_DEFAULT, is_inferred: true, changed: None, rehydrate_to: None })
            }
            (None, BlobKind::Append { .. } | BlobKind::Page { .. }) => None,
        }
    }

    /// Whether its bytes cannot be read.
    pub fn is_archived(&self, now: DateTime) -> bool {
        self.tier(now).is_some_and(|tier| tier.tier == AccessTier::Archive)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.put(&mut out);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Self::read_whole(Reader::of_version(bytes, VERSION)?)
    }

    /// The same; bytes of the blob that are in the record are not copied.
    pub fn decode_shared(bytes: &Bytes) -> Option<Self> {
        Self::read_whole(Reader::of_shared(bytes, VERSION)?)
    }

    fn read_whole(mut reader: Reader<'_>) -> Option<Self> {
        let record = Self::read(&mut reader)?;
        reader.is_done().then_some(record)
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self.kind {
            BlobKind::Block => out.push(0),
            BlobKind::Append { block_count, is_sealed } => {
                out.push(1);
                out.extend_from_slice(&block_count.to_le_bytes());
                out.push(u8::from(is_sealed));
            }
            BlobKind::Page { sequence } => {
                out.push(2);
                out.extend_from_slice(&sequence.to_le_bytes());
            }
        }
        put_time(out, self.changed);
        put_time(out, self.created);
        put_headers(out, &self.headers);
        put_pairs(out, self.metadata.iter().collect());
        put_pairs(out, self.tags.iter().collect());
        put_option(out, self.tier.as_ref(), |out, tier| {
            put_tier(out, tier.tier);
            put_option(out, tier.changed.as_ref(), |out, time| put_time(out, *time));
            put_option(out, tier.rehydrate_to.as_ref(), |out, (tier, priority)| {
                put_tier(out, *tier);
                out.push(u8::from(*priority == RehydratePriority::High));
            });
        });
        put_option(out, self.lease.as_ref(), Lease::put);
        put_option(out, self.copy.as_ref(), put_copy);
        out.extend_from_slice(&self.snapshots.to_le_bytes());
        out.push(u8::from(self.is_shared));
        put_option(out, self.version.as_ref(), |out, time| put_time(out, *time));
        put_body(out, &self.body);
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            kind: match reader.byte()? {
                0 => BlobKind::Block,
                1 => BlobKind::Append { block_count: reader.u64()?, is_sealed: reader.flag()? },
                2 => BlobKind::Page { sequence: reader.u64()? },
                _ => return None,
            },
            changed: reader.time()?,
            created: reader.time()?,
            headers: headers(reader)?,
            metadata: Metadata::parse(pairs(reader)?).ok()?,
            tags: BlobTags::parse(pairs(reader)?).ok()?,
            tier: reader.option(stored_tier)?,
            lease: reader.option(Lease::read)?,
            copy: reader.option(copy)?,
            snapshots: reader.u32()?,
            is_shared: reader.flag()?,
            version: reader.option(Reader::time)?,
            body: body(reader)?,
        })
    }
}

fn put_pairs(out: &mut Vec<u8>, pairs: Vec<(&str, &str)>) {
    put_list(out, &pairs, |out, (name, value)| {
        put_text(out, name);
        put_text(out, value);
    });
}

fn pairs(reader: &mut Reader<'_>) -> Option<Vec<(String, String)>> {
    reader.list(|reader| Some((reader.text()?, reader.text()?)))
}

fn put_headers(out: &mut Vec<u8>, headers: &BlobHeaders) {
    let BlobHeaders {
        content_type,
        content_encoding,
        content_language,
        cache_control,
        content_disposition,
        content_md5,
    } = headers;
    for text in [content_type, content_encoding, content_language, cache_control, content_disposition] {
        put_option(out, text.as_ref(), |out, text| put_text(out, text));
    }
    put_option(out, content_md5.as_ref(), |out, md5| out.extend_from_slice(md5));
}

fn headers(reader: &mut Reader<'_>) -> Option<BlobHeaders> {
    Some(BlobHeaders {
        content_type: reader.option(Reader::text)?,
        content_encoding: reader.option(Reader::text)?,
        content_language: reader.option(Reader::text)?,
        cache_control: reader.option(Reader::text)?,
        content_disposition: reader.option(Reader::text)?,
        content_md5: reader.option(Reader::array)?,
    })
}

/// The numbers of tiers are those of their list, which only grows at its end.
fn put_tier(out: &mut Vec<u8>, tier: AccessTier) {
    let number = AccessTier::ALL.iter().position(|known| *known == tier).expect("all tiers are in the list");
    out.push(u8::try_from(number).expect("there are few tiers"));
}

fn tier(reader: &mut Reader<'_>) -> Option<AccessTier> {
    AccessTier::ALL.get(usize::from(reader.byte()?)).copied()
}

fn stored_tier(reader: &mut Reader<'_>) -> Option<StoredTier> {
    Some(StoredTier {
        tier: tier(reader)?,
        changed: reader.option(Reader::time)?,
        rehydrate_to: reader.option(|reader| {
            let tier = tier(reader)?;
            let priority = if reader.flag()? { RehydratePriority::High } else { RehydratePriority::Standard };
            Some((tier, priority))
        })?,
    })
}

fn put_copy(out: &mut Vec<u8>, copy: &CopyShown) {
    let CopyShown { id, source, status, status_description, copied, total, completed } = copy;
    out.extend_from_slice(&id.0);
    put_text(out, source);
    out.push(match status {
        CopyStatus::Pending => 0,
        CopyStatus::Success => 1,
        CopyStatus::Aborted => 2,
        CopyStatus::Failed => 3,
    });
    put_option(out, status_description.as_ref(), |out, text| put_text(out, text));
    out.extend_from_slice(&copied.to_le_bytes());
    out.extend_from_slice(&total.to_le_bytes());
    put_option(out, completed.as_ref(), |out, time| put_time(out, *time));
}

fn copy(reader: &mut Reader<'_>) -> Option<CopyShown> {
    Some(CopyShown {
        id: Guid(reader.array()?),
        source: reader.text()?,
        status: match reader.byte()? {
            0 => CopyStatus::Pending,
            1 => CopyStatus::Success,
            2 => CopyStatus::Aborted,
            3 => CopyStatus::Failed,
            _ => return None,
        },
        status_description: reader.option(Reader::text)?,
        copied: reader.u64()?,
        total: reader.u64()?,
        completed: reader.option(Reader::time)?,
    })
}

fn put_body(out: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Data(data) => {
            out.push(0);
            Data::put(out, data);
        }
        Body::Pieces { generation, rows, count, length } => {
            out.push(1);
            out.extend_from_slice(&generation.to_le_bytes());
            out.extend_from_slice(&rows.to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&length.to_le_bytes());
        }
        Body::Pages { generations, length } => {
            out.push(2);
            put_list(out, generations, |out, generation| out.extend_from_slice(&generation.to_le_bytes()));
            out.extend_from_slice(&length.to_le_bytes());
        }
    }
}

fn body(reader: &mut Reader<'_>) -> Option<Body> {
    Some(match reader.byte()? {
        0 => Body::Data(Data::read(reader)?),
        1 => Body::Pieces {
            generation: reader.u64()?,
            rows: reader.u32()?,
            count: reader.u32()?,
            length: reader.u64()?,
        },
        2 => Body::Pages { generations: reader.list(Reader::u64)?, length: reader.u64()? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};
    use tavola_engine::Content;

    fn full() -> Record {
        let time = DateTime::from_ticks(638_000_000_000_000_001).unwrap();
        let pairs = || [("Colour".to_owned(), "blue".to_owned())];
        Record {
            kind: BlobKind::Append { block_count: 7, is_sealed: true },
            changed: time,
            created: DateTime::MIN,
            headers: BlobHeaders {
                content_type: Some("text/plain".into()),
                content_encoding: Some("gzip".into()),
                content_language: Some("en".into()),
                cache_control: Some("no-store".into()),
                content_disposition: Some("inline".into()),
                content_md5: Some([5; 16]),
            },
            metadata: Metadata::parse(pairs()).unwrap(),
            tags: BlobTags::parse(pairs()).unwrap(),
            tier: Some(StoredTier {
                tier: AccessTier::Archive,
                changed: Some(time),
                rehydrate_to: Some((AccessTier::Hot, RehydratePriority::High)),
            }),
            lease: None,
            copy: Some(CopyShown {
                id: Guid([9; 16]),
                source: "http://127.0.0.1/a/b/c".into(),
                status: CopyStatus::Success,
                status_description: Some("done".into()),
                copied: 3,
                total: 4,
                completed: Some(time),
            }),
            snapshots: 2,
            is_shared: true,
            version: Some(time),
            body: Body::Pieces { generation: 11, rows: 2, count: 1001, length: 1 << 40 },
        }
    }

    fn bare(kind: BlobKind, body: Body) -> Record {
        Record {
            kind,
            headers: BlobHeaders::default(),
            metadata: Metadata::default(),
            tags: BlobTags::default(),
            tier: None,
            copy: None,
            snapshots: 0,
            is_shared: false,
            version: None,
            body,
            ..full()
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let content = Content { id: ContentId([3; 16]), length: 5000 };
        let records = [
            full(),
            bare(BlobKind::Block, Body::Data(Data::Inline(Bytes::from_static(b"abc")))),
            bare(BlobKind::Block, Body::Data(Data::Content(content))),
            bare(BlobKind::Page { sequence: 4 }, Body::Pages { generations: vec![1, 2], length: 512 }),
        ];
        for record in records {
            assert_eq!(Record::decode(&record.encode()).as_ref(), Some(&record));
            assert_eq!(Record::decode_shared(&record.encode().into()), Some(record));
        }
    }

    #[test]
    fn cut_or_unknown_records_are_refused() {
        let mut bytes = full().encode();
        for len in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..len]), None, "{len}");
        }
        bytes[0] = VERSION + 1;
        assert_eq!(Record::decode(&bytes), None);
    }

    const FULL_FIXTURE: &str = "01010700000000000000010100b3a69ea1da080000000000000000010a000000746578742f706c61696e010400000067\
        7a69700102000000656e01080000006e6f2d73746f72650106000000696e6c696e650105050505050505050505050505\
        0505050100000006000000436f6c6f757204000000626c75650100000006000000436f6c6f757204000000626c756501\
        03010100b3a69ea1da0801000100010909090909090909090909090909090916000000687474703a2f2f3132372e302e\
        302e312f612f622f63010104000000646f6e6503000000000000000400000000000000010100b3a69ea1da0802000000\
        01010100b3a69ea1da08010b0000000000000002000000e90300000000000000010000";
    const HELD_FIXTURE: &str = "01000100b3a69ea1da080000000000000000000000000000000000000000000000010a0a0a0a0a0a0a0a0a0a0a0a0a0a\
        0a0a0f0081d1a3af9ea1da08000000000000000001030303030303030303030303030303038813000000000000";
    const BROKEN_FIXTURE: &str = "010204000000000000000100b3a69ea1da080000000000000000000000000000000000000000000000010b0b0b0b0b0b\
        0b0b0b0b0b0b0b0b0b0b000101c29eb29ea1da0800000000000000020200000001000000000000000200000000000000\
        0002000000000000";

    #[test]
    fn records_with_everything_keep_their_layout() {
        let [held, broken] = Lease::held_and_broken(full().changed);
        let content = Body::Data(Data::Content(Content { id: ContentId([3; 16]), length: 5000 }));
        let pages = Body::Pages { generations: vec![1, 2], length: 512 };
        let check = |record: Record, fixture: &str| {
            assert_eq!(hex(&record.encode()), fixture);
            assert_eq!(Record::decode(&bytes(fixture)), Some(record));
        };
        check(full(), FULL_FIXTURE);
        check(Record { lease: Some(held), ..bare(BlobKind::Block, content) }, HELD_FIXTURE);
        check(Record { lease: Some(broken), ..bare(BlobKind::Page { sequence: 4 }, pages) }, BROKEN_FIXTURE);
    }

    #[test]
    fn tiers_and_ends_of_copies_keep_their_numbers() {
        let tiers: Vec<&str> = AccessTier::ALL.iter().map(|tier| tier.as_str()).collect();
        assert_eq!(
            tiers.join(" "),
            "Hot Cool Cold Archive Premium P4 P6 P10 P15 P20 P30 P40 P50 P60 P70 P80"
        );
        let copy = full().copy.unwrap();
        let status_at = 16 + 4 + copy.source.len();
        let statuses = [CopyStatus::Pending, CopyStatus::Success, CopyStatus::Aborted, CopyStatus::Failed];
        for (number, status) in statuses.into_iter().enumerate() {
            let mut out = Vec::new();
            put_copy(&mut out, &CopyShown { status, ..copy.clone() });
            assert_eq!(usize::from(out[status_at]), number, "{status:?}");
        }
    }

    #[test]
    fn a_record_keeps_its_layout() {
        let record = bare(BlobKind::Block, Body::Data(Data::Inline(Bytes::from_static(b"abc"))));
        let hex: String = record.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "01000100b3a69ea1da0800000000000000000000000000000000000000000000\
             000000000000000000000003000000616263"
        );
    }
}
