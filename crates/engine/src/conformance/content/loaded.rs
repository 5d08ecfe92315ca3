//! *loaded*: what a load brings is kept under the id that it has, and loading it again changes nothing.

use super::super::Reopen;
use super::ContentHarness;
use super::client::{ContentClient, SeededBytes, fresh_owner};
use crate::{Content, ContentId, FoundContent};

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    let owner = fresh_owner();
    let id = |number: u8| ContentId([number; 16]);
    let mut expected = Vec::new();
    for number in [5, 1, 3] {
        let pattern = SeededBytes { seed: u64::from(number), length: u64::from(number) * 100_000 };
        let content = Content { id: id(number), length: pattern.length };
        for _ in 0..2 {
            client.load(&owner, &content, pattern).await;
            client.check_bytes(owner.space, &content, pattern).await;
        }
        expected.push(FoundContent { content, owner: owner.clone() });
    }
    expected.sort_by_key(|found| found.content.id);
    assert_eq!(client.found(owner.space, 2).await, expected);
    // Whatever ids came in, those given here are new.
    let own = client.put(&owner, SeededBytes { seed: 9, length: 9 }).await;
    assert!(expected.iter().all(|found| found.content.id != own.id));
    client.drop(owner.space, &[own.id]).await;
    super::super::Client { engine: harness.engine() }.create_space(owner.space).await;
    drop(client);
    harness.reopen(Reopen::Crashed).await;
    let client = ContentClient::of(harness);
    for found in &expected {
        let pattern = SeededBytes { seed: u64::from(found.content.id.0[0]), length: found.content.length };
        client.check_bytes(owner.space, &found.content, pattern).await;
    }
}
