//! The emulator that we replace, as its users run it: the table service of the npm package, keeping its data on
//! disk as it does by default, which does not sync.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::AnyError;
use crate::cores::Cores;
use crate::endpoint::Endpoint;
use crate::load::Target;
use crate::process::Process;

const PACKAGE: &str = "azurite@3.37";

/// A running emulator.
#[derive(Debug)]
pub struct Azurite {
    process: Process,
    pub endpoint: Endpoint,
}

impl Azurite {
    /// Starts it with its data in `folder`.
    pub fn start(cores: &Cores, folder: &Path) -> Result<Self, AnyError> {
        let program = installed()?;
        let data = folder.join("azurite");
        std::fs::create_dir_all(&data)?;
        // Freed for it to take; nobody else on this machine is told of it.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let host = format!("127.0.0.1:{port}");
        let mut command = Command::new("node");
        command.arg(program).arg("--silent").arg("--skipApiVersionCheck").arg("--location").arg(&data);
        command.args(["--tableHost", "127.0.0.1", "--tablePort", port.as_str()]);
        let mut process = Process::spawn(command, &cores.contestant, &folder.join("azurite.log"))?;
        process.wait_until(|| TcpStream::connect(&host).ok())?;
        Ok(Self { process, endpoint: Endpoint::new(host) })
    }

    /// Where to send, and whose time to count.
    pub fn target(&self) -> Target {
        Target { host: self.endpoint.host.clone(), process_id: self.process.id() }
    }
}

/// The program, installed into the target folder if it is not there.
fn installed() -> Result<PathBuf, AnyError> {
    let folder = crate::tavola::output_folder()?.join("azurite");
    let program = folder.join("node_modules/azurite/dist/src/table/main.js");
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("package.json"), r#"{"name":"azurite-bench","private":true}"#)?;
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--silent", PACKAGE]).current_dir(&folder);
    let status = install.stdin(Stdio::null()).status().map_err(|error| format!("no npm here ({error})"))?;
    if status.success() { Ok(program) } else { Err("npm could not install it".into()) }
}
