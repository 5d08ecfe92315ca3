//! The tables, made and checked by version.
//!
//! Only `init` changes the schema, when an operator asks for it, because two servers that do so at once can leave a
//! cluster that disagrees with itself. Running it twice changes nothing, and running it on tables that an earlier
//! program made gives them the settings they lack.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::statement::{Consistency, Statement};

use crate::engine::{ConnectError, connect};
use crate::settings::{ClusterSettings, CqlSettings};

/// The version of the tables that this program understands.
const SCHEMA_VERSION: &str = "1";
const VERSION: &str = "schema-version";
/// How long one change of the schema may take.
const SCHEMA_TIME_MAX: Duration = Duration::from_secs(60);
/// The table of the servers that are up.
pub(crate) const MEMBER_TABLE: &str = "member";
const LEASE_MS: &str = "lease-ms";
/// The address of the bucket that keeps the contents of blobs; empty, or not there, if they are rows.
const CONTENT_BUCKET: &str = "content-bucket";

/// What was chosen when the tables were made.
pub(crate) struct Chosen {
    pub(crate) lease: Duration,
    pub(crate) content_bucket: Option<String>,
}

/// `row`: rows by space, partition and key. A key is one byte and the row bytes, so that the head of the partition
/// comes before all of them. `tick` belongs to the partition, so that every page of a scan tells it.
///
/// `directory`: the partitions of a space in order, spread over shards. Written without conditions. Markers of removed
/// entries are kept for an hour, not for ten days: the cluster gives up on a read that meets 100,000 of them in a row,
/// and an entry that comes back because a node never heard of its removal does no harm (`directory.rs`). It is set
/// apart from the table, so that a table that is there already gets it too.
///
/// `member`: the servers that are up. A server works without it, so it is no part of the version.
///
/// `content_day`, `content`, `chunk`: contents of blobs (`content/mod.rs`), written without conditions. Nothing comes back
/// that does harm, so markers of removed ones are kept for a day only. A server works without them as long as nobody stores
/// a blob, so they are no part of the version either.
const TABLES: [&str; 8] = [
    "CREATE TABLE IF NOT EXISTS about (name text PRIMARY KEY, value text)",
    "CREATE TABLE IF NOT EXISTS row (
       space blob, part blob, key blob,
       tick bigint STATIC, recent blob, listed bigint,
       version bigint, body blob,
       PRIMARY KEY ((space, part), key))",
    "CREATE TABLE IF NOT EXISTS directory (
       space blob, shard smallint, part blob, generation bigint,
       PRIMARY KEY ((space, shard), part, generation))",
    "ALTER TABLE directory WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS member (list text, name text, about text, PRIMARY KEY (list, name))
       WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS content_day (list text, space blob, day int, PRIMARY KEY (list, space, day))
       WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS content (
       space blob, day int, shard smallint, id blob,
       owner blob, segments int, length bigint,
       PRIMARY KEY ((space, day, shard), id)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS chunk (
       space blob, id blob, segment int, n smallint,
       body blob, sums blob,
       PRIMARY KEY ((space, id, segment), n)) WITH gc_grace_seconds = 86400",
];

/// Makes the keyspace and its tables, as far as they are not there, and sets what they lack.
pub async fn init(settings: &CqlSettings, cluster: &ClusterSettings) -> Result<(), ConnectError> {
    check_name(&settings.keyspace)?;
    let copies: Vec<String> =
        cluster.replication.iter().map(|(center, copies)| format!("'{center}': {copies}")).collect();
    if copies.is_empty() || cluster.replication.iter().any(|(center, _)| center.contains('\'')) {
        return Err(ConnectError::Refused(
            "--copies must give the number of replicas of each data centre".to_owned(),
        ));
    }
    let session = connect(settings).await?;
    let keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {{'class': 'NetworkTopologyStrategy', {}}}",
        settings.keyspace,
        copies.join(", ")
    );
    session.query_unpaged(patiently(keyspace), ()).await.map_err(ConnectError::failed)?;
    session.use_keyspace(&settings.keyspace, false).await.map_err(ConnectError::failed)?;
    for table in TABLES {
        session.query_unpaged(patiently(table), ()).await.map_err(ConnectError::failed)?;
    }
    let lease_ms = cluster.lease.as_millis().to_string();
    let bucket = cluster.content_bucket.as_deref().unwrap_or_default();
    // A keyspace that an earlier version made may have contents in its rows already.
    let is_made = about(&session, VERSION).await?.is_some();
    let first_bucket = if is_made { "" } else { bucket };
    for (name, value) in [(CONTENT_BUCKET, first_bucket), (VERSION, SCHEMA_VERSION), (LEASE_MS, &lease_ms)] {
        let insert = "INSERT INTO about (name, value) VALUES (?, ?) IF NOT EXISTS";
        session.query_unpaged(insert, (name, value)).await.map_err(ConnectError::failed)?;
    }
    let chosen = check(&session).await?.content_bucket.unwrap_or_default();
    if !bucket.is_empty() && chosen != bucket {
        return Err(ConnectError::Refused(format!(
            "the location of blob contents cannot be changed: this keyspace has them in {}",
            if chosen.is_empty() { "its own rows" } else { &chosen }
        )));
    }
    Ok(())
}

/// A statement that changes the schema: all nodes must agree on it, which takes seconds where there are many tables.
fn patiently(text: impl Into<String>) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_request_timeout(Some(SCHEMA_TIME_MAX));
    statement
}

/// Checks the version of the tables and gives what was chosen when they were made.
pub(crate) async fn check(session: &Session) -> Result<Chosen, ConnectError> {
    let version = about(session, VERSION).await?;
    if version.as_deref() != Some(SCHEMA_VERSION) {
        return Err(ConnectError::Refused(format!(
            "the tables have schema version {} and this server supports version {SCHEMA_VERSION}",
            version.as_deref().unwrap_or("none")
        )));
    }
    let lease = about(session, LEASE_MS).await?;
    let lease = lease.and_then(|lease| lease.parse().ok()).filter(|lease| *lease > 0);
    let lease =
        lease.ok_or_else(|| ConnectError::Refused("the table `about` has no valid lease-ms".to_owned()))?;
    let content_bucket = about(session, CONTENT_BUCKET).await?.filter(|bucket| !bucket.is_empty());
    Ok(Chosen { lease: Duration::from_millis(lease), content_bucket })
}

async fn about(session: &Session, name: &str) -> Result<Option<String>, ConnectError> {
    let mut select = Statement::new("SELECT value FROM about WHERE name = ?");
    select.set_consistency(Consistency::Serial);
    let found = session.query_unpaged(select, (name,)).await.map_err(|error| {
        ConnectError::Refused(format!(
            "the keyspace has no tables: run `tavola cluster init` first ({error})"
        ))
    })?;
    let found = found.into_rows_result().map_err(ConnectError::failed)?;
    let row = found.maybe_first_row::<(String,)>().map_err(ConnectError::failed)?;
    Ok(row.map(|(value,)| value))
}

/// A keyspace is named in statements, so its name is a plain word.
pub(crate) fn check_name(keyspace: &str) -> Result<(), ConnectError> {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let starts_well = keyspace.starts_with(|letter: char| letter.is_ascii_lowercase());
    if starts_well && keyspace.len() <= 48 && keyspace.chars().all(is_plain) {
        return Ok(());
    }
    Err(ConnectError::Refused(format!(
        "a keyspace is named by up to 48 lower-case letters, digits and underscores (name={keyspace})"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables of version 1. Whoever changes one gives servers of both versions a way through the upgrade.
    const FIXTURE: &str = "\
CREATE TABLE IF NOT EXISTS about (name text PRIMARY KEY, value text)
CREATE TABLE IF NOT EXISTS row ( space blob, part blob, key blob, tick bigint STATIC, recent blob, listed bigint, \
version bigint, body blob, PRIMARY KEY ((space, part), key))
CREATE TABLE IF NOT EXISTS directory ( space blob, shard smallint, part blob, generation bigint, \
PRIMARY KEY ((space, shard), part, generation))
ALTER TABLE directory WITH gc_grace_seconds = 3600
CREATE TABLE IF NOT EXISTS member (list text, name text, about text, PRIMARY KEY (list, name)) \
WITH gc_grace_seconds = 3600
CREATE TABLE IF NOT EXISTS content_day (list text, space blob, day int, PRIMARY KEY (list, space, day)) \
WITH gc_grace_seconds = 86400
CREATE TABLE IF NOT EXISTS content ( space blob, day int, shard smallint, id blob, owner blob, segments int, \
length bigint, PRIMARY KEY ((space, day, shard), id)) WITH gc_grace_seconds = 86400
CREATE TABLE IF NOT EXISTS chunk ( space blob, id blob, segment int, n smallint, body blob, sums blob, \
PRIMARY KEY ((space, id, segment), n)) WITH gc_grace_seconds = 86400";

    #[test]
    fn the_tables_of_version_1_stay_as_they_are() {
        let tables = TABLES.map(|table| table.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(tables.join("\n"), FIXTURE);
        assert_eq!(SCHEMA_VERSION, "1");
        assert_eq!([VERSION, LEASE_MS, CONTENT_BUCKET], ["schema-version", "lease-ms", "content-bucket"]);
    }
}
