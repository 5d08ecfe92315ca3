//! From `azure_data_tables` 0.21: keep your structs at first, then give each its keys and its types.
//!
//! | in 0.21 | here |
//! |---|---|
//! | `TableServiceClient::new(account, credentials)` | `Account::from_connection_string(..)`, `Account::new(..)` |
//! | `table_client.insert(&entity)?.await?` | `table.insert(&Serde(entity), None).await?` |
//! | `partition_key_client(..).entity_client(..).get::<T>().await?` | `table.get::<Serde<T>>((p, r), None).await?`, an `Option` |
//! | `table_client.query().filter(text).into_stream::<T>()`, pages | `table.query::<Serde<T>>(In::partition(p)).stream()`, entities |
//! | a refused transaction is `Ok` | a refused transaction is `Err(Error::Transaction { index, .. })` |

mod support;

use serde::{Deserialize, Serialize};
use tavola_client::{Account, DateTime, DynamicEntity, Entity, Error, In, Result, Serde, filter};

/// A struct as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OldPerson {
    #[serde(rename = "PartitionKey")]
    city: String,
    #[serde(rename = "RowKey")]
    name: String,
    age: i32,
    // In 0.21 a time was text with its type beside it.
    born: String,
    #[serde(rename = "born@odata.type")]
    born_type: String,
}

/// The same data, with keys and types of its own.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{city}", row = "{name}")]
struct Person {
    city: String,
    name: String,
    age: i32,
    born: DateTime,
}

/// The example, on any account.
pub async fn run(account: Account) -> Result<()> {
    let table = account.table("People");
    table.create().await?;
    let ada = OldPerson {
        city: "London".into(),
        name: "Ada".into(),
        age: 36,
        born: "1815-12-10T00:00:00Z".into(),
        born_type: "Edm.DateTime".into(),
    };

    // First step: wrap the struct; nothing else about it changes.
    table.insert(&Serde(ada.clone()), None).await?;
    let read = table.get::<Serde<OldPerson>>(("London", "Ada"), None).await?;
    assert_eq!(read.map(|person| person.value.0), Some(ada));
    let text = table.query::<Serde<OldPerson>>(In::partition("London")).filter_by(filter!("age ge 30"));
    assert_eq!(text.collect().await?.len(), 1);

    // Second step: the same entities by a type with keys, exact types and checked filters.
    let query = table.query::<Person>(In::partition("London")).filter(|p| p.age.ge(30));
    let people = query.collect().await?;
    assert_eq!(people[0].born.to_string(), "1815-12-10T00:00:00Z");

    // A transaction that is refused is an error, and says which operation.
    let refused = table
        .transaction("London")
        .insert(&DynamicEntity::new(("London", "Bob")))?
        .insert(&people[0].value)?
        .commit()
        .await;
    assert!(matches!(refused, Err(Error::Transaction { index: 1, .. })));
    assert!(table.get::<DynamicEntity>(("London", "Bob"), None).await?.is_none());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run(support::account()?).await
}
