//! What a suite of the client runs on: our server, or the emulator.
//!
//! A test program that has such a suite starts itself once more with the emulator's endpoints in its environment, and
//! compares which tests fail there with the list of known gaps: one that is not listed fails the run, and so does a
//! listed one that passes.

use std::collections::BTreeSet;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::azurite::{Azurite, AzuriteService};
use crate::{StartError, TestServer};

/// Holds the endpoints of the emulator, without an account.
const ENDPOINTS: &str = "TAVOLA_CLIENT_EMULATOR";
/// The key of every account of the emulator: the public one of development.
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Accounts of the emulator, one for each test, so that tests do not meet.
const ACCOUNTS_MAX: usize = 500;

/// A place with the three services, empty at first.
#[derive(Debug)]
pub enum ClientTarget {
    /// A server of its own.
    Server(TestServer),
    /// An account of its own in a shared emulator.
    Emulator {
        /// The endpoints of the account: blob, queue, table.
        endpoints: [String; 3],
        /// Its name.
        account: String,
    },
}

impl ClientTarget {
    /// Starts a server, or takes the next account of the emulator that this program was started with.
    pub fn start() -> Result<Self, StartError> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let Ok(endpoints) = std::env::var(ENDPOINTS) else { return TestServer::start().map(Self::Server) };
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        assert!(number < ACCOUNTS_MAX, "the emulator has no more accounts");
        let account = account(number);
        let mut of = endpoints.split(' ').map(|endpoint| format!("{endpoint}/{account}"));
        let endpoints = std::array::from_fn(|_| of.next().unwrap_or_default());
        Ok(Self::Emulator { endpoints, account })
    }

    /// Whether it is the emulator, where a list of gaps applies.
    pub fn is_emulator(&self) -> bool {
        matches!(self, Self::Emulator { .. })
    }

    /// A connection string for clients.
    pub fn connection_string(&self) -> String {
        match self {
            Self::Server(server) => server.connection_string(),
            Self::Emulator { endpoints: [blob, queue, table], account } => format!(
                "AccountName={account};AccountKey={KEY};BlobEndpoint={blob};QueueEndpoint={queue};TableEndpoint={table};"
            ),
        }
    }

    /// The URL of the table service, ending in the account.
    pub fn table_endpoint(&self) -> &str {
        match self {
            Self::Server(server) => server.table_endpoint(),
            Self::Emulator { endpoints: [_, _, table], .. } => table,
        }
    }
}

fn account(number: usize) -> String {
    format!("test{number:04}")
}

/// Which tests passed on the emulator and which did not.
#[derive(Debug, Default)]
pub struct EmulatorRun {
    /// Those that passed.
    pub passed: BTreeSet<String>,
    /// Those that failed.
    pub failed: BTreeSet<String>,
}

/// Runs the tests of this program on the emulator, but for those whose name contains one of `skipped`. `None` where Node
/// or npm is missing.
pub fn run_on_emulator(skipped: &[&str]) -> io::Result<Option<EmulatorRun>> {
    for program in ["node", "npm"] {
        let mut version = Command::new(program);
        version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if version.status().is_err() {
            return Ok(None);
        }
    }
    let accounts: Vec<_> = (0..ACCOUNTS_MAX).map(|number| format!("{}:{KEY}", account(number))).collect();
    let start = |service| Azurite::start_with_accounts(service, &accounts.join(";"));
    let services =
        [start(AzuriteService::Blob)?, start(AzuriteService::Queue)?, start(AzuriteService::Table)?];
    let endpoints = services.each_ref().map(|service| service.root().to_owned());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(skipped.iter().flat_map(|name| ["--skip", name])).env(ENDPOINTS, endpoints.join(" "));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
    let mut run = EmulatorRun::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((name, told)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) else {
            continue;
        };
        match told {
            "ok" => run.passed.insert(name.to_owned()),
            _ => run.failed.insert(name.to_owned()),
        };
    }
    Ok(Some(run))
}
