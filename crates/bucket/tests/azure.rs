//! Contents in a container of Azure Blob Storage keep the contract. The container is one of our own server, which the client
//! of the `object_store` crate takes for the emulator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness;

use std::sync::Arc;

use http::Method;
use object_store::azure::MicrosoftAzureBuilder;
use tavola_auth::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_engine::conformance::content;
use tavola_testkit::{Connection, Request, TestServer};

use crate::harness::BucketHarness;

const CONTAINER: &str = "contents";

#[test]
fn contents_in_an_azure_container_keep_the_contract() {
    let server = TestServer::start().unwrap();
    let create = Request::new(Method::PUT, format!("/{CONTAINER}?restype=container"));
    let made = Connection::open_blob(server.blob_endpoint()).unwrap().send(&create).unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let store = MicrosoftAzureBuilder::new()
        .with_account(DEVELOPMENT_ACCOUNT)
        .with_access_key(DEVELOPMENT_KEY)
        .with_endpoint(server.blob_endpoint().to_owned())
        .with_allow_http(true)
        .with_container_name(CONTAINER)
        .build()
        .unwrap();
    content::run(&BucketHarness::new(Arc::new(store), None));
}
