//! Filters, projections and pages.

use azure_core_021::prelude::Continuable;
use azure_data_tables::operations::QueryEntityResponse;
use azure_data_tables::prelude::*;
use futures::StreamExt;
use serde_json::{Value, json};
use tavola_sdk_tour::tables::{
    at, entity, insert, list, new_table, pages, plain, refused, rows, statuses, with_value,
};
use tavola_sdk_tour::{SCENARIOS, cases, covers, text};

async fn three_rows() -> TableClient {
    let table = new_table().await;
    for row in cases("query_rows") {
        let mut made = entity("p", text(row, "row"), json!({}));
        for value in row["values"].as_array().unwrap() {
            let one = with_value("", text(value, "name"), value);
            let properties = one.as_object().unwrap().clone().into_iter();
            made.as_object_mut().unwrap().extend(properties.filter(|(name, _)| !name.ends_with("Key")));
        }
        insert(&table, &made).await.unwrap();
    }
    table
}

#[tokio::test]
async fn filters_find_their_rows() {
    let _covers = covers(&["query-filters", "query-refused"]);
    let table = three_rows().await;
    for case in cases("filters") {
        let found = pages(table.query().filter(text(case, "filter").to_owned())).await.unwrap().concat();
        assert_eq!(json!(rows(&found)), case["rows"], "{}", case["filter"]);
    }
    for filter in cases("filters_refused") {
        refused(pages(table.query().filter(filter.as_str().unwrap().to_owned())).await, 400, "InvalidInput");
    }
    table.delete().await.unwrap();
}

#[tokio::test]
async fn a_projection_gives_the_named_properties_only() {
    let _covers = covers(&["query-select"]);
    let table = three_rows().await;
    let query = table.query().filter("RowKey eq 'a'").select("RowKey,text,missing");
    let found = pages(query).await.unwrap().concat();
    assert_eq!(
        (&found[0]["RowKey"], &found[0]["text"], &found[0]["missing"]),
        (&json!("a"), &json!("anna"), &Value::Null)
    );
    assert!(found[0].get("int").is_none());
    let one = plain(at(&table, "p", "b").get::<Value>().select("int").await.unwrap().entity);
    assert_eq!(one, json!({"int": 0}));
    table.delete().await.unwrap();
}

#[tokio::test]
async fn five_thousand_entities_come_in_pages() {
    let _covers = covers(&["page-automatic", "page-explicit"]);
    let table = new_table().await;
    let count = usize::try_from(SCENARIOS["page_entities"].as_u64().unwrap()).unwrap();
    let expected: Vec<String> = (0..count).map(|number| format!("{number:06}")).collect();
    for chunk in expected.chunks(100) {
        let all = chunk.iter().fold(table.partition_key_client("many").transaction(), |all, row| {
            all.insert(entity("many", row, json!({}))).unwrap()
        });
        assert!(statuses(all).await.iter().all(|status| (200..300).contains(status)));
    }
    assert_eq!(rows(&list(&table).await), expected);

    let size = u32::try_from(SCENARIOS["page_size"].as_u64().unwrap()).unwrap();
    let paged = pages(table.query().top(size)).await.unwrap();
    let (_, full) = paged.split_last().unwrap();
    assert!(full.iter().all(|page| u32::try_from(page.len()).unwrap() == size));
    assert_eq!(rows(&paged.concat()), expected);
    let first: QueryEntityResponse<Value> =
        table.query().top(size).into_stream().next().await.unwrap().unwrap();
    let (next_partition, next_row) = first.continuation().unwrap();
    let query =
        table.query().top(size).initial_partition_key(next_partition).initial_row_key(next_row.unwrap());
    assert_eq!(rows(&pages(query).await.unwrap().concat()), expected[size as usize..]);
    table.delete().await.unwrap();
}
