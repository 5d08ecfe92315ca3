//! The queue service on the reference engine, with time under control.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
#[path = "../common/clock.rs"]
mod clock;
mod consumers;
mod faults;
mod model;
mod rules;
