//! Ticks: versions that only go up.
//!
//! A tick is the time of the clock, or one more than the last tick if the clock is not ahead of it. So ticks
//! are unique and strictly increase in one engine even while the clock stands still or steps back. An engine
//! that outlives its process keeps the last tick and starts above it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tavola_model::{Clock, DateTime};

/// Gives ticks, to any number of threads.
pub struct TickClock {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl TickClock {
    /// Ticks above `last`, as near to the time of `clock` as that allows.
    pub fn starting_above(last: DateTime, clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: AtomicU64::new(last.ticks()) }
    }

    /// A tick above every one given before.
    pub fn next(&self) -> DateTime {
        let now = self.clock.now().ticks();
        let tick_after = |last: u64| now.max(last + 1);
        let last = self.last.update(Ordering::AcqRel, Ordering::Acquire, tick_after);
        DateTime::from_ticks(tick_after(last)).expect("the clock is not at the end of year 9999")
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Readings(Mutex<Vec<u64>>);

    impl Clock for Readings {
        fn now(&self) -> DateTime {
            DateTime::from_ticks(self.0.lock().unwrap().remove(0)).unwrap()
        }
    }

    fn check(start: u64, readings: &[u64], expected: &[u64]) {
        let clock = Arc::new(Readings(Mutex::new(readings.to_vec())));
        let ticks = TickClock::starting_above(DateTime::from_ticks(start).unwrap(), clock);
        let given: Vec<u64> = readings.iter().map(|_| ticks.next().ticks()).collect();
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
