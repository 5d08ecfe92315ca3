//! *unknown is not failed*: an error other than `OutcomeUnknown` means that nothing was kept.

use super::ContentHarness;
use super::client::{ContentClient, ContentMissing, SeededBytes, fresh_owner};
use crate::{ContentError, ContentSize, Owner};

const ROUNDS: u64 = 120;

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    let owner = fresh_owner();
    for round in 0..ROUNDS {
        // A partition of its own, so that what is found tells of this put only.
        let owner = Owner { partition: round.to_be_bytes().to_vec(), ..owner.clone() };
        let pattern = SeededBytes { seed: round, length: round * 4999 };
        let size = ContentSize::Exactly(pattern.length);
        let outcome = client.contents.put(&owner, size, &mut pattern.source()).await;
        let found = client.found(owner.space, 500).await;
        let found: Vec<_> = found.into_iter().filter(|found| found.owner == owner).collect();
        match outcome {
            Ok(content) => {
                assert!(found.len() == 1 && found[0].content == content, "{found:?}");
                client.check_bytes(owner.space, &content, pattern).await;
                if round % 2 == 0 {
                    drop_once(&client, &owner, content, pattern).await;
                }
            }
            Err(ContentError::OutcomeUnknown { .. }) => {
                assert!(found.len() <= 1, "{found:?}");
                for found in found {
                    client.check_bytes(owner.space, &found.content, pattern).await;
                }
            }
            Err(_) => assert_eq!(found, [], "a put that failed was kept"),
        }
    }
    client.drop_space(owner.space).await;
}

/// After one try at a drop the content is whole or gone, and after `Ok` it is gone.
async fn drop_once(client: &ContentClient, owner: &Owner, content: crate::Content, pattern: SeededBytes) {
    let outcome = client.contents.drop_contents(owner.space, &[content.id]).await;
    match client.read(owner.space, &content, 0..content.length).await {
        Err(ContentMissing) => {}
        Ok(bytes) => {
            assert!(outcome.is_err(), "a dropped content is there");
            assert!(bytes == pattern.bytes(), "a content has other bytes after a drop that failed");
        }
    }
}
