//! A look at the store's journals before the store replays them.
//!
//! Every commit is one batch in the journal, and the next is begun only after the sync of the one before. So a
//! power cut can spoil only the very last batch, which nobody was told about. The store's own replay is wrong on
//! both sides of that: it refuses a journal whose last batch lost a block in the middle, and it quietly forgets
//! good batches behind a spoilt one. So we look first: a spoilt last batch is cut off; a spoilt batch with a good
//! one behind it is damage, and the folder is refused.
//!
//! The layout read here is that of the store's journal, version 3 (`docs/formats.md`).

use std::fs::{self, File};
use std::io;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8] = b"FJL\x03";
/// Tag, item count, sequence number.
const START_LEN: usize = 13;
/// A batch found behind a spoilt one has a sequence number above it, but not by more than this.
const SEQUENCE_GAP_MAX: u64 = 1 << 32;

/// What a journal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Journal {
    /// Good batches, then nothing.
    Whole,
    /// Good batches up to this byte, then a spoilt one and nothing else.
    TornAt(u64),
    /// A good batch behind a spoilt one.
    Damaged,
}

/// Looks at all journals in the store's folder and cuts off a torn last batch. `Err` tells what is damaged.
pub(crate) fn mend(store: &Path) -> io::Result<Result<(), &'static str>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        if let (Some(id), Some("jnl")) = (id, path.extension().and_then(|extension| extension.to_str())) {
            paths.push((id, path));
        }
    }
    paths.sort();
    let active = paths.last().map(|(id, _)| *id);
    for (id, path) in paths {
        match examine(&fs::read(&path)?) {
            Journal::Whole => {}
            Journal::TornAt(length) if Some(id) == active => {
                tracing::warn!(journal = id, length, "cut off a write that a power cut left unfinished");
                let file = File::options().write(true).open(&path)?;
                file.set_len(length)?;
                file.sync_all()?;
            }
            Journal::TornAt(_) => return Ok(Err("a closed journal ends in a spoilt batch")),
            Journal::Damaged => return Ok(Err("a journal has a spoilt batch between good ones")),
        }
    }
    Ok(Ok(()))
}

/// Says what a journal holds.
pub(crate) fn examine(journal: &[u8]) -> Journal {
    let mut end = 0;
    let mut sequence = 0;
    while let Some(batch) = Batch::read(&journal[end..]) {
        end += batch.len;
        sequence = batch.sequence;
    }
    // The file is made at its full size, so behind the last batch there are zeros.
    let rest = without_trailing_zeros(&journal[end..]);
    if rest.is_empty() {
        return Journal::Whole;
    }
    if has_good_batch(rest, sequence) { Journal::Damaged } else { Journal::TornAt(end as u64) }
}

/// Whether good batches follow somewhere behind the spoilt one that `rest` begins with, up to the very end.
///
/// A batch alone would not prove it: a client can put the bytes of one into a value, and a torn write leaves that
/// value's beginning behind. But then the tear, and not the end of a batch, is where the bytes end.
fn has_good_batch(rest: &[u8], sequence: u64) -> bool {
    let later = sequence + 1..sequence.saturating_add(SEQUENCE_GAP_MAX);
    let mut at = 1;
    while at < rest.len() {
        let may_begin = rest[at] == START
            && rest.get(at + 5..at + START_LEN).is_some_and(|bytes| later.contains(&read_u64(bytes)));
        let mut end = at;
        while may_begin && let Some(batch) = Batch::read(&rest[end..]) {
            end += batch.len;
            if end == rest.len() {
                return true;
            }
        }
        // What was a chain of batches that leads nowhere holds no other.
        at = end.max(at + 1);
    }
    false
}

struct Batch {
    len: usize,
    sequence: u64,
}

impl Batch {
    /// The batch these bytes begin with, if it is whole and its checksum matches.
    fn read(bytes: &[u8]) -> Option<Self> {
        if *bytes.first()? != START {
            return None;
        }
        let items = u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?);
        if items == 0 {
            return None;
        }
        let sequence = read_u64(bytes.get(5..START_LEN)?);
        let mut at = START_LEN;
        let mut checksum = Xxh3::new();
        for _ in 0..items {
            let item_len = item_len(bytes.get(at..)?)?;
            checksum.update(bytes.get(at..at + item_len)?);
            at += item_len;
        }
        let end = bytes.get(at..at + 1 + 8 + MAGIC.len())?;
        let is_good = end[0] == END && read_u64(&end[1..9]) == checksum.digest() && &end[9..] == MAGIC;
        is_good.then_some(Self { len: at + end.len(), sequence })
    }
}

/// Tag, value type, compression, u64 space, u16 key length, u32 value length, u32 stored value length, key, value.
fn item_len(bytes: &[u8]) -> Option<usize> {
    const HEAD_LEN: usize = 21;
    match *bytes.first()? {
        CLEAR => Some(9),
        ITEM => {
            let head = bytes.get(..HEAD_LEN)?;
            let key_len = usize::from(u16::from_le_bytes([head[11], head[12]]));
            let value_len = u32::from_le_bytes([head[17], head[18], head[19], head[20]]);
            Some(HEAD_LEN + key_len + usize::try_from(value_len).ok()?)
        }
        _ => None,
    }
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

/// Whole blocks first, which is one comparison of memory each: a fresh journal is 64 MiB of zeros.
fn without_trailing_zeros(bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 4096] = [0; 4096];
    let is_zero = |block: &[u8]| *block == ZEROS[..block.len()];
    let blocks = bytes.chunks(ZEROS.len()).rposition(|block| !is_zero(block)).map_or(0, |last| last + 1);
    let bytes = &bytes[..bytes.len().min(blocks * ZEROS.len())];
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &bytes[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sequence: u64, values: &[&[u8]]) -> Vec<u8> {
        let mut items = Vec::new();
        for value in values {
            items.extend_from_slice(&[ITEM, 0, 0]);
            items.extend_from_slice(&1u64.to_le_bytes());
            items.extend_from_slice(&3u16.to_le_bytes());
            let len = u32::try_from(value.len()).unwrap().to_le_bytes();
            items.extend_from_slice(&[len, len].concat());
            items.extend_from_slice(b"key");
            items.extend_from_slice(value);
        }
        let mut checksum = Xxh3::new();
        checksum.update(&items);
        let mut bytes = vec![START];
        bytes.extend_from_slice(&u32::try_from(values.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&items);
        bytes.push(END);
        bytes.extend_from_slice(&checksum.digest().to_le_bytes());
        bytes.extend_from_slice(MAGIC);
        bytes
    }

    fn check(parts: &[&[u8]], expected: Journal) {
        assert_eq!(examine(&parts.concat()), expected);
        // Zeros behind change nothing.
        let padding = vec![0; 10_000];
        assert_eq!(examine(&[parts, &[&padding[..]]].concat().concat()), expected);
    }

    #[test]
    fn good_batches_are_whole() {
        check(&[], Journal::Whole);
        check(&[&batch(1, &[b"one"]), &batch(2, &[b"two", &[7; 9000]]), &batch(9, &[b""])], Journal::Whole);
    }

    #[test]
    fn a_last_batch_cut_or_spoilt_anywhere_is_torn() {
        let (good, last) = (batch(1, &[b"one"]), batch(2, &[b"two", b"three"]));
        let torn = Journal::TornAt(good.len() as u64);
        for length in 1..last.len() {
            check(&[&good, &last[..length]], torn);
        }
        for at in 0..last.len() {
            let mut spoilt = last.clone();
            spoilt[at] = spoilt[at].wrapping_add(0x55);
            check(&[&good, &spoilt], if (5..13).contains(&at) { Journal::Whole } else { torn });
        }
    }

    #[test]
    fn a_batch_that_a_client_put_into_a_value_is_no_proof() {
        let good = batch(1, &[b"one"]);
        let forged = batch(3, &[b"x"]).repeat(20);
        let last = batch(2, &[b"two", &forged, b"three"]);
        let torn = Journal::TornAt(good.len() as u64);
        let mut proofs = 0;
        for length in 1..last.len() {
            let seen = examine(&[&good[..], &last[..length]].concat());
            assert!(seen == torn || seen == Journal::Damaged);
            proofs += usize::from(seen != torn);
        }
        // Only a tear exactly at the end of a forged batch looks like damage, which loses nothing.
        assert!(proofs <= 20, "{proofs}");
    }

    #[test]
    fn a_spoilt_batch_between_good_ones_is_damage() {
        let (first, middle, last) = (batch(1, &[b"one"]), batch(2, &[b"two"]), batch(3, &[b"three"]));
        for at in (0..5).chain(13..middle.len()) {
            let mut spoilt = middle.clone();
            spoilt[at] ^= 0x55;
            check(&[&first, &spoilt, &last], Journal::Damaged);
            check(&[&first, &vec![0; middle.len()], &last], Journal::Damaged);
        }
    }
}
