//! Who may do what, over HTTP: tokens against the real server.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod bearer;
mod delegation;
mod fence;
mod guest;
mod limits;
mod revoke;
use tavola_system::SystemClock;

use tavola_model::{Clock as _, DateTime};

fn minutes_from_now(minutes: i64) -> DateTime {
    let ticks = i64::try_from(SystemClock.now().ticks()).unwrap() + minutes * 60 * 10_000_000;
    DateTime::from_ticks(u64::try_from(ticks).unwrap()).unwrap()
}
