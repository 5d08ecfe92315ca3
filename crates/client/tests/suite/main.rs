//! The client against the real server.

mod lost_answers;
mod support;
