//! The part of a table that a SAS opens: from a first to a last entity, both included.

use std::cmp::Ordering;

use tavola_model::EntityKey;

/// A range of entities by (PartitionKey, RowKey), in UTF-16 order. A bound without a RowKey takes in its whole
/// partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyLimit {
    /// The first entity.
    pub start: Option<(String, Option<String>)>,
    /// The last entity.
    pub end: Option<(String, Option<String>)>,
}

impl KeyLimit {
    /// Whether the entity lies inside.
    pub fn contains(&self, key: &EntityKey) -> bool {
        let not_before = self.start.as_ref().is_none_or(|bound| compare(key, bound) != Ordering::Less);
        let not_behind = self.end.as_ref().is_none_or(|bound| compare(key, bound) != Ordering::Greater);
        not_before && not_behind
    }
}

/// Where the entity lies as seen from the bound; `Equal` anywhere in the partition of a bound without RowKey.
fn compare(key: &EntityKey, (partition, row): &(String, Option<String>)) -> Ordering {
    let by_partition = compare_units(key.partition.as_str(), partition);
    match row {
        Some(row) => by_partition.then_with(|| compare_units(key.row.as_str(), row)),
        None => by_partition,
    }
}

fn compare_units(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::Key;

    fn bound(text: &str) -> Option<(String, Option<String>)> {
        let (partition, row) = match text.split_once('/') {
            Some((partition, row)) => (partition, Some(row.to_owned())),
            None => (text, None),
        };
        (text != "-").then(|| (partition.to_owned(), row))
    }

    fn check(start: &str, end: &str, inside: &[&str], outside: &[&str]) {
        let limit = KeyLimit { start: bound(start), end: bound(end) };
        for (keys, expected) in [(inside, true), (outside, false)] {
            for text in keys {
                let (partition, row) = text.split_once('/').unwrap();
                let key =
                    EntityKey { partition: Key::parse(partition).unwrap(), row: Key::parse(row).unwrap() };
                assert_eq!(limit.contains(&key), expected, "{start}..{end} {text}");
            }
        }
    }

    #[test]
    fn bounds_are_included() {
        check("b/2", "c/3", &["b/2", "b/9", "b/", "c/", "c/3"][..2], &["b/1", "a/9", "c/4", "d/"]);
        check("b/2", "c/3", &["c/", "c/3"], &["b/", "c/31"]);
    }

    #[test]
    fn a_bound_without_row_key_takes_in_its_whole_partition() {
        check("b", "b", &["b/", "b/\u{FFFD}"], &["a/z", "ba/", "c/"]);
        check("-", "b", &["/", "b/zzz"], &["ba/"]);
        check("b/5", "-", &["b/5", "c/"], &["b/4", "/"]);
    }

    #[test]
    fn order_is_that_of_utf_16() {
        check("\u{1F600}", "\u{E000}", &["\u{1F600}/", "\u{E000}/"], &["\u{D7FF}/", "\u{FFFD}/"]);
    }
}
