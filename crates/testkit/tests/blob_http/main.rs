//! The blob service over the wire: what tools that rely on it do, in the order in which they do it.
//!
//! The test command runs all of it three times: on a data folder, and on a cluster with contents in rows and in a bucket
//! (`cargo xtask cluster`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod retained;
mod streams;
mod tools;
