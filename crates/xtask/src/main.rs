//! Chores of the project. `cargo xtask test` is the one test command; its steps can be run alone.
//!
//! Nothing here links the server: steps run programs and read what they print, so this builds in seconds and
//! also when the server does not.

mod bench;
mod cassandra;
mod cluster;
mod corpus;
mod crash;
mod deny;
mod differential;
mod docs;
mod evidence;
mod frameworks;
mod markers;
mod programs;
mod repair;
mod rust;
mod sdk;
mod step;

use std::process::ExitCode;

use step::{Run, Step};

const USAGE: &str = "\
cargo xtask COMMAND

  test                    everything below; ends with `N passed, M failed, K skipped`
  rust                    format check, clippy and the tests of all crates
  deny                    licences and sources of dependencies
  docs [--write]          docs against code; --write renews the generated parts
  corpus tables [--as-recorded | --write]
                          recorded exchanges of the real service; --write renews the list of differences,
                          --as-recorded leaves out what crates/xtask/src/repair.rs mends
  corpus queues [--write] the same of queues
  corpus tables|queues --engine cql
                          the same from a server on Cassandra; not part of `test`
  sdk [python | javascript | java | go | rust]
                          the official clients, all or one
  sdk --engine cql [python | javascript | java | go | rust]
                          the same with servers on Cassandra; not part of `test`
  frameworks              frameworks that sit on tables and queues, in scenarios of their own
  differential [--seed N] [--sequences N] [--workers N] [--survey]
                          the same generated requests to us and to Azurite; what differs must be known
  bench [--quick]         how fast the server is beside its floors and Azurite; not part of `test`
  cassandra up [--nodes N] | down | kill N | pause N | resume N
                          a real Cassandra on 127.0.0.1 to 127.0.0.3, for the cluster engine; down removes its data
  cluster                 the cluster engine against its contract, on a Cassandra that is started for it, and the
                          refusal of an unsafe one
  cluster-faults          three nodes and two servers, killed and paused in turn under load; not part of `test`
  crash                   kill -9 under load, twenty rounds and more

With CI set, whatever cannot be run counts as failed.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let steps: Vec<Step> = match words.as_slice() {
        ["test"] => all_steps(),
        ["rust"] => vec![rust::FORMAT, rust::LINTS, rust::TESTS],
        ["deny"] => vec![deny::LICENCES],
        ["docs"] => vec![rust::SERVER, docs::CHECK],
        ["docs", "--write"] => vec![rust::SERVER, docs::WRITE],
        ["corpus", "tables"] => vec![rust::SERVER, corpus::TABLES],
        ["corpus", "tables", "--write"] => vec![rust::SERVER, corpus::TABLES_WRITE],
        ["corpus", "tables", "--as-recorded"] => vec![rust::SERVER, corpus::TABLES_AS_RECORDED],
        ["corpus", "queues"] => vec![rust::SERVER, corpus::QUEUES],
        ["corpus", "queues", "--write"] => vec![rust::SERVER, corpus::QUEUES_WRITE],
        ["sdk"] => [&[rust::SERVER], sdk::ALL.as_slice()].concat(),
        ["sdk", "--engine", "cql"] => [&[rust::SERVER], sdk::ALL_ON_CLUSTER.as_slice()].concat(),
        ["sdk", client] => match sdk::step(client, sdk::ALL) {
            Some(step) => vec![rust::SERVER, step],
            None => return usage(),
        },
        ["sdk", "--engine", "cql", client] => match sdk::step(client, sdk::ALL_ON_CLUSTER) {
            Some(step) => vec![rust::SERVER, step],
            None => return usage(),
        },
        ["frameworks"] => vec![rust::SERVER, frameworks::PYTHON, frameworks::JAVASCRIPT],
        ["differential", rest @ ..] => return differential::with(rest),
        ["bench"] => return bench::compare(&[]),
        ["bench", "--quick"] => return bench::compare(&["--quick"]),
        ["cassandra", rest @ ..] => {
            return cassandra::command(rest).unwrap_or_else(usage);
        }
        ["cluster"] => vec![rust::SERVER, cluster::CONFORMANCE, cluster::REFUSALS],
        ["cluster-faults"] => vec![rust::SERVER, cluster::FAULTS],
        ["corpus", "tables", "--engine", "cql"] => vec![rust::SERVER, corpus::TABLES_ON_CLUSTER],
        ["corpus", "queues", "--engine", "cql"] => vec![rust::SERVER, corpus::QUEUES_ON_CLUSTER],
        ["crash"] => vec![rust::SERVER, crash::KILLS, crash::QUEUE_KILLS],
        _ => return usage(),
    };
    Run::new().all(&steps)
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// The whole test command: what is quick to fail comes first.
fn all_steps() -> Vec<Step> {
    vec![
        rust::FORMAT,
        rust::LINTS,
        rust::SERVER,
        docs::CHECK,
        rust::TESTS,
        corpus::TABLES,
        corpus::QUEUES,
        sdk::PYTHON,
        sdk::JAVASCRIPT,
        sdk::JAVA,
        sdk::GO,
        sdk::RUST,
        frameworks::PYTHON,
        frameworks::JAVASCRIPT,
        differential::BOUNDED,
        crash::KILLS,
        crash::QUEUE_KILLS,
        cluster::CONFORMANCE,
        cluster::REFUSALS,
        deny::LICENCES,
    ]
}
