//! The advisor inside of the server, and on a data folder that no server is using.
//!
//! `tavola advise` and `tavola whatif` ask the running server through its control socket; without one they open the data
//! folder themselves. Either way [`Advising`] answers, so both say the same. A question and an answer are one line of
//! JSON each.

mod advise;
mod text;
mod whatif;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde_json::{Value, json};
use tavola_advisor::{HeatMap, Sources, Traffic, TrafficSettings};
use tavola_auth::Account;
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::Clock as _;
use tavola_service::{Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};
use tavola_telemetry::RecordSink;
use tokio::sync::watch;

pub use advise::{advise_command, run as advise};
pub use whatif::{run as what_if, whatif_command};

use crate::control;

/// The file of the data folder that keeps traffic across restarts.
const TRAFFIC_FILE: &str = "advisor-traffic";
/// How often it is written.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// What the advisor of this process works with.
#[derive(Clone)]
pub struct Advising {
    /// The recorded traffic.
    pub traffic: Arc<Traffic>,
    /// The heat map.
    pub heat: Arc<HeatMap>,
}

impl Advising {
    /// With the traffic that the data folder keeps.
    pub fn open(data_dir: &Path) -> Self {
        let file = Some(data_dir.join(TRAFFIC_FILE));
        Self { traffic: Traffic::new(TrafficSettings { file }), heat: HeatMap::new() }
    }

    /// Who wants the access records.
    pub fn sinks(&self) -> Vec<Arc<dyn RecordSink>> {
        vec![self.traffic.clone(), self.heat.clone()]
    }

    /// Writes the traffic down now and then, and at the end. Tells the heat map that the server is up.
    pub async fn keep(self, mut stopped: watch::Receiver<bool>) {
        loop {
            self.heat.note_alive(SystemClock.now());
            let is_over = tokio::select! {
                () = tokio::time::sleep(SAVE_EVERY) => false,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            self.save().await;
            if is_over {
                return;
            }
        }
    }

    /// Writes the traffic down.
    pub async fn save(&self) {
        let traffic = self.traffic.clone();
        let saved = tokio::task::spawn_blocking(move || traffic.save()).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(%error, "cannot write the recorded traffic, will retry");
        }
    }

    /// Answers a question: its word, its JSON.
    pub async fn answer(
        &self,
        service: &Service,
        accounts: &[Account],
        word: &str,
        question: &str,
    ) -> anyhow::Result<String> {
        let question: Value = serde_json::from_str(question).context("the question is not JSON")?;
        let answer = match word {
            "advise" => advise::answer(self, service, accounts, serde_json::from_value(question)?).await?,
            "whatif" => whatif::answer(self, service, accounts, serde_json::from_value(question)?).await?,
            _ => bail!("unknown command"),
        };
        Ok(answer.to_string())
    }
}

/// Asks the server that runs on a data folder, or else opens the folder and answers from it.
fn ask(data_dir: &Path, word: &str, question: &Value) -> anyhow::Result<Value> {
    if !data_dir.exists() {
        bail!("there is no data folder {}", data_dir.display());
    }
    let answer = match control::ask(data_dir, &format!("{word} {question}"))? {
        Some(answer) => answer,
        None => ask_folder(data_dir, word, question)?,
    };
    serde_json::from_str(&answer).context("the answer is not JSON")
}

fn ask_folder(data_dir: &Path, word: &str, question: &Value) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let clock = Arc::new(SystemClock);
        let engine = LocalEngine::open(LocalSettings::new(data_dir), clock.clone())?;
        let settings = ServiceSettings::default();
        let service = Service::new(engine.clone(), clock, Arc::new(SystemRandom), settings);
        let advising = Advising::open(data_dir);
        let holders = advising
            .traffic
            .account_names()
            .iter()
            .map(|name| holder(name))
            .collect::<Result<Vec<_>, _>>()?;
        let answer = advising.answer(&service, &holders, word, &question.to_string()).await;
        engine.close().await;
        answer
    })
}

/// An account by its name alone: whoever can open the data folder holds everything in it.
fn holder(name: &str) -> anyhow::Result<Account> {
    Account::parse(&format!("{name}:aG9sZGVy")).map_err(|error| anyhow!("{error}"))
}

fn sources() -> Sources {
    Sources { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) }
}

/// The text of an answer, for the command line that asked.
fn printed(output: String, rules: Vec<String>) -> Value {
    json!({ "output": output, "rules": rules })
}

/// How a terminal wants it.
fn terminal() -> (bool, usize) {
    use std::io::IsTerminal as _;
    let is_terminal = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(100);
    (is_terminal, width)
}

/// The prices of a file, or those built in.
pub fn prices(file: Option<&PathBuf>) -> anyhow::Result<tavola_advisor::PriceTable> {
    let Some(file) = file else { return Ok(tavola_advisor::PriceTable::default()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("cannot read the prices in {}", file.display()))
}
