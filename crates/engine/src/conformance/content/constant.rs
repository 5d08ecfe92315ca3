//! *constant*: a content never changes, and its id is never given again.

use std::collections::BTreeSet;

use super::super::Reopen;
use super::ContentHarness;
use super::client::{ContentClient, SeededBytes, fresh_owner};

pub(super) async fn check(harness: &dyn ContentHarness) {
    let owner = fresh_owner();
    let mut seen = BTreeSet::new();
    for how in [Reopen::Closed, Reopen::Crashed] {
        let client = ContentClient::of(harness);
        let mut last = None;
        for seed in 0..20 {
            let pattern = SeededBytes { seed, length: 5000 };
            let content = client.put(&owner, pattern).await;
            assert!(seen.insert(content.id), "the id {} was given twice", content.id);
            assert!(last < Some(content.id), "a later content has a lower id");
            last = Some(content.id);
            if seed % 3 == 0 {
                client.drop(owner.space, &[content.id]).await;
            } else {
                client.check_bytes(owner.space, &content, pattern).await;
            }
        }
        drop(client);
        harness.reopen(how).await;
    }
}
