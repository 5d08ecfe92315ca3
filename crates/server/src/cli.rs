//! The command line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::account::{self, SasRequest};
use crate::settings::{SETTINGS, SWITCH, Setting, Values};
use crate::{cert, cluster, docs, maintain, moving, serve};

/// Runs the command that the arguments name; none means `serve`.
pub fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let matches = command().get_matches_from(arguments);
    match matches.subcommand() {
        None => serve::run(values(&matches)?),
        Some(("serve", inner)) => serve::run(values(inner)?),
        Some(("verify", inner)) => maintain::verify(&data_dir(inner)?),
        Some(("backup", inner)) => {
            let destination: &PathBuf = inner.get_one("destination").expect("clap requires it");
            maintain::backup(&data_dir(inner)?, destination)
        }
        Some(("export", inner)) => {
            let out: &PathBuf = inner.get_one("out").expect("clap requires it");
            moving::export(&some_values(inner, is_of_store)?, out)
        }
        Some(("import", inner)) => {
            let from: &PathBuf = inner.get_one("from").expect("clap requires it");
            moving::import(&some_values(inner, is_of_store)?, from)
        }
        Some(("account", inner)) => run_account(inner),
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
        Some(("errors", _)) => {
            print!("{}", docs::errors_table());
            Ok(())
        }
        Some((other, _)) => unreachable!("clap knows no subcommand {other}"),
    }
}

fn command() -> Command {
    let markdown = || {
        Arg::new("markdown")
            .long("markdown")
            .action(ArgAction::SetTrue)
            .help("as a table for the documentation")
    };
    let data = || Arg::new("data").long("data").value_name("DIR").help("data folder (default: tavola-data)");
    with_settings(Command::new("tavola"))
        .version(env!("CARGO_PKG_VERSION"))
        .about("A storage server that speaks the Azure Table API and keeps what it acknowledges")
        .args_conflicts_with_subcommands(true)
        .disable_help_subcommand(true)
        .subcommand(
            with_settings(Command::new("serve"))
                .about("Start the server (what happens without a command, too)"),
        )
        .subcommand(
            Command::new("verify")
                .about("Check every stored row of a data folder that no server is using")
                .arg(data()),
        )
        .subcommand(
            Command::new("backup")
                .about("Copy a data folder into a fresh one, while its server runs or without")
                .arg(data())
                .arg(
                    Arg::new("destination")
                        .required(true)
                        .value_name("DEST")
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("folder to write, empty or not there yet"),
                ),
        )
        .subcommand(with_some_settings(Command::new("export"), is_of_store).arg(folder("out")).about(
            "Write everything a store holds into a folder, with its servers stopped; run again, it goes on",
        ))
        .subcommand(
            with_some_settings(Command::new("import"), is_of_store)
                .arg(folder("from"))
                .about("Load a folder that was exported into an empty store; run again, it goes on"),
        )
        .subcommand(account_command().arg(data().global(true)))
        .subcommand(sas_command().arg(data()))
        .subcommand(cluster_command())
        .subcommand(
            Command::new("cert")
                .about("Make a self-signed certificate for development")
                .arg(
                    Arg::new("folder")
                        .long("out")
                        .value_name("DIR")
                        .default_value(".")
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("folder for cert.pem and key.pem"),
                )
                .arg(Arg::new("name").long("name").value_name("HOST").action(ArgAction::Append).help(
                    "host name or address it is for; repeat for more (default: localhost, 127.0.0.1, ::1)",
                )),
        )
        .subcommand(Command::new("settings").about("List every setting with its default").arg(markdown()))
        .subcommand(Command::new("errors").about("List every error code with its status").arg(markdown()))
}

fn with_settings(command: Command) -> Command {
    SETTINGS.iter().fold(command, |command, setting| {
        let arg = Arg::new(setting.name).long(setting.name).help(setting.help);
        command.arg(if setting.value == SWITCH {
            arg.action(ArgAction::SetTrue)
        } else if setting.name == "account" {
            arg.value_name(setting.value).action(ArgAction::Append)
        } else {
            arg.value_name(setting.value)
        })
    })
}

/// A folder of `tavola export`.
fn folder(name: &'static str) -> Arg {
    let folder = Arg::new(name).long(name).value_name("FOLDER").required(true);
    folder.value_parser(clap::value_parser!(PathBuf)).help("folder of the exported files")
}

/// The settings that say where a store is.
fn is_of_store(setting: &&Setting) -> bool {
    setting.name == "data" || setting.name == "engine" || is_of_cluster(setting)
}

/// A command that takes some of the settings.
fn with_some_settings(command: Command, which: fn(&&Setting) -> bool) -> Command {
    SETTINGS.iter().filter(which).fold(command, |command, setting| {
        command.arg(Arg::new(setting.name).long(setting.name).value_name(setting.value).help(setting.help))
    })
}

/// The settings for a command that takes some of them.
fn some_values(matches: &ArgMatches, which: fn(&&Setting) -> bool) -> anyhow::Result<Values> {
    let given = SETTINGS
        .iter()
        .filter(which)
        .filter_map(|setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone())));
    gather(&given.collect())
}

/// The settings that say where the cluster is.
fn is_of_cluster(setting: &&Setting) -> bool {
    setting.name.starts_with("cql-")
}

fn cluster_command() -> Command {
    let with_nodes = |command| with_some_settings(command, is_of_cluster);
    Command::new("cluster")
        .about("Set up and check the Cassandra cluster of --engine cql")
        .subcommand_required(true)
        .subcommand(
            with_nodes(Command::new("init"))
                .about("Make the keyspace and its tables; running it again changes nothing")
                .arg(
                    Arg::new("copies")
                        .long("copies")
                        .value_name("CENTRE=COUNT,…")
                        .default_value("datacenter1=3")
                        .help("copies that each data centre keeps"),
                )
                .arg(
                    Arg::new("lease-ms")
                        .long("lease-ms")
                        .value_name("MS")
                        .default_value("1000")
                        .value_parser(clap::value_parser!(u64).range(10..=60_000))
                        .help("how long servers rely on a look at the catalog; deleting a table takes that long"),
                ),
        )
        .subcommand(
            with_nodes(Command::new("check"))
                .about("Connect as a server would, and say what would keep it from serving"),
        )
}

fn run_cluster(matches: &ArgMatches) -> anyhow::Result<()> {
    let (verb, inner) = matches.subcommand().expect("clap requires one");
    let values = some_values(inner, is_of_cluster)?;
    match verb {
        "init" => {
            let copies = inner.get_one::<String>("copies").expect("clap has a default");
            let lease_ms = *inner.get_one::<u64>("lease-ms").expect("clap has a default");
            cluster::init(&values, copies, lease_ms)
        }
        "check" => cluster::check(&values),
        other => unreachable!("clap knows no subcommand {other}"),
    }
}

fn gather(flags: &HashMap<&'static str, String>) -> anyhow::Result<Values> {
    Values::gather(flags, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn values(matches: &ArgMatches) -> anyhow::Result<Values> {
    let mut flags = HashMap::new();
    for setting in SETTINGS {
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
    let key = || Arg::new("key").long("key").value_name("KEY").help("key in base64 (default: a fresh one)");
    Command::new("account")
        .about("Add, list, rotate and remove accounts, while the server runs or without")
        .subcommand_required(true)
        .subcommand(Command::new("add").about("Add an account and print its key").arg(name()).arg(key()))
        .subcommand(Command::new("list").about("List the accounts of the data folder"))
        .subcommand(
            Command::new("rotate")
                .about("Give an account a new first key; the one before stays valid as its second")
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
    ("account", "NAME", "", "account that signs (default: the development account)"),
    ("table", "NAME", "", "a SAS for this table only; without table or queue, an account SAS"),
    ("queue", "NAME", "", "a SAS for this queue only"),
    ("permissions", "LETTERS", "", "table: r a u d; queue: r a u p; account: r w d l a c u p"),
    ("expiry", "TIME", "", "7d, 12h, 30m from now, or a time such as 2030-01-31T00:00:00Z"),
    ("start", "TIME", "", "not valid before this time"),
    ("ip", "ADDRESS[-ADDRESS]", "", "only from this address or range"),
    ("policy", "ID", "", "stored access policy that holds the rest"),
    ("from", "PARTITION[/ROW]", "", "first entity of the table that it covers"),
    ("to", "PARTITION[/ROW]", "", "last entity of the table that it covers"),
    ("services", "LETTERS", "qt", "account SAS: b blob, q queue, t table"),
    ("resource-types", "LETTERS", "sco", "account SAS: s service, c tables, o entities"),
    ("endpoint", "URL", "", "print a connection string with this endpoint"),
];

fn sas_command() -> Command {
    let https = Arg::new("https-only")
        .long("https-only")
        .action(ArgAction::SetTrue)
        .help("refuse it over plain HTTP");
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
