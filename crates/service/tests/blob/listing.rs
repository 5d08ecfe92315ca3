//! Lists: every blob once and in order, whatever the size of the page.

use tavola_model::{
    BlobCommand, BlobConditions, BlobEntry, BlobOutcome, BlobTags, BlobTarget, ContainerName,
    CreateContainer, DeleteSnapshots, ErrorCode, EtagMatch, FindBlobs, ListBlobs, ListContainers,
    ListInclude, Metadata, NewKind, PublicAccess, SetBlobTags, TagComparison, TagFilter, TransferSums,
    VersionConditions,
};

use crate::bench::{Bench, bytes, commit, container, delete, execute, new_blob, path, put_block};
use crate::watched::Watched;

fn list(bench: &Bench, prefix: &str, delimiter: Option<&str>, max: u32, include: ListInclude) -> Vec<String> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let asked = ListBlobs {
            container: container(),
            prefix: Some(prefix.to_owned()),
            delimiter: delimiter.map(str::to_owned),
            from: from.take(),
            start_from: None,
            max: Some(max),
            include,
            marker: None,
        };
        let Ok(BlobOutcome::BlobsListed(page)) = bench.run(BlobCommand::ListBlobs(asked)) else { panic!() };
        assert!(page.entries.len() <= max as usize);
        names.extend(page.entries.into_iter().map(|entry| match entry {
            BlobEntry::Prefix(prefix) => format!("[{prefix}]"),
            BlobEntry::Blob(blob) if blob.snapshot.is_some() => format!("{}@", blob.name),
            BlobEntry::Blob(blob) if blob.is_uncommitted => format!("{}?", blob.name),
            BlobEntry::Blob(blob) => blob.name.to_string(),
        }));
        from = page.next;
        if from.is_none() {
            return names;
        }
    }
}

#[test]
fn names_come_in_order_once_each_flat_and_by_hierarchy() {
    let bench = Bench::new();
    for name in ["a", "a/1", "a/2", "a/b/3", "ab", "b/c/d", "b/c/e", "z", "\u{FFFD}", "\u{1F600}", "Z"] {
        bench.put(name, &bytes(1, 3));
    }
    // A blob with many rows, which a list passes over.
    for number in 0..30 {
        bench.run_with(put_block("m", &format!("{number:02}"), &bytes(1, 3)), bytes(1, 3)).unwrap();
    }
    let flat = ["Z", "a", "a/1", "a/2", "a/b/3", "ab", "b/c/d", "b/c/e", "z", "\u{1F600}", "\u{FFFD}"]
        .map(str::to_owned);
    let none = ListInclude::default();
    for max in [1, 2, 3, 5000] {
        assert_eq!(list(&bench, "", None, max, none), flat, "{max}");
        let top = list(&bench, "", Some("/"), max, none);
        assert_eq!(top, ["Z", "a", "[a/]", "ab", "[b/]", "z", "\u{1F600}", "\u{FFFD}"], "{max}");
        assert_eq!(list(&bench, "a/", Some("/"), max, none), ["a/1", "a/2", "[a/b/]"], "{max}");
        assert_eq!(list(&bench, "b/", Some("/"), max, none), ["[b/c/]"], "{max}");
        assert_eq!(list(&bench, "c", None, max, none), Vec::<String>::new(), "{max}");
    }
    let uncommitted = ListInclude { uncommitted_blobs: true, ..none };
    assert_eq!(list(&bench, "m", None, 1, uncommitted), ["m?"]);
    bench.run(commit("m", &["00", "01"])).unwrap();
    assert_eq!(list(&bench, "m", None, 1, none), ["m"]);
}

#[test]
fn snapshots_come_before_their_blob() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        bench.put(name, &bytes(1, 3));
        bench.snapshot(name);
        bench.snapshot(name);
    }
    let snapshots = ListInclude { snapshots: true, ..ListInclude::default() };
    for max in [1, 2, 4, 5000] {
        assert_eq!(list(&bench, "", None, max, snapshots), ["a@", "a@", "a", "b@", "b@", "b"], "{max}");
    }
    assert_eq!(list(&bench, "", None, 1, ListInclude::default()), ["a", "b"]);
}

fn tags(pairs: &[(&str, &str)]) -> BlobTags {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    BlobTags::parse(pairs).unwrap()
}

fn set_tags(target: BlobTarget, tags: BlobTags) -> BlobCommand {
    BlobCommand::SetBlobTags(SetBlobTags {
        target,
        tags,
        sums: TransferSums::default(),
        text: Default::default(),
        conditions: BlobConditions::default(),
    })
}

#[test]
fn blobs_are_found_by_the_tags_that_they_have_now() {
    let bench = Bench::new();
    let set = |name: &str, pairs: &[(&str, &str)]| {
        bench.run(set_tags(path(name).into(), tags(pairs))).unwrap();
    };
    for name in ["a", "b", "c"] {
        bench.put(name, &bytes(1, 3));
    }
    set("a", &[("colour", "blue"), ("size", "1")]);
    set("b", &[("colour", "blue"), ("size", "2")]);
    set("c", &[("colour", "red")]);
    let compare = |name: &str, comparison, value: &str| TagFilter::Compare {
        name: name.to_owned(),
        comparison,
        value: value.to_owned(),
    };
    let find = |filter: TagFilter, max: u32| {
        let (mut names, mut from) = (String::new(), None);
        loop {
            let asked = FindBlobs {
                container: None,
                in_container: None,
                filter: Some(filter.clone()),
                text: String::new(),
                from: from.take(),
                max: Some(max),
            };
            let Ok(BlobOutcome::BlobsFound(page)) = bench.run(BlobCommand::FindBlobsByTags(asked)) else {
                panic!()
            };
            page.blobs.iter().for_each(|blob| names.push_str(blob.name.as_str()));
            from = page.next;
            if from.is_none() {
                return names;
            }
        }
    };
    let blue = compare("colour", TagComparison::Equal, "blue");
    let large = compare("size", TagComparison::Greater, "1");
    for max in [1, 2, 5000] {
        assert_eq!(find(blue.clone(), max), "ab", "{max}");
        assert_eq!(find(large.clone(), max), "b", "{max}");
        assert_eq!(find(TagFilter::And(vec![large.clone(), blue.clone()]), max), "b");
    }
    set("a", &[("colour", "red")]);
    assert_eq!(find(blue.clone(), 5000), "b");
    bench.put("b", &bytes(1, 4));
    assert_eq!(find(blue, 5000), "");
    assert_eq!(find(compare("colour", TagComparison::GreaterOrEqual, "a"), 5000), "ac");
}

#[test]
fn only_containers_that_the_service_writes_to_are_left_out_of_a_list() {
    let bench = Bench::new();
    for name in ["$root", "$web", "$logs", "$blobchangefeed"] {
        bench
            .run(BlobCommand::CreateContainer(CreateContainer {
                container: ContainerName::parse(name).unwrap(),
                metadata: Metadata::default(),
                public_access: PublicAccess::None,
            }))
            .unwrap();
    }
    let listed = |with_system| {
        let asked = ListContainers { with_system, ..ListContainers::default() };
        match bench.run(BlobCommand::ListContainers(asked)).unwrap() {
            BlobOutcome::ContainersListed(page) => {
                page.containers.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(listed(false), ["$root", "$web", "box"]);
    assert_eq!(listed(true), ["$blobchangefeed", "$logs", "$root", "$web", "box"]);
}

#[test]
fn tags_of_refused_requests_and_of_snapshots_are_not_in_the_index() {
    let watched = Watched::new();
    let bench = &watched.bench;
    let blue = || tags(&[("colour", "blue"), ("size", "1")]);
    assert_eq!(bench.run(set_tags(path("missing").into(), blue())).unwrap_err(), ErrorCode::BlobNotFound);
    assert_eq!(watched.index_entries(), 0, "Set Blob Tags of a blob that is not there");

    bench.put("a", &bytes(1, 3));
    let snapshot = bench.snapshot("a");
    bench.run(set_tags(snapshot, blue())).unwrap();
    assert_eq!(watched.index_entries(), 0, "Set Blob Tags of a snapshot");

    let BlobCommand::PutBlockList(mut list) = commit("a", &["none"]) else { panic!() };
    list.new.tags = blue();
    assert_eq!(bench.run(BlobCommand::PutBlockList(list)).unwrap_err(), ErrorCode::InvalidBlockList);
    assert_eq!(watched.index_entries(), 0, "Put Block List of a block that is not there");

    // Somebody else is faster than these, which have found that they may be done.
    let is_new = VersionConditions { if_none_match: Some(EtagMatch::Any), ..VersionConditions::default() };
    let mut put = new_blob("b", NewKind::Block, 3);
    (put.new.tags, put.conditions.version) = (blue(), is_new.clone());
    be_slower_than(&watched, crate::bench::put("b", &bytes(2, 3)));
    assert_eq!(
        bench.run_with(BlobCommand::PutBlob(put), bytes(1, 3)).unwrap_err(),
        ErrorCode::BlobAlreadyExists
    );
    assert_eq!(watched.index_entries(), 0, "Put Blob");
    be_slower_than(&watched, delete(path("b").into(), DeleteSnapshots::Refuse));
    assert_eq!(bench.run(set_tags(path("b").into(), blue())).unwrap_err(), ErrorCode::BlobNotFound);
    assert_eq!(watched.index_entries(), 0, "Set Blob Tags");

    // A refusal takes nothing from the blob as it is.
    bench.run(set_tags(path("a").into(), blue())).unwrap();
    let mut put = new_blob("a", NewKind::Block, 3);
    (put.new.tags, put.conditions.version) = (blue(), is_new);
    assert_eq!(
        bench.run_with(BlobCommand::PutBlob(put), bytes(1, 3)).unwrap_err(),
        ErrorCode::BlobAlreadyExists
    );
    assert_eq!(watched.index_entries(), 2);
}

/// Lets a command be done just before the next transaction.
fn be_slower_than(watched: &Watched, command: BlobCommand) {
    let service = watched.bench.service.clone();
    *watched.engine.before.lock().unwrap() = Some(Box::pin(async move {
        execute(&service, command, bytes(2, 3)).await.unwrap();
    }));
}
