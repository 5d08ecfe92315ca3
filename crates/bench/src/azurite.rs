//! The emulator that we replace, as its users run it: a service of the npm package, keeping its data on disk as it
//! does by default, which does not sync.

use std::net::TcpStream;
use std::path::Path;

use tavola_testkit::{AzuriteService, azurite_command, free_port};

use crate::AnyError;
use crate::cores::Cores;
use crate::endpoint::Endpoint;
use crate::load::Target;
use crate::process::Process;

/// A running emulator.
#[derive(Debug)]
pub struct Azurite {
    process: Process,
    pub endpoint: Endpoint,
}

impl Azurite {
    /// Starts its table service with its data in `folder`.
    pub fn start(cores: &Cores, folder: &Path) -> Result<Self, AnyError> {
        Self::start_service(cores, folder, AzuriteService::Table)
    }

    /// Starts one of its services with its data in `folder`.
    pub fn start_service(cores: &Cores, folder: &Path, service: AzuriteService) -> Result<Self, AnyError> {
        let data = folder.join(format!("azurite-{service:?}"));
        std::fs::create_dir_all(&data)?;
        let port = free_port()?;
        let host = format!("127.0.0.1:{port}");
        let mut command = azurite_command(service, port)?;
        command.arg("--location").arg(&data);
        let mut process = Process::spawn(command, &cores.contestant, &data.with_extension("log"))?;
        process.wait_until(|| TcpStream::connect(&host).ok())?;
        Ok(Self { process, endpoint: Endpoint::new(host) })
    }

    /// Where to send, and whose time to count.
    pub fn target(&self) -> Target {
        Target { host: self.endpoint.host.clone(), process_id: self.process.id() }
    }
}
