//! The official Rust clients on a tour through the server: `azure_data_tables` for tables, as far as it goes, and
//! `azure_storage_queue` and `azure_storage_blob` for queues and blobs.

mod batches;
mod blobs;
mod containers;
mod entities;
mod queries;
mod queues;
mod table_access;
mod tables;
