//! Bearer tokens: where the issuer's keys come from, and when they are read again.
//!
//! A file is read again when it changes. A URL is fetched at the start, from time to time, and when a token names
//! a key that is not known yet, but then at most once a minute, since anyone can send such a token. What cannot be
//! read or fetched later on is reported and the old keys stay: an issuer that is down takes nobody's access away.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use tavola_auth::{BearerRules, KeySet, TokenIssuer};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::rustls::crypto::aws_lc_rs;

use crate::settings::Values;

/// How often a file is checked for changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Least time between two fetches that clients or failures cause.
const FETCH_AGAIN_AFTER: Duration = Duration::from_secs(60);
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
const KEY_SET_BYTES_MAX: u64 = 1024 * 1024;

/// The issuer of the settings, with its keys, watched on the runtime that this is called on; `None` if the
/// settings name none.
pub async fn start(values: &Values) -> anyhow::Result<Option<Arc<TokenIssuer>>> {
    let given = ["oidc-issuer", "oidc-audience", "oidc-jwks"].map(|name| values.text(name));
    if given.iter().all(|text| text.is_empty()) {
        return Ok(None);
    }
    if given.iter().any(|text| text.is_empty()) {
        bail!("--oidc-issuer, --oidc-audience and --oidc-jwks go together");
    }
    let [issuer, audience, source] = given.map(str::to_owned);
    let rules = BearerRules {
        issuer,
        audience,
        read_role: values.text("oidc-read-role").to_owned(),
        write_role: values.text("oidc-write-role").to_owned(),
    };
    let refresh = Duration::from_secs(values.number("oidc-refresh-seconds")?);
    if refresh.is_zero() {
        bail!("--oidc-refresh-seconds is at least 1");
    }
    Ok(Some(match Source::parse(&source)? {
        Source::File(path) => watch_file(rules, path)?,
        Source::Url(url) => watch_url(rules, url, refresh).await,
    }))
}

/// Where keys come from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    Url(String),
}

impl Source {
    /// Whoever can change the keys on their way can sign tokens, so plain HTTP is for this machine only.
    fn parse(text: &str) -> anyhow::Result<Self> {
        if text.starts_with("https://") {
            return Ok(Self::Url(text.to_owned()));
        }
        let Some(rest) = text.strip_prefix("http://") else { return Ok(Self::File(text.into())) };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _)) => host,
            None => authority.split(':').next().unwrap_or_default(),
        };
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback());
        if !is_here {
            bail!("--oidc-jwks must be an https URL, or a file (value={text})");
        }
        Ok(Self::Url(text.to_owned()))
    }
}

fn watch_file(rules: BearerRules, path: PathBuf) -> anyhow::Result<Arc<TokenIssuer>> {
    let seen = modified(&path);
    let issuer = Arc::new(TokenIssuer::new(rules, read(&path)?, Box::new(|| {})));
    tokio::spawn(keep_looking(path, seen, Arc::downgrade(&issuer)));
    Ok(issuer)
}

async fn keep_looking(path: PathBuf, mut seen: Option<SystemTime>, issuer: Weak<TokenIssuer>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(issuer) = issuer.upgrade() else { return };
        let now = modified(&path);
        if now == seen {
            continue;
        }
        seen = now;
        renew(&issuer, read(&path));
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn read(path: &Path) -> anyhow::Result<KeySet> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    KeySet::parse(&text).with_context(|| format!("cannot use {}", path.display()))
}

async fn watch_url(rules: BearerRules, url: String, refresh: Duration) -> Arc<TokenIssuer> {
    let wanted = Arc::new(Notify::new());
    let notify = wanted.clone();
    let issuer = Arc::new(TokenIssuer::new(rules, KeySet::default(), Box::new(move || notify.notify_one())));
    let is_renewed = renew(&issuer, fetch(url.clone()).await);
    tokio::spawn(keep_fetching(url, refresh, wanted, Arc::downgrade(&issuer), is_renewed));
    issuer
}

async fn keep_fetching(
    url: String,
    refresh: Duration,
    wanted: Arc<Notify>,
    issuer: Weak<TokenIssuer>,
    mut is_renewed: bool,
) {
    loop {
        let fetched = Instant::now();
        let pause = if is_renewed { refresh } else { refresh.min(FETCH_AGAIN_AFTER) };
        tokio::select! {
            () = tokio::time::sleep_until(fetched + pause) => {}
            () = async {
                wanted.notified().await;
                tokio::time::sleep_until(fetched + FETCH_AGAIN_AFTER).await;
            } => {}
        }
        let keys = fetch(url.clone()).await;
        let Some(issuer) = issuer.upgrade() else { return };
        is_renewed = renew(&issuer, keys);
    }
}

async fn fetch(url: String) -> anyhow::Result<KeySet> {
    let address = url.clone();
    let fetched = tokio::task::spawn_blocking(move || fetch_text(&url)).await;
    let text = fetched.context("the fetch ended early")?;
    let keys = text.and_then(|text| Ok(KeySet::parse(&text)?));
    keys.with_context(|| format!("cannot use {address}"))
}

fn fetch_text(url: &str) -> anyhow::Result<String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let tls = ureq::tls::TlsConfig::builder().unversioned_rustls_crypto_provider(provider).build();
    let config = ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(FETCH_TIME_MAX))
        .https_only(url.starts_with("https://"))
        .build();
    let mut response = config.new_agent().get(url).call()?;
    Ok(response.body_mut().with_config().limit(KEY_SET_BYTES_MAX).read_to_string()?)
}

/// Replaces the keys; without new ones the old ones stay. Says whether there were some.
fn renew(issuer: &TokenIssuer, keys: anyhow::Result<KeySet>) -> bool {
    match keys {
        Ok(keys) => {
            tracing::info!(keys = keys.len(), "fetched the keys of the token issuer");
            issuer.replace_keys(keys);
            true
        }
        Err(error) => {
            let cause = format!("{error:#}");
            tracing::warn!(cause, "cannot fetch the keys of the token issuer; known keys stay valid");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_a_file_over_tls_or_from_this_machine() {
        let url = |text: &str| Source::Url(text.to_owned());
        for text in
            ["https://login.example/keys", "http://127.0.0.1:8080/keys", "http://[::1]/k", "http://localhost"]
        {
            assert_eq!(Source::parse(text).unwrap(), url(text));
        }
        assert_eq!(Source::parse("keys.json").unwrap(), Source::File("keys.json".into()));
        for text in
            ["http://login.example/keys", "http://localhost.example/", "http://127.0.0.1.example/", "http://"]
        {
            assert!(Source::parse(text).is_err(), "{text}");
        }
    }
}
