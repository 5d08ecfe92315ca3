//! Every setting, once: its name on the command line, in the environment and in `tavola.toml`, its default
//! and what it does. The flag wins over the environment, which wins over the file.
//!
//! The help, `docs/settings.md` and the keys of the file come from this table. clap parses the flags and `toml` the
//! file; only their precedence is ours, because clap knows no file and the crates that merge sources know no flags.

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
    /// The heading under which help and documents show it.
    pub heading: &'static str,
}

/// A group of settings under a heading: name, form of the value, default, what it does.
type Group = (&'static str, &'static [(&'static str, &'static str, &'static str, &'static str)]);

/// A switch: given or not.
pub const SWITCH: &str = "";

/// All settings, in the order of the help.
const GROUPS: &[Group] = &[
    (
        "Store",
        &[
            ("data", "DIR", "tavola-data", "Data folder; created if it does not exist"),
            ("ephemeral", SWITCH, "false", "Use a temporary data folder and remove it at exit"),
            (
                "engine",
                "local|cql",
                "local",
                "Where rows are stored: in the data folder, or in a Cassandra cluster that servers share",
            ),
            (
                "memory-mb",
                "MIB",
                "128",
                "Memory for rows: half for blocks read from disk, half for rows that are not flushed yet. Writes wait while unflushed rows fill their half",
            ),
            (
                "memtable-mb",
                "MIB",
                "4",
                "Size at which the memtable of one of the store's trees is flushed to disk; at most a 32nd of --memory-mb. More raises insert throughput and the longest write stall",
            ),
            ("disk-reserve-mb", "MIB", "256", "Free disk space below which writes are refused"),
        ],
    ),
    (
        "Endpoints",
        &[
            ("host", "ADDRESS", "127.0.0.1", "IP address to listen on"),
            ("blob-port", "PORT|off", "10000", "Port of the blob endpoint; 0 picks a free one"),
            ("table-port", "PORT|off", "10002", "Port of the table endpoint; 0 picks a free one"),
            ("queue-port", "PORT|off", "10001", "Port of the queue endpoint; 0 picks a free one"),
            ("blob-tls-port", "PORT|off", "off", "Port of the blob endpoint over TLS; 0 picks a free one"),
            ("table-tls-port", "PORT|off", "off", "Port of the table endpoint over TLS; 0 picks a free one"),
            ("queue-tls-port", "PORT|off", "off", "Port of the queue endpoint over TLS; 0 picks a free one"),
            (
                "tls-cert",
                "FILE",
                "",
                "Certificate chain of the TLS ports, as PEM; read again when it changes",
            ),
            ("tls-key", "FILE", "", "Private key of the certificate, as PEM"),
            (
                "health-port",
                "PORT|off",
                "off",
                "Port for /health/live, /health/ready and /metrics; 0 picks a free one",
            ),
            (
                "console-port",
                "PORT|off",
                "10003",
                "Port of the web console; 0 picks a free one. If it is in use, the server starts without a console",
            ),
            (
                "console-host",
                "ADDRESS",
                "127.0.0.1",
                "IP address that the console listens on. Beyond a loopback address every user has to sign in, over TLS if --tls-cert is set",
            ),
            (
                "console-host-names",
                "NAMES",
                "",
                "Host names under which browsers reach the console, separated by commas; loopback names always work, others are refused",
            ),
            (
                "console-token",
                "TEXT",
                "",
                "Token that opens every account in the console, at least 16 characters; without it, the token of `tavola console-token`",
            ),
            (
                "prices",
                "FILE",
                "",
                "Price table for the costs that the console shows, in the form that `tavola prices` prints; without it, the default prices",
            ),
            ("ready-file", "FILE", "", "File to write the endpoints to, as JSON, once they listen"),
        ],
    ),
    (
        "Accounts",
        &[
            (
                "account",
                "NAME:KEY[:KEY2]",
                "",
                "Account with its keys; repeat the flag for more, or separate by ; in TAVOLA_ACCOUNTS, AZURITE_ACCOUNTS and the file. Accounts of `tavola account add` are served too",
            ),
            (
                "development-account",
                "on|off|auto",
                "auto",
                "Serve the well-known development account, whose key is public; auto does so while there is no other account",
            ),
            (
                "allow-public-development-key",
                SWITCH,
                "false",
                "Allow a public address although an account has the public development key",
            ),
            ("oidc-issuer", "URL", "", "Issuer (iss) whose bearer tokens are accepted; without it, none are"),
            ("oidc-audience", "TEXT", "", "Audience (aud) that bearer tokens must name"),
            (
                "oidc-jwks",
                "FILE|URL",
                "",
                "JSON Web Key Set of the issuer: a file, read again when it changes, or an https URL",
            ),
            ("oidc-read-role", "TEXT", "Storage.Read", "Role of a bearer token that may read"),
            (
                "oidc-write-role",
                "TEXT",
                "Storage.ReadWrite",
                "Role of a bearer token that may read and write",
            ),
            ("oidc-refresh-seconds", "SECONDS", "3600", "How often a key set is fetched again from its URL"),
        ],
    ),
    (
        "Behaviour",
        &[
            (
                "plan-header",
                "on|off|auto",
                "auto",
                "Report the plan of each query in x-tavola-plan; auto does so on a loopback address",
            ),
            (
                "analytics-log-seconds",
                "SECONDS",
                "60",
                "How long request log lines of Storage Analytics are buffered before they are written as a blob",
            ),
            (
                "table-delete-delay-seconds",
                "SECONDS",
                "0",
                "How long the name of a deleted table answers TableBeingDeleted",
            ),
            (
                "queue-delete-delay-seconds",
                "SECONDS",
                "0",
                "How long the name of a deleted queue answers QueueBeingDeleted",
            ),
            (
                "container-delete-delay-seconds",
                "SECONDS",
                "0",
                "How long the name of a deleted container answers ContainerBeingDeleted",
            ),
            (
                "container-delete-retention-days",
                "DAYS",
                "0",
                "How many days a deleted container can be restored, up to 365; 0 drops it at once. The real service has this setting in its management plane",
            ),
            ("blob-versions", "on|off", "off", "Keep a version of every blob that is overwritten or deleted"),
        ],
    ),
    (
        "Limits",
        &[
            (
                "azure-limits",
                SWITCH,
                "false",
                "Throttle like the real service: 503 ServerBusy and 500 OperationTimedOut beyond 2,000 entities per second of a partition, 2,000 messages per second of a queue and 20,000 requests per second of an account; pages of a query end with their partition",
            ),
            ("worker-threads", "COUNT", "0", "Threads that answer requests; 0 for one per core"),
            (
                "connections-max",
                "COUNT",
                "4096",
                "Maximum of open connections; further ones replace idle ones, or wait",
            ),
            ("headers-max", "COUNT", "100", "Maximum number of headers of a request"),
            ("head-kb", "KIB", "64", "Maximum size of the URL and headers of a request together; at least 8"),
            (
                "inflight-mb",
                "MIB",
                "64",
                "Memory for large request bodies, and the same again for large answers",
            ),
            ("handshake-seconds", "SECONDS", "10", "Time for a TLS handshake"),
            ("idle-seconds", "SECONDS", "120", "Time that a connection may be idle between requests"),
            ("head-seconds", "SECONDS", "15", "Time for a client to send its headers"),
            (
                "body-seconds",
                "SECONDS",
                "120",
                "Time for a client to send a body, and longest time in which it takes no byte of an answer",
            ),
            (
                "body-rate-min",
                "BYTES",
                "1024",
                "Lowest rate of a body in bytes per second, after its first five seconds; 0 for no minimum",
            ),
            ("drain-seconds", "SECONDS", "10", "Time for requests in flight to finish at shutdown"),
        ],
    ),
    (
        "Cluster (--engine cql)",
        &[
            (
                "cql-nodes",
                "HOST:PORT,…",
                "",
                "Some nodes of the cluster, from which the server learns the others",
            ),
            ("cql-keyspace", "NAME", "tavola", "Keyspace that holds all rows"),
            ("cql-user", "NAME", "", "User name, if the cluster requires one"),
            ("cql-password-file", "FILE", "", "File whose first line is the password of that user"),
            (
                "cql-ca",
                "FILE",
                "",
                "Certificates of the cluster's authority, as PEM; with them, connections to the cluster are encrypted",
            ),
            ("cql-cert", "FILE", "", "Client certificate, if the cluster requires one, as PEM"),
            ("cql-key", "FILE", "", "Private key of the client certificate, as PEM"),
            (
                "advertise-host",
                "HOST|off",
                "",
                "Address at which other servers reach this one, to forward writes of the partitions it owns (default: --host, if it is one address)",
            ),
        ],
    ),
    (
        "Logs and configuration",
        &[
            (
                "telemetry",
                "on|off",
                "on",
                "Count, time and record requests; when off, the console, the advisor, Storage Analytics and the request metrics stay empty",
            ),
            (
                "records-per-second",
                "COUNT",
                "500",
                "Requests per second that are all recorded for the advisor, the console and traces. Above it requests are sampled; 0 records none",
            ),
            (
                "slow-ms",
                "MILLISECONDS",
                "0",
                "Log requests that take at least this long, at level warn; 0 logs none",
            ),
            (
                "otlp-endpoint",
                "URL",
                "",
                "OpenTelemetry collector that gets traces and metrics (OTLP over HTTP, protobuf), such as http://127.0.0.1:4318",
            ),
            ("log-format", "text|json", "text", "Format of log lines on standard error"),
            (
                "log-level",
                "error|warn|info|debug",
                "warn",
                "Lowest level that is logged; info adds refused requests, debug every request",
            ),
            ("config", "FILE", "tavola.toml", "Settings file; the default one may be missing"),
        ],
    ),
];

/// All settings, in the order of the help.
pub fn settings() -> impl Iterator<Item = Setting> {
    GROUPS.iter().flat_map(|(heading, group)| {
        group.iter().map(move |&(name, value, default, help)| Setting { name, value, default, help, heading })
    })
}

/// The environment variable of a setting.
pub fn variable(name: &str) -> String {
    let plural = if name == "account" { "accounts" } else { name };
    format!("TAVOLA_{}", plural.replace('-', "_").to_ascii_uppercase())
}

/// The key of a setting in the file.
pub fn file_key(name: &str) -> &str {
    if name == "account" { "accounts" } else { name }
}

/// Values by name, from all sources.
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
        for setting in settings() {
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
        text.parse().ok().with_context(|| format!("--{name} must be a whole number in range (value={text})"))
    }

    /// A switch.
    pub fn switch(&self, name: &str) -> anyhow::Result<bool> {
        match self.text(name) {
            "true" | "1" => Ok(true),
            "false" | "0" | "" => Ok(false),
            other => bail!("--{name} must be true or false (value={other})"),
        }
    }

    /// One of some words.
    pub fn word(&self, name: &str, words: &[&'static str]) -> anyhow::Result<&'static str> {
        let text = self.text(name);
        let known = words.iter().find(|word| **word == text).copied();
        known.with_context(|| format!("--{name} must be one of {} (value={text})", words.join(", ")))
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
    let table: toml::Table = text.parse().with_context(|| format!("cannot parse {}", path.display()))?;
    let mut values = HashMap::new();
    for (key, value) in table {
        if !settings().any(|setting| setting.name != "config" && file_key(setting.name) == key) {
            bail!("{} has an unknown setting (key={key})", path.display());
        }
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            toml::Value::Array(items) => {
                let texts: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
                texts
                    .with_context(|| format!("{}: {key} must be a list of strings", path.display()))?
                    .join(";")
            }
            _ => bail!("{}: {key} has a value of the wrong type", path.display()),
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
    fn every_setting_has_a_name_of_its_own_and_a_sentence() {
        let mut names = std::collections::HashSet::new();
        for setting in settings() {
            assert!(names.insert(setting.name), "{}", setting.name);
            let starts_large = setting.help.starts_with(|letter: char| letter.is_ascii_uppercase());
            assert!(starts_large && !setting.help.ends_with('.'), "{}", setting.help);
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
