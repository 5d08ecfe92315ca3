//! The emulator that we replace: the npm package `azurite`, installed once into the target folder.
//!
//! Benchmarks run it as its users do; the differential test asks it the same questions as us.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::workspace_root;

/// The version whose differences are listed: another one answers differently.
const PACKAGE: &str = "azurite@3.37.0";
/// Node loads hundreds of files; on a busy machine that takes seconds.
const READY_TIME_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// One of its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AzuriteService {
    /// Blobs.
    Blob,
    /// Tables.
    Table,
    /// Queues.
    Queue,
}

impl AzuriteService {
    fn word(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Table => "table",
            Self::Queue => "queue",
        }
    }
}

/// A running service of the emulator; it is killed when this is dropped.
#[derive(Debug)]
pub struct Azurite {
    child: Child,
    endpoint: String,
    _folder: Option<tempfile::TempDir>,
}

impl Azurite {
    /// Installs it if need be, starts it with its data in memory and waits until it listens.
    pub fn start(service: AzuriteService) -> io::Result<Self> {
        Self::spawn(service, None)
    }

    /// The same, with accounts of its own: `name:key;name:key`.
    pub fn start_with_accounts(service: AzuriteService, accounts: &str) -> io::Result<Self> {
        Self::spawn(service, Some(accounts))
    }

    fn spawn(service: AzuriteService, accounts: Option<&str>) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("tavola-azurite-").tempdir()?;
        let port = free_port()?;
        let mut command = azurite_command(service, port)?;
        command.arg("--inMemoryPersistence").current_dir(folder.path());
        if let Some(accounts) = accounts {
            command.env("AZURITE_ACCOUNTS", accounts);
        }
        Self::listening(command, port, Some(folder))
    }

    /// Starts it with its data in a folder that stays, which is its default.
    pub fn start_at(service: AzuriteService, folder: &Path) -> io::Result<Self> {
        let port = free_port()?;
        let mut command = azurite_command(service, port)?;
        command.arg("--location").arg(folder).current_dir(folder);
        Self::listening(command, port, None)
    }

    fn listening(mut command: Command, port: u16, folder: Option<tempfile::TempDir>) -> io::Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let endpoint = format!("http://127.0.0.1:{port}/devstoreaccount1");
        let mut azurite = Self { child, endpoint, _folder: folder };
        azurite.wait_until_ready(port)?;
        Ok(azurite)
    }

    /// Its URL, without an account.
    pub fn root(&self) -> &str {
        self.endpoint.trim_end_matches("/devstoreaccount1")
    }

    /// Its URL, ending in the account.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn wait_until_ready(&mut self, port: u16) -> io::Result<()> {
        let deadline = Instant::now() + READY_TIME_MAX;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("azurite ended before it listened ({status})")));
            }
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // Both fail only when the process is already gone and collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that serves on this port; where it keeps its data is still to be said.
pub fn azurite_command(service: AzuriteService, port: u16) -> io::Result<Command> {
    let word = service.word();
    let mut command = Command::new("node");
    command.arg(installed()?.join(word).join("main.js"));
    command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
    command.args([format!("--{word}Host"), "127.0.0.1".to_owned()]);
    command.args([format!("--{word}Port"), port.to_string()]);
    Ok(command)
}

/// A port that is free now; nobody else on this machine is told of it.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The folder of its programs, installed if it is not there.
fn installed() -> io::Result<PathBuf> {
    let folder = workspace_root().join("target/azurite");
    let programs = folder.join("node_modules/azurite/dist/src");
    if !is_installed(&folder) {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("package.json"), r#"{"name":"azurite-peer","private":true}"#)?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--silent", PACKAGE]).current_dir(&folder);
        let status = install.stdin(Stdio::null()).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("npm could not install {PACKAGE} ({status})")));
        }
        std::fs::write(folder.join("installed"), PACKAGE)?;
    }
    Ok(programs)
}

/// Written last, so that an installation that was cut short is done again.
fn is_installed(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("installed")).is_ok_and(|package| package == PACKAGE)
}
