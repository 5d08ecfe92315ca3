//! *unnamed is unseen*: only its space and id lead to a content.

use super::ContentHarness;
use super::client::{ContentClient, ContentMissing, SeededBytes, fresh_owner};
use crate::{Content, ContentId};

pub(super) async fn check(harness: &dyn ContentHarness) {
    let client = ContentClient::of(harness);
    let (owner, other) = (fresh_owner(), fresh_owner());
    let pattern = SeededBytes { seed: 1, length: 1000 };
    let content = client.put(&owner, pattern).await;
    assert_eq!(client.read(other.space, &content, 0..1000).await, Err(ContentMissing));
    for at in [0, 7, 8, 15] {
        let mut id = content.id;
        // Not the lowest bit: a put sent again after a fault takes the very next id.
        id.0[at] ^= 0x80;
        let neighbour = Content { id, length: 1000 };
        assert_eq!(client.read(owner.space, &neighbour, 0..1000).await, Err(ContentMissing));
        client.drop(owner.space, &[id]).await;
    }
    client.drop(other.space, &[content.id, ContentId::MIN]).await;
    client.check_bytes(owner.space, &content, pattern).await;
    assert_eq!(client.found(other.space, 3).await, []);
}
