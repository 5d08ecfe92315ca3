//! Listeners, limits and the request pipeline. The only crate that knows hyper.
//!
//! A [`Pipeline`] answers one request; [`serve`] feeds it from a listener until told to stop, then lets the
//! requests under way finish.

mod case;
mod listen;
mod pipeline;
mod receive;
mod settings;

pub use listen::{Shutdown, serve};
pub use pipeline::{Pipeline, PipelineSettings};
pub use settings::FrontendSettings;
