//! *durable*: a content survives whatever the row survives that names it.

use bytes::Bytes;

use super::super::Reopen;
use super::ContentHarness;
use super::client::{ContentClient, ContentMissing, SeededBytes, fresh_owner};
use crate::{Change, Content, Decision, Owner};

pub(super) async fn check(harness: &dyn ContentHarness) {
    for how in [Reopen::Closed, Reopen::Crashed, Reopen::Crashed] {
        what_a_durable_row_names_is_there(harness, how).await;
        what_was_dropped_stays_so(harness, how).await;
    }
}

/// Puts contents, and a row behind each, from several tasks.
async fn put_and_name(harness: &dyn ContentHarness, owner: &Owner) -> Vec<(Content, SeededBytes)> {
    let client = ContentClient::of(harness);
    let engine = harness.engine();
    let rows = super::super::Client { engine: engine.clone() };
    rows.create_space(owner.space).await;
    let tasks: Vec<_> = (1..20u64)
        .map(|seed| {
            let (client, rows, owner) = (client.clone(), rows.clone(), owner.clone());
            tokio::spawn(async move {
                let pattern = SeededBytes { seed, length: seed * seed * seed * 97 };
                let content = client.put(&owner, pattern).await;
                let body = Bytes::copy_from_slice(&content.id.0);
                let mut decide =
                    |_, _: &[_]| Decision::Apply(vec![Change::Put { index: 0, body: body.clone() }]);
                let row = seed.to_be_bytes();
                rows.transact(owner.space, &owner.partition, &[&row], &mut decide)
                    .await
                    .expect("the space exists");
                (content, pattern)
            })
        })
        .collect();
    let mut named = Vec::new();
    for task in tasks {
        named.push(task.await.expect("the task finishes"));
    }
    named
}

async fn what_a_durable_row_names_is_there(harness: &dyn ContentHarness, how: Reopen) {
    let owner = fresh_owner();
    let named = put_and_name(harness, &owner).await;
    harness.reopen(how).await;
    let client = ContentClient::of(harness);
    for (content, pattern) in &named {
        client.check_bytes(owner.space, content, *pattern).await;
    }
    // What is written now leaves alone what was there.
    let more = put_and_name(harness, &owner).await;
    for (content, pattern) in named.iter().chain(&more) {
        client.check_bytes(owner.space, content, *pattern).await;
    }
    let found = client.found(owner.space, 7).await;
    for (content, _) in named.iter().chain(&more) {
        assert!(found.iter().any(|found| found.content == *content && found.owner == owner));
    }
}

async fn what_was_dropped_stays_so(harness: &dyn ContentHarness, how: Reopen) {
    let owner = fresh_owner();
    let named = put_and_name(harness, &owner).await;
    let client = ContentClient::of(harness);
    let (dropped, kept) = named.split_at(10);
    let ids: Vec<_> = dropped.iter().map(|(content, _)| content.id).collect();
    client.drop(owner.space, &ids).await;
    drop(client);
    harness.reopen(how).await;
    let client = ContentClient::of(harness);
    for (content, _) in dropped {
        assert_eq!(client.read(owner.space, content, 0..content.length).await, Err(ContentMissing));
    }
    for (content, pattern) in kept {
        client.check_bytes(owner.space, content, *pattern).await;
    }
}
