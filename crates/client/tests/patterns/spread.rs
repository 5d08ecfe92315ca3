//! Spreading.

use tavola_client::patterns::spread::Spread;
use tavola_client::{Entity, Error, In};

use crate::Counted;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{hour}", row = "{number:08}")]
struct Event {
    hour: String,
    number: u32,
    odd: bool,
}

fn event(number: u32) -> Event {
    Event { hour: "2026111518".into(), number, odd: number % 2 == 1 }
}

#[tokio::test]
async fn what_is_spread_reads_as_one_partition_in_order() {
    let counted = Counted::start();
    let table = counted.table("Events").await;
    let (events, requests) = counted.count(Spread::<4>::open(table.clone())).await;
    let events = events.unwrap();
    assert_eq!(requests, 2);
    for number in 0..60 {
        events.insert(&event(number)).await.unwrap();
    }
    let (inserted, requests) = counted.count(events.insert(&event(60))).await;
    inserted.unwrap();
    assert_eq!(requests, 1);

    let (all, requests) = counted.count(events.query::<Event>(In::partition("2026111518")).collect()).await;
    let numbers: Vec<u32> = all.unwrap().iter().map(|event| event.number).collect();
    assert_eq!((numbers, requests), ((0..=60).collect(), 4));
    let scope = In::partition("2026111518").rows("00000010".."00000020");
    let odd = events.query::<Event>(scope).filter(|e| e.odd.eq(true)).take(3).collect().await.unwrap();
    assert_eq!(odd.iter().map(|event| event.number).collect::<Vec<_>>(), [11, 13, 15]);
    let whole = events.query::<Event>(In::whole_table()).collect().await;
    assert!(matches!(whole, Err(Error::Limit(_))));
}

#[tokio::test]
async fn one_entity_is_read_saved_and_deleted_by_its_own_key() {
    let counted = Counted::start();
    let events = Spread::<4>::open(counted.table("Events").await).await.unwrap();
    events.insert(&event(5)).await.unwrap();
    assert!(matches!(events.insert(&event(5)).await, Err(Error::Taken { .. })));
    let (found, requests) = counted.count(events.get::<Event>(("2026111518", "00000005"))).await;
    let mut found = found.unwrap().unwrap();
    assert_eq!((&found.value, requests), (&event(5), 1));
    found.odd = false;
    let (saved, requests) = counted.count(events.save(&mut found)).await;
    saved.unwrap();
    assert_eq!(requests, 1);
    events.delete(&found).await.unwrap();
    assert!(events.get::<Event>(("2026111518", "00000005")).await.unwrap().is_none());
}

#[tokio::test]
async fn another_number_of_buckets_is_refused_and_a_grown_table_still_finds_all() {
    let counted = Counted::start();
    let table = counted.table("Events").await;
    let events = Spread::<4>::open(table.clone()).await.unwrap();
    for number in 0..40 {
        events.insert(&event(number)).await.unwrap();
    }
    assert!(matches!(Spread::<8>::open(table.clone()).await, Err(Error::Limit(_))));
    assert!(matches!(Spread::<2>::grow(table.clone()).await, Err(Error::Limit(_))));

    let mut events = Spread::<8>::grow(table.clone()).await.unwrap();
    for number in 40..80 {
        events.insert(&event(number)).await.unwrap();
    }
    for number in [0, 13, 39, 40, 79] {
        let key = event_key(number);
        assert_eq!(events.get::<Event>(key).await.unwrap().unwrap().number, number);
        assert!(matches!(events.insert(&event(number)).await, Err(Error::Taken { .. })));
    }
    let all = events.query::<Event>(In::partition("2026111518")).collect().await.unwrap();
    assert_eq!(all.iter().map(|event| event.number).collect::<Vec<_>>(), (0..80).collect::<Vec<_>>());

    let moved = events.move_grown(None).await.unwrap();
    assert!((1..40).contains(&moved), "{moved}");
    assert_eq!(events.move_grown(None).await.unwrap(), 0);
    events.settle_growth().await.unwrap();
    let events = Spread::<8>::open(table).await.unwrap();
    for number in 0..80 {
        assert!(events.get::<Event>(event_key(number)).await.unwrap().is_some());
    }
}

fn event_key(number: u32) -> tavola_client::EntityKey {
    Event::key_of(("2026111518", number)).unwrap()
}
