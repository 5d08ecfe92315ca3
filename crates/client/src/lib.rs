//! A client for Azure Table, Queue and Blob storage, whose calls are the table design patterns.

extern crate self as tavola_client;

mod error;

pub use error::{Error, KeyError, MapError, Result};
