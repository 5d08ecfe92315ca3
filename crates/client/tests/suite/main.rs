//! The client against the real server.

mod crowd;
mod derived;
mod indexes;
mod lost_answers;
mod reading;
mod support;
