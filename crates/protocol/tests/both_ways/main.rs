//! What a client sends, a server reads as the same; what a server answers, a client reads as the same.
//!
//! Both directions are tried with generated values, and a client's half with every recorded answer of the real
//! service.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generate;
mod wire;

mod account;
mod blob;
mod hostile;
mod queue;
mod recorded;
mod table_answers;
mod table_requests;
