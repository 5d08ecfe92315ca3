//! Small documents that the blob service answers with: blocks, pages, tags, keys.

use tavola_model::{BlobTags, BlockList, DateTime, DelegationKey, ListedBlock, PageRanges};

use super::documents::write_block_id;
use crate::xml::{PROLOGUE, push, push_markup};

/// The body that answers Get Block List: the parts that were asked for.
pub(super) fn block_list(list: &BlockList) -> String {
    let mut inner = String::new();
    for (name, blocks) in [("CommittedBlocks", &list.committed), ("UncommittedBlocks", &list.uncommitted)] {
        if let Some(blocks) = blocks {
            push_markup(name, &blocks.iter().map(block).collect::<String>(), &mut inner);
        }
    }
    document("BlockList", &inner)
}

fn block(block: &ListedBlock) -> String {
    format!("<Block><Name>{}</Name><Size>{}</Size></Block>", write_block_id(&block.id), block.length)
}

fn document(root: &str, inner: &str) -> String {
    let mut out = PROLOGUE.to_owned();
    push_markup(root, inner, &mut out);
    out
}

/// The body that answers Get Page Ranges.
pub(super) fn page_ranges(ranges: &PageRanges) -> String {
    let mut inner = String::new();
    for range in &ranges.ranges {
        let name = if range.is_clear { "ClearRange" } else { "PageRange" };
        inner.push_str(&format!("<{name}><Start>{}</Start><End>{}</End></{name}>", range.first, range.last));
    }
    if ranges.max.is_some() || ranges.next.is_some() {
        push("NextMarker", &ranges.next.map(|next| next.to_string()).unwrap_or_default(), &mut inner);
    }
    document("PageList", &inner)
}

/// The body that answers Get Blob Tags. Only this document is written with a line break behind its declaration.
pub(super) fn tags(tags: &BlobTags) -> String {
    let mut set = String::new();
    push_tag_set(tags, &mut set);
    let mut out = format!("{PROLOGUE}\n");
    push_markup("Tags", &set, &mut out);
    out
}

/// `<TagSet>` with its tags.
pub(super) fn push_tag_set(tags: &BlobTags, out: &mut String) {
    let mut inner = String::new();
    for (name, value) in tags.iter() {
        inner.push_str("<Tag>");
        push("Key", name, &mut inner);
        push("Value", value, &mut inner);
        inner.push_str("</Tag>");
    }
    push_markup("TagSet", &inner, out);
}

/// The body that answers Get User Delegation Key.
pub(super) fn delegation_key(key: &DelegationKey) -> String {
    let mut inner = String::new();
    push("SignedOid", &key.object_id, &mut inner);
    push("SignedTid", &key.tenant_id, &mut inner);
    push("SignedStart", &whole_seconds(key.start), &mut inner);
    push("SignedExpiry", &whole_seconds(key.expiry), &mut inner);
    push("SignedService", &key.service.to_string(), &mut inner);
    push("SignedVersion", &key.version, &mut inner);
    push("Value", &key.value, &mut inner);
    document("UserDelegationKey", &inner)
}

fn whole_seconds(time: DateTime) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}
