//! The blob service over the wire: what tools that rely on it do, in the order in which they do it.
//!
//! The test command runs all of it twice, on a data folder and on a cluster, and large blobs a third time, on a cluster with
//! contents in a bucket (`cargo xtask cluster`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod retained;
mod streams;
mod tools;
