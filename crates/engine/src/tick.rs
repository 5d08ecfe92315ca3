//! Ticks: versions that only go up.
//!
//! A tick is the time of the clock, or one more than the last tick if the clock is not ahead of it. So ticks
//! are unique and strictly increase in one engine even while the clock stands still or steps back. An engine
//! that outlives its process keeps the last tick and starts above it.
//!
//! So a clock that runs ahead for a moment would leave its mark until the real time has caught up. Therefore a step
//! ahead of more than an hour is followed only when it has lasted for ten minutes; until then ticks go on at the pace
//! of the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tavola_model::{Clock, DateTime};

/// How far the time of day may step ahead and be followed at once, in ticks: an hour.
const STEP_TICKS_MAX: u64 = 3600 * TICKS_PER_SECOND;
/// How long a larger step must last before it is followed, in ticks: ten minutes.
const SETTLE_TICKS: u64 = 600 * TICKS_PER_SECOND;
const TICKS_PER_SECOND: u64 = 10_000_000;

/// Gives ticks, to any number of threads.
pub struct TickClock {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
    /// The time of day less the monotonic time, at the last reading that was followed.
    offset: AtomicU64,
    /// The monotonic time at which a step ahead was first seen; 0 while there is none.
    step_seen: AtomicU64,
}

impl TickClock {
    /// Ticks above `last`, as near to the time of `clock` as that allows.
    pub fn starting_above(last: DateTime, clock: Arc<dyn Clock>) -> Self {
        let offset = AtomicU64::new(clock.now().ticks().saturating_sub(monotonic_ticks(clock.as_ref())));
        Self { clock, last: AtomicU64::new(last.ticks()), offset, step_seen: AtomicU64::new(0) }
    }

    /// A tick above every one given before.
    pub fn next(&self) -> DateTime {
        let now = self.followed_time();
        let tick_after = |last: u64| now.max(last + 1);
        let last = self.last.update(Ordering::AcqRel, Ordering::Acquire, tick_after);
        DateTime::from_ticks(tick_after(last)).expect("the clock is not at the end of year 9999")
    }

    /// The time of day, or what it would be without a step ahead that has not lasted yet. Threads that read at once
    /// may each note the same step; the notes agree.
    fn followed_time(&self) -> u64 {
        let monotonic = monotonic_ticks(self.clock.as_ref());
        let now = self.clock.now().ticks();
        let expected = monotonic + self.offset.load(Ordering::Relaxed);
        let is_step = now > expected + STEP_TICKS_MAX;
        let seen = self.step_seen.load(Ordering::Relaxed);
        match (is_step, seen) {
            (true, 0) => {
                let hours = (now - expected) / (3600 * TICKS_PER_SECOND);
                tracing::error!(hours, "clock stepped ahead; timestamps follow after ten minutes");
                self.step_seen.store(monotonic, Ordering::Relaxed);
                expected
            }
            (true, seen) if monotonic.saturating_sub(seen) < SETTLE_TICKS => expected,
            (true, _) | (false, _) => {
                self.step_seen.store(0, Ordering::Relaxed);
                self.offset.store(now.saturating_sub(monotonic), Ordering::Relaxed);
                now
            }
        }
    }

    /// Lets every later tick be above this one too.
    pub fn raise(&self, tick: DateTime) {
        self.last.fetch_max(tick.ticks(), Ordering::AcqRel);
    }

    /// The highest tick given so far.
    pub fn last(&self) -> DateTime {
        DateTime::from_ticks(self.last.load(Ordering::Acquire)).expect("only valid ticks are given")
    }
}

fn monotonic_ticks(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_nanos() / 100).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// Readings of the time of day, one for each tick; the last one stays. No monotonic time of its own.
    struct Readings(Mutex<Vec<u64>>);

    impl Clock for Readings {
        fn now(&self) -> DateTime {
            DateTime::from_ticks(self.0.lock().unwrap()[0]).unwrap()
        }
    }

    impl Readings {
        fn next(&self) {
            let mut readings = self.0.lock().unwrap();
            if readings.len() > 1 {
                readings.remove(0);
            }
        }
    }

    /// A time of day that is `ahead` of a monotonic time.
    #[derive(Default)]
    struct Stepping {
        monotonic: AtomicU64,
        ahead: AtomicU64,
    }

    impl Clock for Stepping {
        fn now(&self) -> DateTime {
            let ticks = self.monotonic.load(Ordering::Relaxed) + self.ahead.load(Ordering::Relaxed);
            DateTime::from_ticks(ticks).unwrap()
        }

        fn monotonic(&self) -> Duration {
            Duration::from_nanos(self.monotonic.load(Ordering::Relaxed) * 100)
        }
    }

    #[test]
    fn a_large_step_ahead_is_followed_only_when_it_has_lasted() {
        const SECOND: u64 = TICKS_PER_SECOND;
        let clock = Arc::new(Stepping::default());
        let at = |seconds: u64, ahead: u64| {
            clock.monotonic.store(seconds * SECOND, Ordering::Relaxed);
            clock.ahead.store(ahead * SECOND, Ordering::Relaxed);
        };
        at(1, 100);
        let ticks = TickClock::starting_above(DateTime::MIN, clock.clone());
        // (monotonic seconds, time of day ahead of it, expected tick in seconds)
        for (seconds, ahead, expected) in [
            (2, 100, 102),
            (3, 3_600, 3_603),               // within an hour: followed at once
            (4, 31_536_000, 3_604),          // a year ahead: not yet
            (300, 31_536_000, 3_900),        // still not
            (400, 3_600, 4_000),             // it was a glitch
            (500, 31_536_000, 4_100),        // again
            (1_099, 31_536_000, 4_699),      // for not quite ten minutes
            (1_100, 31_536_000, 31_537_100), // it means it
        ] {
            at(seconds, ahead);
            assert_eq!(ticks.next().ticks(), expected * SECOND, "{seconds} {ahead}");
        }
    }

    fn check(start: u64, readings: &[u64], expected: &[u64]) {
        let clock = Arc::new(Readings(Mutex::new(readings.to_vec())));
        let ticks = TickClock::starting_above(DateTime::from_ticks(start).unwrap(), clock.clone());
        let given: Vec<u64> = readings
            .iter()
            .map(|_| {
                let tick = ticks.next().ticks();
                clock.next();
                tick
            })
            .collect();
        assert_eq!(given, expected);
        assert_eq!(ticks.last().ticks(), *expected.last().unwrap());
    }

    #[test]
    fn ticks_follow_the_clock_while_it_moves_on() {
        check(0, &[10, 20, 35], &[10, 20, 35]);
    }

    #[test]
    fn ticks_are_above_one_from_elsewhere() {
        let clock = Arc::new(Readings(Mutex::new(vec![10, 11, 12])));
        let ticks = TickClock::starting_above(DateTime::MIN, clock);
        for (raised, expected) in [(100, 101), (50, 102), (102, 103)] {
            ticks.raise(DateTime::from_ticks(raised).unwrap());
            assert_eq!(ticks.next().ticks(), expected);
        }
    }

    #[test]
    fn ticks_go_up_while_the_clock_stands_still_or_steps_back() {
        check(0, &[10, 10, 3, 50], &[10, 11, 12, 50]);
        check(100, &[10, 100, 101, 102], &[101, 102, 103, 104]);
    }
}
