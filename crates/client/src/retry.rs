//! When and how often a request is sent again.
//!
//! Full jitter, so that clients that failed together do not come back together; the server's word where it gives one;
//! one deadline over all tries; and a budget for the whole account, so that an outage is not multiplied.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Tokens that one retry takes; a request gives [`RetrySettings::budget_percent`] of them back.
const TOKENS_PER_RETRY: u32 = 100;

/// How requests are repeated.
///
/// ```
/// use std::time::Duration;
/// use tavola_client::RetrySettings;
/// let settings = RetrySettings { deadline: Duration::from_secs(5), ..RetrySettings::default() };
/// assert_eq!(settings.tries_max, 8);
/// ```
#[derive(Clone, Debug)]
pub struct RetrySettings {
    /// Tries in all, the first included.
    pub tries_max: u32,
    /// The longest first wait; it doubles with each try. The wait itself is chosen between zero and this.
    pub delay: Duration,
    /// The longest wait, unless the server asks for a longer one.
    pub delay_max: Duration,
    /// For all tries of one call together.
    pub deadline: Duration,
    /// For one try.
    pub try_timeout: Duration,
    /// How many retries there may be for a hundred requests, over the whole account.
    pub budget_percent: u32,
    /// Retries that are allowed at once before the budget counts.
    pub budget_reserve: u32,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            tries_max: 8,
            delay: Duration::from_millis(100),
            delay_max: Duration::from_secs(10),
            deadline: Duration::from_secs(60),
            try_timeout: Duration::from_secs(30),
            budget_percent: 10,
            budget_reserve: 100,
        }
    }
}

impl RetrySettings {
    /// How long to wait before try number `attempt + 1`, given a random number.
    pub(crate) fn wait(&self, attempt: u32, asked: Option<Duration>, random: u64) -> Duration {
        let longest = self.delay.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.delay_max);
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let jitter = Duration::from_nanos(random % nanos.saturating_add(1).max(1));
        asked.map_or(jitter, |asked| asked + jitter)
    }
}

/// What is left for retries.
#[derive(Debug)]
pub(crate) struct Budget {
    tokens: AtomicU32,
    tokens_max: u32,
    per_request: u32,
}

impl Budget {
    pub(crate) fn new(settings: &RetrySettings) -> Self {
        let tokens_max = settings.budget_reserve.saturating_mul(TOKENS_PER_RETRY);
        Self { tokens: tokens_max.into(), tokens_max, per_request: settings.budget_percent }
    }

    /// A request was made.
    pub(crate) fn earn(&self) {
        let tokens = self.tokens.load(Ordering::Relaxed);
        if tokens < self.tokens_max {
            // A lost race gives one request's worth less; that is no matter.
            self.tokens
                .store(tokens.saturating_add(self.per_request).min(self.tokens_max), Ordering::Relaxed);
        }
    }

    /// Whether one more retry is allowed.
    pub(crate) fn spend(&self) -> bool {
        let taken = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tokens| {
            tokens.checked_sub(TOKENS_PER_RETRY)
        });
        taken.is_ok()
    }
}

/// A random number from the system.
pub(crate) fn random() -> u64 {
    // Without a source of chance the longest wait is a fine choice.
    getrandom::u64().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_the_servers_word_is_a_minimum() {
        let settings = RetrySettings::default();
        assert!(settings.wait(1, None, u64::MAX - 1) <= settings.delay);
        for attempt in 1..40 {
            for random in [0, 1, u64::MAX / 3, u64::MAX] {
                let wait = settings.wait(attempt, None, random);
                assert!(
                    wait <= settings.delay * (1 << attempt.min(20)) && wait <= settings.delay_max,
                    "{attempt}"
                );
                let asked = Duration::from_secs(20);
                assert!(settings.wait(attempt, Some(asked), random) >= asked);
            }
        }
    }

    #[test]
    fn a_budget_allows_its_reserve_and_then_its_share() {
        let settings = RetrySettings { budget_reserve: 3, budget_percent: 10, ..RetrySettings::default() };
        let budget = Budget::new(&settings);
        assert_eq!((0..5).filter(|_| budget.spend()).count(), 3);
        (0..9).for_each(|_| budget.earn());
        assert!(!budget.spend());
        budget.earn();
        assert!(budget.spend());
        (0..1000).for_each(|_| budget.earn());
        assert_eq!((0..50).filter(|_| budget.spend()).count(), 3);
    }
}
