//! The console of this server: its listener, its token, and what it shows of the server as a whole.
//!
//! The console never keeps a server from serving: if its port is taken, the start says so and goes on.

use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use async_trait::async_trait;
use tavola_console::{
    Console, ConsoleParts, ConsoleSettings, DiskSpace, Health, HealthFigure, MemberView, NodeView, OwnerView,
    ServerView,
};
use tavola_engine_cql::NodeState;
use tavola_engine_local::LocalMetrics;
use tavola_frontend::{Affinity, OwnedCount, OwnedPartition, PartitionHash, Shutdown, Tls};
use tavola_model::{AccountName, RandomSource as _, StorageService};
use tavola_system::SystemRandom;
use tokio::net::TcpListener;

use crate::folder_size::FolderSize;
use crate::metrics::{self, Family, Kind, Series, Value};
use crate::settings::Values;
use crate::store::Store;
use crate::{advising, maintain};

const TOKEN_FILE: &str = "console-token";
const OWNER_ONLY: u32 = 0o600;
/// Characters of a token that is given in the settings.
const TOKEN_CHARS_MIN: usize = 16;

/// What became of the console's port.
pub enum Listening {
    /// There is to be no console.
    Off,
    /// Somebody else has the port.
    Taken(SocketAddr),
    /// It listens.
    On(TcpListener),
}

impl Listening {
    /// Opens the console's port.
    pub async fn open(values: &Values) -> anyhow::Result<Self> {
        if values.text("console-port") == "off" {
            return Ok(Self::Off);
        }
        let host: IpAddr =
            values.text("console-host").parse().context("--console-host is not an IP address")?;
        let address = SocketAddr::new(host, values.number("console-port")?);
        match TcpListener::bind(address).await {
            Ok(socket) => Ok(Self::On(socket)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Ok(Self::Taken(address)),
            Err(error) => Err(error).with_context(|| format!("cannot listen on {address} (--console-port)")),
        }
    }

    /// The line of the start's text, and the address that a program is told.
    pub fn shown(&self, has_tls: bool) -> Option<(String, Option<String>)> {
        match self {
            Self::Off => None,
            Self::Taken(address) => Some((format!("off: {address} is taken (--console-port)"), None)),
            Self::On(socket) => {
                let address = socket.local_addr().ok()?;
                let scheme = if has_tls && !address.ip().is_loopback() { "https" } else { "http" };
                let url = format!("{scheme}://{address}/");
                Some((url.clone(), Some(url)))
            }
        }
    }
}

/// The console on an open port.
pub fn console(
    values: &Values,
    data_dir: &Path,
    socket: &TcpListener,
    tls: Option<Tls>,
    parts: ConsoleParts,
) -> anyhow::Result<Console> {
    let address = socket.local_addr().context("cannot read the address of the console listener")?;
    let given = values.text("console-token").to_owned();
    if !given.is_empty() && given.chars().count() < TOKEN_CHARS_MIN {
        bail!("--console-token is too short (characters_min={TOKEN_CHARS_MIN})");
    }
    let path = data_dir.join(TOKEN_FILE);
    let token = move || if given.is_empty() { read_token(&path) } else { Some(given.clone()) };
    let prices = Some(values.text("prices")).filter(|file| !file.is_empty()).map(PathBuf::from);
    let prices = advising::prices(prices.as_ref()).context("--prices")?;
    let names = values.text("console-host-names").split([',', ';']).map(str::trim);
    let settings = ConsoleSettings {
        host_names: names.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        is_loopback: address.ip().is_loopback(),
        port: address.port(),
        tls,
        version: env!("CARGO_PKG_VERSION"),
        prices,
        token: Box::new(token),
    };
    Ok(Console::new(settings, parts))
}

fn read_token(path: &Path) -> Option<String> {
    let token = std::fs::read_to_string(path).ok()?;
    let token = token.trim();
    (token.chars().count() >= TOKEN_CHARS_MIN).then(|| token.to_owned())
}

/// Makes a new token, which opens every account in the console; the one before is void.
pub fn make_token(data_dir: &Path) -> anyhow::Result<()> {
    maintain::make_folder(data_dir)?;
    let token: String = (0..4).flat_map(|_| SystemRandom.bytes()).map(|byte| format!("{byte:02x}")).collect();
    let (path, aside) = (data_dir.join(TOKEN_FILE), data_dir.join(format!("{TOKEN_FILE}.new")));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(OWNER_ONLY);
    options
        .open(&aside)
        .and_then(|mut file| file.write_all(token.as_bytes()))
        .and_then(|()| std::fs::rename(&aside, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!(
        "The console token, which opens every account in the console; the one before is void.\n\n  {token}\n"
    );
    Ok(())
}

/// This server, as its console sees it.
pub struct ConsoleView {
    /// Where rows are kept.
    store: Store,
    /// What there is to say of other servers on it.
    affinity: Option<Arc<Affinity>>,
    /// The data folder.
    data_dir: PathBuf,
    size: FolderSize,
}

#[async_trait]
impl ServerView for ConsoleView {
    async fn probe(&self) -> Result<(), String> {
        self.store.probe().await.map_err(|error| error.to_string())
    }

    fn health(&self) -> Health {
        let figure = |family: Family| match family.series.as_slice() {
            [Series { labels, value: Value::Whole(value) }] if labels.is_empty() => {
                let is_counter = family.kind == Kind::Counter;
                Some(HealthFigure { name: family.full_name, help: family.help, value: *value, is_counter })
            }
            _ => None,
        };
        let mut figures: Vec<_> = metrics::of_store(&self.store).into_iter().filter_map(figure).collect();
        if let Store::Local(engine) = &self.store {
            figures.extend(derived(&engine.metrics()));
        }
        Health {
            figures,
            disk: self.disk(),
            location: self.store.location(&self.data_dir),
            engine: if self.store.is_local() { "local" } else { "cql" },
        }
    }

    fn members(&self) -> Vec<MemberView> {
        let Some(affinity) = &self.affinity else { return Vec::new() };
        let me = affinity.me().name.clone();
        let view = |member: tavola_frontend::Member| MemberView {
            is_this: member.name == me,
            name: member.name,
            host: member.host,
        };
        affinity.members().into_iter().map(view).collect()
    }

    fn owner(&self, account: &AccountName, partition: OwnedPartition<'_>) -> Option<OwnerView> {
        let affinity = self.affinity.as_ref()?;
        let owner = affinity.owner_of(account, partition)?;
        let is_this = owner.member.name == affinity.me().name;
        Some(OwnerView { name: owner.member.name, is_this, is_suspended: owner.is_suspended })
    }

    fn count_owned(&self, service: StorageService, hashes: &[PartitionHash]) -> Vec<OwnedCount> {
        self.affinity.as_ref().map(|affinity| affinity.count_owned(service, hashes)).unwrap_or_default()
    }

    fn nodes(&self) -> Vec<NodeView> {
        let Store::Cluster { engine, .. } = &self.store else { return Vec::new() };
        let settings = |address: &str| {
            let told = engine.nodes().iter().find(|node| node.address == address);
            let told = told.map_or(&[][..], |node| &node.settings[..]);
            told.iter().map(|(name, value)| format!("{name} {value}")).collect()
        };
        let view = |node: NodeState| NodeView {
            settings: settings(&node.address),
            location: [node.datacenter, node.rack].join(" / "),
            is_up: node.is_connected,
            address: node.address,
        };
        engine.node_states().into_iter().map(view).collect()
    }
}

impl ConsoleView {
    /// A server with this store and this data folder.
    pub fn new(store: Store, affinity: Option<Arc<Affinity>>, data_dir: PathBuf) -> Self {
        Self { store, affinity, size: FolderSize::new(data_dir.clone()), data_dir }
    }

    /// Measures the data folder now and then, so that its growth is known before anybody looks.
    pub async fn watch_size(self: Arc<Self>, mut stopped: Shutdown) {
        if !self.store.is_local() {
            return;
        }
        let mut ticks = tokio::time::interval(FolderSize::NOTED_EVERY);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            let view = self.clone();
            let _ = tokio::task::spawn_blocking(move || view.size.measure()).await;
        }
    }

    fn disk(&self) -> Option<DiskSpace> {
        if !self.store.is_local() {
            return None;
        }
        let status = rustix::fs::statvfs(&self.data_dir).ok()?;
        Some(DiskSpace {
            total_bytes: status.f_blocks * status.f_frsize,
            free_bytes: status.f_bavail * status.f_frsize,
            data_bytes: self.size.measure(),
            growth: self.size.growth(),
        })
    }
}

/// What a person wants to know of the counters of the embedded store.
fn derived(metrics: &LocalMetrics) -> Vec<HealthFigure> {
    let gauge = |name, help, value| HealthFigure { name, help, value, is_counter: false };
    let mut figures = Vec::new();
    let syncs = &metrics.sync_ns;
    let (commits, mut seen) = (syncs.count(), 0);
    if commits > 0 {
        let slow = syncs.counts.iter().position(|count| {
            seen += count;
            seen * 100 >= commits * 99
        });
        let bound = slow.and_then(|bucket| syncs.bounds.get(bucket)).or_else(|| syncs.bounds.last());
        let help = "99 of 100 commits were on the disk within so many microseconds, since the start";
        figures.push(gauge("commit_p99_us", help, bound.map_or(0, |bound| bound / 1_000)));
    }
    let blocks = metrics.blocks_cached + metrics.blocks_read;
    if let Some(permille) = (metrics.blocks_cached * 1_000).checked_div(blocks) {
        let help = "Blocks of table files that were found in memory, of a thousand, since the start";
        figures.push(gauge("cache_hit_permille", help, permille));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_before_the_first_start_too_and_a_new_one_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = folder.path().join("data");
        let token = || read_token(&data_dir.join(TOKEN_FILE));
        assert_eq!(token(), None);
        make_token(&data_dir).unwrap();
        let first = token().unwrap();
        assert_eq!(first.len(), 64);
        make_token(&data_dir).unwrap();
        assert_ne!(token().unwrap(), first);
        let settings = tavola_engine_local::LocalSettings::new(&data_dir);
        let clock = Arc::new(tavola_system::SystemClock);
        assert!(tavola_engine_local::LocalEngine::open(settings, clock).is_ok(), "the folder can be served");
    }
}
