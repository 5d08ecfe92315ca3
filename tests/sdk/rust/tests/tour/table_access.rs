//! Signatures, keys and connection strings of the table service.

use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::prelude::*;
use azure_storage::{CloudLocation, ConnectionString, StorageCredentials};
use serde_json::json;
use tavola_sdk_tour::tables::{
    at, entity, get, insert, list, new_table, pages, refused, rows, service, table_names, with_credentials,
    with_key,
};
use tavola_sdk_tour::{covers, signature, unique_name, variable};

fn with_signature(arguments: &[&str]) -> TableServiceClient {
    with_credentials(StorageCredentials::sas_token(signature(arguments)).unwrap())
}

#[tokio::test]
async fn a_signature_is_held_to_letters_keys_and_time() {
    let _covers = covers(&["table-sas"]);
    let table = new_table().await;
    let name = table.table_name();
    for row in ["1", "2", "3"] {
        insert(&table, &entity("p", row, json!({}))).await.unwrap();
    }
    let guest = |limits: &[&str]| with_signature(&[&["--table", name], limits].concat()).table_client(name);
    let reader = guest(&["--permissions", "r", "--expiry", "1h"]);
    assert_eq!(rows(&list(&reader).await), ["1", "2", "3"]);
    refused(insert(&reader, &entity("p", "4", json!({}))).await, 403, "AuthorizationPermissionMismatch");
    let limited = guest(&["--permissions", "raud", "--expiry", "1h", "--from", "p/2", "--to", "p/2"]);
    assert_eq!(rows(&list(&limited).await), ["2"]);
    let outside = at(&limited, "p", "3").insert_or_merge(entity("p", "3", json!({}))).unwrap().await;
    refused(outside, 403, "AuthorizationFailure");
    let late = guest(&["--permissions", "r", "--expiry", "2020-01-01T00:00:00Z"]);
    refused(pages(late.query()).await, 403, "AuthenticationFailed");
    table.delete().await.unwrap();
}

#[tokio::test]
async fn an_account_signature_opens_kinds_of_resources() {
    let _covers = covers(&["table-sas-account"]);
    let table = new_table().await;
    let service = with_signature(&[
        "--permissions",
        "ra",
        "--services",
        "t",
        "--resource-types",
        "o",
        "--expiry",
        "1h",
    ]);
    insert(&service.table_client(table.table_name()), &entity("p", "r", json!({}))).await.unwrap();
    refused(table_names(&service).await, 403, "AuthorizationResourceTypeMismatch");
    table.delete().await.unwrap();
}

#[tokio::test]
async fn keys_and_connection_strings_open_tables() {
    let _covers = covers(&["table-shared-key", "table-connection-string"]);
    table_names(&service()).await.unwrap();
    refused(table_names(&with_key("d3Jvbmc=")).await, 403, "AuthenticationFailed");
    let text = variable("TAVOLA_CONNECTION_STRING");
    let parsed = ConnectionString::new(&text).unwrap();
    let location = CloudLocation::Custom {
        account: parsed.account_name.unwrap().to_owned(),
        uri: parsed.table_endpoint.unwrap().to_owned(),
    };
    let credentials = parsed.storage_credentials().unwrap();
    table_names(&TableServiceClientBuilder::with_location(location, credentials).build()).await.unwrap();
}

/// The crate parses `UseDevelopmentStorage=true` and makes no client of it; `emulator` is its word for that.
#[tokio::test]
async fn the_development_account_opens_tables() {
    let _covers = covers(&["table-development"]);
    assert_eq!(
        ConnectionString::new("UseDevelopmentStorage=true").unwrap().use_development_storage,
        Some(true)
    );
    let table = TableServiceClientBuilder::emulator().build().table_client(unique_name("dev"));
    table.create().await.unwrap();
    insert(&table, &entity("p", "r", json!({"a": 1}))).await.unwrap();
    assert_eq!(get(&table, "p", "r").await.unwrap(), entity("p", "r", json!({"a": 1})));
    table.delete().await.unwrap();
}
