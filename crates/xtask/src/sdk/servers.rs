//! The servers of a tour: one on free ports that speaks TLS too, and one on the well-known ports.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tavola_testkit::{ServerOptions, TestServer};

use crate::programs::{root, run, server_binary};

/// What `UseDevelopmentStorage=true` means.
const BLOB_PORT: u16 = 10_000;
const QUEUE_PORT: u16 = 10_001;
const TABLE_PORT: u16 = 10_002;

/// How long to wait for the well-known ports. Another tour on this machine gives them back in a minute.
const PORTS_WAIT_MAX: Duration = Duration::from_secs(120);

/// Servers that run as long as this lives.
pub struct Servers {
    main: TestServer,
    /// Nothing asks it for its address: its ports are known to every client.
    _development: Option<TestServer>,
    secure_port: u16,
    certificates: PathBuf,
}

impl Servers {
    /// Starts both, with a store of their own each unless `store` names one, and a fresh certificate of `tavola cert`.
    pub fn start(store: &[String]) -> Result<Self, String> {
        // First, because it may fail, and the other leaves a certificate behind.
        let development = start_development(store)?;
        let mut servers = Self::start_main(store)?;
        servers._development = Some(development);
        Ok(servers)
    }

    /// Starts the one on free ports alone.
    pub fn start_main(store: &[String]) -> Result<Self, String> {
        let certificates = root().join("target").join(format!("sdk-tls-{}", std::process::id()));
        run(Command::new(server_binary()).args(["cert", "--out"]).arg(&certificates))?.check()?;
        let secure_port = free_port().map_err(|error| error.to_string())?;
        let file = |name: &str| certificates.join(name).to_string_lossy().into_owned();
        let (certificate, key) = (file("cert.pem"), file("key.pem"));
        let port = secure_port.to_string();
        let arguments = ["--tls-cert", &certificate, "--tls-key", &key, "--table-tls-port", &port];
        Ok(Self { main: start(&arguments, store)?, _development: None, secure_port, certificates })
    }

    /// The URL of the Blob service of the one on free ports, ending in the account.
    pub fn blob_endpoint(&self) -> &str {
        self.main.blob_endpoint()
    }

    /// Tells a tour where its servers are.
    pub fn tell(&self, tour: &mut Command) {
        let certificate = self.certificates.join("cert.pem");
        let secure_endpoint = format!("https://127.0.0.1:{}/devstoreaccount1", self.secure_port);
        let blobs = self.main.blob_endpoint().trim_end_matches("/devstoreaccount1");
        tour.env("TAVOLA_CONNECTION_STRING", self.main.connection_string())
            .env("AZURITE_BLOB_STORAGE_URL", blobs)
            .env("TAVOLA_TLS_ENDPOINT", secure_endpoint)
            .env("TAVOLA_BIN", server_binary())
            .env("TAVOLA_CA_FILE", &certificate)
            .env("NODE_EXTRA_CA_CERTS", &certificate);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // A certificate that stays behind is only clutter in the target folder.
        let _ = std::fs::remove_dir_all(Path::new(&self.certificates));
    }
}

fn start(arguments: &[&str], store: &[String]) -> Result<TestServer, String> {
    let arguments = arguments.iter().map(|&argument| argument.to_owned());
    let arguments = arguments.chain(store.iter().cloned()).collect();
    let options = ServerOptions { binary: Some(server_binary()), arguments, ..ServerOptions::default() };
    TestServer::start_with(&options).map_err(|error| error.to_string())
}

fn start_development(store: &[String]) -> Result<TestServer, String> {
    let deadline = Instant::now() + PORTS_WAIT_MAX;
    for port in [BLOB_PORT, QUEUE_PORT, TABLE_PORT] {
        while TcpListener::bind(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline {
                return Err(format!(
                    "port {port} is taken, and UseDevelopmentStorage=true means ports {BLOB_PORT} to \
                     {TABLE_PORT}: stop what listens there, a server of your own perhaps"
                ));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let ports = [BLOB_PORT, QUEUE_PORT, TABLE_PORT].map(|port| port.to_string());
    start(&["--blob-port", &ports[0], "--queue-port", &ports[1], "--table-port", &ports[2]], store)
}

/// A port that is free now. The ready file of the server names its plain ports only to the testkit.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
