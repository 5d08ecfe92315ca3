//! How much was answered, and when nothing was.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a request ended, for the one who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Answered,
    /// Refused without effect, or not sent.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// Counts by second.
pub struct Counts {
    started: Instant,
    seconds: Mutex<Vec<[u64; 3]>>,
}

impl Counts {
    pub fn new() -> Self {
        Self { started: Instant::now(), seconds: Mutex::default() }
    }

    pub fn add(&self, ended: Ended) {
        let second = usize::try_from(self.started.elapsed().as_secs()).unwrap_or(0);
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        if seconds.len() <= second {
            seconds.resize(second + 1, [0; 3]);
        }
        let index = match ended {
            Ended::Answered => 0,
            Ended::Refused => 1,
            Ended::Unknown => 2,
        };
        seconds[second][index] += 1;
    }

    pub fn report(&self, elapsed: Duration) -> String {
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let total = |index: usize| seconds.iter().map(|second| second[index]).sum::<u64>();
        let (answered, refused, unknown) = (total(0), total(1), total(2));
        let (mut gap, mut longest, mut silent) = (0u32, 0u32, 0u32);
        for second in seconds.iter() {
            gap = if second[0] == 0 { gap + 1 } else { 0 };
            silent += u32::from(second[0] == 0);
            longest = longest.max(gap);
        }
        let mut out = String::new();
        let all = (answered + refused + unknown).max(1);
        let share = |part: u64| part * 10_000 / all;
        let percent = |part: u64| format!("{}.{:02} %", share(part) / 100, share(part) % 100);
        let _ = write!(
            out,
            "requests: {answered} answered ({}), {refused} refused ({}), {unknown} unknown ({}) in {} s; ",
            percent(answered),
            percent(refused),
            percent(unknown),
            elapsed.as_secs()
        );
        let _ = write!(
            out,
            "seconds without an answer: {silent} of {}, at most {longest} in a row",
            seconds.len()
        );
        out
    }
}
