//! `tavola`: settings, wiring, command line. The only crate that reads the environment.

mod account;
mod account_file;
mod accounts;
mod advising;
mod analytics;
mod banner;
mod cert;
mod cli;
mod cluster;
mod console;
mod control;
mod docs;
mod files;
mod folder_size;
mod health;
mod maintain;
mod membership;
mod metrics;
mod moving;
mod oidc;
mod otlp;
mod serve;
mod settings;
mod store;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Whatever this process writes, stored data above all, is for its owner only.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    match cli::run(std::env::args_os()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tavola: {error:#}");
            ExitCode::FAILURE
        }
    }
}
