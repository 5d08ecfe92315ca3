//! The store that the settings ask for, and what the rest of the server needs of it beside the contract.

use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tavola_engine::{ContentStore, Engine, EngineError, SpaceId};
use tavola_engine_cql::CqlEngine;
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_frontend::Listener;
use tavola_model::Clock;

use crate::cluster;
use crate::maintain::report_line;
use crate::membership::Joined;
use crate::settings::Values;

const LOCK: &str = "server.lock";

/// Where rows are kept.
#[derive(Clone)]
pub enum Store {
    /// In the data folder, for this process alone.
    Local(Arc<LocalEngine>),
    /// In a cluster that other servers use too.
    Cluster {
        /// The engine.
        engine: Arc<CqlEngine>,
        /// The contents of blobs: beside the rows, or in a bucket.
        contents: Arc<dyn ContentStore>,
        /// Which cluster.
        name: String,
        /// The lock of the data folder, which then holds accounts only.
        #[expect(dead_code, reason = "held for as long as the store is open")]
        lock: Arc<File>,
    },
}

impl Store {
    /// Opens the store.
    pub async fn open(values: &Values, data_dir: &Path, clock: &Arc<dyn Clock>) -> anyhow::Result<Self> {
        if values.word("engine", &["local", "cql"])? == "local" {
            return Ok(Self::Local(LocalEngine::open(local_settings(values, data_dir)?, clock.clone())?));
        }
        let lock = Arc::new(lock(data_dir)?);
        let settings = cluster::settings(values)?;
        let name = format!("{} at {}", settings.keyspace, settings.nodes.join(","));
        let engine = CqlEngine::connect(&settings, clock.clone()).await?;
        let contents = cluster::contents(&engine, clock).await?;
        Ok(Self::Cluster { engine, contents, name, lock })
    }

    /// The contract.
    pub fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Local(engine) => engine.clone(),
            Self::Cluster { engine, .. } => engine.clone(),
        }
    }

    /// The store of the contents of blobs.
    pub fn contents(&self) -> Arc<dyn ContentStore> {
        match self {
            Self::Local(engine) => engine.contents(),
            Self::Cluster { contents, .. } => contents.clone(),
        }
    }

    /// How long a catalog entry may be used without reading it again, where other servers write to it.
    pub fn lease_time(&self) -> Option<Duration> {
        match self {
            Self::Local(_) => None,
            Self::Cluster { engine, .. } => Some(engine.lease_time()),
        }
    }

    /// Whether everything is in the data folder.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Where it is, for a person.
    pub fn location(&self, data_dir: &Path) -> String {
        match self {
            Self::Local(_) => data_dir.display().to_string(),
            Self::Cluster { name, .. } => name.clone(),
        }
    }

    /// Copies everything into a folder, and says how much it was.
    pub async fn backup(&self, destination: &Path) -> anyhow::Result<String> {
        match self {
            Self::Local(engine) => Ok(report_line(&engine.backup(destination).await?)),
            Self::Cluster { .. } => bail!("a cluster is backed up by its own snapshots: see docs/cluster.md"),
        }
    }

    /// Whether the store answers a read now.
    pub async fn probe(&self) -> Result<(), EngineError> {
        match self {
            Self::Local(engine) => engine.get(SpaceId::CATALOG, b"", b"").await.map(|_| ()),
            Self::Cluster { engine, .. } => engine.probe().await,
        }
    }

    /// Joins the other servers on the store, where there can be any.
    pub async fn join(
        &self,
        values: &Values,
        host: IpAddr,
        listeners: &[Listener],
    ) -> anyhow::Result<Option<Joined>> {
        match self {
            Self::Local(_) => Ok(None),
            Self::Cluster { engine, .. } => Joined::join(engine, values, host, listeners).await.map(Some),
        }
    }

    /// Finishes what is under way.
    pub async fn close(&self) {
        match self {
            Self::Local(engine) => engine.close().await,
            Self::Cluster { engine, .. } => engine.close().await,
        }
    }
}

/// Keeps a second server from the folder, as the embedded engine does with its own lock.
fn lock(data_dir: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
    let path = data_dir.join(LOCK);
    let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => {
            bail!("another server uses the data folder {}: give each its own --data", data_dir.display())
        }
    }
}

fn local_settings(values: &Values, data_dir: &Path) -> anyhow::Result<LocalSettings> {
    Ok(LocalSettings {
        memory_bytes: values.mebibytes("memory-mb")?,
        memtable_bytes: values.mebibytes("memtable-mb")?,
        disk_reserve_bytes: values.mebibytes("disk-reserve-mb")?,
        ..LocalSettings::new(data_dir)
    })
}
