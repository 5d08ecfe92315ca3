//! Every operation, and what it needs, as data.

use tavola_model::{
    AbortCopy, AccessTier, AppendBlock, AppendConditions, BlobCommand, BlobConditions, BlobHeaders,
    BlobMoment, BlobTags, BlobTarget, BlockId, BlockListType, ClearPages, ContainerConditions, CopyBlob,
    CopySource, CreateContainer, DateTime, DeleteBlob, DeleteContainer, DeleteSnapshots, FindBlobs, GetBlob,
    GetBlobProperties, GetBlockList, GetContainer, GetPageRanges, Guid, IssueDelegationKey, LeaseAction,
    LeaseBlob, LeaseContainer, LeaseDuration, ListBlobs, ListContainers, ListInclude, Metadata, NewBlob,
    NewKind, PublicAccess, PutBlob, PutBlock, PutBlockList, PutPages, RehydratePriority, RestoreContainer,
    SealBlob, SequenceConditions, SetBlobHeaders, SetBlobMetadata, SetBlobTags, SetBlobTier, SetContainerAcl,
    SetContainerMetadata, SnapshotBlob, SourceConditions, TagComparison, TagFilter, TransferSums,
    VersionConditions,
};

/// What an operation needs: resource type and letters of an account SAS, letters of a token for a container or a blob, one
/// of which is enough; empty for never, `*` for any token.
pub struct Operation {
    pub command: fn(&BlobTarget) -> BlobCommand,
    pub resource_type: char,
    pub account_letters: &'static str,
    service_letters: &'static str,
    of_container: bool,
    /// It replaces a blob that exists.
    pub replaces: bool,
    /// How public a container must be.
    pub public: Option<PublicAccess>,
}

impl Operation {
    pub fn name(&self) -> &'static str {
        let path = super::path("con", "b");
        (self.command)(&BlobTarget { path, moment: BlobMoment::Current }).name()
    }

    pub fn container_letters(&self) -> &'static str {
        self.service_letters
    }

    pub fn blob_letters(&self) -> &'static str {
        if self.of_container { "" } else { self.service_letters }
    }
}

type Make = fn(&BlobTarget) -> BlobCommand;

const fn account(command: Make, resource_type: char, letters: &'static str) -> Operation {
    Operation {
        command,
        resource_type,
        account_letters: letters,
        service_letters: "",
        of_container: true,
        replaces: false,
        public: None,
    }
}

const fn blob(command: Make, letters: &'static str) -> Operation {
    Operation { service_letters: letters, of_container: false, ..account(command, 'o', letters) }
}

const fn replacing(command: Make) -> Operation {
    Operation { replaces: true, ..blob(command, "cw") }
}

const fn readable(command: Make) -> Operation {
    Operation { public: Some(PublicAccess::Blob), ..blob(command, "r") }
}

fn sums() -> TransferSums {
    TransferSums::default()
}

fn when() -> BlobConditions {
    BlobConditions::default()
}

fn get_container(at: &BlobTarget) -> GetContainer {
    GetContainer { container: at.path.container.clone(), lease: None }
}

fn lease(action: LeaseAction, at: &BlobTarget) -> BlobCommand {
    BlobCommand::LeaseBlob(LeaseBlob { blob: at.path.clone(), action, conditions: when() })
}

fn find(container: Option<&BlobTarget>) -> BlobCommand {
    BlobCommand::FindBlobsByTags(FindBlobs {
        container: container.map(|at| at.path.container.clone()),
        in_container: None,
        filter: None,
        text: String::new(),
        from: None,
        max: None,
    })
}

fn copy(at: &BlobTarget) -> BlobCommand {
    BlobCommand::CopyBlob(Box::new(CopyBlob {
        blob: at.path.clone(),
        source: CopySource {
            shown: String::new(),
            host: String::new(),
            path: String::new(),
            query: Default::default(),
            target: None,
            authorization: None,
            is_secure: false,
        },
        is_sync: false,
        metadata: Metadata::default(),
        tags: BlobTags::default(),
        copies_tags: false,
        tier: None,
        rehydrate: RehydratePriority::Standard,
        seals: None,
        source_md5: None,
        source_conditions: SourceConditions::default(),
        source_lease: None,
        conditions: when(),
    }))
}

fn delete(at: &BlobTarget, moment: BlobMoment, is_permanent: bool) -> BlobCommand {
    BlobCommand::DeleteBlob(DeleteBlob {
        target: BlobTarget { moment, ..at.clone() },
        snapshots: DeleteSnapshots::Refuse,
        is_permanent,
        conditions: when(),
    })
}

fn get_blob(at: &BlobTarget, conditions: BlobConditions) -> BlobCommand {
    let overrides = BlobHeaders::default();
    BlobCommand::GetBlob(GetBlob { target: at.clone(), range: None, range_sum: None, overrides, conditions })
}

fn put_blob(at: &BlobTarget) -> BlobCommand {
    let (new, length) = (NewBlob::default(), Some(1));
    let blob = at.path.clone();
    BlobCommand::PutBlob(PutBlob {
        blob,
        kind: NewKind::Block,
        length,
        sums: sums(),
        new,
        conditions: when(),
    })
}

pub const OPERATIONS: [Operation; 37] = [
    account(|_| BlobCommand::ListContainers(ListContainers::default()), 's', "l"),
    account(|_| find(None), 'o', "f"),
    Operation { service_letters: "f", ..account(|at| find(Some(at)), 'o', "f") },
    Operation {
        of_container: false,
        service_letters: "*",
        ..account(|_| BlobCommand::GetAccountInformation(None), 's', "*")
    },
    Operation {
        of_container: false,
        service_letters: "*",
        ..account(|_| BlobCommand::SubmitBatch(None), 's', "*")
    },
    account(
        |_| {
            let (start, expiry, version) = (None, DateTime::MAX, String::new());
            BlobCommand::GetUserDelegationKey(IssueDelegationKey { start, expiry, version, key: None })
        },
        's',
        "",
    ),
    account(
        |at| {
            let container = at.path.container.clone();
            let (metadata, public_access) = (Metadata::default(), PublicAccess::None);
            BlobCommand::CreateContainer(CreateContainer { container, metadata, public_access })
        },
        'c',
        "cw",
    ),
    account(
        |at| {
            let (container, conditions) = (at.path.container.clone(), ContainerConditions::default());
            BlobCommand::DeleteContainer(DeleteContainer { container, conditions })
        },
        'c',
        "d",
    ),
    account(
        |at| {
            let (deleted_name, deleted_version) = (String::new(), String::new());
            let container = at.path.container.clone();
            BlobCommand::RestoreContainer(RestoreContainer { container, deleted_name, deleted_version })
        },
        'c',
        "w",
    ),
    Operation {
        public: Some(PublicAccess::Container),
        ..account(|at| BlobCommand::GetContainerProperties(get_container(at)), 'c', "r")
    },
    Operation {
        public: Some(PublicAccess::Container),
        ..account(|at| BlobCommand::GetContainerMetadata(get_container(at)), 'c', "r")
    },
    account(
        |at| {
            let (metadata, conditions) = (Metadata::default(), ContainerConditions::default());
            let container = at.path.container.clone();
            BlobCommand::SetContainerMetadata(SetContainerMetadata { container, metadata, conditions })
        },
        'c',
        "w",
    ),
    account(|at| BlobCommand::GetContainerAcl(get_container(at)), 'c', ""),
    account(
        |at| {
            BlobCommand::SetContainerAcl(SetContainerAcl {
                container: at.path.container.clone(),
                identifiers: Vec::new(),
                public_access: PublicAccess::None,
                conditions: ContainerConditions::default(),
            })
        },
        'c',
        "",
    ),
    account(
        |at| {
            let action = LeaseAction::Acquire { duration: LeaseDuration::Infinite, proposed: None };
            let (container, conditions) = (at.path.container.clone(), VersionConditions::default());
            BlobCommand::LeaseContainer(LeaseContainer { container, action, conditions })
        },
        'c',
        "w",
    ),
    Operation {
        service_letters: "l",
        public: Some(PublicAccess::Container),
        ..account(
            |at| {
                BlobCommand::ListBlobs(ListBlobs {
                    container: at.path.container.clone(),
                    prefix: None,
                    delimiter: None,
                    from: None,
                    start_from: None,
                    max: None,
                    include: ListInclude::default(),
                    marker: None,
                })
            },
            'c',
            "l",
        )
    },
    replacing(put_blob),
    replacing(copy),
    replacing(|at| {
        let (blocks, text, new) = (Vec::new(), Default::default(), NewBlob::default());
        let blob = at.path.clone();
        BlobCommand::PutBlockList(PutBlockList { blob, blocks, sums: sums(), text, new, conditions: when() })
    }),
    blob(
        |at| {
            let id = BlockId::from_bytes(b"1").unwrap();
            let blob = at.path.clone();
            BlobCommand::PutBlock(PutBlock { blob, id, length: Some(1), sums: sums(), lease: None })
        },
        "cw",
    ),
    blob(
        |at| {
            let (blob, metadata) = (at.path.clone(), Metadata::default());
            BlobCommand::SnapshotBlob(SnapshotBlob { blob, metadata, conditions: when() })
        },
        "cw",
    ),
    readable(|at| get_blob(at, when())),
    readable(|at| {
        let (target, overrides) = (at.clone(), Default::default());
        BlobCommand::GetBlobProperties(GetBlobProperties { target, overrides, conditions: when() })
    }),
    readable(|at| BlobCommand::GetBlobMetadata(at.clone(), when())),
    readable(|at| {
        let (target, which) = (at.clone(), BlockListType::All);
        BlobCommand::GetBlockList(GetBlockList { target, which, conditions: when() })
    }),
    readable(|at| {
        let (target, conditions) = (at.clone(), when());
        let (range, since, from, max) = (None, None, None, None);
        BlobCommand::GetPageRanges(GetPageRanges {
            target,
            range,
            since,
            from,
            max,
            is_paged: true,
            conditions,
        })
    }),
    blob(|at| BlobCommand::GetBlobTags(at.clone(), when()), "t"),
    blob(
        |at| {
            let (target, tags, text) = (at.clone(), BlobTags::default(), Default::default());
            BlobCommand::SetBlobTags(SetBlobTags { target, tags, sums: sums(), text, conditions: when() })
        },
        "t",
    ),
    blob(
        |at| {
            let (headers, length, sequence) = (None, None, None);
            let blob = at.path.clone();
            BlobCommand::SetBlobProperties(SetBlobHeaders {
                blob,
                headers,
                length,
                sequence,
                conditions: when(),
            })
        },
        "w",
    ),
    blob(
        |at| {
            let (blob, metadata) = (at.path.clone(), Metadata::default());
            BlobCommand::SetBlobMetadata(SetBlobMetadata { blob, metadata, conditions: when() })
        },
        "w",
    ),
    blob(|at| lease(LeaseAction::Break { period_seconds: None }, at), "wd"),
    blob(|at| delete(at, at.moment, false), "d"),
    blob(|at| delete(at, at.moment, true), "y"),
    blob(
        |at| {
            let (blob, copy) = (at.path.clone(), Guid([0; 16]));
            BlobCommand::AbortCopyBlob(AbortCopy { blob, copy, lease: None })
        },
        "w",
    ),
    blob(
        |at| {
            let (target, rehydrate) = (at.clone(), RehydratePriority::Standard);
            BlobCommand::SetBlobTier(SetBlobTier {
                target,
                tier: AccessTier::Cool,
                rehydrate,
                conditions: when(),
            })
        },
        "w",
    ),
    blob(
        |at| {
            let (blob, append) = (at.path.clone(), AppendConditions::default());
            BlobCommand::AppendBlock(AppendBlock {
                blob,
                length: Some(1),
                sums: sums(),
                append,
                conditions: when(),
            })
        },
        "aw",
    ),
    blob(
        |at| {
            let (blob, append) = (at.path.clone(), AppendConditions::default());
            BlobCommand::SealBlob(SealBlob { blob, append, conditions: when() })
        },
        "w",
    ),
];

#[test]
fn tags_take_their_own_letter_besides() {
    let here = super::target("con", "a", BlobMoment::Current);
    let filter = TagFilter::Compare { name: "a".into(), comparison: TagComparison::Equal, value: "1".into() };
    let asking = |_: &str| get_blob(&here, BlobConditions { if_tags: Some(filter.clone()), ..when() });
    let BlobCommand::PutBlob(mut tagging) = put_blob(&here) else { unreachable!() };
    tagging.new.tags = BlobTags::parse([("a".to_owned(), "1".to_owned())]).unwrap();
    for (command, letters) in [(asking(""), "r"), (BlobCommand::PutBlob(tagging), "w")] {
        for (permissions, is_open) in [(letters.to_owned(), false), (format!("{letters}t"), true)] {
            let token = super::token(&super::sas("con", &permissions));
            let caller = super::request("/acct/con/a", &token).authenticate().unwrap();
            let found = tavola_auth::authorize(&caller, None, command.clone().into(), super::now());
            assert_eq!(found.is_ok(), is_open, "{permissions}");
        }
    }
}

#[test]
fn versions_are_deleted_by_their_own_letter() {
    let here = super::target("con", "a", BlobMoment::Current);
    let moment = BlobMoment::Version(super::time());
    for (permissions, is_open) in [("d", false), ("x", true)] {
        let token = super::token(&super::sas("con", permissions));
        let caller = super::request("/acct/con/a", &token).authenticate().unwrap();
        let found = tavola_auth::authorize(&caller, None, delete(&here, moment, false).into(), super::now());
        assert_eq!(found.is_ok(), is_open, "{permissions}");
    }
}

#[test]
fn pages_are_written_and_cleared_by_whoever_may_write() {
    let here = super::target("con", "a", BlobMoment::Current);
    let sequence = SequenceConditions::default();
    let (blob, first, length) = (here.path.clone(), 0, 512);
    let put = PutPages { blob: blob.clone(), first, length, sums: sums(), sequence, conditions: when() };
    let clear = ClearPages { blob, first, length, sequence, conditions: when() };
    for command in [BlobCommand::PutPages(put), BlobCommand::ClearPages(clear)] {
        for (permissions, is_open) in [("rac", false), ("w", true)] {
            let token = super::token(&super::sas("con", permissions));
            let caller = super::request("/acct/con/a", &token).authenticate().unwrap();
            let found = tavola_auth::authorize(&caller, None, command.clone().into(), super::now());
            assert_eq!(found.is_ok(), is_open, "{permissions}");
        }
    }
}
