//! A row on its way from store to store, and the sum of many.

use bytes::{Buf, Bytes};
use tavola_engine::{ScannedRow, StoredRow};
use tavola_model::DateTime;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes in front of the keys and the body of a row: three lengths and the version.
const HEAD_LEN: usize = 4 + 4 + 4 + 8;

/// A row that was read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRow {
    pub partition: Bytes,
    pub row: Bytes,
    pub stored: StoredRow,
}

impl MovedRow {
    /// Takes one row off the front; `None` if the bytes are not one.
    pub fn decode(bytes: &mut Bytes) -> Option<Self> {
        if bytes.len() < HEAD_LEN {
            return None;
        }
        let mut take_len = || usize::try_from(bytes.get_u32_le()).ok();
        let (partition_len, row_len, body_len) = (take_len()?, take_len()?, take_len()?);
        let version = DateTime::from_ticks(bytes.get_u64_le())?;
        if bytes.len() < partition_len.checked_add(row_len)?.checked_add(body_len)? {
            return None;
        }
        let (partition, row) = (bytes.split_to(partition_len), bytes.split_to(row_len));
        Some(Self { partition, row, stored: StoredRow { version, body: bytes.split_to(body_len) } })
    }
}

/// Appends a row in the form that files hold and sums are made of.
pub fn encode(row: &ScannedRow<'_>, out: &mut Vec<u8>) {
    for part in [row.partition, row.row, &row.body] {
        let len = u32::try_from(part.len()).expect("a row is far smaller than 4 GiB");
        out.extend_from_slice(&len.to_le_bytes());
    }
    out.extend_from_slice(&row.version.ticks().to_le_bytes());
    for part in [row.partition, row.row, &row.body] {
        out.extend_from_slice(part);
    }
}

/// What tells whether two spaces hold the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub rows: u64,
    /// Bytes of all of them, encoded.
    pub bytes: u64,
    /// XXH3-64 of the last row, with the sum of all before it as its seed.
    pub checksum: u64,
}

impl Sum {
    /// Adds an encoded row, behind those before.
    pub fn add(&mut self, encoded: &[u8]) {
        self.rows += 1;
        self.bytes += encoded.len() as u64;
        self.checksum = xxh3_64_with_seed(encoded, self.checksum);
    }
}
