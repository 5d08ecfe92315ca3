//! The machine's clock and its source of randomness: the real ones behind the traits of `model`.
//!
//! Everything else takes a [`Clock`] and a [`RandomSource`] as arguments, so that a simulated run replays from its
//! seed. Only programs and tests name the types here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tavola_model::{Clock, DateTime, RandomSource};

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        DateTime::from_unix_ticks(u64::try_from(since_epoch.as_nanos() / 100).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        // On Linux the clock that goes on while the machine sleeps: waking up is not a step of the time of day.
        #[cfg(target_os = "linux")]
        {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
        }
        #[cfg(not(target_os = "linux"))]
        {
            static START: std::sync::LazyLock<std::time::Instant> =
                std::sync::LazyLock::new(std::time::Instant::now);
            START.elapsed()
        }
    }
}

/// The source of randomness of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the system has a source of random bytes");
        bytes
    }
}
