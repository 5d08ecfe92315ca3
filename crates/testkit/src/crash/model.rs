//! What one writer was promised, and how to hold the server against it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::TABLE;
use crate::{Connection, Request, Response};

/// Entities that are written one by one.
pub const SINGLE_ROWS: usize = 40;
/// Groups that are written by transaction.
pub const GROUPS: usize = 6;
/// Entities of a group.
pub const GROUP_ROWS: usize = 10;

/// One entity as it was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Set by inserts and replacements.
    pub value: u32,
    /// Set by merges; gone after a replacement.
    pub merged: Option<u32>,
    /// Its ETag, if it was told.
    pub etag: Option<String>,
}

impl Row {
    fn same_content(&self, other: &Row) -> bool {
        self.value == other.value && self.merged == other.merged
    }
}

/// A write that was sent and never answered.
#[derive(Clone, Debug)]
pub struct Pending {
    /// The rows it is about.
    pub rows: Vec<String>,
    /// What all of them become.
    pub after: Option<Row>,
}

/// Everything one partition must hold.
#[derive(Debug)]
pub struct PartitionModel {
    /// The PartitionKey.
    pub partition: String,
    /// Every entity by RowKey.
    pub rows: BTreeMap<String, Row>,
    /// The write whose outcome is open.
    pub pending: Option<Pending>,
    /// The last value that was written; every write has its own.
    pub last_value: u32,
}

impl PartitionModel {
    pub fn new(number: usize) -> Self {
        let partition = format!("writer {number}");
        Self { partition, rows: BTreeMap::new(), pending: None, last_value: 0 }
    }

    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Reads the whole partition and compares. Afterwards nothing is pending; gives whether the pending write
    /// had been kept.
    pub fn check(&mut self, connection: &mut Connection) -> Result<bool, String> {
        let found = read_partition(connection, &self.partition)?;
        self.compare(found)
    }

    fn compare(&mut self, mut found: BTreeMap<String, Row>) -> Result<bool, String> {
        let kept = match self.pending.take() {
            Some(pending) => self.settle(&pending, &mut found)?,
            None => false,
        };
        for (row_key, row) in &self.rows {
            match found.remove(row_key) {
                None => return Err(self.loss(row_key, &format!("{row:?} was acknowledged and is gone"))),
                Some(other) => {
                    let same_etag = row.etag.is_none() || row.etag == other.etag;
                    if !row.same_content(&other) || !same_etag {
                        return Err(self.loss(row_key, &format!("{row:?} was acknowledged, found {other:?}")));
                    }
                }
            }
        }
        match found.into_iter().next() {
            Some((row_key, row)) => Err(self.loss(&row_key, &format!("{row:?} must not be there"))),
            None => Ok(kept),
        }
    }

    /// Decides from what is there whether the pending write was kept, whole or not at all, and takes over what
    /// is there.
    fn settle(&mut self, pending: &Pending, found: &mut BTreeMap<String, Row>) -> Result<bool, String> {
        let is = |found: Option<&Row>, expected: Option<&Row>| match (found, expected) {
            (None, None) => true,
            (Some(found), Some(expected)) => found.same_content(expected),
            (None, Some(_)) | (Some(_), None) => false,
        };
        let after = pending.rows.iter().all(|key| is(found.get(key), pending.after.as_ref()));
        let before = pending.rows.iter().all(|key| is(found.get(key), self.rows.get(key)));
        if !after && !before {
            let there: Vec<_> = pending.rows.iter().map(|key| found.get(key)).collect();
            let wanted = format!("{pending:?} is torn or lost what was there before, found {there:?}");
            return Err(self.loss("", &wanted));
        }
        for key in &pending.rows {
            match found.get(key) {
                Some(row) => self.rows.insert(key.clone(), row.clone()),
                None => self.rows.remove(key),
            };
        }
        Ok(after)
    }

    fn loss(&self, row_key: &str, what: &str) -> String {
        format!("partition {:?}, row {row_key:?}: {what}", self.partition)
    }
}

/// A text that only this value has, of a length that varies.
pub fn padding(value: u32) -> String {
    let length = usize::try_from(value % 1500).unwrap_or(0);
    let digits = value.to_string();
    digits.chars().cycle().take(length).collect()
}

/// Every table must be there, and no other.
pub fn check_tables(connection: &mut Connection, expected: &[String]) -> Result<(), String> {
    let response = get(connection, "/Tables")?;
    let json: Value = serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
    let mut found: Vec<&str> = json["value"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|table| table["TableName"].as_str())
        .collect();
    let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    found.sort_unstable();
    expected.sort_unstable();
    if found == expected {
        Ok(())
    } else {
        Err(format!("tables are {found:?}, acknowledged were {expected:?}"))
    }
}

pub fn read_partition(connection: &mut Connection, partition: &str) -> Result<BTreeMap<String, Row>, String> {
    let encoded = partition.replace(' ', "%20");
    let base = format!("/{TABLE}()?$filter=PartitionKey%20eq%20%27{encoded}%27");
    let mut rows = BTreeMap::new();
    let mut target = base.clone();
    loop {
        let response = get(connection, &target)?;
        let json: Value = serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
        for entity in json["value"].as_array().ok_or("a query gave no list")? {
            let (row_key, row) = read_row(entity)?;
            rows.insert(row_key, row);
        }
        let next = |name: &str| response.header(name).map(str::to_owned);
        match next("x-ms-continuation-NextPartitionKey") {
            None => return Ok(rows),
            Some(next_partition) => {
                let next_row = next("x-ms-continuation-NextRowKey").unwrap_or_default();
                target = format!("{base}&NextPartitionKey={next_partition}&NextRowKey={next_row}");
            }
        }
    }
}

fn read_row(entity: &Value) -> Result<(String, Row), String> {
    let number = |name: &str| entity[name].as_u64().and_then(|number| u32::try_from(number).ok());
    let row_key = entity["RowKey"].as_str().ok_or("an entity has no RowKey")?;
    let value = number("value").ok_or_else(|| format!("{row_key} has no value"))?;
    if entity["padding"].as_str() != Some(&padding(value)) {
        return Err(format!("{row_key} has the padding of another value than {value}"));
    }
    let etag = entity["odata.etag"].as_str().map(str::to_owned);
    Ok((row_key.to_owned(), Row { value, merged: number("merged"), etag }))
}

fn get(connection: &mut Connection, target: &str) -> Result<Response, String> {
    let request = Request::get(target).with_header("Accept", "application/json;odata=minimalmetadata");
    let response = connection.send(&request).map_err(|error| format!("GET {target} failed ({error})"))?;
    match response.status {
        200 => Ok(response),
        status => Err(format!("GET {target} answered {status}: {}", response.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows written `a=1 b=2`.
    fn rows(text: &str) -> BTreeMap<String, Row> {
        let row = |part: &str| {
            let (key, value) = part.split_once('=').unwrap();
            (key.to_owned(), Row { value: value.parse().unwrap(), merged: None, etag: None })
        };
        text.split_whitespace().map(row).collect()
    }

    /// `pending` is `a b=3`: all these rows become 3; `a b=` deletes them.
    fn check(acknowledged: &str, pending: &str, found: &str, expected: Result<bool, &str>) {
        let mut model = PartitionModel::new(0);
        model.rows = rows(acknowledged);
        if let Some((keys, value)) = pending.split_once('=') {
            let after = value.parse().ok().map(|value| Row { value, merged: None, etag: None });
            model.pending = Some(Pending { rows: keys.split(' ').map(str::to_owned).collect(), after });
        }
        match (model.compare(rows(found)), expected) {
            (Ok(kept), Ok(expected)) => assert_eq!(kept, expected),
            (Err(loss), Err(part)) => assert!(loss.contains(part), "{loss}"),
            (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn acknowledged_rows_must_be_there_as_they_were() {
        check("a=1 b=2", "", "a=1 b=2", Ok(false));
        check("a=1 b=2", "", "a=1", Err("gone"));
        check("a=1", "", "a=2", Err("found"));
        check("a=1", "", "a=1 b=2", Err("must not be there"));
    }

    #[test]
    fn a_pending_write_is_there_whole_or_not_at_all() {
        check("", "a b=3", "a=3 b=3", Ok(true));
        check("", "a b=3", "", Ok(false));
        check("", "a b=3", "a=3", Err("torn"));
        check("a=1 b=1", "a b=3", "a=1 b=1", Ok(false));
        check("a=1 b=1", "a b=3", "a=3 b=1", Err("torn"));
        check("a=1 b=1", "a b=", "", Ok(true));
        check("a=1 b=1", "a b=", "b=1", Err("torn"));
        check("a=1", "a=3", "", Err("torn or lost"));
    }

    #[test]
    fn an_etag_that_was_told_stays() {
        let mut model = PartitionModel::new(0);
        let row = |etag: &str| Row { value: 1, merged: None, etag: Some(etag.to_owned()) };
        model.rows.insert("a".into(), row("one"));
        assert!(model.compare(BTreeMap::from([("a".into(), row("one"))])).is_ok());
        assert!(model.compare(BTreeMap::from([("a".into(), row("two"))])).is_err());
    }
}
