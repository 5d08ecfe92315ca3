//! Keys for a proposal, written with values of the table.

use tavola_model::DateTime;

use super::Seen;
use crate::template::Start;
use crate::traffic::Compared;
use crate::{KeyPart, KeySample, Proposal, SampleEntity, Template};

/// Digits to which numbers are padded in a proposal.
pub(super) const NUMBER_WIDTH: usize = 10;

/// Different values of a property that too few samples have.
const DISTINCT_UNKNOWN: usize = 4;
const DISTINCT_SAMPLES_MIN: usize = 8;

impl Seen<'_> {
    /// An entity of the table: one that is stored and has these properties, best with these values; or else one put
    /// together from what was asked for.
    pub fn sample(&self, asked: &[(String, String)]) -> SampleEntity {
        self.sample_for(asked, None)
    }

    /// The same, of the entities that a proposal gives keys to: where a property has several types, not all have them.
    pub fn sample_for(&self, asked: &[(String, String)], proposal: Option<&Proposal>) -> SampleEntity {
        let has_all = |entity: &&SampleEntity| {
            asked.iter().all(|(name, _)| value_of(entity, name).is_some())
                && proposal.is_none_or(|proposal| key_lines(entity, proposal).len() > 1)
        };
        let equal = |entity: &&SampleEntity| {
            asked.iter().filter(|(name, value)| value_of(entity, name).as_ref() == Some(value)).count()
        };
        let samples = self.fact.map_or(&[][..], |fact| &fact.samples[..]);
        if let Some(stored) = samples.iter().rev().filter(has_all).max_by_key(equal) {
            return stored.clone();
        }
        let (partition, row) = match self.table.points.first() {
            Some(point) => (point.partition.clone(), point.row.clone()),
            None => (self.table.inserts.last_partition.clone(), self.table.inserts.last_row.clone()),
        };
        let mut sample = SampleEntity { partition, row, properties: Vec::new() };
        for (name, value) in asked {
            match name.as_str() {
                "PartitionKey" => sample.partition.clone_from(value),
                "RowKey" => sample.row.clone_from(value),
                _ => sample.properties.push((name.clone(), value.clone())),
            }
        }
        if sample.partition.is_empty() {
            "p".clone_into(&mut sample.partition);
        }
        if sample.row.is_empty() {
            "r".clone_into(&mut sample.row);
        }
        sample
    }

    /// Different values of a property in the samples; of a flag there are two. Without samples that is not known, and is
    /// taken for a few more.
    pub fn distinct(&self, compared: &Compared) -> usize {
        let is_flag = |value: &str| matches!(value, "true" | "false");
        let samples = self.fact.map_or(&[][..], |fact| &fact.samples[..]);
        let values: Vec<String> =
            samples.iter().filter_map(|entity| value_of(entity, &compared.property)).collect();
        if is_flag(&compared.value) && values.iter().all(|value| is_flag(value)) {
            return 2;
        }
        if values.len() < DISTINCT_SAMPLES_MIN {
            return DISTINCT_UNKNOWN;
        }
        values.into_iter().collect::<std::collections::BTreeSet<_>>().len()
    }

    /// A property whose values would spread the entities: several different ones, each of them more than once.
    pub fn spreading_property(&self) -> Option<String> {
        let samples = &self.fact?.samples;
        let names = samples.first()?.properties.iter().map(|(name, _)| name);
        names
            .filter_map(|name| {
                let mut values: Vec<String> =
                    samples.iter().filter_map(|entity| value_of(entity, name)).collect();
                let all = values.len();
                values.sort();
                values.dedup();
                let is_short = values.iter().all(|value| !value.is_empty() && value.len() <= 64);
                let spreads =
                    values.len() >= 4 && values.len() * 4 <= all * 3 && all * 10 >= samples.len() * 9;
                let is_no_time = values.iter().all(|value| DateTime::parse(value).is_none());
                (is_short && spreads && is_no_time && is_key_text(&values))
                    .then(|| (values.len(), name.clone()))
            })
            .max()
            .map(|(_, name)| name)
    }
}

/// Characters that a key cannot have: <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model>.
pub(crate) fn is_forbidden_in_key(c: char) -> bool {
    matches!(c, '/' | '\\' | '#' | '?') || c.is_control()
}

fn is_key_text(values: &[String]) -> bool {
    values.iter().all(|value| !value.contains(is_forbidden_in_key))
}

/// A value of a sample by name; keys too.
pub(crate) fn value_of(entity: &SampleEntity, name: &str) -> Option<String> {
    match name {
        "PartitionKey" => Some(entity.partition.clone()),
        "RowKey" => Some(entity.row.clone()),
        name => entity.properties.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone()),
    }
}

/// The lines of keys of a proposal for an entity: as it is, and as it would be.
pub(super) fn key_lines(sample: &SampleEntity, proposal: &Proposal) -> Vec<KeySample> {
    let now = KeySample {
        label: "now",
        partition: vec![KeyPart::old(&sample.partition)],
        row: vec![KeyPart::old(&sample.row)],
    };
    let expand = |template: &str| {
        Template::parse(template)
            .ok()
            .and_then(|template| template.expand(|name| value_of(sample, name)).ok())
    };
    let (Some(partition), Some(row)) = (expand(&proposal.partition), expand(&proposal.row)) else {
        return vec![now];
    };
    let then = KeySample {
        label: if proposal.is_index { "add" } else { "then" },
        partition: marked(&partition, &sample.partition),
        row: marked(&row, &sample.row),
    };
    vec![now, then]
}

/// A new key with the part marked that the old one does not have.
fn marked(new: &str, old: &str) -> Vec<KeyPart> {
    if new == old {
        return vec![KeyPart::old(new)];
    }
    match new.find(old).filter(|_| !old.is_empty()) {
        Some(at) => {
            let parts = [KeyPart::new(&new[..at]), KeyPart::old(old), KeyPart::new(&new[at + old.len()..])];
            parts.into_iter().filter(|part| !part.text.is_empty()).collect()
        }
        None => vec![KeyPart::new(new)],
    }
}

/// The first text after all that begin with this one.
pub(crate) fn after_prefix(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        // The next character that is one; there is a gap before U+E000.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            text.push(next);
            return text;
        }
    }
    text
}

/// The RowKeys that a query asks for, by a template: what it begins with where the values are known, and behind it the
/// bounds of the first value that is not, where keys sort as the values do.
pub(super) fn row_bounds(start: &Start<'_>, compared: &[Compared]) -> Vec<(&'static str, String)> {
    let Some(open) = &start.open else { return vec![("eq", start.text.clone())] };
    let (mut lower, mut upper) = (None, None);
    for compared in compared.iter().filter(|compared| compared.property == open.property) {
        let Some((value, is_backwards)) = open.sorted(&compared.value) else { continue };
        let key = format!("{}{value}", start.text);
        match (compared.operator.as_str(), is_backwards) {
            ("ge" | "gt", false) | ("le" | "lt", true) => lower = Some(key),
            ("le" | "lt", false) | ("ge" | "gt", true) => upper = Some(after_prefix(&key)),
            _ => {}
        }
    }
    if !start.text.is_empty() {
        upper = upper.or_else(|| Some(after_prefix(&start.text)));
        lower = lower.or_else(|| Some(start.text.clone()));
    }
    let lower = lower.map(|key| ("ge", key));
    lower.into_iter().chain(upper.map(|key| ("lt", key))).collect()
}

/// How a query would name the keys: the partition whole, and RowKeys by their bounds.
pub(super) fn query_line(partition: &str, rows: &[(&'static str, String)]) -> KeySample {
    let row = if rows.is_empty() { Vec::new() } else { vec![KeyPart::new(bounds_text(rows))] };
    let partition = vec![KeyPart::new(bounds_text(&[("eq", partition.to_owned())]))];
    KeySample { label: "query", partition, row }
}

/// How a query would name a range of partitions.
pub(super) fn range_line(partitions: &[(&'static str, String)]) -> KeySample {
    KeySample { label: "query", partition: vec![KeyPart::new(bounds_text(partitions))], row: Vec::new() }
}

fn bounds_text(bounds: &[(&'static str, String)]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let bounds: Vec<String> =
        bounds.iter().map(|(operator, key)| format!("{operator} {}", quoted(key))).collect();
    bounds.join(" ")
}
