//! Steps of the test command: each has a name, takes time, and gives counts.

use std::process::ExitCode;
use std::time::Instant;

/// One thing to run.
#[derive(Clone, Copy)]
pub struct Step {
    pub name: &'static str,
    pub server: Server,
    pub run: fn() -> Outcome,
}

/// What a step has to do with the built server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Unused,
    /// The step builds it.
    Built,
    /// The step runs it, and must not take an old one for today's.
    Needed,
}

/// What a step found; the text of an error says everything needed to mend it.
pub type Outcome = Result<Tally, String>;

/// Counts of checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// What a reader of the log wants to know, shown also when all is well.
    pub notes: Vec<String>,
    /// What went wrong.
    pub failures: Vec<String>,
}

impl Tally {
    /// One check that passed.
    pub fn one() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One check that could not be made here.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self { skipped: 1, notes: vec![format!("skipped: {}", reason.into())], ..Self::default() }
    }

    /// Counts a check: `Err` says what is wrong.
    pub fn check(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(failure) => {
                self.failed += 1;
                self.failures.push(failure);
            }
        }
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A run of steps.
pub struct Run {
    total: Tally,
    is_ci: bool,
    build_failed: bool,
}

impl Run {
    pub fn new() -> Self {
        let is_ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
        Self { total: Tally::default(), is_ci, build_failed: false }
    }

    /// Runs all steps, also after one has failed, and ends with the one line of counts.
    pub fn all(mut self, steps: &[Step]) -> ExitCode {
        for step in steps {
            self.one(step);
        }
        let Tally { passed, failed, skipped, .. } = self.total;
        let has_failed = failed > 0 || (self.is_ci && skipped > 0);
        if self.is_ci && skipped > 0 {
            println!("\nin CI nothing may be skipped");
        }
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
        if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn one(&mut self, step: &Step) {
        println!("== {}", step.name);
        let started = Instant::now();
        let outcome = match step.server {
            Server::Needed if self.build_failed => Err("not run: the server was not built".to_owned()),
            Server::Needed | Server::Built | Server::Unused => (step.run)(),
        };
        self.build_failed |= step.server == Server::Built && outcome.is_err();
        let tally = outcome.unwrap_or_else(|failure| Tally {
            failed: 1,
            failures: vec![failure],
            ..Tally::default()
        });
        for note in &tally.notes {
            println!("   {note}");
        }
        for failure in &tally.failures {
            println!("   FAILED: {failure}");
        }
        let seconds = started.elapsed().as_secs_f64();
        let Tally { passed, failed, skipped, .. } = tally;
        println!("   {passed} passed, {failed} failed, {skipped} skipped in {seconds:.1} s");
        self.total.add(&tally);
    }
}
