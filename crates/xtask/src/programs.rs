//! Running other programs and keeping what they print.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lines of a failing program that are shown.
const SHOWN_LINES_MAX: usize = 200;

/// What a program printed, both outputs together, and whether it succeeded.
pub struct Finished {
    pub succeeded: bool,
    pub output: String,
    shown: String,
}

impl Finished {
    /// Nothing, or the end of what was printed.
    pub fn check(&self) -> Result<(), String> {
        if self.succeeded { Ok(()) } else { Err(self.failure()) }
    }

    /// The command, the tests that it says have failed, and the end of what it printed.
    pub fn failure(&self) -> String {
        let mut shown = vec![self.shown.as_str()];
        shown.extend(failed_tests(&self.output));
        let lines: Vec<&str> = self.output.lines().collect();
        shown.extend(&lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..]);
        shown.join("\n")
    }
}

/// The lines of a TAP report that tell of failed tests, which may be far from its end.
fn failed_tests(output: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in output.lines() {
        is_inside |= line.trim_start().starts_with("not ok ");
        if is_inside && found.len() < SHOWN_LINES_MAX {
            found.push(line);
        }
        is_inside &= line.trim() != "...";
    }
    found
}

/// Runs a program in the workspace to its end.
pub fn run(command: &mut Command) -> Result<Finished, String> {
    let shown = format!("{command:?}");
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let log_path = root().join("target").join(format!("xtask-{}-{run}.log", std::process::id()));
    let io = |error: std::io::Error| format!("cannot run {shown} ({error})");
    std::fs::create_dir_all(root().join("target")).map_err(io)?;
    let log = std::fs::File::create(&log_path).map_err(io)?;
    // Both outputs in one file, so that a failure is told in the order it happened.
    let status = command
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(io)?)
        .stderr(log)
        .status()
        .map_err(io)?;
    let output = std::fs::read(&log_path).map_err(io)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    // A log that stays behind is only clutter in the target folder.
    let _ = std::fs::remove_file(&log_path);
    Ok(Finished { succeeded: status.success(), output, shown })
}

/// Cargo, the one that runs us.
pub fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// The workspace.
pub fn root() -> PathBuf {
    tavola_testkit::workspace_root()
}

/// The server that the steps use.
pub fn server_binary() -> PathBuf {
    release_program("tavola")
}

/// A program of the release build. Cargo may build outside of the checkout; this program lies in the same folder.
pub fn release_program(name: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let target = own.as_deref().and_then(|own| own.parent()?.parent());
    target.map_or_else(|| root().join("target"), Path::to_owned).join("release").join(name)
}

/// A file beside the checkout that not everyone has.
pub fn shared(path: &str) -> Result<PathBuf, String> {
    let path = root().join("../shared").join(path);
    if path.exists() { Ok(path) } else { Err(format!("{} is not there", path.display())) }
}

/// Whether a program can be started here; if not, the text says which one is missing.
pub fn installed(program: &str) -> Result<(), String> {
    let found = std::env::var_os("PATH")
        .is_some_and(|paths| std::env::split_paths(&paths).any(|folder| folder.join(program).is_file()));
    if found { Ok(()) } else { Err(format!("{program} is not installed")) }
}

/// Whether a file under a folder contains a text. Packages that were installed there do not count.
pub fn contains(folder: &Path, extension: &str, text: &str) -> bool {
    const FOREIGN: [&str; 3] = ["node_modules", "target", ".venv"];
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let is_foreign = path.file_name().is_some_and(|name| FOREIGN.iter().any(|foreign| name == *foreign));
        if path.is_dir() {
            return !is_foreign && contains(&path, extension, text);
        }
        path.extension().is_some_and(|found| found == extension)
            && std::fs::read_to_string(&path).is_ok_and(|found| found.contains(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_found_wherever_they_are() {
        let report = "ok 1 - a\n  ---\n  ...\n  not ok 2 - b\n    ---\n    error: 'c'\n    ...\nok 3 - d\n";
        assert_eq!(failed_tests(report), ["  not ok 2 - b", "    ---", "    error: 'c'", "    ..."]);
    }
}
