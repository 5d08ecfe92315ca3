//! What the tests of tables share: clients, entities and refusals of `azure_data_tables`.

use crate::{ACCOUNT, SCENARIOS, text, unique_name};
use azure_core::base64;
use azure_core_021::{Error, RetryOptions};
use azure_data_tables::clients::TableServiceClientBuilder;
use azure_data_tables::operations::QueryEntityResponse;
use azure_data_tables::prelude::*;
use azure_storage::{CloudLocation, StorageCredentials};
use futures::StreamExt;
use serde_json::{Value, json};

/// No retries: a test that needs one hides a fault.
pub fn with_credentials(credentials: StorageCredentials) -> TableServiceClient {
    let location = CloudLocation::Custom {
        account: ACCOUNT["AccountName"].clone(),
        uri: ACCOUNT["TableEndpoint"].clone(),
    };
    TableServiceClientBuilder::with_location(location, credentials).retry(RetryOptions::none()).build()
}

pub fn with_key(key: &str) -> TableServiceClient {
    with_credentials(StorageCredentials::access_key(ACCOUNT["AccountName"].clone(), key.to_owned()))
}

pub fn service() -> TableServiceClient {
    with_key(&ACCOUNT["AccountKey"])
}

pub async fn new_table() -> TableClient {
    let table = service().table_client(unique_name("rust"));
    table.create().await.unwrap();
    table
}

/// The crate leaves the doubling of apostrophes in addresses to its caller.
pub fn in_address(key: &str) -> String {
    key.replace('\'', "''")
}

pub fn at(table: &TableClient, partition: &str, row: &str) -> EntityClient {
    table.partition_key_client(in_address(partition)).entity_client(in_address(row))
}

pub fn entity(partition: &str, row: &str, properties: Value) -> Value {
    let mut entity = json!({"PartitionKey": partition, "RowKey": row});
    entity.as_object_mut().unwrap().extend(properties.as_object().unwrap().clone());
    entity
}

/// What was stored, without what the service adds.
pub fn plain(mut entity: Value) -> Value {
    entity
        .as_object_mut()
        .unwrap()
        .retain(|name, _| !name.starts_with("odata.") && !name.starts_with("Timestamp"));
    entity
}

pub async fn insert(table: &TableClient, entity: &Value) -> Result<(), Error> {
    table.insert::<_, Value>(entity)?.return_entity(true).await.map(|_| ())
}

pub async fn get(table: &TableClient, partition: &str, row: &str) -> Result<Value, Error> {
    at(table, partition, row).get::<Value>().await.map(|response| plain(response.entity))
}

pub async fn pages(
    query: azure_data_tables::operations::QueryEntityBuilder,
) -> Result<Vec<Vec<Value>>, Error> {
    let pages: Vec<Result<QueryEntityResponse<Value>, Error>> = query.into_stream().collect().await;
    pages.into_iter().map(|page| Ok(page?.entities.into_iter().map(plain).collect())).collect()
}

pub async fn list(table: &TableClient) -> Vec<Value> {
    pages(table.query()).await.unwrap().concat()
}

pub fn rows(entities: &[Value]) -> Vec<&str> {
    entities.iter().map(|entity| text(entity, "RowKey")).collect()
}

pub async fn table_names(service: &TableServiceClient) -> Result<Vec<String>, Error> {
    let pages: Vec<_> = service.list().into_stream().collect().await;
    let mut names = Vec::new();
    for page in pages {
        names.extend(page?.tables.into_iter().map(|table| table.name));
    }
    Ok(names)
}

/// Asserts that a call was refused. Of OData errors the crate reads no code; its text has the whole body.
#[track_caller]
pub fn refused<T>(result: Result<T, Error>, status: u64, code: &str) {
    let error = result.err().expect("a refusal");
    let response = error.as_http_error().unwrap_or_else(|| panic!("no answer: {error:?}"));
    assert_eq!(u64::from(u16::from(response.status())), status, "{response}");
    assert!(response.to_string().contains(code), "no {code} in {response}");
}

/// A shared value as JSON writes it, and its type where JSON does not tell.
pub fn written(value: &Value) -> (Value, Option<&str>) {
    let (kind, written) = (text(value, "type"), text(value, "value"));
    let times = usize::try_from(value["times"].as_u64().unwrap_or(1)).unwrap();
    match kind {
        "Edm.Boolean" => (json!(written == "true"), None),
        "Edm.Int32" => (json!(written.parse::<i32>().unwrap()), None),
        "Edm.Double" if written.parse::<f64>().unwrap().is_finite() => {
            (json!(written.parse::<f64>().unwrap()), None)
        }
        "Edm.String" => (json!(written.repeat(times)), None),
        "Edm.Binary" => (json!(base64::encode(base64::decode(written).unwrap().repeat(times))), Some(kind)),
        _ => (json!(written), Some(kind)),
    }
}

pub fn with_value(row: &str, name: &str, value: &Value) -> Value {
    let (written, kind) = written(value);
    let mut made = entity("p", row, json!({name: written}));
    if let Some(kind) = kind {
        made[format!("{name}@odata.type")] = json!(kind);
    }
    made
}

pub fn keys(kind: &str) -> Vec<&'static str> {
    SCENARIOS["keys"][kind].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect()
}

/// The status of each part of the answer; of a part that failed the crate keeps no more.
pub async fn statuses(transaction: azure_data_tables::operations::TransactionBuilder) -> Vec<u16> {
    let answer = transaction.await.unwrap();
    answer.operation_responses.into_iter().map(|part| u16::from(part.status_code)).collect()
}
