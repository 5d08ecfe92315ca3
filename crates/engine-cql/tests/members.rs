//! Servers that hear of each other through a cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use scylla::client::session_builder::SessionBuilder;
use tavola_engine_cql::{ANNOUNCE_EVERY, ClusterSettings, CqlEngine, CqlSettings, Listed, init};
use tavola_system::SystemClock;

/// How to reach a keyspace of its own, and what it is made with.
fn place(name: &str) -> (CqlSettings, ClusterSettings) {
    let nodes = std::env::var("TAVOLA_CQL_NODES").expect("TAVOLA_CQL_NODES names the cluster");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let mut settings = CqlSettings::new(nodes.split(',').map(str::to_owned).collect());
    settings.keyspace = format!("{name}_{}", since.as_millis());
    let copies = u32::try_from(settings.nodes.len()).unwrap();
    let replication = vec![("datacenter1".to_owned(), copies)];
    (settings, ClusterSettings { replication, lease: Duration::from_millis(50), content_bucket: None })
}

async fn connect(settings: &CqlSettings) -> Arc<CqlEngine> {
    CqlEngine::connect(settings, Arc::new(SystemClock)).await.unwrap()
}

fn listed(name: &str, about: &str) -> Listed {
    Listed { name: name.to_owned(), about: about.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_listed_for_as_long_as_it_says_so() {
    let (settings, chosen) = place("members");
    init(&settings, &chosen).await.unwrap();
    let engines = [connect(&settings).await, connect(&settings).await];
    let here = engines[0].members().await.unwrap().unwrap();
    let there = engines[1].members().await.unwrap().unwrap();
    assert_eq!(here.list().await.unwrap(), []);
    here.announce(&listed("a", "1")).await.unwrap();
    there.announce(&listed("b", "2")).await.unwrap();
    assert_eq!(here.list().await.unwrap(), [listed("a", "1"), listed("b", "2")]);
    here.announce(&listed("a", "3")).await.unwrap();
    here.withdraw("b").await.unwrap();
    assert_eq!(there.list().await.unwrap(), [listed("a", "3")]);
    let started = Instant::now();
    while !there.list().await.unwrap().is_empty() {
        assert!(started.elapsed() < ANNOUNCE_EVERY * 8, "it stays without being announced");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(started.elapsed() > ANNOUNCE_EVERY * 2, "one announcement may fail");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_of_an_earlier_version_serves_without_a_list_until_init_adds_it() {
    let (settings, chosen) = place("older");
    init(&settings, &chosen).await.unwrap();
    let session = SessionBuilder::new().known_nodes(&settings.nodes).build().await.unwrap();
    session.query_unpaged(format!("DROP TABLE {}.member", settings.keyspace), ()).await.unwrap();
    let engine = connect(&settings).await;
    assert!(engine.members().await.unwrap().is_none());
    init(&settings, &chosen).await.unwrap();
    assert!(engine.members().await.unwrap().is_some());
}
