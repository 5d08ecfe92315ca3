//! Records of a journal: their bytes, and what can be said of bytes that are no record.
//!
//! A record is one commit. Each has a number, one more than the last, and tells up to which number the journal was
//! synced when it was written. So a reader can tell apart the two ways in which a record can be unreadable: a commit
//! that was never acknowledged was torn by a power cut, or something that was synced has been damaged since.
//!
//! After every sync a mark is written behind the last record, where the next one will be: a record without a payload
//! that tells of the sync. It is not synced itself; it takes part in the next sync, or in the system's own writing.
//!
//! Checksums are seeded with a number of the journal's own, so no bytes that a client stores can be taken for a record.
//! `docs/formats.md` has the layout.

use xxhash_rust::xxh3::Xxh3;

/// Length, sequence, synced sequence, tick, checksum.
pub(crate) const RECORD_HEADER_LEN: usize = 36;
const SEQUENCE_AT: usize = 4;
const SYNCED_AT: usize = 12;
const TICK_AT: usize = 20;
const CHECKSUM_AT: usize = 28;
/// A record found behind an unreadable one has a sequence above it, but not by more than this.
const SEQUENCE_GAP_MAX: u64 = 1 << 20;

/// What a record says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// Its number.
    pub(crate) sequence: u64,
    /// The highest number that was synced before this was written.
    pub(crate) synced: u64,
    /// The highest tick that was ever committed, this record included.
    pub(crate) tick: u64,
}

/// A record in the bytes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalRecord<'a> {
    pub(crate) header: RecordHeader,
    /// Its changes; empty for a mark.
    pub(crate) payload: &'a [u8],
}

/// Turns a buffer with bytes free for the header in front of the payload into a record.
pub(crate) fn seal(salt: u64, header: RecordHeader, buffer: &mut [u8]) {
    let payload_len =
        u32::try_from(buffer.len() - RECORD_HEADER_LEN).expect("a record fits into its journal");
    buffer[..SEQUENCE_AT].copy_from_slice(&payload_len.to_le_bytes());
    buffer[SEQUENCE_AT..SYNCED_AT].copy_from_slice(&header.sequence.to_le_bytes());
    buffer[SYNCED_AT..TICK_AT].copy_from_slice(&header.synced.to_le_bytes());
    buffer[TICK_AT..CHECKSUM_AT].copy_from_slice(&header.tick.to_le_bytes());
    let checksum = checksum(salt, buffer);
    buffer[CHECKSUM_AT..RECORD_HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
}

/// The mark that stands behind the last record once it is synced.
pub(crate) fn mark(salt: u64, header: RecordHeader) -> [u8; RECORD_HEADER_LEN] {
    let mut buffer = [0; RECORD_HEADER_LEN];
    seal(salt, header, &mut buffer);
    buffer
}

/// The record that these bytes begin with, if it is whole and its checksum matches.
pub(crate) fn read(salt: u64, bytes: &[u8]) -> Option<JournalRecord<'_>> {
    let header = bytes.get(..RECORD_HEADER_LEN)?;
    let payload_len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let record = bytes.get(..RECORD_HEADER_LEN.checked_add(usize::try_from(payload_len).ok()?)?)?;
    if read_u64(header, CHECKSUM_AT) != checksum(salt, record) {
        return None;
    }
    let header = RecordHeader {
        sequence: read_u64(header, SEQUENCE_AT),
        synced: read_u64(header, SYNCED_AT),
        tick: read_u64(header, TICK_AT),
    };
    Some(JournalRecord { header, payload: &record[RECORD_HEADER_LEN..] })
}

/// Whether some record in `bytes` proves that the record `sequence` was synced.
pub(crate) fn proves_synced(salt: u64, bytes: &[u8], sequence: u64) -> bool {
    let later = sequence..sequence.saturating_add(SEQUENCE_GAP_MAX);
    let mut at = 0;
    while let Some(header) = bytes.get(at..at + RECORD_HEADER_LEN) {
        if *header == [0; RECORD_HEADER_LEN] {
            // The number of a record is not zero, so none begins here or in the next few bytes.
            at += RECORD_HEADER_LEN - SYNCED_AT;
            continue;
        }
        let is_candidate =
            later.contains(&read_u64(header, SEQUENCE_AT)) && read_u64(header, SYNCED_AT) >= sequence;
        if is_candidate && read(salt, &bytes[at..]).is_some() {
            return true;
        }
        at += 1;
    }
    false
}

fn checksum(salt: u64, record: &[u8]) -> u64 {
    let mut checksum = Xxh3::with_seed(salt);
    checksum.update(&record[..CHECKSUM_AT]);
    checksum.update(&record[RECORD_HEADER_LEN..]);
    checksum.digest()
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 0x5A17;

    fn record(sequence: u64, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; RECORD_HEADER_LEN];
        buffer.extend_from_slice(payload);
        seal(SALT, RecordHeader { sequence, synced: sequence - 1, tick: 70 + sequence }, &mut buffer);
        buffer
    }

    #[test]
    fn the_bytes_of_a_record_are_these() {
        let expected = [
            &[3, 0, 0, 0][..],
            &[9, 0, 0, 0, 0, 0, 0, 0],
            &[8, 0, 0, 0, 0, 0, 0, 0],
            &[79, 0, 0, 0, 0, 0, 0, 0],
            &[200, 224, 219, 55, 63, 3, 252, 230],
            b"abc",
        ];
        assert_eq!(record(9, b"abc"), expected.concat());
    }

    #[test]
    fn what_was_sealed_is_read_and_no_other_bytes_are() {
        let bytes = record(9, b"some changes");
        let header = RecordHeader { sequence: 9, synced: 8, tick: 79 };
        assert_eq!(read(SALT, &bytes), Some(JournalRecord { header, payload: b"some changes" }));
        assert_eq!(read(SALT + 1, &bytes), None);
        for length in 0..bytes.len() {
            assert_eq!(read(SALT, &bytes[..length]), None);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(SALT, &flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn a_later_record_or_a_mark_proves_a_sync_and_nothing_else_does() {
        let later = [&[0xAB; 77][..], &record(11, b"later")].concat();
        assert!(proves_synced(SALT, &later, 10));
        assert!(proves_synced(SALT, &later, 9));
        assert!(!proves_synced(SALT, &later, 11));
        assert!(!proves_synced(SALT + 1, &later, 10));
        let marked =
            [&[0xAB; 77][..], &mark(SALT, RecordHeader { sequence: 11, synced: 10, tick: 1 })].concat();
        assert!(proves_synced(SALT, &marked, 10));
        assert!(!proves_synced(SALT, &marked[..marked.len() - 1], 10));
        assert!(!proves_synced(SALT, &[0; 500], 10));
    }
}
