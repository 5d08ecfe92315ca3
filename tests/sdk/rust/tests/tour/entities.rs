//! Entities one by one: every operation, type and key.

use azure_data_tables::prelude::*;
use serde_json::{Value, json};
use tavola_sdk_tour::tables::{
    at, entity, get, in_address, insert, keys, list, new_table, pages, plain, refused, with_value,
};
use tavola_sdk_tour::{cases, covers, text};

async fn every_operation(kind: &str) {
    let table = new_table().await;
    for key in keys(kind) {
        insert(&table, &entity(key, key, json!({"a": 1}))).await.unwrap();
        let client = at(&table, key, key);
        client.merge(entity(key, key, json!({"b": 2})), IfMatchCondition::Any).unwrap().await.unwrap();
        assert_eq!(get(&table, key, key).await.unwrap(), entity(key, key, json!({"a": 1, "b": 2})));
        client.update(entity(key, key, json!({"c": 3})), IfMatchCondition::Any).unwrap().await.unwrap();
        let quoted = in_address(key);
        let filter = format!("PartitionKey eq '{quoted}' and RowKey eq '{quoted}'");
        let found = pages(table.query().filter(filter)).await.unwrap().concat();
        assert_eq!(found, [entity(key, key, json!({"c": 3}))]);
        client.delete().await.unwrap();
    }
    table.delete().await.unwrap();
}

#[tokio::test]
async fn an_entity_is_inserted_once() {
    let _covers = covers(&["entity-insert", "entity-get"]);
    let table = new_table().await;
    refused(get(&table, "p", "r").await, 404, "ResourceNotFound");
    let made = entity("p", "r", json!({"a": 1, "b": "text"}));
    let answer = table.insert::<_, Value>(&made).unwrap().return_entity(true).await.unwrap();
    let found = at(&table, "p", "r").get::<Value>().await.unwrap();
    assert_eq!(found.etag, answer.etag);
    assert!(text(&found.entity, "Timestamp").starts_with("20"));
    assert_eq!(plain(found.entity), made);
    refused(insert(&table, &made).await, 409, "EntityAlreadyExists");
    table.delete().await.unwrap();
}

#[tokio::test]
async fn updates_merge_or_replace() {
    let _covers = covers(&["entity-merge", "entity-replace", "entity-missing"]);
    let table = new_table().await;
    let client = at(&table, "p", "r");
    let any = IfMatchCondition::Any;
    refused(client.merge(entity("p", "r", json!({})), any.clone()).unwrap().await, 404, "ResourceNotFound");
    refused(client.update(entity("p", "r", json!({})), any.clone()).unwrap().await, 404, "ResourceNotFound");
    insert(&table, &entity("p", "r", json!({"a": 1, "b": 2}))).await.unwrap();
    client.merge(entity("p", "r", json!({"b": 3})), any.clone()).unwrap().await.unwrap();
    assert_eq!(get(&table, "p", "r").await.unwrap(), entity("p", "r", json!({"a": 1, "b": 3})));
    client.update(entity("p", "r", json!({"c": 4})), any).unwrap().await.unwrap();
    assert_eq!(get(&table, "p", "r").await.unwrap(), entity("p", "r", json!({"c": 4})));
    table.delete().await.unwrap();
}

#[tokio::test]
async fn upserts_insert_then_merge_or_replace() {
    let _covers = covers(&["entity-upsert-merge", "entity-upsert-replace"]);
    let table = new_table().await;
    for properties in [json!({"a": 1}), json!({"b": 2})] {
        at(&table, "p", "m").insert_or_merge(entity("p", "m", properties.clone())).unwrap().await.unwrap();
        at(&table, "p", "r").insert_or_replace(entity("p", "r", properties)).unwrap().await.unwrap();
    }
    assert_eq!(get(&table, "p", "m").await.unwrap(), entity("p", "m", json!({"a": 1, "b": 2})));
    assert_eq!(get(&table, "p", "r").await.unwrap(), entity("p", "r", json!({"b": 2})));
    table.delete().await.unwrap();
}

#[tokio::test]
async fn an_entity_is_deleted_once() {
    let _covers = covers(&["entity-delete"]);
    let table = new_table().await;
    insert(&table, &entity("p", "r", json!({}))).await.unwrap();
    at(&table, "p", "r").delete().await.unwrap();
    refused(at(&table, "p", "r").delete().await, 404, "ResourceNotFound");
    table.delete().await.unwrap();
}

#[tokio::test]
async fn a_stale_etag_conflicts_and_a_fresh_one_does_not() {
    let _covers = covers(&["entity-etag"]);
    let table = new_table().await;
    let client = at(&table, "p", "r");
    let with = |a: u8| entity("p", "r", json!({"a": a}));
    insert(&table, &with(1)).await.unwrap();
    let stale = IfMatchCondition::Etag(client.get::<Value>().await.unwrap().etag);
    client.insert_or_replace(with(2)).unwrap().await.unwrap();
    let code = "UpdateConditionNotSatisfied";
    refused(client.merge(with(3), stale.clone()).unwrap().await, 412, code);
    refused(client.update(with(3), stale.clone()).unwrap().await, 412, code);
    assert_eq!(get(&table, "p", "r").await.unwrap(), with(2));
    let fresh = client.get::<Value>().await.unwrap().etag;
    let fresh = client.merge(with(4), fresh.into()).unwrap().await.unwrap().etag;
    let fresh = client.update(with(5), fresh.into()).unwrap().await.unwrap().etag;
    refused(client.delete().if_match(stale).await, 412, code);
    client.delete().if_match(IfMatchCondition::Etag(fresh)).await.unwrap();
    assert_eq!(list(&table).await, Vec::<Value>::new());
    table.delete().await.unwrap();
}

#[tokio::test]
async fn every_value_comes_back() {
    let _covers = covers(&["entity-types"]);
    let table = new_table().await;
    for value in cases("values") {
        let made = with_value(text(value, "name"), "value", value);
        insert(&table, &made).await.unwrap();
        assert_eq!(get(&table, "p", text(value, "name")).await.unwrap(), made);
    }
    table.delete().await.unwrap();
}

#[tokio::test]
async fn bad_entities_are_refused() {
    let _covers = covers(&["entity-refused"]);
    let table = new_table().await;
    for case in cases("entities_refused") {
        let (count, name) = (case["properties"].as_u64().unwrap(), text(case, "name"));
        let value = json!("x".repeat(usize::try_from(case["characters"].as_u64().unwrap()).unwrap()));
        let mut made = entity("p", "r", json!({}));
        for number in 0..count {
            let name = if count == 1 { name.to_owned() } else { format!("{name}{number}") };
            made[name] = value.clone();
        }
        refused(insert(&table, &made).await, case["status"].as_u64().unwrap(), text(case, "code"));
    }
    assert_eq!(list(&table).await, Vec::<Value>::new());
    table.delete().await.unwrap();
}

#[tokio::test]
async fn empty_keys_work_in_every_operation() {
    let _covers = covers(&["keys-empty"]);
    every_operation("empty").await;
}

#[tokio::test]
async fn quoted_keys_work_in_every_operation() {
    let _covers = covers(&["keys-quoted"]);
    every_operation("quoted").await;
}

#[tokio::test]
async fn unicode_keys_work_in_every_operation() {
    let _covers = covers(&["keys-unicode"]);
    every_operation("unicode").await;
}

#[tokio::test]
async fn reserved_keys_work_in_every_operation() {
    let _covers = covers(&["keys-reserved"]);
    every_operation("reserved").await;
}
