//! The crash test of blobs: uploads of every kind, copies and snapshots, `kill -9` at random moments, and a check of what
//! is left.
//!
//! Each round starts the server on the same data folder, reads every blob, lets the writers loose and kills the server
//! under them; the second half of the rounds keeps versions. A blob is exactly what was acknowledged last, or what the
//! request in flight was to make of it, and its snapshots and versions are what it was. After the last kill `tavola verify`
//! finds nothing wrong; then everything is deleted, and the disk space of all contents comes back, also of those that a
//! kill left without a name, once their files are a day old. `cuts` does the same with clients that go away instead of
//! the server.

pub mod cuts;
mod model;
mod writer;

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use http::Method;

use crate::under_load::kill_under;
use crate::{Connection, DataFolder, Request, Response, ServerOptions, TestServer, server_binary};
use model::WriterModel;
use writer::Writer;

/// The container that the writers fill.
const CONTAINER: &str = "crash";
/// How long disk space may take to come back, as a guard against a hang.
const FREED_TIME_MAX: Duration = Duration::from_secs(300);

/// How hard to try.
#[derive(Clone, Debug)]
pub struct BlobCrashOptions {
    /// The program, if not the usual one.
    pub binary: Option<PathBuf>,
    /// How often to kill.
    pub rounds: usize,
    /// Connections that write.
    pub writers: usize,
    /// Where chance starts.
    pub seed: u64,
    /// Milliseconds that the writers get at most before a kill.
    pub write_ms_max: u64,
}

impl Default for BlobCrashOptions {
    fn default() -> Self {
        Self { binary: None, rounds: 20, writers: 8, seed: fastrand::u64(..), write_ms_max: 1_500 }
    }
}

/// What a crash test went through without a loss.
#[derive(Clone, Debug, Default)]
pub struct BlobCrashReport {
    rounds: usize,
    acknowledged: u64,
    acknowledged_bytes: u64,
    in_flight: u64,
    in_flight_kept: u64,
    contents: Verified,
}

impl fmt::Display for BlobCrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds, {} acknowledged changes of blobs ({} MiB), {} in flight of which {} kept; \
             {} contents verified, named {} times: nothing lost, nothing torn, all disk space came back",
            self.rounds,
            self.acknowledged,
            self.acknowledged_bytes >> 20,
            self.in_flight,
            self.in_flight_kept,
            self.contents.contents,
            self.contents.named
        )
    }
}

/// Runs the crash test on a fresh data folder. An error says what was lost.
pub fn run(options: &BlobCrashOptions) -> Result<BlobCrashReport, String> {
    let folder = data_folder("tavola-blob-crash-")?;
    let data = folder.path().join("data");
    let mut server_options = ServerOptions {
        binary: options.binary.clone(),
        data: DataFolder::At(data.clone()),
        arguments: Vec::new(),
    };
    let mut rng = Rng::with_seed(options.seed);
    let mut models: Vec<WriterModel> = (0..options.writers).map(WriterModel::new).collect();
    let mut report = BlobCrashReport { rounds: options.rounds, ..BlobCrashReport::default() };
    for round in 0..options.rounds {
        if round == options.rounds / 2 {
            server_options.arguments = ["--blob-versions", "on"].map(str::to_owned).to_vec();
        }
        let mut server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
        models = one_round(options, round, &mut server, &mut rng, models, &mut report)
            .map_err(|loss| format!("round {round}: {loss}\nserver log:\n{}", server.log()))?;
    }
    report.contents = verify(options.binary.as_deref(), &data)?;
    let mut server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
    check(&server, &mut models, &mut report).map_err(|loss| format!("at the end: {loss}"))?;
    let mut connection = connect(&server)?;
    expect(&mut connection, 202, &request(Method::DELETE, &format!("/{CONTAINER}?restype=container")))?;
    server.kill();
    // A start goes on with what the last one has not finished.
    let started = Instant::now();
    while verify(options.binary.as_deref(), &data)?.contents > 0 {
        if started.elapsed() > FREED_TIME_MAX {
            return Err("contents of a container that was deleted are left".to_owned());
        }
        let server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
        std::thread::sleep(Duration::from_secs(1));
        drop(server);
    }
    age_contents(&data).map_err(|error| error.to_string())?;
    let _server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
    wait_for_disk_space(&data, 0)?;
    Ok(report)
}

/// Looks, then writes until the server is killed; gives what must be there afterwards.
fn one_round(
    options: &BlobCrashOptions,
    round: usize,
    server: &mut TestServer,
    rng: &mut Rng,
    mut models: Vec<WriterModel>,
    report: &mut BlobCrashReport,
) -> Result<Vec<WriterModel>, String> {
    if round == 0 {
        let create = request(Method::PUT, &format!("/{CONTAINER}?restype=container"));
        expect(&mut connect(server)?, 201, &create)?;
    }
    check(server, &mut models, report)?;
    let endpoint = server.blob_endpoint().to_owned();
    let write_ms = rng.u64(20..options.write_ms_max.max(21));
    let writers = models.into_iter().map(|model| Writer::new(&endpoint, model, rng.fork())).collect();
    let ended = kill_under(server, write_ms, writers, Writer::write_until)?;
    let mut models = Vec::with_capacity(ended.len());
    for writer in ended {
        report.acknowledged += writer.acknowledged;
        report.acknowledged_bytes += writer.acknowledged_bytes;
        models.push(writer.model);
    }
    Ok(models)
}

/// Reads every blob of every writer and compares.
fn check(
    server: &TestServer,
    models: &mut [WriterModel],
    report: &mut BlobCrashReport,
) -> Result<(), String> {
    let mut connection = connect(server)?;
    for model in models {
        report.in_flight += u64::from(model.pending.is_some());
        report.in_flight_kept += u64::from(model.check(&mut connection)?);
    }
    Ok(())
}

/// What `tavola verify` says of the contents of a data folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verified {
    contents: u64,
    named: u64,
}

/// Runs `tavola verify` on a folder that no server uses.
fn verify(binary: Option<&Path>, data: &Path) -> Result<Verified, String> {
    let binary = binary.map_or_else(server_binary, |path| Ok(path.to_owned())).map_err(|e| e.to_string())?;
    let output = Command::new(binary).arg("verify").arg("--data").arg(data).output();
    let output = output.map_err(|error| format!("verify was not started ({error})"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("verify: {text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    // Without contents there is no such line.
    let Some(line) = text.lines().find(|line| line.contains(" contents of blobs")) else {
        return Ok(Verified::default());
    };
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
    let mut words = line.split(' ');
    let (contents, named) = (number(words.next()), number(words.nth_back(1)));
    match (contents, named) {
        (Some(contents), Some(named)) => Ok(Verified { contents, named }),
        _ => Err(format!("verify says {line:?}")),
    }
}

/// Waits until contents take no more on the disk than this and what an empty extent takes.
fn wait_for_disk_space(data: &Path, bytes: u64) -> Result<(), String> {
    const EMPTY_EXTENTS_BYTES: u64 = 64 * 1024;
    let started = Instant::now();
    loop {
        let taken = content_bytes(data).map_err(|error| error.to_string())?;
        if taken <= bytes + EMPTY_EXTENTS_BYTES {
            return Ok(());
        }
        if started.elapsed() > FREED_TIME_MAX {
            return Err(format!(
                "contents take {taken} bytes, and only {bytes} are named: disk space is lost"
            ));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Makes the extents below a data folder look as if they had been written two days ago.
fn age_contents(folder: &Path) -> std::io::Result<()> {
    let written = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    let is_content = folder.file_name().is_some_and(|name| name == "content");
    for entry in std::fs::read_dir(folder)? {
        let (path, data) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        if data.is_dir() {
            age_contents(&path)?;
        } else if is_content {
            std::fs::File::options().write(true).open(path)?.set_modified(written)?;
        }
    }
    Ok(())
}

/// What the extents below a data folder take on the disk.
fn content_bytes(folder: &Path) -> std::io::Result<u64> {
    let is_content = folder.file_name().is_some_and(|name| name == "content");
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(data) if data.is_dir() => bytes += content_bytes(&entry.path())?,
            Ok(data) if is_content => bytes += data.blocks() * 512,
            Ok(_) => {}
            // Removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn data_folder(prefix: &str) -> Result<tempfile::TempDir, String> {
    tempfile::Builder::new().prefix(prefix).tempdir().map_err(|error| format!("no data folder ({error})"))
}

fn connect(server: &TestServer) -> Result<Connection, String> {
    Connection::open_blob(server.blob_endpoint()).map_err(|error| format!("no connection ({error})"))
}

fn request(method: Method, target: &str) -> Request {
    Request { method, target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
        .with_header("x-ms-version", "2021-12-02")
}

fn expect(connection: &mut Connection, status: u16, request: &Request) -> Result<Response, String> {
    let Request { method, target, .. } = request;
    let response = connection.send(request).map_err(|error| format!("{method} {target} failed ({error})"))?;
    if response.status == status {
        return Ok(response);
    }
    Err(format!("{method} {target} answered {}: {}", response.status, response.text()))
}

/// Bytes that chance gives.
fn random_bytes(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    bytes
}
