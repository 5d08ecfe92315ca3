//! Start the real server anywhere, talk to it, and try to make it lose something.
//!
//! ```no_run
//! use tavola_testkit::{Connection, Request, TestServer};
//! let server = TestServer::start().unwrap();
//! let mut connection = Connection::open(server.table_endpoint()).unwrap();
//! let response = connection.send(&Request::get("/Tables")).unwrap();
//! assert_eq!(response.status, 200);
//! ```

mod azurite;
mod server;
mod target;

#[cfg(feature = "client")]
pub mod blob_crash;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
pub mod crash;
#[cfg(feature = "client")]
mod under_load;

#[cfg(feature = "client")]
mod queue;
#[cfg(feature = "client")]
pub mod queue_crash;

pub use azurite::{Azurite, AzuriteService, azurite_command, free_port};
#[cfg(feature = "client")]
pub use client::{Connection, Request, Response};
#[cfg(feature = "client")]
pub use queue::{GotMessage, QueueConnection};
pub use server::{
    DataFolder, ServerOptions, StartError, TestServer, server_binary, store_arguments, workspace_root,
};
pub use target::{ClientTarget, EmulatorRun, run_on_emulator};
