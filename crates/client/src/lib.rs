//! A client for Azure Table, Queue and Blob storage, whose calls are the table design patterns.
