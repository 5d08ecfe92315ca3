//! Small summaries of many values: the quantiles of durations, and the most frequent of many names.
//!
//! Both hold a bounded number of counters, whatever they are fed. Written by hand because there are thousands of them and
//! they are kept in a file: `hdrhistogram` takes kilobytes for each, however few values it has.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Durations by size: eight buckets to each doubling, so a quantile is right within a twelfth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Bucket and count, sorted, without empty ones. There are at most 256.
    buckets: Vec<(u8, u32)>,
}

impl Latencies {
    /// Counts a duration, so many times.
    pub fn add(&mut self, duration: Duration, times: u32) {
        self.add_bucket(bucket_of(duration), times);
    }

    /// Counts all durations of another.
    pub fn merge(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
            return;
        }
        // From the back, so that nothing is moved twice: first space for all, then what is larger goes behind.
        let (mut own, mut others) = (self.buckets.len(), other.buckets.len());
        let is_new = |bucket: &u8| self.buckets.binary_search_by_key(bucket, |(own, _)| *own).is_err();
        let added = other.buckets.iter().filter(|(bucket, _)| is_new(bucket)).count();
        self.buckets.resize(own + added, (0, 0));
        let mut place = self.buckets.len();
        while others > 0 {
            let (bucket, count) = other.buckets[others - 1];
            place -= 1;
            if own > 0 && self.buckets[own - 1].0 >= bucket {
                let (known, mine) = self.buckets[own - 1];
                let is_same = known == bucket;
                self.buckets[place] = (known, if is_same { mine.saturating_add(count) } else { mine });
                own -= 1;
                others -= usize::from(is_same);
            } else {
                self.buckets[place] = (bucket, count);
                others -= 1;
            }
        }
    }

    /// The duration that this part of all, between 0 and 1, does not exceed; zero if there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let total: u64 = self.buckets.iter().map(|(_, count)| u64::from(*count)).sum();
        #[allow(clippy::cast_precision_loss, reason = "a rank among counts; the last digit does not matter")]
        let rank = part.clamp(0.0, 1.0) * total as f64;
        let mut seen = 0.0;
        for &(bucket, count) in &self.buckets {
            seen += f64::from(count);
            if seen >= rank {
                return bucket_middle(bucket);
            }
        }
        Duration::ZERO
    }

    /// The same in milliseconds.
    pub fn quantile_ms(&self, part: f64) -> f64 {
        self.quantile(part).as_secs_f64() * 1000.0
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<(u8, u32)>()
    }

    /// Gives back memory that is not used.
    pub fn shrink(&mut self) {
        self.buckets.shrink_to_fit();
    }

    fn add_bucket(&mut self, bucket: u8, times: u32) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(found) => self.buckets[found].1 = self.buckets[found].1.saturating_add(times),
            Err(place) => self.buckets.insert(place, (bucket, times)),
        }
    }
}

/// The logarithm to the base 2 of the microseconds, in eighths.
fn bucket_of(duration: Duration) -> u8 {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1);
    let octave = micros.ilog2();
    // The three bits below the highest one.
    let eighth = if octave >= 3 { (micros >> (octave - 3)) & 7 } else { (micros << (3 - octave)) & 7 };
    u8::try_from(u64::from(octave) * 8 + eighth).unwrap_or(u8::MAX)
}

fn bucket_middle(bucket: u8) -> Duration {
    let (octave, eighth) = (bucket / 8, bucket % 8);
    let low = f64::from(octave).exp2();
    Duration::from_secs_f64(low * (1.0 + (f64::from(eighth) + 0.5) / 8.0) / 1_000_000.0)
}

/// The most frequent names of a stream, by the space-saving algorithm: the count of a name is too large by at most
/// its `error`, and a name that makes up more than one in `capacity` is never missed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "T: Serialize + for<'a> Deserialize<'a>")]
pub struct HeavyHitters<T: Eq + Hash> {
    capacity: usize,
    /// In a list, because a map with such keys has no form in JSON.
    #[serde(with = "as_list")]
    counters: HashMap<T, Hitter>,
    total: u64,
}

/// How often a name came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hitter {
    /// At most so often.
    pub count: u64,
    /// Too large by at most this.
    pub error: u64,
}

impl<T: Eq + Hash + Clone + Ord> HeavyHitters<T> {
    /// With capacity for so many names.
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), counters: HashMap::new(), total: 0 }
    }

    /// Counts a name, so many times.
    pub fn add<Q>(&mut self, name: &Q, times: u64)
    where
        T: std::borrow::Borrow<Q> + for<'a> From<&'a Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.total += times;
        if let Some(hitter) = self.counters.get_mut(name) {
            hitter.count += times;
            return;
        }
        let mut error = 0;
        if self.counters.len() >= self.capacity {
            let least = self
                .counters
                .iter()
                .min_by(|left, right| (left.1.count, left.0).cmp(&(right.1.count, right.0)));
            let Some((least, hitter)) = least.map(|(name, hitter)| (name.clone(), *hitter)) else { return };
            self.counters.remove(least.borrow());
            error = hitter.count;
        }
        self.counters.insert(T::from(name), Hitter { count: error + times, error });
    }

    /// The names that are known, the most frequent first.
    pub fn top(&self) -> Vec<(&T, Hitter)> {
        let mut all: Vec<_> = self.counters.iter().map(|(name, hitter)| (name, *hitter)).collect();
        all.sort_by(|left, right| right.1.count.cmp(&left.1.count).then_with(|| left.0.cmp(right.0)));
        all
    }

    /// All that were counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counters.clear();
        self.total = 0;
    }
}

mod as_list {
    use std::collections::HashMap;
    use std::hash::Hash;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Hitter;

    pub fn serialize<T: Serialize, S: Serializer>(
        counters: &HashMap<T, Hitter>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(counters.iter())
    }

    pub fn deserialize<'de, T: Deserialize<'de> + Eq + Hash, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<HashMap<T, Hitter>, D::Error> {
        Ok(Vec::<(T, Hitter)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_right_within_a_twelfth() {
        let mut latencies = Latencies::default();
        for micros in 1..=10_000 {
            latencies.add(Duration::from_micros(micros), 1);
        }
        for part in [0.01, 0.5, 0.9, 0.99] {
            let exact = part * 10_000.0;
            let found = latencies.quantile(part).as_secs_f64() * 1_000_000.0;
            assert!((found - exact).abs() / exact < 1.0 / 12.0, "{part}: {found} for {exact}");
        }
        assert_eq!(Latencies::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn the_longest_duration_has_a_bucket_and_merging_adds() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::MAX, 1);
        latencies.add(Duration::ZERO, 2);
        let mut other = latencies.clone();
        other.merge(&latencies);
        assert_eq!(other.buckets, [(0, 4), (255, 2)]);
    }

    #[test]
    fn merging_gives_what_adding_gives() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..500 {
            let (mut left, mut right, mut both) =
                (Latencies::default(), Latencies::default(), Latencies::default());
            for _ in 0..random.usize(0..40) {
                let duration = Duration::from_micros(random.u64(1..200));
                let side = if random.bool() { &mut left } else { &mut right };
                side.add(duration, 2);
                both.add(duration, 2);
            }
            left.merge(&right);
            assert_eq!(left, both);
        }
    }

    #[test]
    fn a_frequent_name_is_found_among_many_rare_ones() {
        let mut names = HeavyHitters::<String>::new(16);
        for n in 0..10_000 {
            names.add(format!("rare-{n}").as_str(), 1);
            if n % 5 == 0 {
                names.add("frequent", 1);
            }
        }
        let top = names.top();
        assert_eq!((top.len(), top[0].0.as_str()), (16, "frequent"));
        assert!(top[0].1.count - top[0].1.error <= 2_000 && top[0].1.count >= 2_000, "{:?}", top[0]);
        assert_eq!(names.total(), 12_000);
    }
}
