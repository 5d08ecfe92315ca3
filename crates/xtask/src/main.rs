//! Chores of the project. `cargo xtask test` is the one test command; its steps can be run alone.
//!
//! Nothing here links the server: steps run programs and read what they print, so this builds in seconds and
//! also when the server does not.

mod bench;
mod cassandra;
mod cluster;
mod console;
mod corpus;
mod crash;
mod deny;
mod differential;
mod docs;
mod evidence;
mod frameworks;
mod layers;
mod markers;
mod names;
mod programs;
mod rclone;
mod rust;
mod sdk;
mod services;
mod step;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use step::{Run, Select, Step};

/// Chores of Tavola: tests, checks, benchmarks, and a Cassandra to test with
///
/// A step that cannot be run here is skipped and says why. With TAVOLA_REQUIRE_ALL=1 a skipped step fails the run.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every test; the last line is `N passed, M failed, K skipped`
    Test {
        /// Run only the tests whose name contains NAME, in every step that has one
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
    /// The quick checks, before each commit: format, lints, layers, docs and unit tests
    Check,
    /// Format check, clippy and the tests of all crates
    Rust,
    /// Licences and sources of dependencies
    Deny,
    /// Which crate, and which folder of a crate, may import which; type names that mean two things
    Layers,
    /// Compare the docs with the code
    Docs {
        /// Renew the generated parts
        #[arg(long)]
        write: bool,
    },
    /// Replay recorded sessions of the real service
    Corpus {
        service: corpus::Recorded,
        /// Renew the list of sessions that differ
        #[arg(long, conflicts_with = "engine")]
        write: bool,
        /// Store of the server; `cql` is not part of `test`
        #[arg(long, value_enum, default_value_t = Engine::Local)]
        engine: Engine,
    },
    /// Run the official clients, all or one
    Sdk {
        client: Option<sdk::Client>,
        /// Store of the servers; `cql` is not part of `test`
        #[arg(long, value_enum, default_value_t = Engine::Local)]
        engine: Engine,
    },
    /// Frameworks that keep their data in tables, queues and blobs
    Frameworks,
    /// Copy a tree of files to blobs and back with an installed rclone; not part of `test`
    Rclone,
    /// Send the same generated requests to Tavola and to Azurite, and compare the answers
    #[command(disable_help_flag = true)]
    Differential {
        /// Arguments of `tavola-differential`; see `cargo xtask differential --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Measure the server beside its lower bounds and Azurite; not part of `test`
    Bench {
        /// Small tables only: five minutes instead of twenty
        #[arg(long)]
        quick: bool,
    },
    /// The pages of the console: built again, compared, and used in a headless browser
    Console {
        /// Take the screenshots of docs/console instead
        #[arg(long)]
        shots: bool,
    },
    /// Start, stop and disturb a Cassandra on 127.0.0.1 to 127.0.0.3
    Cassandra {
        #[command(subcommand)]
        command: cassandra::Command,
    },
    /// The cluster engine against its contract, on a Cassandra that is started for it
    Cluster,
    /// Three nodes and two servers, killed and paused in turn under load; not part of `test`
    ClusterFaults,
    /// `kill -9` under load, twenty rounds and more
    Crash {
        /// Blobs only: 60 rounds, and 10,000 uploads cut at random bytes; not part of `test`
        #[arg(long)]
        long: bool,
        /// Azurite instead: how many acknowledged inserts it loses; not part of `test`
        #[arg(long, conflicts_with = "long")]
        emulator: bool,
    },
}

/// Where the servers of a step keep their rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// In a data folder
    Local,
    /// In a Cassandra cluster
    Cql,
}

fn main() -> ExitCode {
    let steps: Vec<Step> = match Arguments::parse().chore {
        Chore::Test { only: Some(name) } => return Run::new(Select::Named(name)).all(&all_steps()),
        Chore::Test { only: None } => all_steps(),
        Chore::Check => check_steps(),
        Chore::Rust => vec![rust::FORMAT, rust::LINTS, rust::TESTS],
        Chore::Deny => vec![deny::LICENCES],
        Chore::Layers => vec![layers::CHECK],
        Chore::Docs { write: false } => vec![docs::CHECK],
        Chore::Docs { write: true } => vec![docs::WRITE],
        Chore::Corpus { service, write, engine } => vec![corpus::step(service, write, engine)],
        Chore::Sdk { client, engine } => sdk::steps(client, engine),
        Chore::Frameworks => vec![frameworks::PYTHON, frameworks::JAVASCRIPT, frameworks::RUST],
        Chore::Rclone => vec![rclone::COPIES],
        Chore::Differential { arguments } => return differential::with(&arguments),
        Chore::Bench { quick } => return bench::compare(quick),
        Chore::Console { shots: true } => return console::shots(),
        Chore::Console { shots: false } => vec![console::BUILD, console::BROWSER],
        Chore::Cassandra { command } => return cassandra::run_command(&command),
        Chore::Cluster => vec![cluster::CONFORMANCE, cluster::REFUSALS],
        Chore::ClusterFaults => vec![cluster::FAULTS],
        Chore::Crash { emulator: true, .. } => vec![crash::EMULATOR_KILLS],
        Chore::Crash { long: false, .. } => vec![crash::KILLS, crash::QUEUE_KILLS, crash::BLOB_KILLS],
        Chore::Crash { long: true, .. } => vec![crash::BLOB_KILLS_LONG],
    };
    Run::new(Select::All).all(&steps)
}

/// The quick checks.
fn check_steps() -> Vec<Step> {
    vec![rust::FORMAT, layers::CHECK, rust::LINTS, rust::UNIT_TESTS, docs::CHECK]
}

/// The whole test command. The quickest to fail comes first.
fn all_steps() -> Vec<Step> {
    vec![
        rust::FORMAT,
        layers::CHECK,
        rust::LINTS,
        docs::CHECK,
        rust::TESTS,
        rust::TESTS_BY_NAME,
        corpus::TABLES,
        corpus::QUEUES,
        corpus::BLOBS,
        sdk::PYTHON,
        sdk::JAVASCRIPT,
        sdk::JAVA,
        sdk::GO,
        sdk::RUST,
        frameworks::PYTHON,
        frameworks::JAVASCRIPT,
        frameworks::RUST,
        console::BUILD,
        console::BROWSER,
        differential::BOUNDED,
        crash::KILLS,
        crash::QUEUE_KILLS,
        crash::BLOB_KILLS,
        cluster::CONFORMANCE,
        cluster::REFUSALS,
        deny::LICENCES,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_takes_what_the_docs_name() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
        for line in [
            "test",
            "test --only merge_keeps",
            "check",
            "docs --write",
            "corpus tables --write",
            "corpus queues --engine cql",
            "sdk",
            "sdk java",
            "sdk --engine cql go",
            "differential --seed 7 --sequences 2000",
            "rclone",
            "console --shots",
            "bench --quick",
            "cassandra up --nodes 3",
            "cassandra kill 2",
            "cluster-faults",
            "crash --long",
        ] {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            assert!(Arguments::try_parse_from(words).is_ok(), "{line}");
        }
        for line in ["", "tests", "corpus files", "cassandra kill", "cassandra up --nodes 9", "sdk ruby"] {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            assert!(Arguments::try_parse_from(words).is_err(), "{line}");
        }
    }
}
