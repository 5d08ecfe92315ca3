//! The official Rust clients on a tour through the server: `azure_data_tables` for tables, as far as it goes, and
//! `azure_storage_queue` for queues.

mod batches;
mod entities;
mod queries;
mod queues;
mod table_access;
mod tables;
