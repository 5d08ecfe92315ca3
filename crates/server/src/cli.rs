//! The command line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::account::{self, SasRequest};
use crate::settings::{SWITCH, Setting, Values, settings};
use crate::{advising, cert, cluster, console, docs, maintain, moving, serve};

/// Runs the command that the arguments name; none means `serve`.
pub fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let matches = command().get_matches_from(arguments);
    match matches.subcommand() {
        Some(("advise", inner)) => advising::advise(&data_dir(inner)?, inner),
        _ => run_plain(&matches).map(|()| ExitCode::SUCCESS),
    }
}

/// Runs a command that succeeds or fails and says nothing else by its exit code.
fn run_plain(matches: &ArgMatches) -> anyhow::Result<()> {
    match matches.subcommand() {
        None => serve::run(values(matches, |_| true)?),
        Some(("serve", inner)) => serve::run(values(inner, |_| true)?),
        Some(("verify", inner)) => maintain::verify(&data_dir(inner)?),
        Some(("backup", inner)) => {
            let destination: &PathBuf = inner.get_one("destination").expect("clap requires it");
            maintain::backup(&data_dir(inner)?, destination)
        }
        Some(("export", inner)) => {
            let out: &PathBuf = inner.get_one("out").expect("clap requires it");
            moving::export(&values(inner, is_of_store)?, out)
        }
        Some(("import", inner)) => {
            let from: &PathBuf = inner.get_one("from").expect("clap requires it");
            moving::import(&values(inner, is_of_store)?, from)
        }
        Some(("whatif", inner)) => advising::what_if(&data_dir(inner)?, inner),
        Some(("prices", _)) => {
            print!("{}", tavola_advisor::PRICES_FILE);
            Ok(())
        }
        Some(("account", inner)) => run_account(inner),
        Some(("console-token", inner)) => console::make_token(&data_dir(inner)?),
        Some(("cluster", inner)) => run_cluster(inner),
        Some(("sas", inner)) => account::sas(&values_for(inner)?, &sas_request(inner)),
        Some(("cert", inner)) => {
            let folder: &PathBuf = inner.get_one("folder").expect("clap has a default");
            let names: Vec<String> = inner.get_many("name").into_iter().flatten().cloned().collect();
            cert::make(folder, &names)
        }
        Some(("settings", _)) => {
            print!("{}", docs::settings_table());
            Ok(())
        }
        Some(("metrics", _)) => {
            print!("{}", docs::metrics_table());
            Ok(())
        }
        Some(("errors", _)) => {
            print!("{}", docs::errors_table());
            Ok(())
        }
        Some((other, _)) => unreachable!("clap knows no subcommand {other}"),
    }
}

/// How the settings work, below the help.
const SOURCES: &str = "\
Each option is also an environment variable (TAVOLA_TABLE_PORT for --table-port) and a key of tavola.toml.
A flag wins over the environment, and the environment over the file.";

/// What `tavola` shows of the options of `serve`, which it takes too.
const SHOWN_WITHOUT_COMMAND: [&str; 6] =
    ["data", "ephemeral", "host", "blob-port", "table-port", "queue-port"];

fn command() -> Command {
    let data = || settings().find(|setting| setting.name == "data").map(|setting| argument(&setting));
    let with_data = |command: Command| command.args(data());
    let hidden = |setting: &Setting| !SHOWN_WITHOUT_COMMAND.contains(&setting.name);
    let root = settings().fold(Command::new("tavola"), |command, setting| {
        command.arg(
            argument(&setting)
                .help_heading("Options of serve (more: tavola serve --help)")
                .hide(hidden(&setting)),
        )
    });
    root.version(env!("CARGO_PKG_VERSION"))
        .about("A storage server that speaks the Azure Blob, Queue and Table REST APIs and keeps what it acknowledges")
        .after_help("Without a command, tavola serves.")
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommand(
            with_settings(Command::new("serve"), |_| true)
                .about("Start the server; the default command")
                .after_help(SOURCES),
        )
        .subcommand(with_data(
            Command::new("verify").about("Check every stored row and blob of a data folder; stop its server first"),
        ))
        .subcommand(
            with_data(Command::new("backup"))
                .about("Copy a data folder to a new one, also while its server runs")
                .arg(
                    Arg::new("destination")
                        .required(true)
                        .value_name("DEST")
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("Folder to write; empty or missing"),
                ),
        )
        .subcommand(with_data(advising::advise_command()))
        .subcommand(with_data(advising::whatif_command()))
        .subcommand(Command::new("prices").about("Print the default prices of `tavola advise`, to edit"))
        .subcommand(
            with_settings(Command::new("export"), is_of_store)
                .arg(folder("out"))
                .about("Write all rows and blobs of a stopped store to a folder; run it again to resume")
                .after_help(SOURCES),
        )
        .subcommand(
            with_settings(Command::new("import"), is_of_store)
                .arg(folder("from"))
                .about("Load an exported folder into an empty store; run it again to resume")
                .after_help(SOURCES),
        )
        .subcommand(account_command().args(data().map(|data| data.global(true))))
        .subcommand(with_data(sas_command()))
        .subcommand(with_data(
            Command::new("console-token")
                .about("Create and print a new token that opens every account in the console"),
        ))
        .subcommand(cluster_command())
        .subcommand(
            Command::new("cert")
                .about("Create a self-signed certificate for development")
                .arg(
                    Arg::new("folder")
                        .long("out")
                        .value_name("DIR")
                        .default_value(".")
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("Folder for cert.pem and key.pem"),
                )
                .arg(Arg::new("name").long("name").value_name("HOST").action(ArgAction::Append).help(
                    "Host name or address of the certificate; repeat for more [default: localhost, 127.0.0.1, ::1]",
                )),
        )
        .subcommand(Command::new("settings").about("List every setting with its default, in Markdown"))
        .subcommand(Command::new("metrics").about("List every metric with what it means, in Markdown"))
        .subcommand(Command::new("errors").about("List every error code with its status, in Markdown"))
}

/// The flag of a setting. Its default is only shown here: a value may still come from the environment or the file.
fn argument(setting: &Setting) -> Arg {
    let is_default_shown = setting.value != SWITCH && !setting.default.is_empty();
    let help = if is_default_shown {
        format!("{} [default: {}]", setting.help, setting.default)
    } else {
        setting.help.to_owned()
    };
    let arg = Arg::new(setting.name).long(setting.name).help(help).help_heading(setting.heading);
    if setting.value == SWITCH {
        arg.action(ArgAction::SetTrue)
    } else if setting.name == "account" {
        arg.value_name(setting.value).action(ArgAction::Append)
    } else {
        arg.value_name(setting.value)
    }
}

/// A command that takes some of the settings.
fn with_settings(command: Command, which: fn(&Setting) -> bool) -> Command {
    command.args(settings().filter(which).map(|setting| argument(&setting)))
}

/// A folder of `tavola export`.
fn folder(name: &'static str) -> Arg {
    let folder = Arg::new(name).long(name).value_name("FOLDER").required(true);
    folder.value_parser(clap::value_parser!(PathBuf)).help("Folder of the exported files")
}

/// The settings that say where a store is.
fn is_of_store(setting: &Setting) -> bool {
    setting.name == "data" || setting.name == "engine" || is_of_cluster(setting)
}

/// The settings that say where the cluster is.
fn is_of_cluster(setting: &Setting) -> bool {
    setting.name.starts_with("cql-")
}

fn cluster_command() -> Command {
    let with_nodes = |command| with_settings(command, is_of_cluster).after_help(SOURCES);
    Command::new("cluster")
        .about("Set up and check the Cassandra cluster of --engine cql")
        .subcommand_required(true)
        .subcommand(
            with_nodes(Command::new("init"))
                .about("Create the keyspace and its tables; running it again changes nothing")
                .arg(
                    Arg::new("copies")
                        .long("copies")
                        .value_name("CENTRE=COUNT,…")
                        .default_value("datacenter1=3")
                        .help("Replicas in each data centre"),
                )
                .arg(
                    Arg::new("lease-ms")
                        .long("lease-ms")
                        .value_name("MS")
                        .default_value("1000")
                        .value_parser(clap::value_parser!(u64).range(10..=60_000))
                        .help("How long servers may use a catalog entry without reading it again; deleting a table takes that long"),
                )
                .arg(
                    Arg::new("content-bucket")
                        .long("content-bucket")
                        .value_name("URL")
                        .help("Bucket for the contents of blobs, such as s3://bucket/path or file:///shared/folder; without it they are rows of the keyspace. Cannot be changed later; credentials come from the environment"),
                ),
        )
        .subcommand(
            with_nodes(Command::new("check"))
                .about("Connect as a server does, and report what prevents it from serving"),
        )
}

fn run_cluster(matches: &ArgMatches) -> anyhow::Result<()> {
    let (verb, inner) = matches.subcommand().expect("clap requires one");
    let values = values(inner, is_of_cluster)?;
    match verb {
        "init" => {
            let copies = inner.get_one::<String>("copies").expect("clap has a default");
            let lease_ms = *inner.get_one::<u64>("lease-ms").expect("clap has a default");
            let bucket = inner.get_one::<String>("content-bucket").map(String::as_str);
            cluster::init(&values, copies, lease_ms, bucket)
        }
        "check" => cluster::check(&values),
        other => unreachable!("clap knows no subcommand {other}"),
    }
}

fn gather(flags: &HashMap<&'static str, String>) -> anyhow::Result<Values> {
    Values::gather(flags, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The values of the settings that a command takes.
fn values(matches: &ArgMatches, which: fn(&Setting) -> bool) -> anyhow::Result<Values> {
    let mut flags = HashMap::new();
    for setting in settings().filter(which) {
        if setting.value == SWITCH {
            if matches.get_flag(setting.name) {
                flags.insert(setting.name, "true".to_owned());
            }
        } else if let Some(given) = matches.get_many::<String>(setting.name) {
            flags.insert(setting.name, given.cloned().collect::<Vec<_>>().join(";"));
        }
    }
    gather(&flags)
}

/// The data folder for the commands that only need that.
fn data_dir(matches: &ArgMatches) -> anyhow::Result<PathBuf> {
    Ok(values_for(matches)?.text("data").into())
}

/// The settings for a command that takes no flags but `--data`.
fn values_for(matches: &ArgMatches) -> anyhow::Result<Values> {
    let flags = matches.get_one::<String>("data").map(|data| ("data", data.clone())).into_iter().collect();
    gather(&flags)
}

fn account_command() -> Command {
    let name =
        || Arg::new("name").required(true).value_name("NAME").help("3 to 24 lower-case letters and digits");
    let key = || Arg::new("key").long("key").value_name("KEY").help("Key in base64 [default: a random one]");
    Command::new("account")
        .about("Add, list, rotate and remove accounts, also while the server runs")
        .subcommand_required(true)
        .subcommand(Command::new("add").about("Add an account and print its key").arg(name()).arg(key()))
        .subcommand(Command::new("list").about("List the accounts of the data folder"))
        .subcommand(
            Command::new("rotate")
                .about("Give an account a new key; the previous one stays valid until the next rotation")
                .arg(name())
                .arg(key()),
        )
        .subcommand(Command::new("remove").about("Remove an account; its data stays").arg(name()))
}

fn run_account(matches: &ArgMatches) -> anyhow::Result<()> {
    let (verb, inner) = matches.subcommand().expect("clap requires one");
    let data_dir = data_dir(inner)?;
    let text = |name: &str| inner.try_get_one::<String>(name).ok().flatten().map(String::as_str);
    let name = text("name").unwrap_or_default();
    match verb {
        "add" => account::add(&data_dir, name, text("key")),
        "list" => account::list(&data_dir),
        "rotate" => account::rotate(&data_dir, name, text("key")),
        "remove" => account::remove(&data_dir, name),
        other => unreachable!("clap knows no subcommand {other}"),
    }
}

/// The limits that `tavola sas` takes: name, form of the value, default, help.
const SAS_LIMITS: &[(&str, &str, &str, &str)] = &[
    ("account", "NAME", "", "Account that signs [default: the only account, or the development account]"),
    ("table", "NAME", "", "Table that the SAS opens; without a table, queue or blob it is an account SAS"),
    ("queue", "NAME", "", "Queue that the SAS opens"),
    ("blob", "CONTAINER[/NAME]", "", "Container or blob that the SAS opens"),
    (
        "permissions",
        "LETTERS",
        "",
        "Table: r a u d; queue: r a u p; blob: r a c w d x y l t f; account: r w d x y l a c u p t f",
    ),
    ("expiry", "TIME", "", "End: 7d, 12h or 30m from now, or a time such as 2030-01-31T00:00:00Z"),
    ("start", "TIME", "", "Not valid before this time"),
    ("ip", "ADDRESS[-ADDRESS]", "", "Valid from this address or range only"),
    ("policy", "ID", "", "Stored access policy that holds the remaining limits"),
    ("from", "PARTITION[/ROW]", "", "First entity of the table that the SAS covers"),
    ("to", "PARTITION[/ROW]", "", "Last entity of the table that the SAS covers"),
    ("services", "LETTERS", "bqt", "Account SAS: b blob, q queue, t table"),
    (
        "resource-types",
        "LETTERS",
        "sco",
        "Account SAS: s service, c tables, queues and containers, o entities, messages and blobs",
    ),
    ("endpoint", "URL", "", "Print a connection string with this endpoint"),
];

fn sas_command() -> Command {
    let https = Arg::new("https-only")
        .long("https-only")
        .action(ArgAction::SetTrue)
        .help("Not valid over plain HTTP");
    let command = Command::new("sas")
        .about("Print a shared access signature, or a connection string with one")
        .arg(https);
    SAS_LIMITS.iter().fold(command, |command, (name, value, default, help)| {
        command.arg(
            Arg::new(*name)
                .long(*name)
                .value_name(*value)
                .default_value(*default)
                .hide_default_value(default.is_empty())
                .help(*help),
        )
    })
}

fn sas_request(matches: &ArgMatches) -> SasRequest {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    SasRequest {
        account: text("account"),
        table: text("table"),
        queue: text("queue"),
        blob: text("blob"),
        permissions: text("permissions"),
        expiry: text("expiry"),
        start: text("start"),
        ip: text("ip"),
        https_only: matches.get_flag("https-only"),
        policy: text("policy"),
        from: text("from"),
        to: text("to"),
        services: text("services"),
        resource_types: text("resource-types"),
        endpoint: text("endpoint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(arguments: &[&str]) -> String {
        let error = command().try_get_matches_from([&["tavola"], arguments].concat()).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{error}");
        error.to_string()
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn help_has_headings_and_defaults_and_the_short_one_leaves_the_rest_to_serve() {
        let (short, long) = (help(&["--help"]), help(&["serve", "--help"]));
        for setting in settings() {
            assert!(long.contains(&format!("--{}", setting.name)), "{}", setting.name);
            assert!(long.contains(&format!("{}:", setting.heading)), "{}", setting.heading);
        }
        assert!(long.contains("[default: 10002]") && short.contains("[default: 10002]"), "{short}");
        assert!(short.contains("Queue and Table") && short.contains("verify"), "{short}");
        assert!(!short.contains("--inflight-mb"), "{short}");
        let matches = command().try_get_matches_from(["tavola", "--inflight-mb", "8"]).unwrap();
        assert_eq!(matches.get_one::<String>("inflight-mb").map(String::as_str), Some("8"));
    }

    #[test]
    fn a_flag_that_there_is_not_is_refused() {
        for arguments in [&["serve", "--cache-mb", "1"][..], &["settings", "--markdown"]] {
            assert!(
                command().try_get_matches_from([&["tavola"], arguments].concat()).is_err(),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn an_account_sas_is_for_every_service_if_none_is_named() {
        let matches = command().try_get_matches_from(["tavola", "sas"]).unwrap();
        let (_, matches) = matches.subcommand().unwrap();
        assert_eq!(sas_request(matches).services, "bqt");
    }
}
