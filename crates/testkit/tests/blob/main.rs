//! The blob service over the wire: what tools that rely on it do, in the order in which they do it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod streams;
mod tools;
