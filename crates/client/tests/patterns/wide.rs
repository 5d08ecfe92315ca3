//! Wide entities.

use tavola_client::{DynamicEntity, Entity, Error};

use crate::Counted;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "notes_{id:06}")]
struct Notes {
    department: String,
    id: u32,
    text: String,
    photo: Option<Vec<u8>>,
}

fn notes(characters: usize) -> Notes {
    Notes {
        department: "Sales".into(),
        id: 7,
        text: "x".repeat(characters),
        photo: Some(vec![9; characters]),
    }
}

fn year(days: usize) -> DynamicEntity {
    let empty = DynamicEntity::new(("Sales", "2026"));
    (0..days).fold(empty, |year, day| year.with(&format!("Day{day:04}"), i64::try_from(day).unwrap()))
}

#[tokio::test]
async fn a_wide_entity_is_written_and_read_as_one() {
    let counted = Counted::start();
    let table = counted.table("Wide").await;
    let key = ("Sales", "notes_000007");

    let (inserted, requests) = counted.count(table.insert_wide(&notes(700_000))).await;
    inserted.unwrap();
    assert_eq!(requests, 1);
    let (read, requests) = counted.count(table.get_wide::<Notes>(key)).await;
    let mut read = read.unwrap().unwrap();
    assert_eq!((&read.value, read.parts, requests), (&notes(700_000), 3, 2));
    assert!(matches!(table.insert_wide(&notes(1)).await, Err(Error::Taken { .. })));

    read.text = "short".into();
    read.photo = None;
    let (saved, requests) = counted.count(table.save_wide(&mut read)).await;
    saved.unwrap();
    assert_eq!((read.parts, requests), (1, 1));
    let (again, requests) = counted.count(table.get_wide::<Notes>(key)).await;
    assert_eq!((again.unwrap().unwrap().value, requests), (read.value.clone(), 1));
    let rows = table.query::<DynamicEntity>(tavola_client::In::partition("Sales")).collect().await.unwrap();
    assert_eq!(rows.len(), 1, "parts that are no more are removed");
}

#[tokio::test]
async fn a_put_covers_what_was_there_and_a_late_save_is_refused() {
    let counted = Counted::start();
    let table = counted.table("Wide").await;
    table.put_wide(&year(600)).await.unwrap();
    let mut late = table.get_wide::<DynamicEntity>(("Sales", "2026")).await.unwrap().unwrap();
    assert_eq!((late.parts, late.properties.len()), (3, 600));

    let (put, requests) = counted.count(table.put_wide(&year(300))).await;
    put.unwrap();
    assert_eq!(requests, 2);
    assert_eq!(table.get_wide::<DynamicEntity>(("Sales", "2026")).await.unwrap().unwrap().value, year(300));
    assert!(matches!(table.save_wide(&mut late).await, Err(Error::Changed)));

    let (deleted, requests) = counted.count(table.delete_wide(("Sales", "2026"))).await;
    assert_eq!((deleted.unwrap(), requests), (true, 2));
    assert!(!table.delete_wide(("Sales", "2026")).await.unwrap());
    let left = table.query::<DynamicEntity>(tavola_client::In::partition("Sales")).collect().await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn readers_never_see_parts_of_two_writes() {
    let counted = Counted::start();
    let table = counted.table("Wide").await;
    let filled = |value: i64, days: usize| {
        let empty = DynamicEntity::new(("Sales", "2026"));
        (0..days).fold(empty, |year, day| year.with(&format!("Day{day:04}"), value))
    };
    table.put_wide(&filled(0, 600)).await.unwrap();
    let writer = {
        let table = table.clone();
        tokio::spawn(async move {
            for round in 1..60 {
                let days = if round % 2 == 0 { 600 } else { 300 };
                table.put_wide(&filled(round, days)).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        match table.get_wide::<DynamicEntity>(("Sales", "2026")).await {
            Ok(year) => {
                let year = year.unwrap();
                let first = year.get("Day0000").cloned();
                assert!(year.properties.values().all(|value| Some(value) == first.as_ref()));
                assert!(year.properties.len() == 600 || year.properties.len() == 300);
            }
            Err(error) => assert!(matches!(error, Error::Changed)),
        }
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn more_than_a_transaction_holds_is_refused_before_it_is_sent() {
    let counted = Counted::start();
    let table = counted.table("Wide").await;
    let (refused, requests) = counted.count(table.insert_wide(&notes(3_000_000))).await;
    assert!(matches!(refused, Err(Error::Limit(_))));
    assert_eq!(requests, 0);
}
