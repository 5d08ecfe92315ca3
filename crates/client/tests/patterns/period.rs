//! A table for each period.

use futures_util::TryStreamExt;
use tavola_client::patterns::period::{Dated, Period, PeriodTables};
use tavola_client::{DateTime, Entity, In};

use crate::Counted;

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{user}", row = "{at:desc}_{id:04}")]
struct Login {
    user: String,
    at: DateTime,
    id: u16,
}

impl Dated for Login {
    fn moment(&self) -> DateTime {
        self.at
    }
}

fn moment(text: &str) -> DateTime {
    DateTime::parse(text).unwrap()
}

fn login(at: &str, id: u16) -> Login {
    Login { user: "don".into(), at: moment(at), id }
}

#[tokio::test]
async fn a_day_is_a_table_and_old_days_are_dropped_whole() {
    let counted = Counted::start();
    let logins = PeriodTables::<Login>::new(counted.account.clone(), "Logins", Period::Day).unwrap();
    let (first, requests) = counted.count(logins.insert(&login("2026-11-14T10:00:00Z", 1))).await;
    first.unwrap();
    assert_eq!(requests, 3, "the table is missing, is made, and the insert goes again");
    let (second, requests) = counted.count(logins.insert(&login("2026-11-14T11:00:00Z", 2))).await;
    second.unwrap();
    assert_eq!(requests, 1);
    for (at, id) in [("2026-11-15T00:00:00Z", 3), ("2026-11-15T23:59:59.9999999Z", 4), ("2026-11-17", 5)] {
        logins.insert(&login(at, id)).await.unwrap();
    }
    counted.table("LoginsNotes").await;
    assert_eq!(
        counted.account.tables(Some("Logins")).await.unwrap(),
        ["Logins20261114", "Logins20261115", "Logins20261117", "LoginsNotes"]
    );

    let span = logins.query(
        moment("2026-11-14T11:00:00Z"),
        moment("2026-11-15T23:59:59.9999999Z"),
        In::partition("don"),
    );
    let (found, requests) = counted.count(span.try_collect::<Vec<_>>()).await;
    assert_eq!(found.unwrap().iter().map(|login| login.id).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(requests, 3, "a list of the tables and a page of each of two days");

    let (dropped, requests) = counted.count(logins.drop_before(moment("2026-11-16T12:00:00Z"))).await;
    assert_eq!(dropped.unwrap(), ["Logins20261114", "Logins20261115"]);
    assert_eq!(requests, 3, "a list and one a table");
    assert_eq!(logins.drop_before(moment("2026-11-16T12:00:00Z")).await.unwrap(), Vec::<String>::new());
    assert_eq!(counted.account.tables(Some("Logins")).await.unwrap(), ["Logins20261117", "LoginsNotes"]);
}

#[tokio::test]
async fn pages_of_a_period_follow_each_other() {
    let counted = Counted::start();
    let logins = PeriodTables::<Login>::new(counted.account.clone(), "Logins", Period::Month).unwrap();
    let table = counted.table("Logins202610").await;
    for start in (0..1200).step_by(100) {
        let mut transaction = table.transaction("don");
        for id in start..start + 100 {
            transaction = transaction.insert(&login("2026-10-01", id)).unwrap();
        }
        transaction.commit().await.unwrap();
    }
    logins.insert(&login("2026-11-01", 9)).await.unwrap();
    let all = logins.query(DateTime::MIN, DateTime::MAX, In::whole_table());
    let found: Vec<u16> = all.map_ok(|login| login.id).try_collect().await.unwrap();
    assert_eq!(found, (0..1200).chain([9]).collect::<Vec<u16>>());
}
