//! Documents that clients send to the blob service: lists of blocks, tags, the times of a key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_model::{
    BLOCKS_MAX, BlobTags, BlockId, BlockSource, DateTime, ErrorCode, IssueDelegationKey, ServiceError,
    TAGS_MAX,
};

use crate::version::ApiVersion;
use crate::xml;

/// Reads the body of Put Block List.
pub(super) fn parse_block_list(body: &[u8]) -> Result<Vec<(BlockSource, BlockId)>, ServiceError> {
    // One more than there can be, and the root, so that too many are told from a malformed document.
    let root = xml::parse_long(body, "BlockList", BLOCKS_MAX + 2)?;
    if root.children.len() > BLOCKS_MAX {
        return Err(ErrorCode::BlockListTooLong.into());
    }
    let block = |element: &xml::Element| {
        let place = match element.name.as_str() {
            "Committed" => BlockSource::Committed,
            "Uncommitted" => BlockSource::Uncommitted,
            "Latest" => BlockSource::Latest,
            _ => return Err(xml::invalid()),
        };
        let id = read_block_id(element.text.trim()).ok_or(ErrorCode::InvalidBlockList)?;
        Ok((place, id))
    };
    root.children.iter().map(block).collect()
}

/// The id that a text names.
pub(super) fn read_block_id(text: &str) -> Option<BlockId> {
    STANDARD.decode(text).ok().and_then(|bytes| BlockId::from_bytes(&bytes))
}

/// The text of an id.
pub(super) fn write_block_id(id: &BlockId) -> String {
    STANDARD.encode(id.as_bytes())
}

/// Reads the body of Set Blob Tags.
pub(super) fn parse_tags(body: &[u8]) -> Result<BlobTags, ServiceError> {
    let root = xml::parse(body, "Tags")?;
    let set = root.child("TagSet").ok_or_else(xml::invalid)?;
    if set.children.len() > TAGS_MAX {
        return Err(ErrorCode::InvalidTag.into());
    }
    let pair = |element: &xml::Element| {
        let text = |name: &str| element.child(name).map(|child| child.text.clone());
        match (element.name.as_str(), text("Key")) {
            ("Tag", Some(key)) => Ok((key, text("Value").unwrap_or_default())),
            _ => Err(xml::invalid()),
        }
    };
    let pairs: Vec<(String, String)> = set.children.iter().map(pair).collect::<Result<_, _>>()?;
    BlobTags::parse(pairs)
}

/// Reads the body of Get User Delegation Key.
pub(super) fn parse_key_times(body: &[u8], version: &ApiVersion) -> Result<IssueDelegationKey, ServiceError> {
    let root = xml::parse(body, "KeyInfo")?;
    let time = |name: &str| -> Result<Option<DateTime>, ServiceError> {
        let text = root.child_text(name).filter(|text| !text.is_empty());
        text.map(|text| DateTime::parse(text).ok_or_else(xml::invalid)).transpose()
    };
    let expiry = time("Expiry")?.ok_or_else(xml::invalid)?;
    let version = version.as_str().to_owned();
    Ok(IssueDelegationKey { start: time("Start")?, expiry, version, key: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> Result<usize, ErrorCode> {
        let blocks = "<Latest>MQ==</Latest>".repeat(count);
        let body = format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{blocks}</BlockList>");
        parse_block_list(body.as_bytes()).map(|blocks| blocks.len()).map_err(|error| error.code)
    }

    #[test]
    fn a_list_has_up_to_50_000_blocks_from_three_places() {
        let body = b"<BlockList><Committed>MQ==</Committed><Uncommitted>Mg==</Uncommitted></BlockList>";
        let blocks = parse_block_list(body).unwrap();
        assert_eq!(blocks[0].0, BlockSource::Committed);
        assert_eq!((blocks[1].0, blocks[1].1.as_bytes()), (BlockSource::Uncommitted, &b"2"[..]));
        assert_eq!(list(0), Ok(0));
        assert_eq!(list(BLOCKS_MAX), Ok(BLOCKS_MAX));
        assert_eq!(list(BLOCKS_MAX + 1), Err(ErrorCode::BlockListTooLong));
        let code = |body: &str| parse_block_list(body.as_bytes()).unwrap_err().code;
        assert_eq!(code("<BlockList><Latest>no!</Latest></BlockList>"), ErrorCode::InvalidBlockList);
        assert_eq!(code("<BlockList><Other>MQ==</Other></BlockList>"), ErrorCode::InvalidXmlDocument);
        assert_eq!(code("<Blocks/>"), ErrorCode::InvalidXmlDocument);
    }

    #[test]
    fn tags_and_times_are_read_as_recorded() {
        let body = b"<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?><Tags><TagSet><Tag><Key>tag1</Key><Value>val1</Value></Tag></TagSet></Tags>";
        assert_eq!(parse_tags(body).unwrap().get("tag1"), Some("val1"));
        assert!(parse_tags(b"<Tags><TagSet/></Tags>").unwrap().is_empty());
        assert!(parse_tags(b"<Tags></Tags>").is_err());
        let body =
            b"<KeyInfo><Start>2021-09-24T01:38:30Z</Start><Expiry>2021-09-25T02:38:30Z</Expiry></KeyInfo>";
        let times = parse_key_times(body, &ApiVersion::default()).unwrap();
        assert_eq!(Some(times.expiry), DateTime::parse("2021-09-25T02:38:30Z"));
        let no_end = b"<KeyInfo><Start>2021-09-24T01:38:30Z</Start></KeyInfo>";
        assert!(parse_key_times(no_end, &ApiVersion::default()).is_err());
    }
}
