//! Which pieces a block list means.

use std::collections::HashMap;

use tavola_model::{BlockId, BlockSource, ErrorCode};

use super::pieces::{Data, Piece};

/// The pieces that a list of blocks means, in its order. A block id may stand in it more than once.
pub(crate) fn resolve(
    list: &[(BlockSource, BlockId)],
    committed: &HashMap<BlockId, Data>,
    staged: &HashMap<BlockId, Data>,
) -> Result<Vec<Piece>, ErrorCode> {
    list.iter()
        .map(|(location, id)| {
            let data = match location {
                BlockSource::Committed => committed.get(id),
                BlockSource::Uncommitted => staged.get(id),
                BlockSource::Latest => staged.get(id).or_else(|| committed.get(id)),
            };
            let data = data.ok_or(ErrorCode::InvalidBlockList)?;
            Ok(Piece { block: Some(id.clone()), data: data.clone() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn id(text: &str) -> BlockId {
        BlockId::from_bytes(text.as_bytes()).unwrap()
    }

    fn data(text: &'static str) -> Data {
        Data::Inline(Bytes::from_static(text.as_bytes()))
    }

    fn check(list: &[(BlockSource, &str)], expected: &str) {
        let committed = HashMap::from(["a", "b"].map(|name| (id(name), data("old"))));
        let staged = HashMap::from([(id("b"), data("new")), (id("c"), data("new"))]);
        let list: Vec<(BlockSource, BlockId)> =
            list.iter().map(|(location, name)| (*location, id(name))).collect();
        let shown = match resolve(&list, &committed, &staged) {
            Ok(pieces) => pieces
                .iter()
                .map(|piece| if piece.data == data("old") { "old " } else { "new " })
                .collect::<String>(),
            Err(code) => code.as_str().to_owned(),
        };
        assert_eq!(shown, expected, "{list:?}");
    }

    #[test]
    fn a_block_is_looked_for_where_the_list_says() {
        use BlockSource::{Committed, Latest, Uncommitted};
        check(&[(Latest, "a"), (Latest, "b"), (Latest, "c")], "old new new ");
        check(&[(Committed, "b"), (Uncommitted, "b"), (Committed, "b")], "old new old ");
        check(&[], "");
        for missing in [(Committed, "c"), (Uncommitted, "a"), (Latest, "d")] {
            check(&[(Latest, "a"), missing], "InvalidBlockList");
        }
    }
}
