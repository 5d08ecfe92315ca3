//! Our server as a contestant: started on a data folder, filled, restarted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::AnyError;
use crate::connection::Connection;
use crate::cores::{Cores, on_cores};
use crate::endpoint::Endpoint;
use crate::load::{Load, Measured, Target, run};
use crate::process::Process;
use crate::work::{Source, Table};

/// Connections that fill a table.
const FILL_CONNECTIONS: usize = 16;
/// Filling ends after this time, whatever is in the table then.
const FILL_TIME_MAX: Duration = Duration::from_secs(600);

/// A running server of ours.
#[derive(Debug)]
pub struct Tavola {
    process: Process,
    pub endpoint: Endpoint,
    /// `host:port` of its queues.
    pub queue_host: String,
    /// `host:port` of its blobs.
    pub blob_host: String,
    /// From its start to its first answer.
    pub start_time: Duration,
}

impl Tavola {
    /// Starts the server on a data folder and waits for its first answer.
    pub fn start(cores: &Cores, data: &Path) -> Result<Self, AnyError> {
        Self::start_under(cores, data, Command::new(tavola_testkit::server_binary()?))
    }

    /// The same with another program in front, such as a profiler.
    pub fn start_under(cores: &Cores, data: &Path, mut command: Command) -> Result<Self, AnyError> {
        let ready_file = data.with_extension("ready");
        // It is there if this folder was served before.
        let _ = std::fs::remove_file(&ready_file);
        command.args([
            "serve",
            "--host",
            "127.0.0.1",
            "--blob-port",
            "0",
            "--table-port",
            "0",
            "--queue-port",
            "0",
        ]);
        command.arg("--data").arg(data).arg("--ready-file").arg(&ready_file);
        let started = Instant::now();
        let mut process = Process::spawn(command, &cores.contestant, &data.with_extension("log"))?;
        let (table_url, queue_url, blob_url) = process.wait_until(|| {
            let text = std::fs::read_to_string(&ready_file).ok()?;
            let ready: serde_json::Value = serde_json::from_str(&text).ok()?;
            let url = |service: &str| ready.get(service)?.as_str().map(str::to_owned);
            Some((url("table")?, url("queue")?, url("blob")?))
        })?;
        let (endpoint, queue_host) = (Endpoint::parse(&table_url)?, Endpoint::parse(&queue_url)?.host);
        let blob_host = Endpoint::parse(&blob_url)?.host;
        send(cores, &endpoint, &endpoint.request(&http::Method::GET, "/Tables?$top=1")?)?;
        Ok(Self { process, endpoint, queue_host, blob_host, start_time: started.elapsed() })
    }

    /// Where to send, and whose time to count.
    pub fn target(&self) -> Target {
        Target { host: self.endpoint.host.clone(), process_id: self.process.id() }
    }

    /// The same for its blobs.
    pub fn blob_target(&self) -> Target {
        Target { host: self.blob_host.clone(), process_id: self.process.id() }
    }

    /// Asks it to end and waits.
    pub fn stop(mut self) {
        self.process.stop();
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

/// Makes a table and fills it with its rows.
pub fn fill(cores: &Cores, target: &Target, table: &Table) -> Result<Measured, AnyError> {
    send(cores, &table.endpoint, &table.creation()?)?;
    fill_from(cores, target, &table.filling()?)
}

/// Sends every batch of a source.
pub fn fill_from(cores: &Cores, target: &Target, batches: &Source) -> Result<Measured, AnyError> {
    run(cores, target, Load::closed(FILL_CONNECTIONS, FILL_TIME_MAX), batches)
}

/// Sends one request; gives the whole answer, and how long it took.
pub fn send(cores: &Cores, endpoint: &Endpoint, request: &[u8]) -> Result<(Vec<u8>, Duration), AnyError> {
    on_cores(&cores.generator, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = Connection::open(&endpoint.host).await?;
            let started = Instant::now();
            let answer = connection.exchange(request).await?;
            let elapsed = started.elapsed();
            if !connection.succeeded(&answer) {
                let body = String::from_utf8_lossy(connection.bytes(answer.body)).into_owned();
                return Err(format!("request refused ({})\n{body}", answer.status).into());
            }
            Ok((connection.bytes(0..answer.body.end).to_vec(), elapsed))
        })
    })
}

/// A folder for data on the disk of the project, gone with its handle.
pub fn scratch_folder() -> Result<tempfile::TempDir, AnyError> {
    let parent = output_folder()?;
    Ok(tempfile::Builder::new().prefix("data-").tempdir_in(parent)?)
}

/// Where results are kept.
pub fn output_folder() -> Result<PathBuf, AnyError> {
    let folder = tavola_testkit::workspace_root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
