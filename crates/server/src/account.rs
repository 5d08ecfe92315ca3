//! `tavola account …` and `tavola sas`: what people do in a portal, on the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_auth::{
    Account, AccountSas, DEVELOPMENT_ACCOUNT, KeyLimit, ServiceSas, sign_account_sas, sign_service_sas,
};
use tavola_model::{Clock as _, DateTime, RandomSource as _, StorageService};
use tavola_system::{SystemClock, SystemRandom};

use crate::account_file::AccountFile;
use crate::settings::Values;
use crate::{accounts, control, maintain};

/// Bytes of a new key, as the real service makes them.
const KEY_BYTES: usize = 64;

/// Adds an account, with a fresh key unless one is given.
pub fn add(data_dir: &Path, name: &str, key: Option<&str>) -> anyhow::Result<()> {
    let key = key.map_or_else(fresh_key, str::to_owned);
    maintain::make_folder(data_dir)?;
    AccountFile::change(data_dir, |file| file.add(name, key.clone()))?;
    println!("Account {name} added. Its key, which is shown only here:\n\n  {key}\n");
    println!(
        "A server with accounts does not serve the development account, unless --development-account on."
    );
    tell_server(data_dir)
}

/// Lists the accounts of the data folder.
pub fn list(data_dir: &Path) -> anyhow::Result<()> {
    let file = AccountFile::read(data_dir)?;
    let mut any = false;
    for (name, keys) in file.list() {
        println!("{name}  {keys} {}", if keys == 1 { "key" } else { "keys" });
        any = true;
    }
    if !any {
        println!(
            "No accounts in {} (those of --account and the development account are not kept there).",
            data_dir.display()
        );
    }
    Ok(())
}

/// Gives an account a new first key; the old first key stays valid as its second.
pub fn rotate(data_dir: &Path, name: &str, key: Option<&str>) -> anyhow::Result<()> {
    let key = key.map_or_else(fresh_key, str::to_owned);
    AccountFile::change(data_dir, |file| file.rotate(name, key.clone()))?;
    println!(
        "Account {name} has a new key; the one before stays valid until the next rotation.\n\n  {key}\n"
    );
    tell_server(data_dir)
}

/// Removes an account. Its tables stay in the data folder.
pub fn remove(data_dir: &Path, name: &str) -> anyhow::Result<()> {
    AccountFile::change(data_dir, |file| file.remove(name))?;
    println!("Account {name} removed; its data stays.");
    tell_server(data_dir)
}

fn tell_server(data_dir: &Path) -> anyhow::Result<()> {
    match control::ask(data_dir, "accounts reload")? {
        Some(_) => println!("The running server knows."),
        None => println!("No server is running on {}; the next one will know.", data_dir.display()),
    }
    Ok(())
}

fn fresh_key() -> String {
    let mut bytes = Vec::with_capacity(KEY_BYTES);
    while bytes.len() < KEY_BYTES {
        bytes.extend_from_slice(&SystemRandom.bytes());
    }
    STANDARD.encode(bytes)
}

/// The limits of a SAS as the command line gives them; empty means not given.
#[derive(Default)]
pub struct SasRequest {
    /// The account that signs.
    pub account: String,
    /// A table, for a SAS on just that.
    pub table: String,
    /// A queue, for a SAS on just that.
    pub queue: String,
    /// A container, or a container and a blob, for a SAS on just that. Without any of the three, an account SAS.
    pub blob: String,
    /// Permission letters.
    pub permissions: String,
    /// Time or duration from now.
    pub expiry: String,
    /// Time.
    pub start: String,
    /// Address or range.
    pub ip: String,
    /// Refuse plain HTTP.
    pub https_only: bool,
    /// Stored access policy.
    pub policy: String,
    /// `PARTITION` or `PARTITION/ROW`.
    pub from: String,
    /// `PARTITION` or `PARTITION/ROW`.
    pub to: String,
    /// Services of an account SAS.
    pub services: String,
    /// Resource types of an account SAS.
    pub resource_types: String,
    /// Print a connection string with this endpoint, not the bare token.
    pub endpoint: String,
}

/// Prints a SAS, or a connection string with one.
pub fn sas(values: &Values, request: &SasRequest) -> anyhow::Result<()> {
    let account = find_account(values, &request.account)?;
    let now = whole_seconds(SystemClock.now());
    let start = (!request.start.is_empty()).then(|| time(&request.start, now)).transpose()?;
    let expiry = (!request.expiry.is_empty()).then(|| time(&request.expiry, now)).transpose()?;
    if expiry.is_none() && request.policy.is_empty() {
        bail!("a SAS needs --expiry (7d, 12h, 30m or a time), or --policy");
    }
    let protocol = if request.https_only { "https" } else { "" };
    let resource = resource(request)?;
    let token = if let Some((service, resource)) = resource {
        let keys = KeyLimit { start: start_bound(&request.from)?, end: end_bound(&request.to)? };
        let sas = ServiceSas {
            resource,
            permissions: &request.permissions,
            start,
            expiry,
            ip: &request.ip,
            protocol,
            policy_id: &request.policy,
            keys,
            ..ServiceSas::default()
        };
        sign_service_sas(&account, service, &sas)
    } else {
        let sas = AccountSas {
            services: &request.services,
            resource_types: &request.resource_types,
            permissions: &request.permissions,
            start,
            expiry,
            ip: &request.ip,
            protocol,
            ..AccountSas::default()
        };
        sign_account_sas(&account, &sas)
    };
    let token = token.map_err(|error| anyhow::anyhow!("these limits make no SAS: {error}"))?;
    if request.endpoint.is_empty() {
        println!("{token}");
    } else {
        let endpoint = match resource {
            Some((StorageService::Blob, _)) => "BlobEndpoint",
            Some((StorageService::Queue, _)) => "QueueEndpoint",
            Some((StorageService::Table, _)) | None => "TableEndpoint",
        };
        println!("{endpoint}={};SharedAccessSignature={token}", request.endpoint);
    }
    Ok(())
}

/// What a service SAS is for; `None` for an account SAS.
fn resource(request: &SasRequest) -> anyhow::Result<Option<(StorageService, &str)>> {
    let named = [
        (StorageService::Table, &request.table),
        (StorageService::Queue, &request.queue),
        (StorageService::Blob, &request.blob),
    ];
    let mut named = named.into_iter().filter(|(_, name)| !name.is_empty());
    let first = named.next().map(|(service, name)| (service, name.as_str()));
    if named.next().is_some() {
        bail!("a SAS is for a table, a queue or a blob, not for several");
    }
    Ok(first)
}

/// An account of the settings, of the data folder, or the development account. Without a name it is the only one.
fn find_account(values: &Values, name: &str) -> anyhow::Result<Account> {
    let mut configured = accounts::parse(values.text("account"))?;
    let file = AccountFile::read(&PathBuf::from(values.text("data")))?;
    configured.extend(file.accounts()?);
    let name = match (name, configured.as_slice()) {
        ("", []) => DEVELOPMENT_ACCOUNT,
        ("", [only]) => only.name().as_str(),
        ("", _) => bail!("there are several accounts: name the one that signs, with --account"),
        (name, _) => name,
    };
    if let Some(account) = configured.iter().find(|account| account.name().as_str() == name) {
        return Ok(account.clone());
    }
    if name == DEVELOPMENT_ACCOUNT {
        return Ok(Account::development());
    }
    bail!("there is no account {name} in the settings or the data folder")
}

/// A time, or a duration from now: `7d`, `12h`, `30m`.
fn time(text: &str, now: DateTime) -> anyhow::Result<DateTime> {
    let unit = [("d", 86_400), ("h", 3_600), ("m", 60)];
    for (suffix, seconds) in unit {
        if let Some(count) = text.strip_suffix(suffix).and_then(|count| count.parse::<u64>().ok()) {
            return now.plus_seconds(count.saturating_mul(seconds)).context("that is too far away");
        }
    }
    DateTime::parse(text).with_context(|| format!("{text} is neither a duration (7d, 12h, 30m) nor a time"))
}

/// Tokens name their times to the second.
fn whole_seconds(time: DateTime) -> DateTime {
    let text = time.to_text_7_digits();
    DateTime::parse(&text[..19]).unwrap_or(time)
}

/// A bound of a key range: the partition, and the row if one is named.
type Bound = Option<(String, Option<String>)>;

/// The first entity. Every partition begins with the empty row, so an empty row bounds nothing and is left out.
fn start_bound(text: &str) -> anyhow::Result<Bound> {
    let bound = bound(text)?;
    Ok(bound.map(|(partition, row)| (partition, row.filter(|row| !row.is_empty()))))
}

/// The last entity. An empty bound signs like none at all, so whoever holds the token could take it away and reach
/// the rest of the partition.
fn end_bound(text: &str) -> anyhow::Result<Bound> {
    match bound(text)? {
        Some((_, Some(row))) if row.is_empty() => {
            bail!("--to {text} has an empty RowKey, which cannot bound a SAS: its holder could remove it")
        }
        bound => Ok(bound),
    }
}

/// `PARTITION` or `PARTITION/ROW`: a slash cannot be in a key.
fn bound(text: &str) -> anyhow::Result<Bound> {
    if text.is_empty() {
        return Ok(None);
    }
    let (partition, row) = match text.split_once('/') {
        Some((partition, row)) => (partition, Some(row.to_owned())),
        None => (text, None),
    };
    if partition.is_empty() {
        bail!("{text} has an empty PartitionKey, which cannot bound a SAS: its holder could remove it");
    }
    Ok(Some((partition.to_owned(), row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sas_is_for_one_resource_or_for_the_account() {
        let request = |table: &str, queue: &str, blob: &str| SasRequest {
            table: table.into(),
            queue: queue.into(),
            blob: blob.into(),
            ..SasRequest::default()
        };
        let check = |request: SasRequest, expected: Option<(StorageService, &str)>| {
            assert_eq!(resource(&request).unwrap(), expected);
        };
        check(request("", "", ""), None);
        check(request("", "", "con/a/b"), Some((StorageService::Blob, "con/a/b")));
        check(request("", "q", ""), Some((StorageService::Queue, "q")));
        assert!(resource(&request("t", "", "con")).is_err());
    }

    #[test]
    fn no_bound_is_empty() {
        let named = |partition: &str, row: Option<&str>| Some((partition.to_owned(), row.map(str::to_owned)));
        for (text, start) in [("", None), ("a", named("a", None)), ("a/", named("a", None))] {
            assert_eq!(start_bound(text).unwrap(), start, "{text}");
        }
        assert_eq!(start_bound("a/b").unwrap(), named("a", Some("b")));
        assert_eq!(end_bound("a").unwrap(), named("a", None));
        assert_eq!(end_bound("a/b").unwrap(), named("a", Some("b")));
        for text in ["a/", "/", "/b"] {
            assert!(end_bound(text).is_err(), "{text}");
        }
        assert!(start_bound("/").is_err() && start_bound("/b").is_err());
    }
}
