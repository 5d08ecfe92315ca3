//! A server process of our own: started on free ports, waited for, and ended with its handle.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it listens, in milliseconds. Opening a large folder on a busy machine takes
/// seconds; more than this means it hangs.
const READY_MS_MAX: u64 = 60_000;
const POLL: Duration = Duration::from_millis(5);

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// The program; by default `TAVOLA_BIN`, else the newer of the release and debug builds.
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
        let binary = options.binary.clone().or_else(find_binary).ok_or(StartError::NoBinary)?;
        let folder = tempfile::Builder::new().prefix("tavola-test-").tempdir()?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut command = Command::new(&binary);
        command.args(["serve", "--host", "127.0.0.1"]);
        for port in ["--table-port", "--queue-port"] {
            if !options.arguments.iter().any(|argument| argument == port) {
                command.args([port, "0"]);
            }
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

    /// A connection string for the official clients.
    pub fn connection_string(&self) -> String {
        const KEY: &str =
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        format!(
            "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};QueueEndpoint={};TableEndpoint={};",
            self.endpoints.queue, self.endpoints.table
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
    Some(Endpoints { table: of("table"), queue: of("queue") })
}

fn find_binary() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("TAVOLA_BIN") {
        return Some(path.into());
    }
    let built = |profile: &str| {
        let path = workspace_root().join("target").join(profile).join("tavola");
        let modified = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
        Some((modified, path))
    };
    built("release").into_iter().chain(built("debug")).max().map(|(_, path)| path)
}

/// The folder of the workspace.
pub fn workspace_root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).unwrap_or(folder).to_path_buf()
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// There is no program to start.
    NoBinary,
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
            Self::NoBinary => {
                f.write_str("no server to start: run `cargo build --release` first, or set TAVOLA_BIN")
            }
            Self::Ended { status, log } => write!(f, "server ended before it listened ({status})\n{log}"),
            Self::NotReady { log } => write!(f, "server did not listen (waited_ms={READY_MS_MAX})\n{log}"),
            Self::Io(error) => write!(f, "server could not be started ({error})"),
        }
    }
}

impl std::error::Error for StartError {}
