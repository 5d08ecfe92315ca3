//! Data series.

use tavola_client::Error;
use tavola_client::patterns::series::Series;

use crate::Counted;

const KEY: (&str, &str) = ("Sales", "000123_20261115");

#[tokio::test]
async fn a_day_of_hours_is_one_entity() {
    let counted = Counted::start();
    let hours = Series::<24>::new(counted.table("Messages").await, "Hour");
    let (set, requests) = counted.count(hours.set(KEY, 3, 7)).await;
    set.unwrap();
    assert_eq!(requests, 1);
    let (sum, requests) = counted.count(hours.add(KEY, 3, 5)).await;
    assert_eq!((sum.unwrap(), requests), (12, 2));
    hours.add(KEY, 23, -1).await.unwrap();
    let (chart, requests) = counted.count(hours.get(KEY)).await;
    let chart = chart.unwrap();
    assert_eq!((chart[3], chart[23], chart[0], requests), (Some(12), Some(-1), None, 1));
    assert!(matches!(hours.set(KEY, 24, 1).await, Err(Error::Limit(_))));
    assert_eq!(*hours.get(("Sales", "nobody")).await.unwrap(), [None; 24]);
}

#[tokio::test]
async fn a_year_of_days_is_two_entities_and_one_read() {
    let counted = Counted::start();
    let days = Series::<366>::new(counted.table("Messages").await, "Day");
    days.set(KEY, 0, 1).await.unwrap();
    days.set(KEY, 365, 2).await.unwrap();
    let (chart, requests) = counted.count(days.get(KEY)).await;
    let chart = chart.unwrap();
    assert_eq!((chart[0], chart[365], requests), (Some(1), Some(2), 1));
}

#[tokio::test]
async fn writers_that_meet_lose_nothing() {
    let counted = Counted::start();
    let hours = Series::<24>::new(counted.table("Messages").await, "Hour");
    let writers = (0..4u16).map(|writer| {
        let hours = hours.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                while let Err(error) = hours.add(KEY, 5, 1).await {
                    assert!(matches!(error, Error::Changed));
                }
                hours.add_sharded(KEY, writer, 5, 1).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(hours.get(KEY).await.unwrap()[5], Some(40));
    let (sharded, requests) = counted.count(hours.get_sharded(KEY)).await;
    assert_eq!((sharded.unwrap()[5], requests), (Some(40), 1));
}
