//! The command line.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::{SETTINGS, SWITCH, Values};
use crate::{cert, docs, maintain, serve};

/// Runs the command that the arguments name; none means `serve`.
pub fn run(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let matches = command().get_matches_from(arguments);
    match matches.subcommand() {
        None => serve::run(&values(&matches)?),
        Some(("serve", inner)) => serve::run(&values(inner)?),
        Some(("verify", inner)) => maintain::verify(&data_dir(inner)?),
        Some(("backup", inner)) => {
            let destination: &PathBuf = inner.get_one("destination").expect("clap requires it");
            maintain::backup(&data_dir(inner)?, destination)
        }
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
    Values::gather(&flags, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// The data folder for the commands that only need that.
fn data_dir(matches: &ArgMatches) -> anyhow::Result<PathBuf> {
    let flags = matches.get_one::<String>("data").map(|data| ("data", data.clone())).into_iter().collect();
    let values = Values::gather(&flags, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))?;
    Ok(values.text("data").into())
}
