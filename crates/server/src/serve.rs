//! `tavola serve`: open the store, listen, announce, stop cleanly.

use std::io::{IsTerminal as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tavola_console::{ConsoleParts, Tail};
use tavola_frontend::{
    AzureLimits, Frontend, FrontendSettings, Listener, LiveAccounts, Pipeline, PipelineSettings, Tls,
};
use tavola_model::{Clock, StorageService};
use tavola_service::{ScrubPace, ScrubReport, Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::{RecordSink, Recorder};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::filter::LevelFilter;

use crate::accounts::{AccountSource, development_note};
use crate::advising::Advising;
use crate::analytics::Analytics;
use crate::banner::{Banner, Endpoint};
use crate::console;
use crate::control::{self, Controlled};
use crate::files;
use crate::health;
use crate::membership::Joined;
use crate::metrics::MetricSources;
use crate::moving;
use crate::oidc;
use crate::otlp::Otlp;
use crate::settings::Values;
use crate::store::Store;

/// How long expired messages at the front of a queue that nobody reads may stay.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How often spaces that nothing names are looked for.
const RECLAIM_EVERY: Duration = Duration::from_secs(60 * 60);

/// How often copies of blobs are looked for that nobody makes any more.
const RESUME_COPIES_EVERY: Duration = Duration::from_secs(10 * 60);

/// How often all contents are read, and those are looked for that no blob names.
const SCRUB_EVERY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// When that is done first, so that it is done on servers that are restarted every day, too.
const SCRUB_FIRST: Duration = Duration::from_secs(60 * 60);

/// Runs the server until it is told to stop.
pub fn run(values: Values) -> anyhow::Result<()> {
    start_log(&values)?;
    let threads: usize = values.number("worker-threads")?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().context("cannot start the runtime")?.block_on(serve(Arc::new(values)))
}

async fn serve(values: Arc<Values>) -> anyhow::Result<()> {
    let started = Instant::now();
    let values = &values;
    let host: IpAddr = values.text("host").parse().context("--host is not an IP address")?;
    let folder = DataFolder::prepare(values)?;
    let source = AccountSource {
        values: values.clone(),
        host,
        data_dir: folder.path.clone(),
        issuer: oidc::start(values).await?,
    };
    let accounts = LiveAccounts::new(source.gather()?);

    let tls = certificate(values)?;
    let listeners = listen(values, host, tls.clone()).await?;
    let watched = listen_for_watchers(values, host).await?;
    let console_socket = console::Listening::open(values).await?;
    let endpoints = listeners.iter().map(Endpoint::of).collect::<anyhow::Result<Vec<_>>>()?;

    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Store::open(values, &folder.path, &clock).await?;
    moving::refuse_unfinished(&*store.engine()).await?;
    let service = Service::new(
        store.engine(),
        clock.clone(),
        Arc::new(SystemRandom),
        service_settings(values, &store)?,
    );
    let service = service.with_contents(store.contents());
    service.start().await.map_err(|error| anyhow!("cannot read the catalog: {error}"))?;
    let show_plan = match values.word("plan-header", &["on", "off", "auto"])? {
        "on" => true,
        "off" => false,
        _ => host.is_loopback(),
    };
    let observers = Observers { advising: Advising::open(&folder.path), tail: Arc::new(Tail::default()) };
    let otlp = (!values.text("otlp-endpoint").is_empty()).then(Otlp::new);
    let otlp_sink = otlp.iter().map(|otlp| otlp.clone() as Arc<dyn RecordSink>);
    let analytics = Analytics::new(values.number("analytics-log-seconds")?);
    let analytics_sink: Arc<dyn RecordSink> = analytics.clone();
    let sinks = observers.sinks().into_iter().chain(otlp_sink).chain([analytics_sink]).collect();
    let slow_ms: u64 = values.number("slow-ms")?;
    let recorder = Recorder::new(sinks, clock.clone())
        .with_telemetry(values.word("telemetry", &["on", "off"])? == "on")
        .with_rate(values.number("records-per-second")?)
        .with_slow_time((slow_ms > 0).then(|| Duration::from_millis(slow_ms)))
        .start()
        .context("cannot start a thread")?;
    let pipeline = Pipeline::new(
        accounts.clone(),
        service.clone(),
        clock.clone(),
        &SystemRandom,
        PipelineSettings { show_plan },
    );
    let limits = values.switch("azure-limits")?.then(|| Arc::new(AzureLimits::new(clock.clone())));
    let joined = store.join(values, host, &listeners).await?;
    let affinity = joined.as_ref().and_then(Joined::affinity);
    let pipeline =
        pipeline.with_affinity(affinity.clone()).with_recorder(recorder.clone()).with_limits(limits);

    let frontend = Frontend::new(pipeline, frontend_settings(values)?).await;
    let (stop, stopped) = watch::channel(false);
    let (stop_analytics, stopped_analytics) = watch::channel(false);
    let analysed = service.clone();
    let mut serving = JoinSet::new();
    let mut console = None;
    serving.spawn(sweep_queues(service.clone(), stopped.clone()));
    serving.spawn(reclaim_spaces(service.clone(), stopped.clone()));
    serving.spawn(resume_copies(service.clone(), stopped.clone()));
    serving.spawn(scrub_contents(service.clone(), stopped.clone()));
    serving.spawn(observers.advising.clone().keep(stopped.clone()));
    if let console::Listening::On(socket) = &console_socket {
        let view = Arc::new(console::ConsoleView::new(store.clone(), affinity.clone(), folder.path.clone()));
        serving.spawn(view.clone().watch_size(stopped.clone()));
        let parts = ConsoleParts {
            service: service.clone(),
            accounts: accounts.clone(),
            clock: clock.clone(),
            random: Arc::new(SystemRandom),
            urls: endpoints.iter().map(Endpoint::service_url).collect(),
            traffic: observers.advising.traffic.clone(),
            heat: observers.advising.heat.clone(),
            tail: observers.tail.clone(),
            view,
        };
        console = Some(console::console(values, &folder.path, socket, tls.clone(), parts)?);
    }
    let shown_console = console_socket.shown(tls.is_some());
    if let (console::Listening::On(socket), Some(console)) = (console_socket, console) {
        serving.spawn(console.serve(socket, stopped.clone()));
    }
    let analysing = tokio::spawn(analytics.clone().run(
        analysed,
        accounts.clone(),
        recorder.clone(),
        clock.clone(),
        stopped_analytics,
    ));
    let sources = MetricSources {
        store: store.clone(),
        affinity,
        recorder: recorder.clone(),
        frontend: frontend.clone(),
        analytics,
    };
    let sending = match &otlp {
        Some(otlp) => Some(otlp.start(values.text("otlp-endpoint"), sources.clone(), clock.clone())?),
        None => None,
    };
    if let Some(socket) = watched {
        serving.spawn(health::serve(socket, sources, stopped.clone()));
    }
    for listener in listeners {
        serving.spawn(frontend.clone().serve(listener, stopped.clone()));
    }
    let controlled = controlled(source, store.clone(), accounts.clone(), observers.advising.clone(), service);
    let controlling = control::listen(&folder.path, controlled, stopped.clone())?;
    let banner = Banner {
        endpoints,
        accounts: &accounts.current(),
        location: store.location(&folder.path),
        ephemeral: folder.temporary.is_some() && store.is_local(),
        development: development_note(&accounts.current()),
        servers: joined.as_ref().map(Joined::text),
        console: shown_console,
        seconds: started.elapsed().as_secs_f64(),
    };
    announce(values, &banner)?;
    if let Some(Joined::Yes(membership)) = joined {
        serving.spawn(membership.keep(stopped));
    }

    wait_for_signal().await?;
    tracing::info!("server is stopping");
    stop.send_replace(true);
    serving.join_all().await;
    frontend.drain().await;
    // After the last request, and before the store is closed.
    stop_analytics.send_replace(true);
    analysing.await.context("the task of Storage Analytics failed")?;
    recorder.close();
    observers.advising.save().await;
    if let Some(sending) = sending {
        sending.close();
    }
    controlling.await.context("the control socket failed")?;
    store.close().await;
    Ok(())
}

/// Everybody who wants the access records of requests.
struct Observers {
    /// The advisor: the recorded traffic and the heat map.
    advising: Advising,
    /// The last requests, for the console.
    tail: Arc<Tail>,
}

impl Observers {
    fn sinks(&self) -> Vec<Arc<dyn RecordSink>> {
        let mut sinks = self.advising.sinks();
        sinks.push(self.tail.clone());
        sinks
    }
}

/// What `tavola` commands can do to this server.
fn controlled(
    source: AccountSource,
    store: Store,
    accounts: Arc<LiveAccounts>,
    advising: Advising,
    service: Service,
) -> Controlled {
    let reloaded = accounts.clone();
    let reload_accounts = move || {
        reloaded.replace(source.gather()?);
        tracing::info!("accounts reloaded");
        Ok(())
    };
    Controlled { store, advising, service, accounts, reload_accounts: Box::new(reload_accounts) }
}

/// The certificate of the server, if the settings name one.
fn certificate(values: &Values) -> anyhow::Result<Option<Tls>> {
    match (values.text("tls-cert"), values.text("tls-key")) {
        ("", "") => Ok(None),
        ("", _) | (_, "") => bail!("--tls-cert and --tls-key go together"),
        (certificate, key) => Ok(Some(Tls::watch(certificate.into(), key.into())?)),
    }
}

/// Opens every port that the settings ask for.
async fn listen(values: &Values, host: IpAddr, tls: Option<Tls>) -> anyhow::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    let ports = [
        ("blob-port", StorageService::Blob, None),
        ("queue-port", StorageService::Queue, None),
        ("table-port", StorageService::Table, None),
        ("blob-tls-port", StorageService::Blob, Some(tls.clone())),
        ("queue-tls-port", StorageService::Queue, Some(tls.clone())),
        ("table-tls-port", StorageService::Table, Some(tls)),
    ];
    for (name, service, tls) in ports {
        if values.text(name) == "off" {
            continue;
        }
        let tls = match tls {
            Some(None) => {
                bail!("--{name} needs --tls-cert and --tls-key (`tavola cert` makes a pair for development)")
            }
            Some(tls) => tls,
            None => None,
        };
        let address = SocketAddr::new(host, values.number(name)?);
        let socket = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} (--{name})"))?;
        listeners.push(Listener { socket, service, tls });
    }
    if listeners.is_empty() {
        bail!("every port is off: nothing to serve");
    }
    Ok(listeners)
}

/// Opens the port for those who watch the server, if there is to be one.
async fn listen_for_watchers(values: &Values, host: IpAddr) -> anyhow::Result<Option<TcpListener>> {
    if values.text("health-port") == "off" {
        return Ok(None);
    }
    let address = SocketAddr::new(host, values.number("health-port")?);
    let socket = TcpListener::bind(address).await;
    socket.map(Some).with_context(|| format!("cannot listen on {address} (--health-port)"))
}

/// Removes expired messages that nobody gets, now and then, until told to stop.
async fn sweep_queues(service: Service, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP_EVERY) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        if let Err(error) = service.sweep_queues().await {
            tracing::warn!(%error, "cannot remove expired messages, will retry at the next sweep");
        }
    }
}

/// Drops spaces that nothing names, now and then, until told to stop.
async fn reclaim_spaces(service: Service, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(RECLAIM_EVERY) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        if let Err(error) = service.reclaim_spaces().await {
            tracing::warn!(%error, "cannot reclaim spaces, will retry in an hour");
        }
    }
}

/// Goes on with copies of blobs that nobody makes any more, now and then, until told to stop.
async fn resume_copies(service: Service, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(RESUME_COPIES_EVERY) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        let resumed = tokio::select! {
            resumed = service.resume_idle_copies() => resumed,
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        if let Err(error) = resumed {
            tracing::warn!(%error, "cannot resume copies of blobs, will retry in some minutes");
        }
    }
}

/// Reads all contents of blobs and drops what nothing names, now and then, until told to stop.
async fn scrub_contents(service: Service, mut stopped: watch::Receiver<bool>) {
    if let Err(error) = service.resume_blobs().await {
        tracing::warn!(%error, "cannot resume copies and deletions of blobs; the next start will");
    }
    let mut wait = SCRUB_FIRST;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        wait = SCRUB_EVERY;
        let scrubbed = tokio::select! {
            scrubbed = service.scrub_contents(ScrubPace::Gentle) => scrubbed,
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        match scrubbed {
            Ok(ScrubReport { contents, bytes, damaged, dropped, tidied }) => {
                tracing::info!(contents, bytes, damaged, dropped, tidied, "scrubbed the contents of blobs");
            }
            Err(error) => tracing::warn!(%error, "cannot scrub the contents of blobs, will retry"),
        }
    }
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

fn service_settings(values: &Values, store: &Store) -> anyhow::Result<ServiceSettings> {
    Ok(ServiceSettings {
        catalog_cache: true,
        catalog_lease: store.lease_time(),
        table_delete_delay: Duration::from_secs(values.number("table-delete-delay-seconds")?),
        queue_delete_delay: Duration::from_secs(values.number("queue-delete-delay-seconds")?),
        container_delete_delay: Duration::from_secs(values.number("container-delete-delay-seconds")?),
        container_delete_retention: days(values.number("container-delete-retention-days")?)?,
        blob_versions: values.word("blob-versions", &["on", "off"])? == "on",
        pages_end_with_partitions: values.switch("azure-limits")?,
        ..ServiceSettings::default()
    })
}

/// Days of a retention, as many as the service takes.
fn days(days: u64) -> anyhow::Result<Duration> {
    const DAYS_MAX: u64 = 365;
    if days > DAYS_MAX {
        bail!("--container-delete-retention-days is at most {DAYS_MAX} (value={days})");
    }
    Ok(Duration::from_secs(days * 24 * 60 * 60))
}

fn frontend_settings(values: &Values) -> anyhow::Result<FrontendSettings> {
    let seconds = |name| values.number(name).map(Duration::from_secs);
    Ok(FrontendSettings {
        connections_max: files::raise_file_limit(values.number("connections-max")?),
        inflight_bytes_max: usize::try_from(values.mebibytes("inflight-mb")?)
            .context("--inflight-mb is too large")?,
        headers_max: values.number("headers-max")?,
        head_bytes_max: head_bytes(values)?,
        handshake_time_max: seconds("handshake-seconds")?,
        idle_time_max: seconds("idle-seconds")?,
        head_time_max: seconds("head-seconds")?,
        body_time_max: seconds("body-seconds")?,
        body_rate_min: values.number("body-rate-min")?,
        drain_time_max: seconds("drain-seconds")?,
    })
}

/// The least is the size of the buffer that a connection starts with.
fn head_bytes(values: &Values) -> anyhow::Result<usize> {
    let kibibytes: usize = values.number("head-kb")?;
    if kibibytes < 8 {
        bail!("--head-kb is at least 8");
    }
    kibibytes.checked_mul(1024).context("--head-kb is too large")
}

fn announce(values: &Values, banner: &Banner<'_>) -> anyhow::Result<()> {
    let ready_file = values.text("ready-file");
    if !ready_file.is_empty() {
        // Written aside and renamed, so that whoever waits for the file never reads half of it.
        let aside = format!("{ready_file}.new");
        std::fs::write(&aside, banner.ready_json().to_string())
            .and_then(|()| std::fs::rename(&aside, ready_file))
            .with_context(|| format!("cannot write {ready_file}"))?;
    }
    // Nobody may be reading; that is no reason not to serve.
    let _ = std::io::stdout().write_all(banner.text().as_bytes());
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
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    match values.word("log-format", &["text", "json"])? {
        "json" => builder.json().init(),
        _ => builder.init(),
    }
    Ok(())
}
