//! rclone copies a tree of files to blobs and back, and finds both alike.
//!
//! It is not installed with the project's tools: Debian has it as a package (`apt-get install rclone`).

use std::path::Path;
use std::process::Command;

use crate::programs::{installed, root, run, server_binary};
use crate::sdk::servers::Servers;
use crate::step::{NO_NAMES, Outcome, Select, Server, Step, Tally};

pub const COPIES: Step = Step {
    name: "rclone copies a tree to blobs and back",
    server: Server::Needed,
    run: |_: &Select| copies(),
    has: NO_NAMES,
};

/// Names that need care in URLs, and sizes of none, one and several blocks of 4 MiB.
const FILES: [(&str, usize); 7] = [
    ("empty", 0),
    ("small.txt", 5),
    ("folder/inner/deep.bin", 70_000),
    ("folder/with space & percent%41.txt", 300),
    ("ünïcödé/鍵.txt", 1_000),
    ("plus+hash#question?.txt", 10),
    ("large.bin", 9_437_195),
];

fn copies() -> Outcome {
    if let Err(missing) = installed("rclone") {
        return Ok(Tally::skip(missing));
    }
    let folder = root().join("target").join(format!("rclone-{}", std::process::id()));
    let outcome = copies_in(&folder);
    // A tree that stays behind is only clutter in the target folder.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn copies_in(folder: &Path) -> Outcome {
    let (source, copy) = (folder.join("source"), folder.join("copy"));
    write_tree(&source).map_err(|error| format!("{} ({error})", source.display()))?;
    let servers = Servers::start_main(&[])?;
    let (source, copy) = (source.to_string_lossy(), copy.to_string_lossy());
    let mut tally = Tally::default();
    let steps: [&[&str]; 9] = [
        &["mkdir", "tavola:tree"],
        &["copy", &source, "tavola:tree/there"],
        &["check", &source, "tavola:tree/there"],
        &["copy", "tavola:tree/there", &copy],
        &["check", &source, &copy],
        // Within the account the server copies; then a move, a deletion and the end of the container.
        &["copy", "tavola:tree/there", "tavola:tree/again"],
        &["check", &source, "tavola:tree/again"],
        &["delete", "tavola:tree/there/folder"],
        &["purge", "tavola:tree"],
    ];
    let signed_url = signed_url(servers.blob_endpoint())?;
    for arguments in steps {
        tally.check(run(&mut remote(arguments, &signed_url))?.check());
    }
    Ok(tally)
}

/// The remote `tavola`, by variables: no configuration file is read. The older of its releases put the account in
/// front of the host unless they are given a signature.
fn remote(arguments: &[&str], signed_url: &str) -> Command {
    let mut command = Command::new("rclone");
    command
        .env("RCLONE_CONFIG", "/dev/null")
        .env("RCLONE_CONFIG_TAVOLA_TYPE", "azureblob")
        .env("RCLONE_CONFIG_TAVOLA_SAS_URL", signed_url)
        .args(["--retries", "1", "--low-level-retries", "1"])
        .args(arguments);
    command
}

/// The Blob service with a signature for everything in it.
fn signed_url(endpoint: &str) -> Result<String, String> {
    let mut command = Command::new(server_binary());
    command.args(["sas", "--services", "b", "--permissions", "rwdlacuptfx", "--expiry", "1h"]);
    let finished = run(&mut command)?;
    finished.check()?;
    Ok(format!("{endpoint}?{}", finished.output.trim()))
}

fn write_tree(folder: &Path) -> std::io::Result<()> {
    for (name, length) in FILES {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let bytes: Vec<u8> = (0..length).map(|at| (at.wrapping_mul(31) >> 3).to_le_bytes()[0]).collect();
        std::fs::write(path, bytes)?;
    }
    Ok(())
}
