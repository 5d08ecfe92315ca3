//! The lower bound of downloads: nginx, which has the kernel send a file.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tavola_testkit::free_port;

use crate::AnyError;
use crate::cores::Cores;
use crate::load::Target;
use crate::process::Process;

/// A running nginx that serves the files of a folder.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    host: String,
}

impl Nginx {
    /// Serves `folder/files`, in one process on the contestants' cores.
    pub fn start(cores: &Cores, folder: &Path) -> Result<Self, AnyError> {
        let files = folder.join("files");
        std::fs::create_dir_all(&files)?;
        let port = free_port()?;
        let own = folder.display();
        // `user root` lets it read the folder when this runs as root; otherwise nginx ignores it with a warning.
        let text = format!(
            "daemon off; master_process off; user root; pid {own}/nginx.pid; error_log {own}/nginx.error;\n\
             events {{ }}\n\
             http {{ access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;\n\
             client_body_temp_path {own}/nginx-body; proxy_temp_path {own}/nginx-proxy;\n\
             fastcgi_temp_path {own}/nginx-fastcgi; uwsgi_temp_path {own}/nginx-uwsgi;\n\
             scgi_temp_path {own}/nginx-scgi;\n\
             server {{ listen 127.0.0.1:{port}; root {}; }} }}\n",
            files.display()
        );
        let config = folder.join("nginx.conf");
        std::fs::write(&config, text)?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(folder).arg("-c").arg(&config).arg("-e").arg(folder.join("nginx.error"));
        let mut process = Process::spawn(command, &cores.contestant, &folder.join("nginx.log"))?;
        let host = format!("127.0.0.1:{port}");
        process.wait_until(|| TcpStream::connect(&host).ok())?;
        Ok(Self { process, host })
    }

    /// Where to send, and whose time to count.
    pub fn target(&self) -> Target {
        Target { host: self.host.clone(), process_id: self.process.id() }
    }
}
