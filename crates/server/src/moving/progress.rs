//! How far a long command is: a bar on a terminal, a line now and then anywhere else. On the error output, so that the
//! other holds results only.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const BAR_LEN: u64 = 24;
const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Rows between two readings of the clock.
const CHECK_EVERY: u64 = 256;

/// What is shown.
pub struct Progress {
    form: ProgressForm,
    phase: &'static str,
    /// Rows in all, where that is known.
    total: Option<u64>,
    done: u64,
    /// Rows that were done before this run.
    skipped: u64,
    checked: u64,
    began: Instant,
    shown: Instant,
}

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressForm {
    /// One line that changes.
    Bar,
    /// A line every now and then.
    Lines,
    /// Not at all.
    #[cfg(test)]
    Nothing,
}

impl ProgressForm {
    /// What suits the error output.
    pub fn of_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Bar } else { Self::Lines }
    }
}

impl Progress {
    pub fn new(form: ProgressForm) -> Self {
        let now = Instant::now();
        Self { form, phase: "", total: None, done: 0, skipped: 0, checked: 0, began: now, shown: now }
    }

    /// Begins a part of the work.
    pub fn begin(&mut self, phase: &'static str, total: Option<u64>) {
        let now = Instant::now();
        *self = Self { phase, total, done: 0, skipped: 0, checked: 0, began: now, shown: now, ..*self };
    }

    /// So many rows more are done.
    pub fn add(&mut self, rows: u64) {
        self.done += rows;
        if self.done - self.checked < CHECK_EVERY {
            return;
        }
        self.checked = self.done;
        let every = if self.form == ProgressForm::Bar { BAR_EVERY } else { LINE_EVERY };
        if self.shown.elapsed() >= every {
            self.show();
        }
    }

    /// So many rows were done already.
    pub fn skip(&mut self, rows: u64) {
        self.skipped += rows;
        self.add(rows);
    }

    /// Ends the part that was begun.
    pub fn end(&mut self) {
        self.show();
        if self.form == ProgressForm::Bar {
            eprintln!();
        }
    }

    fn show(&mut self) {
        self.shown = Instant::now();
        let line = self.line(self.began.elapsed());
        let mut out = std::io::stderr().lock();
        // Who does not see it loses nothing.
        let _ = match self.form {
            ProgressForm::Bar => write!(out, "\r{line}\x1b[K"),
            ProgressForm::Lines => writeln!(out, "{line}"),
            #[cfg(test)]
            ProgressForm::Nothing => Ok(()),
        };
        let _ = out.flush();
    }

    fn line(&self, elapsed: Duration) -> String {
        let Self { phase, done, skipped, .. } = self;
        #[expect(clippy::cast_precision_loss, reason = "shown to a person")]
        let rate = (done - skipped) as f64 / elapsed.as_secs_f64().max(0.001);
        let Some(total) = self.total else {
            return format!("{phase:<12} {done} rows, {rate:.0} rows/s");
        };
        let part = |of: u64| done.saturating_mul(of).checked_div(total).unwrap_or(of).min(of);
        let bar: String = (0..BAR_LEN).map(|index| if index < part(BAR_LEN) { '#' } else { '.' }).collect();
        format!("{phase:<12} [{bar}] {:>3} %  {done} of {total} rows, {rate:.0} rows/s", part(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_part_that_is_done_and_the_pace_of_this_run() {
        let mut progress = Progress::new(ProgressForm::Nothing);
        progress.begin("loading", Some(200));
        progress.skip(50);
        progress.add(50);
        let line = progress.line(Duration::from_secs(10));
        assert_eq!(line, "loading      [############............]  50 %  100 of 200 rows, 5 rows/s");
        progress.begin("counting", None);
        assert_eq!(progress.line(Duration::from_secs(1)), "counting     0 rows, 0 rows/s");
        progress.begin("reading", Some(0));
        let empty = progress.line(Duration::from_secs(1));
        assert_eq!(empty, "reading      [########################] 100 %  0 of 0 rows, 0 rows/s");
    }
}
