//! Steps of the test command: each has a name, takes time, and gives counts.

use std::process::ExitCode;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::rust;

/// The variable that turns every skipped step into a failure. The build sets it; `CI` has no meaning here, because
/// a hosted build may lack what a step needs.
pub const REQUIRE_ALL: &str = "TAVOLA_REQUIRE_ALL";

/// One thing to run.
#[derive(Clone, Copy)]
pub struct Step {
    pub name: &'static str,
    pub server: Server,
    pub run: fn(&Select) -> Outcome,
    /// Whether the step has a test whose name contains this text.
    pub has: fn(&str) -> bool,
}

/// For a step without tests that have names of their own.
pub const NO_NAMES: fn(&str) -> bool = |_| false;

/// Which tests of a step to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    All,
    /// Those whose name contains this text.
    Named(String),
}

impl Select {
    /// The text that names must contain.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Named(name) => Some(name),
        }
    }
}

/// Whether a step runs the release build of the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Unused,
    /// It is built first, so that no step takes an old one for today's.
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
        let mut tally = Self::default();
        tally.skip_one(reason);
        tally
    }

    /// The same with what another part of the step has counted.
    #[must_use]
    pub fn with(mut self, part: Self) -> Self {
        self.add(&part);
        self.notes.extend(part.notes);
        self.failures.extend(part.failures);
        self
    }

    /// Counts a check that could not be made here.
    pub fn skip_one(&mut self, reason: impl Into<String>) {
        self.skipped += 1;
        self.notes.push(format!("skipped: {}", reason.into()));
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
    select: Select,
    requires_all: bool,
    total: Tally,
    server: ServerBuild,
}

/// The release build, which a run starts with: its last crates keep one core busy, so it runs beside the first steps.
enum ServerBuild {
    /// No step of this run needs it.
    NotMeant,
    Running(JoinHandle<Outcome>),
    Done {
        succeeded: bool,
    },
}

impl Run {
    pub fn new(select: Select) -> Self {
        let requires_all = std::env::var(REQUIRE_ALL).is_ok_and(|value| value == "1" || value == "true");
        Self { select, requires_all, total: Tally::default(), server: ServerBuild::NotMeant }
    }

    /// Runs all steps, also after one has failed, and ends with the one line of counts.
    pub fn all(mut self, steps: &[Step]) -> ExitCode {
        let meant: Vec<_> = steps.iter().filter_map(|step| Some((step, self.part_of(step)?))).collect();
        if meant.iter().any(|(step, _)| step.server == Server::Needed) {
            self.server = ServerBuild::Running(thread::spawn(rust::build_server));
        }
        for (step, select) in meant {
            self.one(step, &select);
        }
        let code = self.code();
        let Tally { passed, failed, skipped, .. } = self.total;
        if self.requires_all && skipped > 0 {
            println!("\n{REQUIRE_ALL} is set: nothing may be skipped");
        }
        if let Some(name) = self.select.name()
            && passed + failed + skipped == 0
        {
            println!("\nno test has {name:?} in its name");
        }
        println!("\n{passed} passed, {failed} failed, {skipped} skipped");
        code
    }

    /// What this run means of a step; `None` if nothing.
    fn part_of(&self, step: &Step) -> Option<Select> {
        match &self.select {
            Select::Named(name) if !step.name.contains(name) => (step.has)(name).then(|| self.select.clone()),
            // The whole step, if the name is its own.
            _ => Some(Select::All),
        }
    }

    fn code(&self) -> ExitCode {
        let Tally { passed, failed, skipped, .. } = self.total;
        let found_nothing = self.select != Select::All && passed + skipped == 0;
        if failed > 0 || found_nothing || (self.requires_all && skipped > 0) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }

    fn one(&mut self, step: &Step, select: &Select) {
        if step.server == Server::Needed && !self.has_server() {
            self.timed(step.name, || Err("not run: the server was not built".to_owned()));
        } else {
            self.timed(step.name, || (step.run)(select));
        }
    }

    /// Whether the server was built; waits for the build.
    fn has_server(&mut self) -> bool {
        let succeeded = match std::mem::replace(&mut self.server, ServerBuild::NotMeant) {
            ServerBuild::NotMeant => false,
            ServerBuild::Done { succeeded } => succeeded,
            ServerBuild::Running(build) => {
                let failed = self.total.failed;
                self.timed("rest of the release build", || {
                    build.join().unwrap_or_else(|_| Err("the build panicked".to_owned()))
                });
                self.total.failed == failed
            }
        };
        self.server = ServerBuild::Done { succeeded };
        succeeded
    }

    fn timed(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        println!("== {name}");
        let started = Instant::now();
        let tally =
            work().unwrap_or_else(|failure| Tally { failed: 1, failures: vec![failure], ..Tally::default() });
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(name: &'static str, run: fn(&Select) -> Outcome, has: fn(&str) -> bool) -> Step {
        Step { name, server: Server::Unused, run, has }
    }

    fn succeeds(select: Select, requires_all: bool, steps: &[Step]) -> bool {
        let run = Run { select, requires_all, total: Tally::default(), server: ServerBuild::NotMeant };
        run.all(steps) == ExitCode::SUCCESS
    }

    const PASSES: Step = step("passes", |_| Ok(Tally::one()), |name| name == "one");
    const FAILS: Step = step("fails", |_| Err("broken".to_owned()), NO_NAMES);
    const SKIPS: Step = step("skips", |_| Ok(Tally::skip("not here")), NO_NAMES);

    #[test]
    fn a_skipped_step_fails_a_run_only_where_all_is_required() {
        assert!(succeeds(Select::All, false, &[PASSES, SKIPS]));
        assert!(!succeeds(Select::All, true, &[PASSES, SKIPS]));
        assert!(succeeds(Select::All, true, &[PASSES]));
        assert!(!succeeds(Select::All, false, &[PASSES, FAILS]));
    }

    #[test]
    fn a_name_picks_steps_that_have_it_and_finding_none_fails() {
        let named = |name: &str| Select::Named(name.to_owned());
        assert!(succeeds(named("one"), true, &[PASSES, FAILS, SKIPS]));
        assert!(!succeeds(named("two"), false, &[PASSES, FAILS, SKIPS]));
        assert!(!succeeds(named("fail"), false, &[PASSES, FAILS]));
        assert!(succeeds(named("passe"), false, &[PASSES, FAILS]));
    }
}
