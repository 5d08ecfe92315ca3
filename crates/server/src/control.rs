//! A socket in the data folder through which `tavola` commands reach the server that runs on it.
//!
//! Only the owner of the folder can open it. One line asks, one line answers: `ok …` or `error …`.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tavola_frontend::{LiveAccounts, Shutdown, accept};
use tavola_service::Service;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::advising::Advising;
use crate::store::Store;

const SOCKET: &str = "control.sock";
const LINE_BYTES_MAX: u64 = 8 * 1024;
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// What commands act on.
pub struct Controlled {
    /// The store.
    pub store: Store,
    /// The advisor, and what it reads.
    pub advising: Advising,
    /// See `advising`.
    pub service: Service,
    /// The accounts that are served now.
    pub accounts: Arc<LiveAccounts>,
    /// Reads the accounts again and serves them from the next request on.
    pub reload_accounts: Box<dyn Fn() -> anyhow::Result<()> + Send + Sync>,
}

/// Listens until told to stop.
pub fn listen(
    data_dir: &Path,
    controlled: Controlled,
    mut shutdown: Shutdown,
) -> anyhow::Result<JoinHandle<()>> {
    let controlled = Arc::new(controlled);
    let path = data_dir.join(SOCKET);
    // The store holds the folder's lock, so a socket that is here was left by a process that is gone.
    if path.exists() {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let listener =
        UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot protect {}", path.display()))?;
    Ok(tokio::spawn(async move {
        loop {
            let (stream, _) = tokio::select! {
                accepted = accept("control", || listener.accept()) => accepted,
                () = async { let _ = shutdown.wait_for(|stop| *stop).await; } => break,
            };
            tokio::spawn(answer(stream, controlled.clone()));
        }
        let _ = std::fs::remove_file(&path);
    }))
}

async fn answer(stream: UnixStream, controlled: Arc<Controlled>) {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(LINE_BYTES_MAX));
    match tokio::time::timeout(ASK_TIME_MAX, reader.read_line(&mut line)).await {
        Ok(Ok(length)) if length > 0 => {}
        _ => return,
    }
    let reply = match line.trim_end().split_once(' ') {
        Some(("backup", destination)) => match controlled.store.backup(&PathBuf::from(destination)).await {
            Ok(report) => format!("ok {report}\n"),
            Err(error) => format!("error {error:#}\n"),
        },
        Some(("accounts", "reload")) => match (controlled.reload_accounts)() {
            Ok(()) => "ok reloaded\n".to_owned(),
            Err(error) => format!("error {}\n", format!("{error:#}").replace('\n', " ")),
        },
        Some((word @ ("advise" | "whatif"), question)) => {
            let accounts: Vec<_> = controlled.accounts.current().iter().cloned().collect();
            let answer = controlled.advising.answer(&controlled.service, &accounts, word, question).await;
            match answer {
                Ok(answer) => format!("ok {answer}\n"),
                Err(error) => format!("error {}\n", format!("{error:#}").replace('\n', " ")),
            }
        }
        _ => "error unknown command\n".to_owned(),
    };
    if let Err(error) = writer.write_all(reply.as_bytes()).await {
        tracing::warn!(%error, "cannot send the answer to a control command");
    }
}

/// Asks the server that runs on a data folder; `None` if there is none.
pub fn ask(data_dir: &Path, line: &str) -> anyhow::Result<Option<String>> {
    use std::io::{BufRead as _, Write as _};
    let Ok(mut stream) = StdUnixStream::connect(data_dir.join(SOCKET)) else { return Ok(None) };
    stream.write_all(format!("{line}\n").as_bytes()).context("cannot ask the running server")?;
    let mut reply = String::new();
    std::io::BufReader::new(stream).read_line(&mut reply).context("the running server did not answer")?;
    match reply.trim_end().split_once(' ') {
        Some(("ok", text)) => Ok(Some(text.to_owned())),
        Some(("error", text)) => bail!("{text}"),
        _ => bail!("the running server did not answer"),
    }
}
