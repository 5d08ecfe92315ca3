//! What can be copied where, and what the answer tells.

use tavola_model::{AccessTier, BlobCommand, BlobCopied, BlobOutcome, CopyBlob, ErrorCode, NewKind};

use crate::bench::{Bench, bytes, copy_blob, new_blob};

fn copy(bench: &Bench, copy: CopyBlob) -> Result<BlobCopied, ErrorCode> {
    match bench.run(BlobCommand::CopyBlob(Box::new(copy)))? {
        BlobOutcome::BlobCopied(copied) => Ok(copied),
        other => panic!("{other:?}"),
    }
}

/// A block blob `block`, an append blob `append` and a page blob `page`.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.put("block", &bytes(1, 100));
    bench.run(BlobCommand::PutBlob(new_blob("append", NewKind::Append, 0))).unwrap();
    let page = NewKind::Page { length: 512, sequence: 0 };
    bench.run(BlobCommand::PutBlob(new_blob("page", page, 0))).unwrap();
    bench
}

#[test]
fn a_copy_has_a_tier_of_its_type_or_none() {
    let bench = bench();
    for (from, tier, expected) in [
        ("block", AccessTier::Cool, None),
        ("block", AccessTier::P10, Some(ErrorCode::InvalidBlobTier)),
        ("append", AccessTier::Cool, Some(ErrorCode::AccessTierNotSupportedForBlobType)),
        ("page", AccessTier::P10, Some(ErrorCode::AccessTierNotSupportedForBlobType)),
    ] {
        let asked = CopyBlob { tier: Some(tier), ..copy_blob(from, "copy") };
        assert_eq!(copy(&bench, asked).err(), expected, "{from} {tier:?}");
    }
}
