//! Evidence: whatever a document or the list of known differences names as evidence is there.
//!
//! In SECURITY.md, each `crates/…::name` is a test. In a table whose last column is headed `evidence`, each word in backquotes is a recorded session, a scenario of
//! the official clients, a file, or a test in a file (`path::name`). Sessions and wire notes live beside the
//! checkout; without them only the rest is checked.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::programs::{root, shared};

const DOCUMENT: &str = "docs/compatibility.md";
const SECURITY: &str = "SECURITY.md";
const LIST: &str = "tests/differential/known.toml";
const SCENARIOS: &str = "tests/sdk/scenarios.json";

/// Checks the compatibility table and the list of known differences.
pub fn check() -> Result<(), String> {
    let known = Known::read()?;
    let document = read(DOCUMENT)?;
    let mut missing: Vec<String> = evidence_of(&document)
        .into_iter()
        .filter(|word| !known.has(word))
        .map(|word| format!("{DOCUMENT}: `{word}`"))
        .collect();
    let security = read(SECURITY)?;
    missing.extend(
        tests_of(&security).filter(|word| !is_in_tree(word)).map(|word| format!("{SECURITY}: `{word}`")),
    );
    let list = read(LIST)?;
    missing.extend(
        values(&list, "session")
            .filter(|name| !known.has_session(name))
            .map(|name| format!("{LIST}: {name}")),
    );
    missing.extend(
        values(&list, "document").filter(|name| !is_document(name)).map(|name| format!("{LIST}: {name}")),
    );
    missing.sort();
    missing.dedup();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("evidence that is not there:\n  {}", missing.join("\n  ")))
    }
}

/// What may be named.
struct Known {
    /// `None` without the folder beside the checkout.
    sessions: Option<BTreeSet<String>>,
    scenarios: BTreeSet<String>,
}

impl Known {
    fn read() -> Result<Self, String> {
        let scenarios: Value = serde_json::from_str(&read(SCENARIOS)?).map_err(|error| error.to_string())?;
        let names = |list: &Value, name: &str| -> BTreeSet<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|item| item[name].as_str()).map(str::to_owned).collect()
        };
        Ok(Self { sessions: sessions()?, scenarios: names(&scenarios["scenarios"], "id") })
    }

    fn has_session(&self, name: &str) -> bool {
        self.sessions.as_ref().is_none_or(|sessions| sessions.contains(name))
    }

    fn has(&self, word: &str) -> bool {
        self.scenarios.contains(word) || is_in_tree(word) || self.has_session(word)
    }
}

fn sessions() -> Result<Option<BTreeSet<String>>, String> {
    let mut names = BTreeSet::new();
    for corpus in ["corpus/tables.jsonl", "corpus/queues.jsonl", "corpus/blobs.jsonl"] {
        let Ok(path) = shared(corpus) else { return Ok(None) };
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{} ({error})", path.display()))?;
        for line in text.lines() {
            let session: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            names.extend(session["name"].as_str().map(str::to_owned));
        }
    }
    Ok(Some(names))
}

/// `path`, or `path::name` of something that the file contains.
fn is_in_tree(word: &str) -> bool {
    let (path, name) = word.split_once("::").unwrap_or((word, ""));
    if !path.contains('/') {
        return false;
    }
    let path = root().join(path);
    if name.is_empty() {
        path.exists()
    } else {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(name))
    }
}

/// `tables.md section 7` of the wire notes, a whole note, or a public address.
fn is_document(name: &str) -> bool {
    if name.starts_with("https://") {
        return true;
    }
    let (file, section) = name.split_once(" section ").unwrap_or((name, ""));
    let Ok(folder) = shared("protocol") else { return true };
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else { return false };
    section.is_empty() || text.contains(&format!("\n## {section}. "))
}

/// The words in backquotes of every cell in a last column headed `evidence`.
fn evidence_of(document: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut is_evidence = false;
    for line in document.lines() {
        let last = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        match line.starts_with('|') {
            false => is_evidence = false,
            true if last == "evidence" => is_evidence = true,
            true if is_evidence => words.extend(last.split('`').skip(1).step_by(2)),
            true => {}
        }
    }
    words
}

/// The tests in backquotes: `crates/path::name`.
fn tests_of(document: &str) -> impl Iterator<Item = &str> {
    let words = document.split('`').skip(1).step_by(2);
    words.filter(|word| word.starts_with("crates/") && word.contains("::"))
}

/// The values of `key = "value"` in lines that tell evidence.
fn values<'a>(list: &'a str, key: &'static str) -> impl Iterator<Item = &'a str> {
    let opening = format!("{key} = \"");
    let lines = list.lines().filter(|line| line.starts_with("evidence = "));
    lines.filter_map(move |line| line.split_once(&opening)?.1.split('"').next())
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(path)).map_err(|error| format!("{path} must be there ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_read_from_tables_and_from_the_list() {
        let document = "| a | evidence |\n|---|---|\n| `x` | `one`, `two/three::four` |\n\n| `b` | `c` |";
        assert_eq!(evidence_of(document), ["one", "two/three::four"]);
        let security = "fixed (`crates/a.rs::b`), see `--flag` and `crates/c.rs`";
        assert_eq!(tests_of(security).collect::<Vec<_>>(), ["crates/a.rs::b"]);
        let list = "session = \"no\"\nevidence = { session = \"yes\", document = \"tables.md section 7\" }";
        assert_eq!(values(list, "session").collect::<Vec<_>>(), ["yes"]);
        assert_eq!(values(list, "document").collect::<Vec<_>>(), ["tables.md section 7"]);
    }

    #[test]
    fn a_test_is_in_the_tree_only_if_its_file_names_it() {
        assert!(is_in_tree("crates/xtask/src/evidence.rs::a_test_is_in_the_tree_only_if_its_file_names_it"));
        assert!(!is_in_tree("crates/xtask/src/corpus.rs::no_such_test"));
        assert!(!is_in_tree("crates/nowhere.rs"));
        assert!(!is_in_tree("Cargo.toml"));
    }
}
