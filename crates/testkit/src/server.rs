//! A server process of our own: started on free ports, waited for, and ended with its handle.
//!
//! Rule: the server that is started is built from the sources of this checkout as they are now.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a server may take until it listens, in milliseconds. Opening a large folder on a busy machine takes
/// seconds; more than this means it hangs.
const READY_MS_MAX: u64 = 60_000;
const POLL: Duration = Duration::from_millis(5);

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// The program; by default the one of [`server_binary`].
    pub binary: Option<PathBuf>,
    /// Where it keeps its data.
    pub data: DataFolder,
    /// Further arguments of `tavola serve`. Ports are free ones unless told here.
    pub arguments: Vec<String>,
}

/// Where a server keeps its data.
#[derive(Clone, Debug, Default)]
pub enum DataFolder {
    /// In a temporary folder of its own.
    #[default]
    Ephemeral,
    /// Here.
    At(PathBuf),
}

/// A running server; it is killed when this is dropped.
#[derive(Debug)]
pub struct TestServer {
    child: Child,
    folder: tempfile::TempDir,
    endpoints: Endpoints,
}

/// The URLs of the services, each ending in the account.
#[derive(Debug, Default)]
struct Endpoints {
    table: String,
    queue: String,
    blob: String,
}

impl TestServer {
    /// Starts a server with a temporary data folder and waits until it listens.
    pub fn start() -> Result<Self, StartError> {
        Self::start_with(&ServerOptions::default())
    }

    /// Starts a server and waits until it listens.
    pub fn start_with(options: &ServerOptions) -> Result<Self, StartError> {
        let mut server = Self::spawn(options)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts a server and does not wait; it has no endpoint yet.
    pub fn spawn(options: &ServerOptions) -> Result<Self, StartError> {
        let binary = options.binary.clone().map_or_else(server_binary, Ok)?;
        let folder = tempfile::Builder::new().prefix("tavola-test-").tempdir()?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut command = Command::new(&binary);
        command.args(["serve", "--host", "127.0.0.1"]);
        for port in ["--blob-port", "--table-port", "--queue-port"] {
            if !options.arguments.iter().any(|argument| argument == port) {
                command.args([port, "0"]);
            }
        }
        // By the environment, which a server that knows no console ignores.
        if !options.arguments.iter().any(|argument| argument == "--console-port") {
            command.env("TAVOLA_CONSOLE_PORT", "off");
        }
        command.arg("--ready-file");
        command.arg(folder.path().join("ready"));
        match &options.data {
            DataFolder::Ephemeral => command.arg("--ephemeral"),
            DataFolder::At(path) => command.arg("--data").arg(path),
        };
        // A server that is killed cannot remove its temporary data; in here it goes with the rest.
        command.args(&options.arguments).current_dir(folder.path()).env("TMPDIR", folder.path());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self { child: command.spawn()?, folder, endpoints: Endpoints::default() })
    }

    /// The URL of the table service, ending in the account.
    pub fn table_endpoint(&self) -> &str {
        &self.endpoints.table
    }

    /// The URL of the queue service, ending in the account.
    pub fn queue_endpoint(&self) -> &str {
        &self.endpoints.queue
    }

    /// The URL of the blob service, ending in the account.
    pub fn blob_endpoint(&self) -> &str {
        &self.endpoints.blob
    }

    /// A connection string for the official clients.
    pub fn connection_string(&self) -> String {
        const KEY: &str =
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        format!(
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={};QueueEndpoint={};TableEndpoint={};",
            self.endpoints.blob, self.endpoints.queue, self.endpoints.table
        )
    }

    /// The process, for whoever measures it.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// What the server wrote to its outputs so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Ends the process at once, as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only when the process is already gone and collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + Duration::from_millis(READY_MS_MAX);
        let ready_file = self.folder.path().join("ready");
        loop {
            if let Some(endpoints) = read_endpoints(&ready_file) {
                self.endpoints = endpoints;
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(StartError::Ended { status: status.to_string(), log: self.log() });
            }
            if Instant::now() > deadline {
                return Err(StartError::NotReady { log: self.log() });
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The endpoints in a ready file, once it is written whole.
fn read_endpoints(path: &Path) -> Option<Endpoints> {
    let text = std::fs::read_to_string(path).ok()?;
    let ready: serde_json::Value = serde_json::from_str(&text).ok()?;
    // A server may be told to leave a service out.
    let of = |name: &str| {
        let url = ready.get(name).and_then(|url| url.as_str()).unwrap_or_default();
        url.trim_end_matches('/').to_owned()
    };
    Some(Endpoints { table: of("table"), queue: of("queue"), blob: of("blob") })
}

/// The server to start: the one that `TAVOLA_BIN` names, the one that Cargo built for the running test, or one that
/// is built now, in the profile of the caller.
pub fn server_binary() -> Result<PathBuf, StartError> {
    // Cargo sets the second for integration tests of the server itself.
    for variable in ["TAVOLA_BIN", "CARGO_BIN_EXE_tavola"] {
        if let Some(path) = std::env::var_os(variable) {
            return Ok(path.into());
        }
    }
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone().map_err(StartError::NotBuilt)
}

/// Lets Cargo build the server, which takes a moment if nothing has changed, and say where it is.
fn build() -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "-q", "-p", "tavola-server", "--bin", "tavola"]);
    cargo.arg("--message-format=json-render-diagnostics").current_dir(workspace_root());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let executable = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    let messages = String::from_utf8_lossy(&output.stdout);
    messages.lines().find_map(executable).ok_or_else(|| "Cargo names no program".to_owned())
}

/// The arguments with which a server keeps its data where the tests of this run keep theirs: in a data folder, or in a
/// fresh keyspace of the cluster that `TAVOLA_CQL_NODES` names. Contents of blobs are in rows of that cluster, or in a bucket
/// of their own below the folder that `TAVOLA_TEST_BUCKETS` names.
pub fn store_arguments() -> Result<Vec<String>, StartError> {
    static KEYSPACES: AtomicU32 = AtomicU32::new(0);
    let Ok(nodes) = std::env::var("TAVOLA_CQL_NODES") else { return Ok(Vec::new()) };
    let number = KEYSPACES.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let keyspace = format!("test_{}_{number}", since.as_millis());
    let place = ["--cql-nodes", &nodes, "--cql-keyspace", &keyspace].map(str::to_owned);
    let copies = format!("datacenter1={}", nodes.split(',').count());
    let mut init = Command::new(server_binary()?);
    init.args(["cluster", "init", "--copies", &copies, "--lease-ms", "50"]).args(&place).stdin(Stdio::null());
    if let Some(buckets) = std::env::var_os("TAVOLA_TEST_BUCKETS") {
        let bucket = Path::new(&buckets).join(&keyspace);
        std::fs::create_dir_all(&bucket)?;
        init.args(["--content-bucket", &format!("file://{}", bucket.display())]);
    }
    let made = init.output()?;
    if !made.status.success() {
        let log = String::from_utf8_lossy(&made.stderr).into_owned();
        return Err(StartError::Ended { status: made.status.to_string(), log });
    }
    Ok(["--engine", "cql"].map(str::to_owned).into_iter().chain(place).collect())
}

/// The folder of the workspace.
pub fn workspace_root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(folder).to_path_buf()
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// There is no program to start; the text is the compiler's.
    NotBuilt(String),
    /// It ended before it listened.
    Ended {
        /// How it ended.
        status: String,
        /// What it wrote.
        log: String,
    },
    /// It did not listen in time.
    NotReady {
        /// What it wrote.
        log: String,
    },
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt(cause) => write!(f, "the server cannot be built\n{cause}"),
            Self::Ended { status, log } => write!(f, "server ended before it listened ({status})\n{log}"),
            Self::NotReady { log } => write!(f, "server did not listen (waited_ms={READY_MS_MAX})\n{log}"),
            Self::Io(error) => write!(f, "server could not be started ({error})"),
        }
    }
}

impl std::error::Error for StartError {}
