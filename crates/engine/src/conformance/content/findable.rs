//! *findable*: `visit` shows every durable content with its owner, the oldest of a space first.

use super::ContentHarness;
use super::client::{ContentClient, SeededBytes, fresh_owner};
use crate::{FoundContent, Owner};

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    let mut owner = fresh_owner();
    let other = fresh_owner();
    let mut expected = Vec::new();
    for seed in 0..40 {
        owner.partition = match seed {
            0 => vec![],
            1 => vec![0xFF; Owner::PARTITION_BYTES_MAX],
            seed => format!("blob\0{}", seed % 7).into_bytes(),
        };
        let content = client.put(&owner, SeededBytes { seed, length: seed * 100 }).await;
        expected.push(FoundContent { content, owner: owner.clone() });
        client.put(&other, SeededBytes { seed, length: 10 }).await;
    }
    for at_once in [1, 2, 7, 39, 40, 41, 1000] {
        // A put whose outcome was unknown may have been kept beside its second try.
        let found = client.found(owner.space, at_once).await;
        assert!(found.is_sorted_by_key(|found| found.content.id), "the oldest does not come first");
        let mut rest = found.iter();
        for content in &expected {
            assert!(rest.any(|found| found == content), "{content:?} is not shown");
        }
    }
    let dropped = expected.remove(20);
    client.drop(owner.space, &[dropped.content.id]).await;
    let found = client.found(owner.space, 9).await;
    assert!(!found.contains(&dropped));
    assert!(expected.iter().all(|content| found.contains(content)));
}
