//! *atomic*: the changes of one `transact` are kept all together or not at all.

use bytes::Bytes;

use super::{Client, Harness, Reopen};
use crate::{Change, Decision, ScanRange, SpaceId, StoredRow, Transacted};

pub(super) async fn check(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    decide_gets_the_rows_in_the_order_asked_for(&client, space).await;
    puts_and_deletes_are_kept_together(&client, space).await;
    a_refusal_changes_nothing(&client, space).await;
    an_empty_change_is_a_success(&client, space).await;
    drop(client);
    a_large_transaction_is_whole_after_a_crash(harness).await;
}

async fn decide_gets_the_rows_in_the_order_asked_for(client: &Client, space: SpaceId) {
    client.put(space, b"p", b"a", b"1").await;
    client.put(space, b"p", b"b", b"2").await;
    client.put(space, b"other", b"c", b"3").await;
    let mut bodies = Vec::new();
    let mut decide = |_, found: &[Option<StoredRow>]| {
        bodies = found.iter().map(|row| row.as_ref().map(|row| row.body.clone())).collect();
        Decision::Refuse
    };
    client.transact(space, b"p", &[b"b", b"c", b"a"], &mut decide).await.expect("the space exists");
    assert_eq!(bodies, [Some(Bytes::from("2")), None, Some(Bytes::from("1"))]);
}

async fn puts_and_deletes_are_kept_together(client: &Client, space: SpaceId) {
    let mut decide = |_, _: &[_]| {
        Decision::Apply(vec![
            Change::Delete { index: 0 },
            Change::Put { index: 2, body: Bytes::from("new") },
            Change::Put { index: 1, body: Bytes::from("changed") },
        ])
    };
    let transacted = client.transact(space, b"p", &[b"a", b"b", b"d"], &mut decide).await;
    let Ok(Transacted::Applied(tick)) = transacted else { panic!("not applied: {transacted:?}") };
    assert_eq!(client.body(space, b"p", b"a").await, None);
    for (row, body) in [(b"b", "changed"), (b"d", "new")] {
        let stored = client.get(space, b"p", row).await.expect("the space exists");
        assert_eq!(stored, Some(StoredRow { version: tick, body: Bytes::from(body) }));
    }
}

async fn a_refusal_changes_nothing(client: &Client, space: SpaceId) {
    let before = client.scan(space, &ScanRange::all()).await;
    let outcome = client.transact(space, b"p", &[b"b"], &mut |_, _| Decision::Refuse).await;
    assert_eq!(outcome, Ok(Transacted::Refused));
    assert_eq!(client.scan(space, &ScanRange::all()).await, before);
}

async fn an_empty_change_is_a_success(client: &Client, space: SpaceId) {
    let before = client.scan(space, &ScanRange::all()).await;
    let outcome = client.transact(space, b"p", &[], &mut |_, _| Decision::Apply(vec![])).await;
    assert!(matches!(outcome, Ok(Transacted::Applied(_))));
    assert_eq!(client.scan(space, &ScanRange::all()).await, before);
}

async fn a_large_transaction_is_whole_after_a_crash(harness: &dyn Harness) {
    let client = Client::of(harness);
    let space = client.fresh_space().await;
    let names: Vec<Vec<u8>> = (0..100u8).map(|name| vec![name]).collect();
    let rows: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let body = Bytes::from(vec![7; 40_000]);
    let mut decide = |_, found: &[_]| {
        Decision::Apply((0..found.len()).map(|index| Change::Put { index, body: body.clone() }).collect())
    };
    client.transact(space, b"p", &rows, &mut decide).await.expect("the space exists");
    drop(client);
    harness.reopen(Reopen::Crashed).await;
    let seen = Client::of(harness).scan(space, &ScanRange::partition(b"p")).await.expect("the space exists");
    assert_eq!(seen.len(), 100);
    assert!(seen.iter().all(|row| row.body == body && row.version == seen[0].version));
}
