//! The wire format of the blob service: content as it is, everything else in headers and XML.
//!
//! The steps have the names they have for tables and queues: `route`, `decode` and `encode` of a server,
//! `request_out` and `answer_in` of a client. Content does not come through here: a command says how long it is, and an answer how long it will be.

mod answer_in;
mod batch;
mod conditions_out;
mod decode;
mod decode_blob;
mod decode_upload;
mod documents;
mod encode;
mod encode_blob;
mod headers;
mod list_in;
mod marker;
mod request_out;
mod route;
mod source;
mod tag_filter;
mod upload_out;
mod write;
mod write_list;

pub use answer_in::{
    AppendedBlock, FetchedBlob, FetchedContainer, FoundBlocks, Stamp, WrittenBlob, blob_deleted,
    blob_fetched, blob_put, block_appended, block_list_fetched, block_put, container_created,
    container_fetched, copy_started, lease_broken, lease_held, lease_released, metadata_set, snapshot_taken,
};
pub use batch::{BatchPart, batch_parts};
pub use decode::{BlobRequest, decode};
pub(crate) use encode::{SERVER, encode_error, encode_outcome, sender_of};
pub use list_in::{
    BlobsPage, ContainersPage, FoundContainer, FoundEntry, ListedBlobProperties, blobs_listed,
    containers_listed,
};
pub use request_out::{
    BlobQuery, ContainerQuery, copy_blob, create_container, delete_blob, delete_container, get_blob,
    get_blob_properties, get_block_list, get_container_properties, lease_blob, lease_container, list_blobs,
    list_containers, set_blob_metadata, set_container_metadata, snapshot_blob,
};
pub use route::{BlobRoute, route};
pub use upload_out::{append_block, put_blob, put_block, put_block_list};
