//! The file that keeps traffic across restarts.
//!
//! One line, `tavola-traffic VERSION CHECKSUM`, and then JSON. It is written aside, synced and renamed, so it is the old
//! one or the new one. Traffic is advice and no data: a file that cannot be read is set aside with a warning, and
//! counting starts over.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::KeptTraffic;

/// Raised when the form changes; an older form is dropped like a damaged file.
const VERSION: u32 = 1;
/// Bytes of what is written.
pub(super) const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of a file that is read: the same and the first line.
const FILE_BYTES_MAX: u64 = BODY_BYTES_MAX as u64 + 1024;

/// What the file holds; `None` if there is none that can be used.
pub(super) fn load(path: &Path) -> Option<KeptTraffic> {
    match read(path) {
        Ok(kept) => kept,
        Err(reason) => {
            let aside = beside(path, "damaged");
            let moved = std::fs::rename(path, &aside).is_ok();
            tracing::warn!(
                file = %path.display(), aside = %aside.display(), moved, reason,
                "cannot read the recorded traffic; recording starts from nothing"
            );
            None
        }
    }
}

fn read(path: &Path) -> Result<Option<KeptTraffic>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("larger than it can be".to_owned());
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("no first line")?;
    let body = &bytes[end + 1..];
    if bytes[..end] != *head(body).as_bytes() {
        return Err("another version, or changed".to_owned());
    }
    serde_json::from_slice(body).map(Some).map_err(|error| error.to_string())
}

/// Replaces the file.
pub(super) fn save(path: &Path, body: &[u8]) -> std::io::Result<()> {
    let aside = beside(path, "new");
    let mut file = File::create(&aside)?;
    file.write_all(head(body).as_bytes())?;
    file.write_all(b"\n")?;
    file.write_all(body)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)
}

fn head(body: &[u8]) -> String {
    format!("tavola-traffic {VERSION} {:016x}", xxh3_64(body))
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::Value;
    use tavola_model::ErrorCode;
    use tavola_telemetry::{AccessRecord, QueryTarget, RecordSink as _, Target};

    use super::super::{Traffic, TrafficSettings};
    use super::*;
    use crate::testing::{batch, entity, query, record};

    /// What version 1 wrote of the requests of [`requests`].
    const FIXTURE: &[u8] = include_bytes!("fixtures/traffic-1");

    fn refused(mut record: AccessRecord, code: ErrorCode, status: u16) -> AccessRecord {
        (record.code, record.status) = (Some(code), status);
        record
    }

    /// Requests that give every member a value: sampled and throttled ones, conflicts, refusals, a peak of a partition
    /// and of the account, keys in any order, more partitions than are counted exactly.
    fn requests() -> Vec<AccessRecord> {
        let mut all = vec![
            entity("People", 0, "GetEntity", "p1", "r1"),
            query("People", 10, "PartitionKey eq 'p1' and RowKey ge 'a'", 40, 2_500),
            query("People", 20, "PartitionKey eq 'p1' and Age gt 3", 50, 5),
            query("People", 30, "PartitionKey ge 'p1'", 60, 6),
            query("People", 40, "Since gt datetime'2026-01-02T03:04:05Z'", 70, 7),
            entity("People", 50, "InsertOrMergeEntity", "p1", "r1"),
            entity("People", 60, "MergeEntity", "p1", "r1"),
            entity("People", 70, "DeleteEntity", "p1", "r1"),
            entity("People", 75, "DeleteEntity", "p1", "r2"),
            entity("People", 80, "DeleteEntity", "p1", "r1"),
            batch("People", 90, ("p1", "r1"), 1, 0),
            batch("People", 95, ("p1", "r1"), 3, 2),
            refused(
                entity("People", 100, "MergeEntity", "p1", "r1"),
                ErrorCode::UpdateConditionNotSatisfied,
                412,
            ),
            refused(entity("People", 110, "InsertEntity", "p1", "r1"), ErrorCode::EntityTooLarge, 400),
            refused(entity("People", 120, "InsertEntity", "p1", "r1"), ErrorCode::TooManyProperties, 400),
        ];
        let mut large = entity("People", 130, "InsertEntity", "2026-11-15", "2026-11-15T08:00:00Z");
        large.bytes_in = 400 * 1024;
        large.target = Target::Entity {
            partition: "2026-11-15".into(),
            row: "2026-11-15T08:00:00Z".into(),
            properties: 250,
        };
        let mut throttled = entity("People", 140, "GetEntity", "p1", "r1");
        throttled.throttled = true;
        let mut further = query("People", 150, "Age gt 3", 10, 1);
        let filter = tavola_odata::parse_filter("Age gt 3").unwrap();
        let target = QueryTarget { filter, select: vec!["Age".into()], top: Some(5), is_continuation: true };
        further.target = Target::Query(Arc::new(target.clone()));
        let mut first = further.clone();
        first.target = Target::Query(Arc::new(QueryTarget { is_continuation: false, ..target }));
        all.extend([large, throttled, first, further]);
        for (n, (partition, row)) in
            [("p5", "9"), ("p6", "10"), ("p6", "100"), ("p4", "8"), ("p4", "7"), ("p5", "5")]
                .into_iter()
                .enumerate()
        {
            all.push(entity("People", 200 + n as u64, "InsertEntity", partition, row));
        }
        // Not certain in a second, because it was sampled.
        let mut sampled = query("People", 1_000, "PartitionKey eq 'p1' and Age gt 3", 100, 100);
        sampled.weight = 30;
        all.push(sampled);
        for n in 0..1_000 {
            let mut whole = record("People", 2_000 + n / 2, "QueryEntities", Target::Whole);
            whole.weight = 25;
            all.push(whole);
        }
        for n in 0..40 {
            let mut of_many = entity("People", 3_000 + n, "GetEntity", &format!("q{n}"), "r");
            of_many.weight = 2;
            all.push(of_many);
        }
        all
    }

    /// What a file holds behind its first line. Lists of counters have no order.
    fn body(bytes: &[u8]) -> Value {
        fn sort(value: &mut Value) {
            match value {
                Value::Object(members) => members.iter_mut().for_each(|(name, value)| match value {
                    Value::Array(counters) if name == "counters" => {
                        counters.sort_by_key(Value::to_string);
                    }
                    value => sort(value),
                }),
                Value::Array(values) => values.iter_mut().for_each(sort),
                _ => {}
            }
        }
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let mut body = serde_json::from_slice(&bytes[end + 1..]).unwrap();
        sort(&mut body);
        body
    }

    /// The names of members, by whether they have a value anywhere.
    fn names<'a>(value: &'a Value, with: &mut BTreeSet<&'a str>, without: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let is_nothing = match value {
                        Value::Null | Value::Bool(false) => true,
                        Value::Bool(true) => false,
                        Value::Number(number) => number.as_f64() == Some(0.0),
                        Value::String(text) => text.is_empty(),
                        Value::Array(values) => values.is_empty(),
                        Value::Object(members) => members.is_empty(),
                    };
                    if is_nothing { &mut *without } else { &mut *with }.insert(name);
                    names(value, with, without);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| names(value, with, without)),
            _ => {}
        }
    }

    fn traffic(path: &Path) -> Arc<Traffic> {
        Traffic::new(TrafficSettings { file: Some(path.to_owned()) })
    }

    #[test]
    fn a_file_has_the_first_line_and_every_member_of_the_fixture() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traffic");
        let recorded = traffic(&path);
        recorded.observe(&requests());
        recorded.save().unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!(body(&written), body(FIXTURE));
        assert!(FIXTURE.starts_with(b"tavola-traffic 1 "));
        let end = FIXTURE.iter().position(|byte| *byte == b'\n').unwrap();
        assert_eq!(FIXTURE[..end], *head(&FIXTURE[end + 1..]).as_bytes());
    }

    #[test]
    fn the_fixture_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traffic");
        std::fs::write(&path, FIXTURE).unwrap();
        traffic(&path).save().unwrap();
        assert_eq!(body(&std::fs::read(&path).unwrap()), body(FIXTURE));
        assert!(!beside(&path, "damaged").exists());
    }

    #[test]
    fn every_member_of_the_fixture_has_a_value() {
        let body = body(FIXTURE);
        let (mut with, mut without) = (BTreeSet::new(), BTreeSet::new());
        names(&body, &mut with, &mut without);
        let unseen: Vec<_> = without.difference(&with).collect();
        assert!(unseen.is_empty(), "a change of their form would not be noticed: {unseen:?}");
    }
}
