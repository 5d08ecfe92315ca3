//! The time of a queue: it follows the clock and never goes back.
//!
//! Messages are hidden until a time and expire at a time, so a clock that steps back would hide them for as long
//! as the step. Here a step back is taken out: from then on this time runs ahead of the clock by the step, at
//! the pace of the clock. The monotonic clock tells how large the step was, however long nobody asked. Every reading
//! is later than the one before.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tavola_model::{Clock, DateTime};

/// How far a clock may fall behind between two readings by being slewed, in ticks: a second.
const SLEW_TICKS_MAX: u64 = 10_000_000;

/// The time of one queue in this process.
#[derive(Debug)]
pub(super) struct QueueClock(Mutex<Readings>);

#[derive(Debug)]
struct Readings {
    /// Last reading of the clock.
    clock: u64,
    /// The monotonic time of that reading.
    monotonic: Duration,
    /// How far this time runs ahead of the clock.
    ahead: u64,
    /// Last reading of this time.
    last: u64,
}

impl QueueClock {
    /// A time that is later than `last`, the latest by which the queue was changed.
    pub fn starting_above(last: DateTime, clock: &dyn Clock) -> Self {
        let now = clock.now().ticks();
        let ahead = last.ticks().saturating_sub(now);
        Self(Mutex::new(Readings { clock: now, monotonic: clock.monotonic(), ahead, last: last.ticks() }))
    }

    pub fn now(&self, clock: &dyn Clock) -> DateTime {
        // The readings are whole at any time, so those behind a poisoned lock are good.
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (monotonic, now) = (clock.monotonic(), clock.now().ticks());
        let passed = u64::try_from(monotonic.saturating_sub(readings.monotonic).as_nanos() / 100);
        let expected = readings.clock.saturating_add(passed.unwrap_or(u64::MAX));
        let back = expected.saturating_sub(now);
        // A clock that is slewed is a little behind and no step, unless it is behind what it said itself.
        let is_step = back > SLEW_TICKS_MAX || now < readings.clock;
        readings.ahead += if is_step { back } else { 0 };
        (readings.clock, readings.monotonic) = (now, monotonic);
        readings.last = (now + readings.ahead).max(readings.last + 1);
        DateTime::from_ticks(readings.last).expect("the clock is not at the end of year 9999")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Held(AtomicU64);

    impl Clock for Held {
        fn now(&self) -> DateTime {
            DateTime::from_ticks(self.0.load(Ordering::Relaxed)).unwrap()
        }
    }

    fn check(start: u64, first: u64, readings: &[u64], expected: &[u64]) {
        let held = Held(AtomicU64::new(first));
        let clock = QueueClock::starting_above(DateTime::from_ticks(start).unwrap(), &held);
        let given: Vec<u64> = readings
            .iter()
            .map(|reading| {
                held.0.store(*reading, Ordering::Relaxed);
                clock.now(&held).ticks()
            })
            .collect();
        assert_eq!(given, expected);
    }

    #[test]
    fn time_follows_the_clock() {
        check(0, 100, &[100, 200, 350], &[100, 200, 350]);
    }

    #[test]
    fn a_clock_that_stands_still_still_gives_later_times_and_is_caught_up_with() {
        check(0, 100, &[100, 100, 100, 200], &[100, 101, 102, 200]);
    }

    #[test]
    fn after_a_step_back_time_goes_on_at_the_pace_of_the_clock() {
        check(0, 1000, &[1000, 400, 450, 500], &[1000, 1001, 1050, 1100]);
    }

    #[test]
    fn time_goes_on_after_a_restart_with_a_clock_that_stepped_back() {
        check(1000, 400, &[400, 450], &[1001, 1050]);
        check(1000, 2000, &[2000], &[2000]);
    }

    /// A time of day that steps, beside a monotonic time that does not.
    #[derive(Default)]
    struct Stepping {
        day: AtomicU64,
        monotonic: AtomicU64,
    }

    impl Clock for Stepping {
        fn now(&self) -> DateTime {
            DateTime::from_ticks(self.day.load(Ordering::Relaxed)).unwrap()
        }

        fn monotonic(&self) -> Duration {
            Duration::from_nanos(self.monotonic.load(Ordering::Relaxed) * 100)
        }
    }

    #[test]
    fn a_step_back_while_the_queue_is_idle_is_taken_out_whole() {
        const SECOND: u64 = 10_000_000;
        let stepping = Stepping::default();
        let at = |day: u64, monotonic: u64| {
            stepping.day.store(day * SECOND, Ordering::Relaxed);
            stepping.monotonic.store(monotonic * SECOND, Ordering::Relaxed);
        };
        at(10_000, 1);
        let clock = QueueClock::starting_above(DateTime::MIN, &stepping);
        // Nobody asks for 100 s, meanwhile the clock steps back by an hour: 100 s have passed.
        at(10_000 + 100 - 3_600, 101);
        assert_eq!(clock.now(&stepping).ticks(), 10_100 * SECOND);
        // A step back that is smaller than the time nobody asked.
        at(6_500 + 1_000 - 60, 1_101);
        assert_eq!(clock.now(&stepping).ticks(), 11_100 * SECOND);
    }
}
