//! The patterns of the table design guide, each one call.
//!
//! Each says what is atomic, what is eventual, who repairs after a crash, and how many requests it takes. The page
//! `docs/design-guide-in-code.md` goes through all of them.

mod blob_list;
pub mod denormal;
mod growth;
pub mod join;
pub mod large;
mod list_entity;
pub mod list_index;
pub mod log;
pub mod period;
pub mod series;
pub mod spread;
pub mod tail;
pub mod wide;
