//! In which order keys come, and what they are made of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// After so many inserts that do not reach the highest key, the highest starts over: one key from the far future must
/// not hide that all others come in order.
const EXTREME_FORGOTTEN_AFTER: u64 = 256;
/// Partitions whose last RowKey is remembered.
const PARTITIONS_MAX: usize = 64;
/// Prefixes of numbers that are told apart.
const PREFIXES_MAX: usize = 8;
/// Digits of a number in a key; longer ones are something else.
const DIGITS_MAX: usize = 12;

/// Where inserts go in the order of the keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct InsertOrder {
    pub inserts: u64,
    /// Inserts into the highest partition so far, or a higher one.
    pub at_end: u64,
    /// Inserts into the lowest partition so far, or a lower one.
    pub at_front: u64,
    /// How often a higher partition was begun.
    pub advances_up: u64,
    /// How often a lower partition was begun.
    pub advances_down: u64,
    /// Inserts whose PartitionKey, or RowKey, reads like a time.
    pub time_partitions: u64,
    pub time_rows: u64,
    /// The order of the RowKeys inside of partitions.
    pub rows: RowOrder,
    pub last_partition: String,
    pub last_row: String,
    highest: Option<String>,
    lowest: Option<String>,
    since_highest: u64,
    since_lowest: u64,
}

impl InsertOrder {
    /// Takes note of an insert, or of those of a batch by the first of them.
    pub fn observe(&mut self, partition: &str, row: &str, times: u64) {
        self.inserts += times;
        self.time_partitions += if is_time(partition) { times } else { 0 };
        self.time_rows += if is_time(row) { times } else { 0 };
        self.rows.observe(partition, row, times);
        row.clone_into(&mut self.last_row);
        let is_end = self.highest.as_deref().is_some_and(|highest| partition >= highest);
        let is_front = self.lowest.as_deref().is_some_and(|lowest| partition <= lowest);
        self.at_end += if is_end { times } else { 0 };
        self.at_front += if is_front { times } else { 0 };
        self.since_highest = if is_end { 0 } else { self.since_highest + 1 };
        self.since_lowest = if is_front { 0 } else { self.since_lowest + 1 };
        let is_higher = self.highest.as_deref().is_none_or(|highest| partition > highest);
        let is_lower = self.lowest.as_deref().is_none_or(|lowest| partition < lowest);
        self.advances_up += u64::from(is_higher && self.highest.is_some());
        self.advances_down += u64::from(is_lower && self.lowest.is_some());
        if is_higher || self.since_highest > EXTREME_FORGOTTEN_AFTER {
            self.highest = Some(partition.to_owned());
            self.since_highest = 0;
        }
        if is_lower || self.since_lowest > EXTREME_FORGOTTEN_AFTER {
            self.lowest = Some(partition.to_owned());
            self.since_lowest = 0;
        }
        partition.clone_into(&mut self.last_partition);
    }

    pub fn halve(&mut self) {
        for counter in [
            &mut self.inserts,
            &mut self.at_end,
            &mut self.at_front,
            &mut self.advances_up,
            &mut self.advances_down,
            &mut self.time_partitions,
            &mut self.time_rows,
        ] {
            *counter /= 2;
        }
        self.rows.halve();
    }
}

/// How many changes followed each other in the order of RowKeys, partition by partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RowOrder {
    pub count: u64,
    pub ascending: u64,
    pub descending: u64,
    last_rows: BTreeMap<String, String>,
    /// The last one of all.
    pub last: Option<(String, String)>,
    /// Changes that come after the last one of all in the order of both keys.
    pub sweeping: u64,
}

impl RowOrder {
    pub fn observe(&mut self, partition: &str, row: &str, times: u64) {
        self.count += times;
        if let Some((last_partition, last_row)) = &self.last {
            let is_after = (partition, row) > (last_partition.as_str(), last_row.as_str());
            self.sweeping += if is_after { times } else { 0 };
        }
        self.last = Some((partition.to_owned(), row.to_owned()));
        match self.last_rows.get_mut(partition) {
            Some(last) => {
                match row.cmp(last.as_str()) {
                    std::cmp::Ordering::Greater => self.ascending += times,
                    std::cmp::Ordering::Less => self.descending += times,
                    std::cmp::Ordering::Equal => {}
                }
                row.clone_into(last);
            }
            None => {
                if self.last_rows.len() >= PARTITIONS_MAX {
                    self.last_rows.pop_first();
                }
                self.last_rows.insert(partition.to_owned(), row.to_owned());
            }
        }
    }

    pub fn halve(&mut self) {
        for counter in [&mut self.count, &mut self.ascending, &mut self.descending, &mut self.sweeping] {
            *counter /= 2;
        }
    }
}

/// RowKeys that end in a number, by what stands before it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NumberKeys {
    pub keys: u64,
    pub by_prefix: BTreeMap<String, Numbers>,
}

/// Numbers behind one prefix.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Numbers {
    pub count: u64,
    /// A number with fewer digits than another, and that one.
    pub shortest: String,
    pub longest: String,
    /// How many were shorter than the longest before them, or longer.
    pub of_other_width: u64,
}

impl NumberKeys {
    pub fn observe(&mut self, row: &str, times: u64) {
        self.keys += times;
        let digits = row.chars().rev().take_while(char::is_ascii_digit).count();
        if digits == 0 || digits > DIGITS_MAX || digits < row.len() && is_time(row) {
            return;
        }
        let (prefix, number) = row.split_at(row.len() - digits);
        if !self.by_prefix.contains_key(prefix) && self.by_prefix.len() >= PREFIXES_MAX {
            let rarest = self.by_prefix.iter().min_by_key(|(_, numbers)| numbers.count);
            let rarest = rarest.map(|(prefix, _)| prefix.clone());
            rarest.map(|prefix| self.by_prefix.remove(&prefix));
        }
        let numbers = self.by_prefix.entry(prefix.to_owned()).or_default();
        numbers.count += times;
        if numbers.longest.is_empty() {
            number.clone_into(&mut numbers.shortest);
            number.clone_into(&mut numbers.longest);
        }
        if digits != numbers.longest.len() {
            numbers.of_other_width += times;
        }
        if digits > numbers.longest.len() {
            number.clone_into(&mut numbers.longest);
        }
        if digits < numbers.shortest.len() {
            number.clone_into(&mut numbers.shortest);
        }
    }

    pub fn halve(&mut self) {
        self.keys /= 2;
        for numbers in self.by_prefix.values_mut() {
            numbers.count /= 2;
            numbers.of_other_width /= 2;
        }
    }
}

/// Whether a key reads like a time, or ends or begins with one: a date, ticks that count up or down, Unix seconds or
/// milliseconds.
pub(crate) fn is_time(key: &str) -> bool {
    key.split(['|', '_', ':', '/']).any(is_time_part) || is_time_part(key)
}

fn is_time_part(part: &str) -> bool {
    let digits: String = part.chars().filter(char::is_ascii_digit).collect();
    let is_dated = part.len() >= 10 && part.is_char_boundary(10) && is_date(&part[..10], "-");
    let is_number = !digits.is_empty() && digits.len() == part.len();
    let year_in = |digits: &str| (1970..2100).contains(&digits[..4].parse().unwrap_or(0));
    is_dated
        || is_number
            && match digits.len() {
                // 20261115, 2026111518, 20261115183000
                8 | 10 | 12 | 14 if year_in(&digits) && is_date(&dashed(&digits), "-") => true,
                // Unix seconds from 2001 to 2033, and milliseconds.
                10 | 13 => digits.starts_with('1'),
                // Ticks since year 1, or what is left of them.
                19 => digits.starts_with('6') || digits.starts_with('2'),
                _ => false,
            }
}

fn dashed(digits: &str) -> String {
    format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..8])
}

fn is_date(text: &str, separator: &str) -> bool {
    let parts: Vec<Option<u32>> = text.split(separator).map(|part| part.parse().ok()).collect();
    matches!(parts[..], [Some(year), Some(month), Some(day)]
        if (1970..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_ids() {
        for time in [
            "2026-11-15",
            "2026-11-15T18",
            "20261115",
            "2026111518",
            "dev-0412|2026-11-15T18:00",
            "1794700000",
            "1794700000123",
            "2516934079123456789",
        ] {
            assert!(is_time(time), "{time}");
        }
        for other in
            ["000123", "emp-071204", "tenant|contoso", "99991399", "7f3a2b10-0000", "", "12", "20269915"]
        {
            assert!(!is_time(other), "{other}");
        }
    }

    #[test]
    fn keys_in_order_are_told_from_scattered_ones() {
        let (mut rising, mut scattered) = (InsertOrder::default(), InsertOrder::default());
        for n in 0..1000_u64 {
            rising.observe(&format!("{:05}", n / 10), "r", 1);
            scattered.observe(&format!("{:05}", n * 7919 % 1000), "r", 1);
        }
        assert!(rising.at_end >= 999 && rising.advances_up == 99, "{rising:?}");
        assert!(scattered.at_end < 100, "{scattered:?}");
        assert!(rising.at_front < 20, "{rising:?}");
    }

    #[test]
    fn one_key_from_the_future_does_not_hide_the_order() {
        let mut order = InsertOrder::default();
        order.observe("zzz", "r", 1);
        for n in 0..2000 {
            order.observe(&format!("{n:05}"), "r", 1);
        }
        assert!(order.at_end > 1700, "{order:?}");
    }

    #[test]
    fn numbers_of_different_width_are_counted_by_their_prefix() {
        let mut keys = NumberKeys::default();
        for n in 1..=120 {
            keys.observe(&format!("inv-{n}"), 1);
            keys.observe(&format!("{n:06}"), 1);
            keys.observe(&format!("x{n}y"), 1);
        }
        assert_eq!(keys.keys, 360);
        let unpadded = &keys.by_prefix["inv-"];
        assert_eq!(
            (unpadded.shortest.as_str(), unpadded.longest.as_str(), unpadded.count),
            ("1", "100", 120)
        );
        assert_eq!(keys.by_prefix[""].of_other_width, 0);
    }
}
