//! What the accounts of a session hold, as far as that is known.
//!
//! The bytes of an account are those of its tables, by the last look at each (`sight.rs`), and of its blobs, by a list
//! of its containers that is kept for a while. Asking looks at tables that were not looked at of late. A session can
//! open very many accounts; those behind the first few are not looked at.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tavola_auth::Account;
use tavola_model::{AccountName, ServiceError};

use crate::api::{Asked, NAMES_MAX};

/// Accounts that are looked at.
const ACCOUNTS_MAX: usize = 16;
/// How old a list of containers may be.
const AGE_MAX: Duration = Duration::from_secs(60);

/// The blobs of each account, by the last list.
#[derive(Default)]
pub(crate) struct BlobHoldings {
    /// Only accounts that there are have been listed, so this is bounded by them.
    listed: Mutex<HashMap<AccountName, (Duration, Holding)>>,
}

/// Bytes, and whether that is all.
#[derive(Clone, Copy, Debug)]
struct Holding {
    bytes: u64,
    is_whole: bool,
}

impl Holding {
    const NONE: Self = Self { bytes: 0, is_whole: true };

    fn add(&mut self, bytes: u64, is_whole: bool) {
        self.bytes += bytes;
        self.is_whole &= is_whole;
    }
}

impl Asked<'_> {
    /// What each opened account holds; `null` for one that is not looked at.
    pub async fn holdings(&self) -> Result<Value, ServiceError> {
        let opened = self.opened();
        let mut looked_at = Vec::new();
        let mut shown = Vec::new();
        for (place, account) in opened.iter().enumerate() {
            let name = account.name().as_str();
            if place >= ACCOUNTS_MAX {
                shown.push(json!({ "account": name, "bytes": null, "isWhole": false }));
                continue;
            }
            let tables = self.tables(account).await?;
            let mut holding = self.blobs(account).await?;
            holding.is_whole &= tables.len() < NAMES_MAX;
            for table in tables {
                match self.console.inner.sights.last(account.name(), &table) {
                    Some(sight) => holding.add(sight.bytes(), sight.is_whole()),
                    None => holding.is_whole = false,
                }
                looked_at.push((account.clone(), table));
            }
            shown.push(json!({ "account": name, "bytes": holding.bytes, "isWhole": holding.is_whole }));
        }
        let console = self.console.clone();
        tokio::spawn(async move {
            for (account, table) in looked_at {
                console.inner.sights.look(&account, &table).await;
            }
        });
        Ok(json!({ "accounts": shown }))
    }

    /// What the containers of an account hold: listed now, or a little earlier.
    async fn blobs(&self, account: &Account) -> Result<Holding, ServiceError> {
        let inner = &self.console.inner;
        let now = inner.parts.clock.monotonic();
        let known = {
            let listed = inner.blob_holdings.listed.lock().unwrap_or_else(PoisonError::into_inner);
            listed.get(account.name()).copied()
        };
        if let Some((at, holding)) = known
            && now.saturating_sub(at) < AGE_MAX
        {
            return Ok(holding);
        }
        let mut holding = Holding::NONE;
        for container in self.containers(account).await? {
            let size = &container["size"];
            let is_whole = size["isWhole"].as_bool().unwrap_or(false);
            holding.add(size["bytes"].as_u64().unwrap_or(0), is_whole);
        }
        let mut listed = inner.blob_holdings.listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.insert(account.name().clone(), (now, holding));
        Ok(holding)
    }
}
