//! *loaded*: what one `load` brings is kept all together, as durably as any write, under the versions it came with;
//! loading the same again changes nothing; a row that was written since is never replaced, but one that was deleted
//! since comes back; and every version given later in the partition is above its tick.

use bytes::Bytes;
use tavola_model::{Clock, DateTime};

use super::client::{Missing, fresh_id};
use super::{Client, Harness, Reopen};
use crate::{LoadedRow, ScanRange, SpaceId, StoredRow};

const SECOND: u64 = 10_000_000;

pub(super) async fn check(harness: &dyn Harness) {
    // The other store may have been ahead of this one's clock, by a minute.
    let tick = later(harness.clock().now(), 60 * SECOND);
    let client = Client::of(harness);
    rows_keep_their_versions(&client, tick).await;
    loading_again_changes_nothing(&client, tick).await;
    a_row_that_is_there_is_replaced(&client).await;
    a_load_over_a_row_that_was_written_since_changes_nothing(&client, tick).await;
    loading_into_no_space_is_refused(&client, tick).await;
    drop(client);
    for how in [Reopen::Closed, Reopen::Crashed] {
        a_load_is_whole_after(harness, tick, how).await;
        later_versions_are_above_the_tick(harness, tick, how).await;
    }
    harness.clock().step(120 * 10_000_000);
}

fn later(time: DateTime, ticks: u64) -> DateTime {
    DateTime::from_ticks(time.ticks() + ticks).expect("the clock is not at the end of year 9999")
}

fn loaded(row: &[u8], version: DateTime, body: &[u8]) -> LoadedRow {
    let stored = StoredRow { version, body: Bytes::copy_from_slice(body) };
    LoadedRow { row: Bytes::copy_from_slice(row), stored }
}

/// Rows with versions that differ, none of them in order.
fn some_rows(tick: DateTime) -> Vec<LoadedRow> {
    let version = |number: u64| DateTime::from_ticks(tick.ticks() - (number * 7919) % 1000);
    (0..60u8)
        .map(|number| loaded(&[number, 0], version(number.into()).expect("in range"), &[number; 50]))
        .collect()
}

async fn check_rows(client: &Client, space: SpaceId, partition: &[u8], rows: &[LoadedRow]) {
    let seen = client.scan(space, &ScanRange::partition(partition)).await.expect("the space exists");
    let seen: Vec<_> = seen.into_iter().map(|row| loaded(&row.row, row.version, &row.body)).collect();
    assert_eq!(seen, rows);
    for LoadedRow { row, stored } in rows {
        assert_eq!(client.get(space, partition, row).await.as_ref(), Ok(&Some(stored.clone())));
    }
}

async fn rows_keep_their_versions(client: &Client, tick: DateTime) {
    let space = client.fresh_space().await;
    let other = client.put(space, b"other", b"r", b"body").await;
    let rows = some_rows(tick);
    client.load(space, b"p", tick, &rows).await.expect("the space exists");
    check_rows(client, space, b"p", &rows).await;
    check_rows(client, space, b"other", &[loaded(b"r", other, b"body")]).await;
    let seen = client.scan(space, &ScanRange::all()).await.expect("the space exists");
    assert_eq!(seen.len(), rows.len() + 1, "a scan of the space finds the partition");
}

async fn loading_again_changes_nothing(client: &Client, tick: DateTime) {
    let space = client.fresh_space().await;
    let rows = some_rows(tick);
    for part in [&rows[..40], &rows[20..], &rows[..]] {
        client.load(space, b"p", tick, part).await.expect("the space exists");
    }
    check_rows(client, space, b"p", &rows).await;
}

async fn a_row_that_is_there_is_replaced(client: &Client) {
    let space = client.fresh_space().await;
    let kept = client.put(space, b"p", b"kept", b"old").await;
    let tick = client.put(space, b"p", b"replaced", b"old").await;
    let replaced = loaded(b"replaced", tick, b"new");
    client.load(space, b"p", tick, std::slice::from_ref(&replaced)).await.expect("the space exists");
    check_rows(client, space, b"p", &[loaded(b"kept", kept, b"old"), replaced]).await;
}

/// An import that was left and goes on much later must not undo what was written meanwhile, nor add to it in part.
async fn a_load_over_a_row_that_was_written_since_changes_nothing(client: &Client, tick: DateTime) {
    let space = client.fresh_space().await;
    let rows = [loaded(b"a", tick, b"old"), loaded(b"b", tick, b"old")];
    client.load(space, b"p", tick, &rows[1..]).await.expect("the space exists");
    let since = client.put(space, b"p", b"b", b"new").await;
    // More than once, because some failures have nothing to do with it.
    for _ in 0..10 {
        assert!(client.engine.load(space, b"p", tick, &rows).await.is_err(), "a row was replaced");
    }
    check_rows(client, space, b"p", &[loaded(b"b", since, b"new")]).await;
    client.load(space, b"p", since, &rows).await.expect("the space exists");
    check_rows(client, space, b"p", &rows).await;
}

async fn loading_into_no_space_is_refused(client: &Client, tick: DateTime) {
    let rows = [loaded(b"r", tick, b"body")];
    assert_eq!(client.load(fresh_id(), b"p", tick, &rows).await, Err(Missing));
    let space = client.fresh_space().await;
    client.drop_space(space).await;
    assert_eq!(client.load(space, b"p", tick, &rows).await, Err(Missing));
}

async fn a_load_is_whole_after(harness: &dyn Harness, tick: DateTime, how: Reopen) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    let rows: Vec<_> = (0..100u8).map(|number| loaded(&[number], tick, &[number; 10_000])).collect();
    client.load(space, b"p", tick, &rows).await.expect("the space exists");
    drop(client);
    harness.reopen(how).await;
    check_rows(&Client::of(harness), space, b"p", &rows).await;
}

async fn later_versions_are_above_the_tick(harness: &dyn Harness, tick: DateTime, how: Reopen) {
    // A store may have given versions that no row has any more.
    let early = DateTime::from_ticks(tick.ticks() - 100 * SECOND).expect("in range");
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    client.load(space, b"p", tick, &[loaded(b"r", early, b"body")]).await.expect("the space exists");
    let first = client.put(space, b"p", b"s", b"body").await;
    assert!(first > tick, "{first} is not after {tick}");
    client.load(space, b"q", tick, &[loaded(b"r", early, b"body")]).await.expect("the space exists");
    drop(client);
    harness.reopen(how).await;
    let client = Client::of(harness);
    assert!(client.put(space, b"p", b"r", b"body").await > first);
    assert!(client.put(space, b"q", b"r", b"body").await > tick);
}
