//! Tables: create, list, query, delete, and what goes wrong.

use futures::StreamExt;
use serde_json::json;
use tavola_sdk_tour::tables::{entity, get, insert, pages, refused, service, statuses, table_names};
use tavola_sdk_tour::{cases, covers, text, unique_name};

#[tokio::test]
async fn a_table_is_created_listed_and_deleted_once() {
    let _covers = covers(&["table-create", "table-list", "table-delete"]);
    let table = service().table_client(unique_name("Listed"));
    table.create().await.unwrap();
    refused(table.create().await, 409, "TableAlreadyExists");
    let is_listed = |names: Vec<String>| names.iter().any(|name| name == table.table_name());
    assert!(is_listed(table_names(&service()).await.unwrap()));
    table.delete().await.unwrap();
    refused(table.delete().await, 404, "ResourceNotFound");
    assert!(!is_listed(table_names(&service()).await.unwrap()));
}

#[tokio::test]
async fn tables_are_filtered_and_come_in_pages() {
    let _covers = covers(&["table-query"]);
    let prefix = unique_name("page");
    let names: Vec<String> = ["a", "b", "c", "d", "e"].map(|letter| format!("{prefix}{letter}")).to_vec();
    for name in &names {
        service().table_client(name).create().await.unwrap();
    }
    let filter = format!("TableName ge '{prefix}' and TableName lt '{prefix}z'");
    let pages: Vec<_> = service().list().filter(filter).top(2).into_stream().collect().await;
    let pages: Vec<Vec<String>> = pages
        .into_iter()
        .map(|page| page.unwrap().tables.into_iter().map(|table| table.name).collect())
        .collect();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1]);
    assert_eq!(pages.concat(), names);
    for name in &names {
        service().table_client(name).delete().await.unwrap();
    }
}

#[tokio::test]
async fn bad_table_names_are_refused() {
    let _covers = covers(&["table-names"]);
    for case in cases("table_names_refused") {
        let created = service().table_client(text(case, "name")).create().await;
        refused(created, case["status"].as_u64().unwrap(), text(case, "code"));
    }
}

#[tokio::test]
async fn a_missing_table_is_told() {
    let _covers = covers(&["table-missing", "batch-table-missing"]);
    let table = service().table_client(unique_name("gone"));
    refused(insert(&table, &entity("p", "r", json!({}))).await, 404, "TableNotFound");
    refused(get(&table, "p", "r").await, 404, "TableNotFound");
    refused(pages(table.query()).await, 404, "TableNotFound");
    let transaction =
        table.partition_key_client("p").transaction().insert(entity("p", "r", json!({}))).unwrap();
    assert_eq!(statuses(transaction).await, [404]);
}
