//! The rows of a blob, which are one partition: its name in the bytes that sort as the service sorts names.
//!
//! | row | holds |
//! |---|---|
//! | `10` | the record |
//! | `20` | the stage: which generation of uncommitted blocks counts |
//! | `30` time | an earlier state: a snapshot, a version, or what was deleted and can be had back |
//! | `35` generation | a note that rows of this generation are being written, which no record names yet (`prepare.rs`) |
//! | `40` generation, number | pieces of the body |
//! | `50` stage generation, block id | an uncommitted block |
//! | `60` generation, cell | pages |
//!
//! A generation is a random number that nobody has used in the partition. Rows of a generation that no record, no
//! earlier state, no stage and no note names are invisible, and `tidy.rs` removes them. All that names a generation
//! comes before the rows of generations, so one scan tells which of those are alive.

use tavola_engine::SpaceId;
use tavola_model::{BlobName, BlockId, DateTime};

use super::pieces::Data;
use super::record::Record;
use crate::codec::{Reader, put_option, put_time};
use crate::failure::Failure;

pub(crate) const RECORD_ROW: &[u8] = &[10];
pub(crate) const STAGE_ROW: &[u8] = &[20];
pub(crate) const EARLIER: u8 = 30;
pub(crate) const NOTE: u8 = 35;
pub(crate) const PIECES: u8 = 40;
pub(crate) const STAGED: u8 = 50;
pub(crate) const PAGES: u8 = 60;

const VERSION: u8 = 1;

/// The partition of a blob.
pub(crate) fn partition(name: &BlobName) -> Vec<u8> {
    name_bytes(name.as_str())
}

/// The bytes of a name, or of the beginning of one, that sort as names do.
pub(crate) fn name_bytes(text: &str) -> Vec<u8> {
    tavola_model::KeyBytes::from_text(text).into_vec()
}

pub(crate) fn earlier_row(time: DateTime) -> Vec<u8> {
    numbered(EARLIER, &time.ticks().to_be_bytes(), &[])
}

pub(crate) fn note_row(generation: u64) -> Vec<u8> {
    numbered(NOTE, &generation.to_be_bytes(), &[])
}

pub(crate) fn pieces_row(generation: u64, number: u32) -> Vec<u8> {
    numbered(PIECES, &generation.to_be_bytes(), &number.to_be_bytes())
}

pub(crate) fn staged_row(generation: u64, block: &BlockId) -> Vec<u8> {
    numbered(STAGED, &generation.to_be_bytes(), block.as_bytes())
}

pub(crate) fn page_row(generation: u64, cell: u64) -> Vec<u8> {
    numbered(PAGES, &generation.to_be_bytes(), &cell.to_be_bytes())
}

/// What all rows of a generation begin with.
pub(crate) fn generation_prefix(kind: u8, generation: u64) -> Vec<u8> {
    numbered(kind, &generation.to_be_bytes(), &[])
}

fn numbered(kind: u8, first: &[u8], second: &[u8]) -> Vec<u8> {
    [&[kind], first, second].concat()
}

/// The number behind the first byte of a row, and what follows.
pub(crate) fn split_row(row: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (kind, rest) = row.split_first()?;
    let (number, rest) = rest.split_first_chunk()?;
    Some((*kind, u64::from_be_bytes(*number), rest))
}

/// An earlier state of a blob.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Earlier {
    pub role: Role,
    /// It is deleted, and can be had back until then.
    pub deleted: Option<Deleted>,
    pub record: Record,
}

/// What an earlier state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Snapshot,
    Version,
    /// The blob itself, which was deleted.
    Base,
}

/// When something was deleted, and until when it can be had back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deleted {
    pub at: DateTime,
    pub until: DateTime,
}

impl Earlier {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.push(match self.role {
            Role::Snapshot => 0,
            Role::Version => 1,
            Role::Base => 2,
        });
        put_option(&mut out, self.deleted.as_ref(), |out, deleted| {
            put_time(out, deleted.at);
            put_time(out, deleted.until);
        });
        out.extend_from_slice(&self.record.encode());
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let role = match reader.byte()? {
            0 => Role::Snapshot,
            1 => Role::Version,
            2 => Role::Base,
            _ => return None,
        };
        let deleted = reader.option(|reader| Some(Deleted { at: reader.time()?, until: reader.time()? }))?;
        let record = Record::decode(reader.rest())?;
        Some(Self { role, deleted, record })
    }
}

/// Which uncommitted blocks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// Blocks of other generations were committed or thrown away.
    pub generation: u64,
    /// How many there are, each time that one was put.
    pub count: u64,
    /// How long their ids are: all of a blob are of one length.
    pub id_length: u8,
    /// When the last one was put.
    pub put: DateTime,
}

impl Stage {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.push(self.id_length);
        put_time(&mut out, self.put);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let stage = Self {
            generation: reader.u64()?,
            count: reader.u64()?,
            id_length: reader.byte()?,
            put: reader.time()?,
        };
        reader.is_done().then_some(stage)
    }
}

pub(crate) fn encode_data(data: &Data) -> Vec<u8> {
    let mut out = vec![VERSION];
    Data::put(&mut out, data);
    out
}

pub(crate) fn decode_data(bytes: &[u8]) -> Option<Data> {
    let mut reader = Reader::of_version(bytes, VERSION)?;
    let data = Data::read(&mut reader)?;
    reader.is_done().then_some(data)
}

/// Stored bytes of a blob that do not say what they should.
pub(crate) fn damaged(space: SpaceId) -> Failure {
    Failure::damaged(space, "a row of a blob")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::record::Body;
    use crate::codec::fixture::{bytes, hex};
    use bytes::Bytes;
    use tavola_engine::{Content, ContentId};
    use tavola_model::{BlobHeaders, BlobKind, BlobTags, Metadata};

    const GENERATION: u64 = 0x0102_0304_0506_0708;

    fn time() -> DateTime {
        DateTime::from_ticks(638_000_000_000_000_001).unwrap()
    }

    fn earlier(role: Role, deleted: Option<Deleted>) -> Earlier {
        let record = Record {
            kind: BlobKind::Block,
            changed: time(),
            created: DateTime::MIN,
            headers: BlobHeaders::default(),
            metadata: Metadata::default(),
            tags: BlobTags::default(),
            tier: None,
            lease: None,
            copy: None,
            snapshots: 0,
            is_shared: false,
            version: None,
            body: Body::Data(Data::Inline(Bytes::from_static(b"abc"))),
        };
        Earlier { role, deleted, record }
    }

    #[test]
    fn row_keys_keep_their_layout() {
        let block = BlockId::from_bytes(b"AAA").unwrap();
        assert_eq!([RECORD_ROW, STAGE_ROW].map(hex), ["0a", "14"]);
        assert_eq!(hex(&earlier_row(time())), "1e08daa19ea6b30001");
        assert_eq!(hex(&pieces_row(GENERATION, 9)), "28010203040506070800000009");
        assert_eq!(hex(&staged_row(GENERATION, &block)), "320102030405060708414141");
        assert_eq!(hex(&page_row(GENERATION, 9)), "3c01020304050607080000000000000009");
        assert_eq!(hex(&generation_prefix(PIECES, GENERATION)), "280102030405060708");
        assert_eq!(split_row(&pieces_row(GENERATION, 9)), Some((PIECES, GENERATION, &[0, 0, 0, 9][..])));
        assert_eq!(hex(&partition(&BlobName::parse("a/é").unwrap())), "612fc3a9");
    }

    const STAGE_FIXTURE: &str = "0108070605040302010300000000000000040100b3a69ea1da08";
    const RECORD_FIXTURE: &str = "01000100b3a69ea1da080000000000000000000000000000000000000000000000000000000000000000000300000061\
        6263";

    #[test]
    fn a_stage_keeps_its_layout_and_a_cut_one_is_refused() {
        let stage = Stage { generation: GENERATION, count: 3, id_length: 4, put: time() };
        assert_eq!(hex(&stage.encode()), STAGE_FIXTURE);
        let stored = bytes(STAGE_FIXTURE);
        assert_eq!(Stage::decode(&stored), Some(stage));
        for len in 0..stored.len() {
            assert_eq!(Stage::decode(&stored[..len]), None, "{len}");
        }
    }

    #[test]
    fn earlier_states_keep_their_layout_in_every_role() {
        let deleted = Deleted { at: time(), until: DateTime::MAX };
        let check = |earlier: Earlier, head: &str| {
            let fixture = format!("{head}{RECORD_FIXTURE}");
            assert_eq!(hex(&earlier.encode()), fixture);
            let stored = bytes(&fixture);
            assert_eq!(Earlier::decode(&stored), Some(earlier));
            for len in 0..stored.len() {
                assert_eq!(Earlier::decode(&stored[..len]), None, "{len}");
            }
        };
        check(earlier(Role::Snapshot, None), "010000");
        check(earlier(Role::Version, None), "010100");
        check(earlier(Role::Base, Some(deleted)), "0102010100b3a69ea1da08ff3f37f47528ca2b");
    }

    #[test]
    fn uncommitted_blocks_keep_their_layout() {
        let check = |data: Data, fixture: &str| {
            assert_eq!(hex(&encode_data(&data)), fixture);
            let stored = bytes(fixture);
            assert_eq!(decode_data(&stored), Some(data));
            for len in 0..stored.len() {
                assert_eq!(decode_data(&stored[..len]), None, "{len}");
            }
        };
        check(Data::Inline(Bytes::from_static(b"abc")), "010003000000616263");
        let content = Content { id: ContentId([3; 16]), length: 5000 };
        check(Data::Content(content), "0101030303030303030303030303030303038813000000000000");
    }
}
