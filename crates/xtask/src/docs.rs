//! Documents against code: every command and crate is written down, and the evidence that documents name is there.
//!
//! The tables of error codes and settings are printed by the server. `write` renews them; a unit test of the server
//! (`crates/server/src/docs.rs`) compares them, so that no step has to build it.

use std::path::PathBuf;

use crate::evidence;
use crate::markers;
use crate::programs::{cargo, root, run, shared};
use crate::step::{NO_NAMES, Outcome, Server, Step, Tally};

pub const CHECK: Step =
    Step { name: "docs against code", server: Server::Unused, run: |_| check(), has: NO_NAMES };
pub const WRITE: Step =
    Step { name: "docs renewed from code", server: Server::Unused, run: |_| write(), has: NO_NAMES };

/// A part of a document that the server itself prints.
struct Printed {
    document: &'static str,
    title: &'static str,
    /// The part of the document, and the command that prints it.
    part: &'static str,
}

const PRINTED: [Printed; 3] = [
    Printed { document: "docs/errors.md", title: "Error codes", part: "errors" },
    Printed { document: "docs/settings.md", title: "Settings", part: "settings" },
    Printed { document: "docs/metrics.md", title: "Metrics", part: "metrics" },
];

fn check() -> Outcome {
    let mut tally = Tally::default();
    tally.check(check_commands());
    tally.check(check_crates());
    tally.check(evidence::check());
    if let Err(missing) = shared("corpus") {
        tally.skip_one(format!("recorded sessions that documents name as evidence: {missing}"));
    }
    Ok(tally)
}

fn write() -> Outcome {
    for printed in &PRINTED {
        let text = printed_by_server(printed)?;
        let path = root().join(printed.document);
        let document = match std::fs::read_to_string(&path) {
            Ok(document) => markers::with_part(&document, printed.part, &text)
                .ok_or_else(|| format!("{} has no part {:?}", printed.document, printed.part))?,
            Err(_) => format!("# {}\n\n{}", printed.title, markers::new_part(printed.part, &text)),
        };
        std::fs::write(&path, document).map_err(|error| format!("{} ({error})", path.display()))?;
    }
    check()
}

fn printed_by_server(printed: &Printed) -> Result<String, String> {
    let mut server = cargo(["run", "-q", "-p", "tavola-server", "--"]);
    let finished = run(server.arg(printed.part))?;
    finished.check()?;
    Ok(finished.output)
}

/// Where commands are, and the enums that list them.
const COMMANDS: [(&str, &str); 4] = [
    ("crates/model/src/command.rs", "pub enum AccountCommand {"),
    ("crates/model/src/table/command.rs", "pub enum TableCommand {"),
    ("crates/model/src/queue/command.rs", "pub enum QueueCommand {"),
    ("crates/model/src/blob/command.rs", "pub enum BlobCommand {"),
];

/// Every command is in the compatibility table.
fn check_commands() -> Result<(), String> {
    let mut commands: Vec<String> = Vec::new();
    for (path, opening) in COMMANDS {
        let source = read(path)?;
        let found = variants(&source, opening);
        if found.is_empty() {
            return Err(format!("{path} has no `{opening}`: has the enum moved?"));
        }
        commands.extend(found.into_iter().map(str::to_owned));
    }
    let document = read("docs/compatibility.md")?;
    let missing: Vec<String> =
        commands.into_iter().filter(|command| !document.contains(&format!("`{command}`"))).collect();
    match missing.as_slice() {
        [] => Ok(()),
        missing => Err(format!("docs/compatibility.md does not name `{}`", missing.join("`, `"))),
    }
}

/// Every crate is in the code map.
fn check_crates() -> Result<(), String> {
    let document = read("ARCHITECTURE.md")?;
    let folders = std::fs::read_dir(root().join("crates")).map_err(|error| error.to_string())?;
    let mut names: Vec<String> = folders
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.retain(|name| !document.contains(&format!("`{name}`")));
    match names.as_slice() {
        [] => Ok(()),
        missing => Err(format!("ARCHITECTURE.md does not name `{}`", missing.join("`, `"))),
    }
}

/// The variants of an enum in source text that rustfmt has laid out.
fn variants<'a>(source: &'a str, opening: &str) -> Vec<&'a str> {
    let body = source.split_once(opening).map_or("", |(_, rest)| rest);
    body.lines()
        .take_while(|line| *line != "}")
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .filter_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric()).next())
        .collect()
}

fn read(path: &str) -> Result<String, String> {
    let path: PathBuf = root().join(path);
    std::fs::read_to_string(&path).map_err(|error| format!("{} must be there ({error})", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_read_from_source() {
        let source = "pub enum Command {\n    /// Text.\n    First(Name),\n    Second,\n    Third {\n        Inner: u8,\n    },\n}\n\nimpl X {\n    Not\n}\n";
        assert_eq!(variants(source, "pub enum Command {"), ["First", "Second", "Third"]);
        assert!(variants("", "pub enum Command {").is_empty());
    }
}
