//! The client against the real server.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
#![allow(clippy::duplicated_attributes, reason = "an entity type has several indexes")]

mod crowd;
mod derived;
#[path = "../shared/crowd.rs"]
mod employees;
#[path = "../patterns/emulator.rs"]
mod emulator;
mod indexes;
mod lost_answers;
mod reading;
mod spans;
mod support;
mod token;
