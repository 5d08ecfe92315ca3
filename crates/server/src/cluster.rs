//! `tavola cluster …`, and the settings of the cluster.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tavola_bucket::{BucketContents, BucketUrl};
use tavola_engine::ContentStore;
use tavola_engine_cql::{
    ClientIdentity, ClusterSettings, CqlEngine, CqlMetrics, CqlSettings, Login, TlsSettings,
};
use tavola_model::Clock;
use tavola_system::SystemClock;

use crate::settings::Values;

/// Port of a node that is named without one.
const CQL_PORT: u16 = 9042;

/// How to reach the cluster.
pub fn settings(values: &Values) -> anyhow::Result<CqlSettings> {
    let nodes = values.text("cql-nodes").split([',', ';']).map(str::trim).filter(|node| !node.is_empty());
    let with_port = |node: &str| {
        if node.contains(':') { node.to_owned() } else { format!("{node}:{CQL_PORT}") }
    };
    let nodes: Vec<String> = nodes.map(with_port).collect();
    if nodes.is_empty() {
        bail!("--cql-nodes is missing: name some nodes of the cluster, such as 10.0.0.1:9042,10.0.0.2:9042");
    }
    let keyspace = values.text("cql-keyspace").to_owned();
    Ok(CqlSettings { nodes, keyspace, login: login(values)?, tls: tls(values)? })
}

fn login(values: &Values) -> anyhow::Result<Option<Login>> {
    let (user, file) = (values.text("cql-user"), values.text("cql-password-file"));
    match (user, file) {
        ("", "") => Ok(None),
        ("", _) | (_, "") => bail!("--cql-user and --cql-password-file go together"),
        (user, file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
            let password = text.lines().next().unwrap_or_default().to_owned();
            Ok(Some(Login { user: user.to_owned(), password }))
        }
    }
}

fn tls(values: &Values) -> anyhow::Result<Option<TlsSettings>> {
    let identity = match (values.text("cql-cert"), values.text("cql-key")) {
        ("", "") => None,
        ("", _) | (_, "") => bail!("--cql-cert and --cql-key go together"),
        (certificate, key) => Some(ClientIdentity { certificate: certificate.into(), key: key.into() }),
    };
    match (values.text("cql-ca"), identity) {
        ("", None) => Ok(None),
        ("", Some(_)) => bail!("--cql-cert needs --cql-ca: without it connections are not encrypted"),
        (authority, identity) => Ok(Some(TlsSettings { authority: authority.into(), identity })),
    }
}

/// Where the contents of blobs are, as was chosen when the keyspace was made.
pub async fn contents(engine: &CqlEngine, clock: &Arc<dyn Clock>) -> anyhow::Result<Arc<dyn ContentStore>> {
    match engine.content_bucket() {
        Some(url) => Ok(Arc::new(open_bucket(&BucketUrl::parse(url)?, clock).await?)),
        None => Ok(engine.contents()),
    }
}

/// Opens a bucket and lists it. Its credentials are those that its own tools take from the environment.
async fn open_bucket(url: &BucketUrl, clock: &Arc<dyn Clock>) -> anyhow::Result<BucketContents> {
    let bucket = url.open(bucket_options(std::env::vars_os()), clock.clone());
    let bucket = bucket.with_context(|| format!("cannot open the bucket {}", url.as_str()))?;
    bucket.check().await.with_context(|| format!("cannot list the bucket {}", url.as_str()))?;
    Ok(bucket)
}

/// The variables that are about buckets, named as `object_store` names its options.
fn bucket_options(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let texts =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let is_of_bucket = |name: &str| ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|start| name.starts_with(start));
    texts.filter(|(name, _)| is_of_bucket(name)).map(|(name, value)| (name.to_lowercase(), value)).collect()
}

/// The counters of the engine, as they are shown.
pub fn counters(metrics: &CqlMetrics) -> Vec<(&'static str, &'static str, u64)> {
    vec![
        ("tavola_cql_transactions_total", "Transactions that were asked for", metrics.transactions),
        ("tavola_cql_commits_total", "Conditional batches that were sent", metrics.commits),
        (
            "tavola_cql_conflicts_total",
            "Rounds decided again because another server was first",
            metrics.conflicts,
        ),
        ("tavola_cql_retries_total", "Statements that were sent again after a failure", metrics.retries),
        (
            "tavola_cql_unknown_outcomes_total",
            "Transactions whose outcome is unknown",
            metrics.unknown_outcomes,
        ),
        ("tavola_cql_partitions_listed_total", "Partitions added to a directory", metrics.partitions_listed),
        (
            "tavola_cql_partitions_unlisted_total",
            "Entries removed from a directory",
            metrics.partitions_unlisted,
        ),
        (
            "tavola_cql_spaces_reclaimed_total",
            "Dropped spaces whose rows were removed",
            metrics.spaces_reclaimed,
        ),
    ]
}

/// What goes up and down, as far as it is known.
pub fn gauges(metrics: &CqlMetrics) -> Vec<(&'static str, &'static str, u64)> {
    let entries = metrics.directory_entries;
    let help = "Partitions in all directories, as the cluster last estimated";
    entries.map(|entries| ("tavola_cql_directory_entries", help, entries)).into_iter().collect()
}

/// Makes the schema.
pub fn init(values: &Values, copies: &str, lease_ms: u64, bucket: Option<&str>) -> anyhow::Result<()> {
    let settings = settings(values)?;
    let replication = parse_copies(copies)?;
    let content_bucket = bucket.map(BucketUrl::parse).transpose()?;
    let lease = Duration::from_millis(lease_ms);
    run(async {
        if let Some(url) = &content_bucket {
            open_bucket(url, &system_clock()).await?;
        }
        let content_bucket = content_bucket.as_ref().map(|url| url.as_str().to_owned());
        let cluster = ClusterSettings { replication, lease, content_bucket };
        Ok(tavola_engine_cql::init(&settings, &cluster).await?)
    })?;
    println!("keyspace {} is ready", settings.keyspace);
    Ok(())
}

/// Connects as a server would.
pub fn check(values: &Values) -> anyhow::Result<()> {
    let settings = settings(values)?;
    let engine = run(async {
        let engine = CqlEngine::connect(&settings, system_clock()).await?;
        contents(&engine, &system_clock()).await?;
        Ok(engine)
    })?;
    for node in engine.nodes() {
        let settings: Vec<String> =
            node.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let told = if settings.is_empty() {
            "cannot be asked for its settings".to_owned()
        } else {
            settings.join(", ")
        };
        println!("node {}: {told}", node.address);
    }
    println!(
        "keyspace {} can be served (lease_ms={}, transaction_bytes_max={})",
        settings.keyspace,
        engine.lease_time().as_millis(),
        engine.transaction_bytes_max()
    );
    Ok(())
}

fn system_clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(work)
}

/// Reads `CENTRE=COUNT,…`.
fn parse_copies(text: &str) -> anyhow::Result<Vec<(String, u32)>> {
    let parse = |part: &str| {
        let (center, count) = part.split_once('=')?;
        let count = count.trim().parse().ok().filter(|count| *count > 0)?;
        Some((center.trim().to_owned(), count))
    };
    let copies: Option<Vec<_>> = text.split(',').map(parse).collect();
    copies.with_context(|| format!("--copies is CENTRE=COUNT,… (value={text})"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn nodes(text: &str) -> Vec<String> {
        let flags = HashMap::from([("cql-nodes", text.to_owned())]);
        settings(&Values::gather(&flags, |_| None).unwrap()).unwrap().nodes
    }

    #[test]
    fn nodes_are_named_with_or_without_a_port() {
        assert_eq!(nodes("a:1, b"), ["a:1", "b:9042"]);
        assert!(settings(&Values::gather(&HashMap::new(), |_| None).unwrap()).is_err());
    }

    #[test]
    fn a_certificate_is_shown_on_encrypted_connections_only() {
        let tls = |given: &[&'static str]| {
            let flags = given.iter().map(|name| (*name, format!("{name}.pem"))).collect();
            tls(&Values::gather(&flags, |_| None).unwrap())
        };
        assert!(tls(&[]).unwrap().is_none());
        assert!(tls(&["cql-ca"]).unwrap().unwrap().identity.is_none());
        let identity = tls(&["cql-ca", "cql-cert", "cql-key"]).unwrap().unwrap().identity.unwrap();
        assert_eq!(identity.key.to_str(), Some("cql-key.pem"));
        for bad in [&["cql-cert", "cql-key"][..], &["cql-ca", "cql-cert"], &["cql-ca", "cql-key"]] {
            assert!(tls(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_bucket_is_told_the_variables_about_buckets_and_no_others() {
        let variables =
            [("AWS_REGION", "r"), ("REGION", "x"), ("TAVOLA_DATA", "x"), ("AZURE_CLIENT_ID", "c")];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [named("aws_region", "r"), named("azure_client_id", "c")];
        assert_eq!(bucket_options(variables.into_iter()), expected);
    }

    #[test]
    fn copies_are_counted_by_data_centre() {
        assert_eq!(parse_copies("a=3,b=2").unwrap(), [("a".to_owned(), 3), ("b".to_owned(), 2)]);
        for bad in ["", "a", "a=0", "a=x", "a=3,"] {
            assert!(parse_copies(bad).is_err(), "{bad}");
        }
    }
}
