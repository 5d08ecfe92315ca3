//! What can be copied where, and what the answer tells.

use tavola_model::{
    AccessTier, BlobCommand, BlobConditions, BlobCopied, BlobHeaders, BlobOutcome, CopyBlob, ErrorCode,
    FromUrl, NewBlob, NewKind, PutBlobFromUrl, PutBlockList, RehydratePriority, SetBlobHeaders, SetBlobTier,
    TransferSums,
};

use crate::bench::{Bench, bytes, commit, copy_blob, head, new_blob, path};

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

#[test]
fn a_copy_replaces_a_blob_of_its_own_type_alone() {
    let bench = bench();
    for (from, to) in [("block", "append"), ("page", "block"), ("append", "page")] {
        assert_eq!(copy(&bench, copy_blob(from, to)).err(), Some(ErrorCode::InvalidBlobType), "{from} {to}");
    }
    let sync = CopyBlob { is_sync: true, ..copy_blob("block", "page") };
    assert_eq!(copy(&bench, sync).err(), Some(ErrorCode::InvalidBlobType));
    bench.put("other", &bytes(2, 10));
    copy(&bench, copy_blob("block", "other")).unwrap();
    assert_eq!(bench.get("other").unwrap(), bytes(1, 100));
}

#[test]
fn an_archived_blob_is_copied_to_another_tier_and_stays_archived() {
    let bench = bench();
    let set_tier = |tier| {
        let set = SetBlobTier {
            target: path("block").into(),
            tier,
            rehydrate: RehydratePriority::Standard,
            conditions: BlobConditions::default(),
        };
        bench.run(BlobCommand::SetBlobTier(set)).unwrap();
    };
    set_tier(AccessTier::Archive);
    let asked = |tier| CopyBlob { tier, ..copy_blob("block", "copy") };
    for tier in [None, Some(AccessTier::Archive)] {
        assert_eq!(copy(&bench, asked(tier)).err(), Some(ErrorCode::BlobArchived), "{tier:?}");
    }
    let sync = CopyBlob { is_sync: true, ..asked(Some(AccessTier::Hot)) };
    assert_eq!(copy(&bench, sync).err(), Some(ErrorCode::BlobArchived));
    copy(&bench, asked(Some(AccessTier::Hot))).unwrap();
    assert_eq!(bench.get("copy").unwrap(), bytes(1, 100));
    assert_eq!(bench.get("block"), Err(ErrorCode::BlobArchived));
    set_tier(AccessTier::Cool);
    let early = copy(&bench, asked(Some(AccessTier::Hot)));
    assert_eq!(early.err(), Some(ErrorCode::BlobBeingRehydrated));
}

#[test]
fn one_sum_is_told_and_it_is_the_one_that_the_client_knows() {
    let bench = bench();
    let md5 =
        [0x6d, 0x0b, 0xb0, 0x09, 0x54, 0xce, 0xb7, 0xfb, 0xee, 0x43, 0x6b, 0xb5, 0x5a, 0x83, 0x97, 0xa9];
    bench.put("zeros", &vec![0; 100].into());
    for announced in [None, Some(md5)] {
        let sync = CopyBlob { is_sync: true, source_md5: announced, ..copy_blob("zeros", "copy") };
        let copied = copy(&bench, sync).unwrap();
        assert_eq!((copied.md5, copied.crc64.is_some()), (announced, announced.is_none()));
        let sums = TransferSums { md5: announced, ..TransferSums::default() };
        let CopyBlob { source, source_conditions: conditions, .. } = copy_blob("zeros", "copy");
        let put = PutBlobFromUrl {
            blob: path("copy"),
            source: FromUrl { source, range: None, bytes_max: u64::MAX, sums, conditions },
            new: NewBlob::default(),
            copies_headers: true,
            copies_tags: false,
            conditions: BlobConditions::default(),
        };
        match bench.run(BlobCommand::PutBlobFromUrl(Box::new(put))).unwrap() {
            BlobOutcome::BlobPutFromUrl(written) => {
                assert_eq!((written.md5, written.crc64.is_some()), (announced, announced.is_none()));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_sums_of_a_list_of_blocks_are_told_in_the_same_way() {
    let bench = bench();
    // The sum of an empty list.
    let md5 =
        [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e];
    for (sums, expected) in [
        (TransferSums::default(), None),
        (TransferSums { md5: Some(md5), ..TransferSums::default() }, Some(md5)),
        (TransferSums { tells_md5: true, ..TransferSums::default() }, Some(md5)),
    ] {
        let BlobCommand::PutBlockList(list) = commit("new", &[]) else { panic!() };
        match bench.run(BlobCommand::PutBlockList(PutBlockList { sums, ..list })).unwrap() {
            BlobOutcome::BlockListPut(written) => {
                assert_eq!((written.md5, written.crc64.is_some()), (expected, expected.is_none()));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn properties_tell_of_a_copy_until_they_are_set() {
    let bench = bench();
    copy(&bench, copy_blob("block", "copy")).unwrap();
    let told = || match bench.run(head(path("copy").into(), BlobConditions::default())).unwrap() {
        BlobOutcome::BlobPropertiesFetched(properties) => properties.copy.is_some(),
        other => panic!("{other:?}"),
    };
    assert!(told());
    let set = SetBlobHeaders {
        blob: path("copy"),
        headers: Some(BlobHeaders::default()),
        length: None,
        sequence: None,
        conditions: BlobConditions::default(),
    };
    bench.run(BlobCommand::SetBlobProperties(set)).unwrap();
    assert!(!told());
}
