//! What the tours share: the server comes in `TAVOLA_CONNECTION_STRING`, the scenarios that all clients share in
//! `TAVOLA_SCENARIOS`. A test names those it covers; the ones that passed go to the file `TAVOLA_COVERED`, one to
//! a line.

pub mod blobs;
pub mod tables;

use std::collections::HashMap;
use std::io::Write;
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::Value;

/// The shared list and its data.
pub static SCENARIOS: LazyLock<Value> = LazyLock::new(|| {
    let path = variable("TAVOLA_SCENARIOS");
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
});

/// The parts of the connection string.
pub static ACCOUNT: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let text = variable("TAVOLA_CONNECTION_STRING");
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
});

pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: `cargo xtask sdk rust` sets it"))
}

/// A list of the shared data.
pub fn cases(name: &str) -> &'static Vec<Value> {
    SCENARIOS[name].as_array().expect("a list of the scenarios")
}

/// A text of a case.
pub fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().expect("a text")
}

/// Tells, when it is dropped and the test has not failed, which scenarios the test covers.
pub struct Covers(&'static [&'static str]);

pub fn covers(ids: &'static [&'static str]) -> Covers {
    Covers(ids)
}

impl Drop for Covers {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let file = std::fs::File::options().append(true).create(true).open(variable("TAVOLA_COVERED"));
        file.and_then(|mut file| file.write_all((self.0.join("\n") + "\n").as_bytes())).expect("a file");
    }
}

/// A name that no other test has.
pub fn unique_name(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970").as_nanos();
    format!("{prefix}{now}{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What `tavola sas` prints.
pub fn signature(arguments: &[&str]) -> String {
    let output =
        Command::new(variable("TAVOLA_BIN")).arg("sas").args(arguments).output().expect("the server");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}
