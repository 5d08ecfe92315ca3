//! The `object_store` crate's integration suite, function by function, each in a container of its own.
//!
//! The server comes in `TAVOLA_CONNECTION_STRING`. The client is told to use an emulator and finds it by
//! `AZURITE_BLOB_STORAGE_URL`: without the former it goes to the public host.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::LazyLock;

use object_store::ObjectStore;
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::integration;
use object_store::path::Path;

/// `host:port` of the Blob service.
static ADDRESS: LazyLock<String> = LazyLock::new(|| {
    let text = variable("TAVOLA_CONNECTION_STRING");
    let endpoint = text.split(';').find_map(|part| part.strip_prefix("BlobEndpoint=http://"));
    endpoint.and_then(|endpoint| endpoint.split('/').next()).expect("an endpoint of blobs").to_owned()
});

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: `cargo xtask frameworks` sets it"))
}

/// A client of a new container. The crate has no call that makes one, so a signature of `tavola sas` does.
fn store(container: &str) -> MicrosoftAzure {
    let container = container.replace('_', "-");
    let output = Command::new(variable("TAVOLA_BIN"))
        .args(["sas", "--services", "b", "--permissions", "rwdlac", "--expiry", "1h"])
        .output()
        .expect("the server's program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let token = String::from_utf8(output.stdout).expect("a token");
    let target = format!("/devstoreaccount1/{container}?restype=container&{}", token.trim());
    let mut socket = TcpStream::connect(&*ADDRESS).expect("a server");
    let head = format!(
        "PUT {target} HTTP/1.1\r\nHost: {}\r\nx-ms-version: 2021-12-02\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        &*ADDRESS
    );
    socket.write_all(head.as_bytes()).expect("a request");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    // Only the first test installs it; nothing here speaks TLS, but the client wants a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    assert_eq!(variable("AZURITE_BLOB_STORAGE_URL"), format!("http://{}", &*ADDRESS));
    MicrosoftAzureBuilder::new()
        .with_use_emulator(true)
        .with_container_name(container)
        .build()
        .expect("a client")
}

/// One test for one function of the suite.
macro_rules! suite {
    ($($name:ident($store:ident) $call:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            let $store = &store(stringify!($name));
            $call.await;
        })*
    };
}

suite! {
    put_get_delete_list(store) integration::put_get_delete_list(store);
    put_get_attributes(store) integration::put_get_attributes(store);
    get_opts(store) integration::get_opts(store);
    put_opts(store) integration::put_opts(store, true);
    stream_get(store) integration::stream_get(store);
    list_uses_directories_correctly(store) integration::list_uses_directories_correctly(store);
    list_with_delimiter(store) integration::list_with_delimiter(store);
    list_with_offset_exclusivity(store) integration::list_with_offset_exclusivity(store);
    list_paginated(store) integration::list_paginated(store, store);
    rename_and_copy(store) integration::rename_and_copy(store);
    copy_if_not_exists(store) integration::copy_if_not_exists(store);
    copy_rename_nonexistent_object(store) integration::copy_rename_nonexistent_object(store);
    multipart(store) integration::multipart(store, store);
    multipart_put_part_out_of_order(store) integration::multipart_put_part_out_of_order(store, store);
    multipart_race_condition(store) integration::multipart_race_condition(store, false);
    multipart_out_of_order(store) integration::multipart_out_of_order(store);
}

#[tokio::test]
async fn get_nonexistent_object() {
    let store: &dyn ObjectStore = &store("get_nonexistent_object");
    let error = integration::get_nonexistent_object(store, Some(Path::from("none"))).await.unwrap_err();
    assert!(matches!(error, object_store::Error::NotFound { .. }), "{error:?}");
}
