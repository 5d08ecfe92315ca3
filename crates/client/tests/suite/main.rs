//! The client against the real server.

mod indexes;
mod lost_answers;
mod reading;
mod support;
