//! Every setting, once: its name on the command line, in the environment and in `tavola.toml`, its default
//! and what it does. The flag wins over the environment, which wins over the file.
//!
//! `docs/settings.md` is written from this table and checked against it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// One setting.
pub struct Setting {
    /// `table-port`: the flag is `--table-port`, the variable `TAVOLA_TABLE_PORT`, the key `table-port`.
    pub name: &'static str,
    /// What a value looks like, for the help.
    pub value: &'static str,
    /// The default as text.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

const fn setting(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, value, default, help }
}

/// A switch: given or not.
pub const SWITCH: &str = "";

/// All settings, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    setting("data", "DIR", "tavola-data", "folder that holds everything; made if it does not exist"),
    setting("ephemeral", SWITCH, "false", "use a temporary data folder and remove it at exit"),
    setting(
        "engine",
        "local|cql",
        "local",
        "where rows are kept: in the data folder, or in a Cassandra cluster that any number of servers share",
    ),
    setting("cql-nodes", "HOST:PORT,…", "", "some nodes of the cluster; the others are found through them"),
    setting("cql-keyspace", "NAME", "tavola", "keyspace of the cluster that holds everything"),
    setting("cql-user", "NAME", "", "user of the cluster, where it asks for one"),
    setting("cql-password-file", "FILE", "", "file whose first line is the password of that user"),
    setting(
        "cql-ca",
        "FILE",
        "",
        "certificates of the authority of the cluster, in PEM form; with it, connections to the cluster are encrypted",
    ),
    setting("cql-cert", "FILE", "", "certificate to show to the cluster, where it asks for one, in PEM form"),
    setting("cql-key", "FILE", "", "private key of that certificate, in PEM form"),
    setting("host", "ADDRESS", "127.0.0.1", "address to listen on"),
    setting(
        "advertise-host",
        "HOST|off",
        "",
        "address by which other servers on the cluster reach this one, to hand it the writes of the partitions it owns (default: --host, if it is one address)",
    ),
    setting("table-port", "PORT|off", "10002", "port of the table endpoint (0 picks a free one)"),
    setting("queue-port", "PORT|off", "10001", "port of the queue endpoint (0 picks a free one)"),
    setting("blob-port", "PORT", "10000", "port of the blob endpoint (this version does not serve it yet)"),
    setting("console-port", "PORT", "10003", "port of the console (this version does not serve it yet)"),
    setting(
        "health-port",
        "PORT|off",
        "off",
        "port for /health/live, /health/ready and /metrics (0 picks a free one)",
    ),
    setting("queue-tls-port", "PORT|off", "off", "port of the queue endpoint over TLS (0 picks a free one)"),
    setting("table-tls-port", "PORT|off", "off", "port of the table endpoint over TLS (0 picks a free one)"),
    setting(
        "tls-cert",
        "FILE",
        "",
        "certificate chain for the TLS ports, in PEM form; read again when it changes",
    ),
    setting("tls-key", "FILE", "", "private key of the certificate, in PEM form"),
    setting(
        "account",
        "NAME:KEY[:KEY2]",
        "",
        "an account and its keys; repeat the flag for more, or separate by ; in TAVOLA_ACCOUNTS, AZURITE_ACCOUNTS and the file. Without any, the well-known development account",
    ),
    setting(
        "allow-public-development-key",
        SWITCH,
        "false",
        "listen on a public address although an account has the development key, which everybody knows",
    ),
    setting("oidc-issuer", "URL", "", "issuer (iss) whose bearer tokens are accepted; without it, none are"),
    setting("oidc-audience", "TEXT", "", "audience (aud) that bearer tokens must name"),
    setting(
        "oidc-jwks",
        "FILE|URL",
        "",
        "keys of the issuer, as a JSON Web Key Set: a file, read again when it changes, or an https URL",
    ),
    setting("oidc-read-role", "TEXT", "Storage.Read", "role of a bearer token that may read"),
    setting("oidc-write-role", "TEXT", "Storage.ReadWrite", "role of a bearer token that may read and write"),
    setting(
        "oidc-refresh-seconds",
        "SECONDS",
        "3600",
        "how often the keys of an issuer are fetched from a URL",
    ),
    setting(
        "plan-header",
        "on|off|auto",
        "auto",
        "tell in x-tavola-plan how each query ran; auto does so on a loopback address",
    ),
    setting(
        "table-delete-delay-seconds",
        "SECONDS",
        "0",
        "how long the name of a deleted table answers TableBeingDeleted",
    ),
    setting(
        "queue-delete-delay-seconds",
        "SECONDS",
        "0",
        "how long the name of a deleted queue answers QueueBeingDeleted",
    ),
    setting("cache-mb", "MIB", "64", "memory for blocks read from disk"),
    setting(
        "memtable-mb",
        "MIB",
        "4",
        "memory that the newest rows of one of the store's trees fill before they are flushed; all together take at most 16 times as much; more takes more inserts a second and lets some wait longer",
    ),
    setting("disk-reserve-mb", "MIB", "256", "free disk space below which writes are refused"),
    setting("worker-threads", "COUNT", "0", "threads that answer requests (0 for one a core)"),
    setting("connections-max", "COUNT", "4096", "connections open at once; more wait to be accepted"),
    setting("headers-max", "COUNT", "100", "headers of a request"),
    setting("head-kb", "KIB", "64", "size of a request's URL and headers together (at least 8)"),
    setting("inflight-mb", "MIB", "64", "memory for large request bodies at once"),
    setting("handshake-seconds", "SECONDS", "10", "how long a TLS handshake may take"),
    setting("idle-seconds", "SECONDS", "120", "how long a connection may be idle between requests"),
    setting("head-seconds", "SECONDS", "15", "how long a client may take to send its headers"),
    setting(
        "body-seconds",
        "SECONDS",
        "120",
        "how long a client may take to send a body, and how long it may take nothing of an answer",
    ),
    setting(
        "body-rate-min",
        "BYTES",
        "1024",
        "bytes a second that a body must bring once it has been coming for five seconds (0 for no least rate)",
    ),
    setting("drain-seconds", "SECONDS", "10", "how long requests under way may take at shutdown"),
    setting("log-format", "text|json", "text", "form of the log lines on standard error"),
    setting(
        "log-level",
        "error|warn|info|debug",
        "warn",
        "least important lines that are logged; info adds refused requests, debug every request",
    ),
    setting("ready-file", "FILE", "", "file to write the endpoints to, as JSON, once they listen"),
    setting("config", "FILE", "tavola.toml", "settings file; the default one may be missing"),
];

/// The environment variable of a setting.
pub fn variable(name: &str) -> String {
    let plural = if name == "account" { "accounts" } else { name };
    format!("TAVOLA_{}", plural.replace('-', "_").to_ascii_uppercase())
}

/// The key of a setting in the file.
pub fn file_key(name: &str) -> &str {
    if name == "account" { "accounts" } else { name }
}

/// Values by name, from all three places.
#[derive(Debug, Default)]
pub struct Values {
    texts: HashMap<&'static str, String>,
}

impl Values {
    /// Gathers the settings: `flags` as given on the command line, then `environment`, then the file.
    pub fn gather(
        flags: &HashMap<&'static str, String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let from_flag_or_environment =
            |name: &'static str| flags.get(name).cloned().or_else(|| environment(&variable(name)));
        let config = from_flag_or_environment("config");
        let file = read_file(config.as_deref())?;
        let mut texts = HashMap::new();
        for setting in SETTINGS {
            let text = from_flag_or_environment(setting.name)
                .or_else(|| file.get(file_key(setting.name)).cloned())
                .or_else(|| if setting.name == "account" { environment("AZURITE_ACCOUNTS") } else { None })
                .unwrap_or_else(|| setting.default.to_owned());
            texts.insert(setting.name, text);
        }
        Ok(Self { texts })
    }

    /// The text of a setting.
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).expect("every name asked for is in the table")
    }

    /// A number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> anyhow::Result<T> {
        let text = self.text(name);
        text.parse().ok().with_context(|| format!("--{name} is not a number in range (value={text})"))
    }

    /// A switch.
    pub fn switch(&self, name: &str) -> anyhow::Result<bool> {
        match self.text(name) {
            "true" | "1" => Ok(true),
            "false" | "0" | "" => Ok(false),
            other => bail!("--{name} is a switch: true or false (value={other})"),
        }
    }

    /// One of some words.
    pub fn word(&self, name: &str, words: &[&'static str]) -> anyhow::Result<&'static str> {
        let text = self.text(name);
        let known = words.iter().find(|word| **word == text).copied();
        known.with_context(|| format!("--{name} is one of {} (value={text})", words.join(", ")))
    }

    /// Mebibytes as bytes.
    pub fn mebibytes(&self, name: &str) -> anyhow::Result<u64> {
        let mebibytes: u64 = self.number(name)?;
        mebibytes.checked_mul(1024 * 1024).with_context(|| format!("--{name} is too large"))
    }
}

fn read_file(config: Option<&str>) -> anyhow::Result<HashMap<String, String>> {
    let path = PathBuf::from(config.unwrap_or("tavola.toml"));
    if config.is_none() && !path.exists() {
        return Ok(HashMap::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_file(&text, &path)
}

fn parse_file(text: &str, path: &Path) -> anyhow::Result<HashMap<String, String>> {
    let table: toml::Table = text.parse().with_context(|| format!("cannot understand {}", path.display()))?;
    let mut values = HashMap::new();
    for (key, value) in table {
        if !SETTINGS.iter().any(|setting| setting.name != "config" && file_key(setting.name) == key) {
            bail!("{} has an unknown setting (key={key})", path.display());
        }
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Array(items) => {
                let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
                texts.with_context(|| format!("{}: {key} is a list of texts", path.display()))?.join(";")
            }
            _ => bail!("{}: {key} has a value of the wrong kind", path.display()),
        };
        values.insert(key, text);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(flags: &[(&'static str, &str)], environment: &[(&str, &str)]) -> String {
        let flags = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let lookup = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Values::gather(&flags, lookup).unwrap().text("table-port").to_owned()
    }

    #[test]
    fn the_flag_wins_over_the_environment_and_both_over_the_default() {
        assert_eq!(port(&[], &[]), "10002");
        assert_eq!(port(&[], &[("TAVOLA_TABLE_PORT", "1")]), "1");
        assert_eq!(port(&[("table-port", "2")], &[("TAVOLA_TABLE_PORT", "1")]), "2");
    }

    #[test]
    fn the_file_is_read_by_the_same_names_and_refuses_others() {
        let path = Path::new("tavola.toml");
        let values =
            parse_file("table-port = 7\nephemeral = true\naccounts = [\"a:b\", \"c:d\"]", path).unwrap();
        assert_eq!((values["table-port"].as_str(), values["ephemeral"].as_str()), ("7", "true"));
        assert_eq!(values["accounts"], "a:b;c:d");
        for bad in ["tableport = 7", "host = { a = 1 }", "accounts = [1]", "="] {
            assert!(parse_file(bad, path).is_err(), "{bad}");
        }
    }

    #[test]
    fn accounts_come_from_either_variable() {
        let gather = |variable: &'static str| {
            let values =
                Values::gather(&HashMap::new(), |name| (name == variable).then(|| "x:eA==".to_owned()));
            values.unwrap().text("account").to_owned()
        };
        assert_eq!(gather("TAVOLA_ACCOUNTS"), "x:eA==");
        assert_eq!(gather("AZURITE_ACCOUNTS"), "x:eA==");
    }
}
