//! What is known of one key range: its operations over times of different length, and a sample of its keys.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::ranges::{KeyPosition, cut};

/// Keys that a range remembers, to know its median.
const SAMPLE_MAX: usize = 24;
/// Smallest hashes that a range remembers, to know how many keys it has.
const HASHES_MAX: usize = 32;

/// What is known of one key range.
#[derive(Default)]
pub(super) struct Load {
    /// Operations of the last hours.
    pub operations: f32,
    /// The same of the last days.
    pub lasting: f32,
    /// The same in this minute.
    pub latest: f32,
    /// The lowest PartitionKey that was asked for.
    pub lowest: Option<Arc<str>>,
    pub sample: Vec<KeyPosition>,
    seen: u32,
    /// The smallest hashes of its keys, sorted.
    hashes: Vec<u64>,
}

impl Load {
    pub fn add(&mut self, key: (&str, &str), operations: f32, draw: u64) {
        self.operations += operations;
        self.lasting += operations;
        self.latest += operations;
        if self.lowest.as_deref().is_none_or(|lowest| key.0 < lowest) {
            self.lowest = Some(cut(key.0).into());
        }
        self.seen = self.seen.saturating_add(1);
        let hash = xxh3_64(key.0.as_bytes()) ^ xxh3_64(key.1.as_bytes()).rotate_left(1);
        self.note_hash(hash);
        if self.sample.len() < SAMPLE_MAX {
            self.sample.push(KeyPosition::new(key.0, key.1));
            return;
        }
        // Keys that came lately are likelier to be in the sample: the traffic moves.
        let among = u64::from(self.seen.min(1024));
        let place = xxh3_64(&draw.to_le_bytes()) % among;
        if let Some(old) = usize::try_from(place).ok().and_then(|place| self.sample.get_mut(place)) {
            *old = KeyPosition::new(key.0, key.1);
        }
    }

    fn note_hash(&mut self, hash: u64) {
        if self.hashes.len() >= HASHES_MAX && self.hashes.last().is_some_and(|largest| hash >= *largest) {
            return;
        }
        if let Err(place) = self.hashes.binary_search(&hash) {
            self.hashes.insert(place, hash);
            self.hashes.truncate(HASHES_MAX);
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    pub fn keys(&self) -> u64 {
        match self.hashes.last() {
            Some(largest) if self.hashes.len() == HASHES_MAX => {
                ((HASHES_MAX - 1) as f64 / (*largest as f64 / u64::MAX as f64)) as u64
            }
            _ => self.hashes.len() as u64,
        }
    }

    /// An idle range needs no sample; when it is asked again, new keys come.
    pub fn forget_sample(&mut self) {
        self.sample = Vec::new();
        self.seen = 0;
    }

    pub fn absorb(&mut self, other: Self) {
        self.operations += other.operations;
        self.lasting += other.lasting;
        self.latest += other.latest;
        self.lowest = self.lowest.take().or(other.lowest);
        self.seen = self.seen.saturating_add(other.seen);
        for hash in other.hashes {
            self.note_hash(hash);
        }
        self.sample.extend(other.sample);
        if self.sample.len() > SAMPLE_MAX {
            // Every other one, so that both parts stay in it.
            let mut is_kept = false;
            self.sample.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.sample.truncate(SAMPLE_MAX);
        }
    }

    /// The part from a key on.
    #[allow(clippy::cast_precision_loss, reason = "few keys")]
    pub fn split_off(&mut self, boundary: &KeyPosition) -> Self {
        let sample = std::mem::take(&mut self.sample);
        let (upper, lower): (Vec<_>, Vec<_>) = sample.into_iter().partition(|key| key >= boundary);
        let share = upper.len() as f32 / (upper.len() + lower.len()).max(1) as f32;
        let part = |sample: Vec<KeyPosition>, share: f32| {
            let mut load = Self {
                operations: self.operations * share,
                lasting: self.lasting * share,
                latest: self.latest * share,
                lowest: sample.iter().map(|key| &key.partition).min().cloned(),
                ..Self::default()
            };
            for key in &sample {
                load.note_hash(
                    xxh3_64(key.partition.as_bytes()) ^ xxh3_64(key.row.as_bytes()).rotate_left(1),
                );
            }
            load.seen = u32::try_from(sample.len()).unwrap_or(0);
            load.sample = sample;
            load
        };
        let (upper, mut lower) = (part(upper, share), part(lower, 1.0 - share));
        lower.lowest = self.lowest.take().filter(|lowest| **lowest < *boundary.partition).or(lower.lowest);
        *self = lower;
        upper
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.sample.iter().map(KeyPosition::heap_bytes).sum();
        let hashes = HASHES_MAX * size_of::<u64>();
        keys + self.sample.capacity() * size_of::<KeyPosition>() + hashes + size_of::<Self>()
    }
}
