//! The patterns in processes that are killed.
//!
//! The program of this test starts itself as those processes: see `process`. `cargo test -p tavola-client --test
//! processes` kills every call at every request and gives one point of the second kill to each first one;
//! `TAVOLA_KILLS=all` in front kills at every pair of requests, and `TAVOLA_CROWD_SECONDS=60` keeps the crowd going for a
//! minute.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
#![allow(clippy::duplicated_attributes, reason = "an entity type has several indexes")]

mod cases;
mod crowd;
#[path = "../shared/crowd.rs"]
mod employees;
mod kill;
mod process;
