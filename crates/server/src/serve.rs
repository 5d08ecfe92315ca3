//! `tavola serve`: open the store, listen, announce, stop cleanly.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tavola_auth::Accounts;
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_frontend::{FrontendSettings, Pipeline, PipelineSettings};
use tavola_model::{Clock, SystemClock};
use tavola_service::{Service, ServiceSettings, SystemChance};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::filter::LevelFilter;

use crate::settings::Values;
use crate::{accounts, banner, control};

/// Runs the server until it is told to stop.
pub fn run(values: &Values) -> anyhow::Result<()> {
    start_log(values)?;
    let threads: usize = values.number("worker-threads")?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().context("cannot start the runtime")?.block_on(serve(values))
}

async fn serve(values: &Values) -> anyhow::Result<()> {
    let started = Instant::now();
    let host: IpAddr = values.text("host").parse().context("--host is not an IP address")?;
    let accounts = Arc::new(accounts::parse(values.text("account"))?);
    accounts::check_exposure(&accounts, host, values.switch("allow-public-development-key")?)?;
    let folder = DataFolder::prepare(values)?;

    let table_address = SocketAddr::new(host, values.number("table-port")?);
    let listener = TcpListener::bind(table_address)
        .await
        .with_context(|| format!("cannot listen on {table_address}"))?;
    let table_address = listener.local_addr().context("cannot tell the address")?;

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let engine = LocalEngine::open(local_settings(values, &folder.path)?, clock.clone())?;
    let service = Service::new(engine.clone(), clock.clone(), service_settings(values)?);
    service.start().await.map_err(|error| anyhow!("cannot read the catalog: {error}"))?;
    let show_plan = match values.word("plan-header", &["on", "off", "auto"])? {
        "on" => true,
        "off" => false,
        _ => host.is_loopback(),
    };
    let pipeline = Pipeline::new(
        accounts.clone(),
        service,
        clock,
        Arc::new(SystemChance),
        PipelineSettings { show_plan },
    );

    let (stop, stopped) = watch::channel(false);
    let listening = tokio::spawn(tavola_frontend::serve(
        listener,
        Arc::new(pipeline),
        frontend_settings(values)?,
        stopped.clone(),
    ));
    let controlling = control::listen(&folder.path, engine.clone(), stopped)?;
    announce(values, &folder, table_address, &accounts, started.elapsed().as_secs_f64())?;

    wait_for_signal().await?;
    tracing::info!("stopping");
    stop.send_replace(true);
    listening.await.context("the listener failed")?;
    controlling.await.context("the control socket failed")?;
    engine.close().await;
    Ok(())
}

/// The data folder, and whether it goes away with the process.
struct DataFolder {
    path: PathBuf,
    temporary: Option<tempfile::TempDir>,
}

impl DataFolder {
    fn prepare(values: &Values) -> anyhow::Result<Self> {
        if values.switch("ephemeral")? {
            let folder = tempfile::Builder::new()
                .prefix("tavola-")
                .tempdir()
                .context("cannot make a temporary folder")?;
            return Ok(Self { path: folder.path().to_owned(), temporary: Some(folder) });
        }
        Ok(Self { path: values.text("data").into(), temporary: None })
    }
}

fn local_settings(values: &Values, data_dir: &Path) -> anyhow::Result<LocalSettings> {
    Ok(LocalSettings {
        cache_bytes: values.mebibytes("cache-mb")?,
        memtable_bytes: values.mebibytes("memtable-mb")?,
        disk_reserve_bytes: values.mebibytes("disk-reserve-mb")?,
        ..LocalSettings::new(data_dir)
    })
}

fn service_settings(values: &Values) -> anyhow::Result<ServiceSettings> {
    Ok(ServiceSettings {
        catalog_cache: true,
        table_delete_delay: Duration::from_secs(values.number("table-delete-delay-seconds")?),
    })
}

fn frontend_settings(values: &Values) -> anyhow::Result<FrontendSettings> {
    let seconds = |name| values.number(name).map(Duration::from_secs);
    Ok(FrontendSettings {
        connections_max: values.number("connections-max")?,
        inflight_bytes_max: usize::try_from(values.mebibytes("inflight-mb")?)
            .context("--inflight-mb is too large")?,
        head_time_max: seconds("idle-seconds")?,
        body_time_max: seconds("body-seconds")?,
        drain_time_max: seconds("drain-seconds")?,
        ..FrontendSettings::default()
    })
}

fn announce(
    values: &Values,
    folder: &DataFolder,
    address: SocketAddr,
    accounts: &Accounts,
    seconds: f64,
) -> anyhow::Result<()> {
    let ready_file = values.text("ready-file");
    if !ready_file.is_empty() {
        let first = accounts.iter().map(|account| account.name().as_str()).min().unwrap_or_default();
        let ready =
            serde_json::json!({ "table": banner::table_url(address, first), "pid": std::process::id() });
        // Written aside and renamed, so that whoever waits for the file never reads half of it.
        let aside = format!("{ready_file}.new");
        std::fs::write(&aside, ready.to_string())
            .and_then(|()| std::fs::rename(&aside, ready_file))
            .with_context(|| format!("cannot write {ready_file}"))?;
    }
    let text = banner::text(address, accounts, &folder.path, folder.temporary.is_some(), seconds);
    // Nobody may be reading; that is no reason not to serve.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

async fn wait_for_signal() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn start_log(values: &Values) -> anyhow::Result<()> {
    let level = match values.word("log-level", &["error", "warn", "info", "debug"])? {
        "error" => LevelFilter::ERROR,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        _ => LevelFilter::WARN,
    };
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    match values.word("log-format", &["text", "json"])? {
        "json" => builder.json().init(),
        _ => builder.init(),
    }
    Ok(())
}
