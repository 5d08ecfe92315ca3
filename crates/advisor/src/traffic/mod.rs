//! The traffic of every table, in bounded statistics.
//!
//! Requests are counted by their shape; partitions, keys and sizes by what the design guide says about them. Nothing
//! here grows with the number of requests, keys or shapes: each list has a bound, and what is rare is dropped.
//! Findings, cost and what-if read from here.

mod figures;
mod file;
mod keys;
mod partitions;
mod shapes;
mod table;
mod writes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer};
use tavola_model::{DateTime, StorageService};
use tavola_telemetry::{AccessRecord, RecordSink};

pub use figures::{Figures, PlanMix, QueueFigures, Second, Span, Summary, TableFigures};
use figures::{Past, QueueMinute};
pub(crate) use keys::Numbers;
pub(crate) use partitions::{ACCOUNT_REQUESTS_PER_SECOND, AccountRate, PARTITION_ENTITIES_PER_SECOND, Peak};
pub(crate) use shapes::{Compared, ShapeTraffic, plain_text, reservoir_place};
pub(crate) use table::{PointSample, TableTraffic};
pub(crate) use writes::{NEAR_BODY_BYTES, NEAR_PROPERTIES};

/// Tables whose traffic is kept; the one that was asked longest ago is dropped.
const TABLES_MAX: usize = 64;
/// Queues whose rate is kept; the one that was asked longest ago is dropped.
const QUEUES_MAX: usize = 256;
/// Accounts whose rate is kept.
const ACCOUNTS_MAX: usize = 64;

/// How traffic is kept.
#[derive(Clone, Debug, Default)]
pub struct TrafficSettings {
    /// The file that keeps it across restarts; `None` keeps it in memory only.
    pub file: Option<PathBuf>,
}

/// What was asked of every table.
pub struct Traffic {
    settings: TrafficSettings,
    kept: Mutex<KeptTraffic>,
}

/// What is kept across restarts.
#[derive(Default, Deserialize)]
pub(crate) struct KeptTraffic {
    /// By account and lower-case name.
    #[serde(deserialize_with = "tables_by_name")]
    tables: BTreeMap<(String, String), TableTraffic>,
    accounts: BTreeMap<String, AccountRate>,
    #[serde(skip)]
    past: Past,
    /// By account and name.
    #[serde(skip)]
    queues: BTreeMap<(String, String), QueueMinute>,
}

impl Traffic {
    /// The traffic that the file of the settings holds; none if there is no file, or it is damaged.
    pub fn new(settings: TrafficSettings) -> Arc<Self> {
        let kept = settings.file.as_deref().and_then(file::load).unwrap_or_default();
        Arc::new(Self { settings, kept: Mutex::new(kept) })
    }

    /// All requests of the last minute or more, and the rates of each table and queue in the last minute.
    pub fn figures(&self, now: DateTime, span: Span) -> Figures {
        let (kept, now) = (self.lock(), now.unix_seconds());
        let mut figures = kept.past.figures(now, span);
        figures.tables = kept.tables.values().map(|table| table.figures(now)).collect();
        figures.queues = kept.queues.iter().map(|(name, queue)| queue.figures(name, now)).collect();
        figures.tables.sort_by(|left, right| right.requests_per_second.total_cmp(&left.requests_per_second));
        figures
    }

    /// All that was recorded, in a few numbers.
    pub fn summary(&self) -> Summary {
        let kept = self.lock();
        let mut summary = Summary { tables: kept.tables.len() as u64, ..Summary::default() };
        for table in kept.tables.values() {
            summary.requests += table.requests;
            summary.hours = summary.hours.max(table.hours());
            for (_, shape) in
                table.shapes.iter().filter(|(text, shape)| shape.is_query || *text == "GetEntity")
            {
                summary.rows_scanned += shape.rows_scanned;
                summary.rows_returned += shape.rows_returned;
            }
        }
        summary
    }

    /// Writes the file of the settings, if they name one.
    pub fn save(&self) -> std::io::Result<()> {
        let Some(path) = &self.settings.file else { return Ok(()) };
        let (mut tables, accounts) = (self.tables(), self.lock().accounts.clone());
        // If not all of it fits, the tables that were asked lately are kept.
        tables.sort_by_key(|table| std::cmp::Reverse(table.last));
        let mut body = b"{\"tables\":[".to_vec();
        let mut is_first = true;
        let accounts = serde_json::to_vec(&accounts).map_err(std::io::Error::other)?;
        for table in &tables {
            let table = serde_json::to_vec(table).map_err(std::io::Error::other)?;
            if body.len() + table.len() + accounts.len() + 64 > file::BODY_BYTES_MAX {
                continue;
            }
            body.extend(if is_first { &b""[..] } else { b"," });
            body.extend(table);
            is_first = false;
        }
        body.extend(b"],\"accounts\":");
        body.extend(accounts);
        body.push(b'}');
        file::save(path, &body)
    }

    /// Forgets everything, for whoever changed a design and wants to see the new one alone.
    pub fn clear(&self) {
        *self.lock() = KeptTraffic::default();
    }

    /// The traffic of each table, copied so that no request waits for whoever reads it.
    pub(crate) fn tables(&self) -> Vec<TableTraffic> {
        self.lock().tables.values().cloned().collect()
    }

    /// The accounts whose tables were asked.
    pub fn account_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lock().tables.keys().map(|(account, _)| account.clone()).collect();
        names.dedup();
        names
    }

    /// The accounts that have a table of this name with recorded requests.
    pub fn accounts_with(&self, table: &str) -> Vec<String> {
        let table = table.to_ascii_lowercase();
        let kept = self.lock();
        kept.tables.keys().filter(|(_, own)| *own == table).map(|(account, _)| account.clone()).collect()
    }

    /// The traffic of one table.
    pub(crate) fn table(&self, account: &str, table: &str) -> Option<TableTraffic> {
        self.lock().tables.get(&(account.to_owned(), table.to_ascii_lowercase())).cloned()
    }

    /// The rate of each account.
    pub(crate) fn accounts(&self) -> Vec<(String, AccountRate)> {
        self.lock().accounts.iter().map(|(name, rate)| (name.clone(), rate.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, KeptTraffic> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordSink for Traffic {
    fn observe(&self, records: &[AccessRecord]) {
        let mut kept = self.lock();
        for record in records {
            kept.observe(record);
        }
    }
}

impl KeptTraffic {
    fn observe(&mut self, record: &AccessRecord) {
        self.past.observe(record);
        let Some(account) = &record.account else { return };
        let account = account.as_str();
        if !self.accounts.contains_key(account) && self.accounts.len() < ACCOUNTS_MAX {
            self.accounts.insert(account.to_owned(), AccountRate::default());
        }
        if let Some(rate) = self.accounts.get_mut(account) {
            rate.observe(record);
        }
        match record.service {
            StorageService::Table => {}
            StorageService::Queue => return self.observe_queue(account, record),
            StorageService::Blob => return,
        }
        let Some(table) = &record.resource else { return };
        let key = (account.to_owned(), table.to_ascii_lowercase());
        match record.operation {
            Some("DeleteTable") if (200..300).contains(&record.status) => {
                self.tables.remove(&key);
                return;
            }
            Some("CreateTable" | "GetTable" | "QueryTables" | "GetTableAcl" | "SetTableAcl") | None => return,
            Some(_) => {}
        }
        if !self.tables.contains_key(&key) && self.tables.len() >= TABLES_MAX {
            let oldest = self
                .tables
                .iter()
                .min_by_key(|(_, table)| (table.last, table.requests))
                .map(|(key, _)| key.clone());
            oldest.map(|key| self.tables.remove(&key));
        }
        let table = self.tables.entry(key).or_insert_with(|| TableTraffic::new(account, table));
        table.observe(record);
    }

    fn observe_queue(&mut self, account: &str, record: &AccessRecord) {
        let is_moved = matches!(record.operation, Some("PutMessage" | "DeleteMessage"));
        let Some(queue) = record.resource.as_deref().filter(|_| is_moved && record.status < 300) else {
            return;
        };
        let key = (account.to_owned(), queue.to_owned());
        if !self.queues.contains_key(&key) && self.queues.len() >= QUEUES_MAX {
            let oldest = self.queues.iter().min_by_key(|(_, queue)| queue.last()).map(|(key, _)| key.clone());
            oldest.map(|key| self.queues.remove(&key));
        }
        self.queues.entry(key).or_default().observe(record);
    }
}

fn tables_by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<(String, String), TableTraffic>, D::Error> {
    let tables = Vec::<TableTraffic>::deserialize(deserializer)?;
    let key = |table: &TableTraffic| (table.account.clone(), table.table.to_ascii_lowercase());
    Ok(tables.into_iter().map(|table| (key(&table), table)).collect())
}

#[cfg(test)]
mod tests;
