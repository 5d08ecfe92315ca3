//! `tavola-bench`: how fast the server is, beside what bounds it and what it replaces.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use tavola_bench::{
    AnyError, ClientCallOptions, Extent, FloorOptions, GrowthOptions, SingleOptions, blobs, client,
    client_calls, compare, floor, free_space, growth, heat_map, instructions, single, telemetry_cost,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tavola-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(matches: &ArgMatches) -> Result<(), AnyError> {
    match matches.subcommand() {
        Some(("compare", inner)) => compare(extent(inner), &text(inner, "only")),
        Some(("blobs", inner)) => blobs(extent(inner), &text(inner, "only")),
        Some(("client", inner)) => client(extent(inner), &text(inner, "only")),
        Some(("client-calls", inner)) => client_calls(&ClientCallOptions {
            host: text(inner, "host"),
            kind: text(inner, "kind"),
            stack: text(inner, "stack"),
            rows: number(inner, "rows"),
            first: number(inner, "first"),
            count: number(inner, "count"),
            is_sent: !inner.get_flag("prepare-only"),
        }),
        Some(("growth", inner)) => {
            let mut rows = Vec::new();
            for part in text(inner, "rows").split(',') {
                rows.push(part.trim().parse::<u64>()?);
            }
            rows.sort_unstable();
            growth(&GrowthOptions { rows, ..GrowthOptions::default() })
        }
        Some(("free-space", _)) => free_space(),
        Some(("heat-map", _)) => heat_map(),
        Some(("instructions", inner)) => instructions(&text(inner, "only")),
        Some(("telemetry", inner)) => telemetry_cost(extent(inner)),
        Some(("run", inner)) => single(&SingleOptions {
            work: text(inner, "work"),
            rows: number(inner, "rows"),
            data: Some(text(inner, "data")).filter(|path| !path.is_empty()).map(Into::into),
            connections: usize::try_from(number(inner, "connections"))?,
            period: Duration::from_secs(number(inner, "seconds")),
            per_second: match number(inner, "rate") {
                0 => None,
                rate => Some(u32::try_from(rate)?),
            },
        }),
        Some(("floor", inner)) => floor(&FloorOptions {
            answer: text(inner, "answer").into(),
            ready_file: text(inner, "ready-file").into(),
        }),
        _ => unreachable!("clap asks for one of the subcommands"),
    }
}

fn extent(matches: &ArgMatches) -> Extent {
    if matches.get_flag("quick") { Extent::Quick } else { Extent::Full }
}

fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

fn number(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one::<u64>(name).copied().unwrap_or_default()
}

fn command() -> Command {
    let option = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).default_value(default).help(help)
    };
    let count = |name, default, help| option(name, default, help).value_parser(value_parser!(u64));
    Command::new("tavola-bench")
        .about("How fast the server is, beside what bounds it and what it replaces")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("compare")
                .about("Everything side by side, with targets")
                .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("about two minutes"))
                .arg(option("only", "", "only the lines whose name contains this")),
        )
        .subcommand(
            Command::new("blobs")
                .about("Blobs beside nginx, dd, tables and Azurite; memory; uploads beside inserts")
                .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("about two minutes"))
                .arg(option("only", "", "only the lines whose name contains this")),
        )
        .subcommand(
            Command::new("client")
                .about("The client library beside bare hyper, the generator's batches and bare scans")
                .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("about a minute"))
                .arg(option("only", "", "only the lines whose name contains this")),
        )
        .subcommand(
            Command::new("client-calls")
                .hide(true)
                .args(["host", "kind", "stack"].map(|name| Arg::new(name).long(name).required(true)))
                .args(["rows", "first", "count"].map(|name| count(name, "1", "how many")))
                .arg(Arg::new("prepare-only").long("prepare-only").action(ArgAction::SetTrue)),
        )
        .subcommand(
            Command::new("growth")
                .about("Start, memory, point read, insert and page on tables of several sizes")
                .arg(option("rows", "1000,1000000", "rows of each table, separated by commas")),
        )
        .subcommand(Command::new("free-space").about(
            "Syncs of small records while the disk space of large files is freed, at once and in steps",
        ))
        .subcommand(Command::new("heat-map").about(
            "The console's heat map of a million requests: memory and the time of a view, with targets",
        ))
        .subcommand(
            Command::new("instructions")
                .about("Instructions for each kind of request, by callgrind")
                .arg(option("only", "", "only the lines whose name contains this")),
        )
        .subcommand(
            Command::new("telemetry")
                .about("Point reads with telemetry beside those without, by rate and by callgrind")
                .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue).help("about a minute")),
        )
        .subcommand(
            Command::new("run")
                .about("One kind of work on our server alone")
                .arg(Arg::new("work").required(true).help("point-read, insert, batch, page, …"))
                .arg(count("rows", "10000", "rows of the table"))
                .arg(option("data", "", "a data folder to fill once and use again"))
                .arg(count("connections", "64", "connections"))
                .arg(count("seconds", "10", "how long"))
                .arg(count("rate", "0", "requests a second; 0 for as many as are answered")),
        )
        .subcommand(
            Command::new("floor")
                .hide(true)
                .arg(Arg::new("answer").long("answer").required(true))
                .arg(Arg::new("ready-file").long("ready-file").required(true)),
        )
}
