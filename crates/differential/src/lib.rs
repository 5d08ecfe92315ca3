//! The differential test: the same generated requests to our server and to the emulator that we replace.
//!
//! Sequences are made from a seed alone ([`generate`]). Each is sent to both servers; answers are brought into
//! one form, in which ids, times, ETags and tokens no longer tell which server made them up; what still differs must
//! stand in `tests/differential/known.toml` with the evidence of who is right.
//!
//! Read in this order: `call` is a request with what only an answer can tell left open; `generate` makes them;
//! `peer` fills in and sends; `answer` brings into form; `known` is the list; `run` compares and reports.

mod call;
pub mod generate;

mod answer;
mod flatten;
mod peer;

mod known;
mod run;
mod shorten;

pub use known::{Evidence, Known, KnownDifferences};
pub use run::{Options, Report, run};
