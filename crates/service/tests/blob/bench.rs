//! A blob service on the reference stores, whose clock moves only when told, and short ways to ask it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tavola_auth::Permitted;
use tavola_engine::{BytesSource, ContentStore, Engine, MemoryContents, MemoryEngine};
use tavola_model::{
    AccountCommand, AccountName, AppendBlock, AppendConditions, BlobCommand, BlobConditions, BlobHeaders,
    BlobMoment, BlobName, BlobOutcome, BlobPath, BlobTarget, BlockId, BlockSource, ByteRange, Clock, Command,
    ContainerConditions, ContainerName, CopyBlob, CopySource, CreateContainer, DateTime, DeleteBlob,
    DeleteContainer, DeleteRetention, DeleteSnapshots, ErrorCode, GetBlob, GetBlobProperties, Metadata,
    NewBlob, NewKind, Outcome, PublicAccess, PutBlob, PutBlock, PutBlockList, PutPages, RehydratePriority,
    SequenceConditions, ServiceError, ServicePropertiesPatch, SnapshotBlob, StorageService, TransferSums,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::SystemRandom;

pub struct HeldClock(AtomicU64);

impl HeldClock {
    pub fn pass_seconds(&self, seconds: u64) {
        self.pass_ticks(seconds * 10_000_000);
    }

    pub fn pass_ticks(&self, ticks: u64) {
        self.0.fetch_add(ticks, Ordering::Relaxed);
    }
}

impl Clock for HeldClock {
    fn now(&self) -> DateTime {
        // Every look is a tick later, so that times that follow each other differ.
        DateTime::from_ticks(self.0.fetch_add(1, Ordering::Relaxed)).unwrap()
    }
}

/// A service with a container `box`.
pub struct Bench {
    pub service: Service,
    pub contents: Arc<MemoryContents>,
    pub clock: Arc<HeldClock>,
    pub runtime: tokio::runtime::Runtime,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(ServiceSettings::default())
    }

    pub fn with(settings: ServiceSettings) -> Self {
        let clock = clock();
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new(clock.clone()));
        let contents = Arc::new(MemoryContents::new(clock.clone()));
        let service = Service::new(engine, clock.clone(), Arc::new(SystemRandom), settings)
            .with_contents(contents.clone() as Arc<dyn ContentStore>);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bench = Self { service, contents, clock, runtime };
        bench.run(create_container()).unwrap();
        bench
    }

    pub fn run(&self, command: BlobCommand) -> Result<BlobOutcome, ErrorCode> {
        self.runtime.block_on(execute(&self.service, command, Bytes::new())).map(|(outcome, _)| outcome)
    }

    pub fn run_with(&self, command: BlobCommand, body: Bytes) -> Result<BlobOutcome, ErrorCode> {
        self.runtime.block_on(execute(&self.service, command, body)).map(|(outcome, _)| outcome)
    }

    pub fn put(&self, name: &str, body: &Bytes) {
        self.run_with(put(name, body), body.clone()).unwrap();
    }

    pub fn read(&self, target: BlobTarget, range: Option<ByteRange>) -> Result<Bytes, ErrorCode> {
        self.runtime.block_on(execute(&self.service, get(target, range), Bytes::new())).map(|(_, body)| body)
    }

    pub fn get(&self, name: &str) -> Result<Bytes, ErrorCode> {
        self.read(path(name).into(), None)
    }

    pub fn snapshot(&self, name: &str) -> BlobTarget {
        let asked = SnapshotBlob {
            blob: path(name),
            metadata: Metadata::default(),
            conditions: BlobConditions::default(),
        };
        match self.run(BlobCommand::SnapshotBlob(asked)).unwrap() {
            BlobOutcome::BlobSnapshotTaken { snapshot, .. } => {
                BlobTarget { path: path(name), moment: BlobMoment::Snapshot(snapshot) }
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn delete(&self, target: BlobTarget, snapshots: DeleteSnapshots) -> Result<(), ErrorCode> {
        self.run(delete(target, snapshots)).map(|_| ())
    }

    /// Lets what is deleted be had back for so many days.
    pub fn retain_deleted(&self, days: u32) {
        self.runtime.block_on(retain_deleted(&self.service, Some(days)));
    }

    /// Lets what is deleted from now on be gone.
    pub fn retain_nothing(&self) {
        self.runtime.block_on(retain_deleted(&self.service, None));
    }

    /// The refusal of a command, with all that it tells.
    pub fn refused(&self, command: BlobCommand) -> ServiceError {
        let account = AccountName::parse("devstoreaccount1").unwrap();
        let permitted = Permitted::unchecked_for_test(account, Command::Blob(Box::new(command)), None);
        self.runtime.block_on(self.service.execute(permitted)).unwrap_err()
    }

    /// Bytes of contents, once what is cleaned up behind answers is gone.
    pub fn content_bytes(&self) -> u64 {
        self.runtime.block_on(async {
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
        });
        self.contents.bytes()
    }
}

/// Lets what is deleted be had back for so many days.
pub async fn retain_deleted(service: &Service, days: Option<u32>) {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let patch = ServicePropertiesPatch {
        delete_retention: Some(DeleteRetention { days, ..DeleteRetention::default() }),
        ..ServicePropertiesPatch::default()
    };
    let set = Command::Account(AccountCommand::SetServiceProperties(Box::new(patch)));
    let permitted = Permitted::unchecked_for_test(account, set, None).at_service(StorageService::Blob);
    let done = service.execute(permitted).await.unwrap();
    assert!(matches!(done, Outcome::Account(_)), "{done:?}");
}

pub fn clock() -> Arc<HeldClock> {
    Arc::new(HeldClock(AtomicU64::new(DateTime::parse("2026-01-01").unwrap().ticks())))
}

pub async fn execute(
    service: &Service,
    command: BlobCommand,
    body: Bytes,
) -> Result<(BlobOutcome, Bytes), ErrorCode> {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let permitted = Permitted::unchecked_for_test(account, Command::Blob(Box::new(command)), None);
    let mut source = BytesSource::new([body]);
    let executed =
        service.execute_with(permitted, None, Some(&mut source)).await.map_err(|error| error.code)?;
    let mut got = BytesMut::new();
    if let Some(mut download) = executed.download {
        while let Some(piece) = download.next().await.map_err(|_| ErrorCode::InternalError)? {
            got.extend_from_slice(&piece);
        }
    }
    match executed.outcome {
        Outcome::Blob(outcome) => Ok((*outcome, got.freeze())),
        other => panic!("{other:?}"),
    }
}

pub fn container() -> ContainerName {
    ContainerName::parse("box").unwrap()
}

pub fn path(name: &str) -> BlobPath {
    BlobPath { container: container(), name: BlobName::parse(name).unwrap() }
}

pub fn create_container() -> BlobCommand {
    BlobCommand::CreateContainer(CreateContainer {
        container: container(),
        metadata: Metadata::default(),
        public_access: PublicAccess::None,
    })
}

pub fn delete_container() -> BlobCommand {
    BlobCommand::DeleteContainer(DeleteContainer {
        container: container(),
        conditions: ContainerConditions::default(),
    })
}

pub fn new_blob(name: &str, kind: NewKind, length: u64) -> PutBlob {
    PutBlob {
        blob: path(name),
        kind,
        length: Some(length),
        sums: TransferSums::default(),
        new: NewBlob::default(),
        conditions: BlobConditions::default(),
    }
}

pub fn put(name: &str, body: &Bytes) -> BlobCommand {
    BlobCommand::PutBlob(new_blob(name, NewKind::Block, body.len() as u64))
}

pub fn get(target: BlobTarget, range: Option<ByteRange>) -> BlobCommand {
    BlobCommand::GetBlob(GetBlob {
        target,
        range,
        range_sum: None,
        overrides: BlobHeaders::default(),
        conditions: BlobConditions::default(),
    })
}

pub fn head(target: BlobTarget, conditions: BlobConditions) -> BlobCommand {
    BlobCommand::GetBlobProperties(GetBlobProperties {
        target,
        overrides: BlobHeaders::default(),
        conditions,
    })
}

pub fn delete(target: BlobTarget, snapshots: DeleteSnapshots) -> BlobCommand {
    BlobCommand::DeleteBlob(DeleteBlob {
        target,
        snapshots,
        is_permanent: false,
        conditions: BlobConditions::default(),
    })
}

/// Copy Blob within the container, which may go on behind its answer.
pub fn copy_blob(from: &str, to: &str) -> CopyBlob {
    let account = AccountName::parse("devstoreaccount1").unwrap();
    let source = CopySource {
        shown: format!("http://127.0.0.1/devstoreaccount1/box/{from}"),
        host: "127.0.0.1".to_owned(),
        path: format!("/devstoreaccount1/box/{from}"),
        query: Default::default(),
        target: Some((account, path(from).into())),
        authorization: None,
        is_secure: false,
    };
    CopyBlob {
        blob: path(to),
        source,
        metadata: Metadata::default(),
        tags: Default::default(),
        copies_tags: false,
        tier: None,
        rehydrate: RehydratePriority::Standard,
        seals: None,
        is_sync: false,
        source_md5: None,
        source_lease: None,
        source_conditions: Default::default(),
        conditions: BlobConditions::default(),
    }
}

pub fn block_id(name: &str) -> BlockId {
    BlockId::from_bytes(name.as_bytes()).unwrap()
}

pub fn put_block(name: &str, id: &str, body: &Bytes) -> BlobCommand {
    BlobCommand::PutBlock(PutBlock {
        blob: path(name),
        id: block_id(id),
        length: Some(body.len() as u64),
        sums: TransferSums::default(),
        lease: None,
    })
}

pub fn commit(name: &str, ids: &[&str]) -> BlobCommand {
    BlobCommand::PutBlockList(PutBlockList {
        blob: path(name),
        blocks: ids.iter().map(|id| (BlockSource::Latest, block_id(id))).collect(),
        sums: TransferSums::default(),
        text: Bytes::new(),
        new: NewBlob::default(),
        conditions: BlobConditions::default(),
    })
}

pub fn append(name: &str, body: &Bytes, conditions: AppendConditions) -> BlobCommand {
    BlobCommand::AppendBlock(AppendBlock {
        blob: path(name),
        length: Some(body.len() as u64),
        sums: TransferSums::default(),
        append: conditions,
        conditions: BlobConditions::default(),
    })
}

pub fn put_pages(name: &str, first: u64, body: &Bytes) -> BlobCommand {
    BlobCommand::PutPages(PutPages {
        blob: path(name),
        first,
        length: body.len() as u64,
        sums: TransferSums::default(),
        sequence: SequenceConditions::default(),
        conditions: BlobConditions::default(),
    })
}

/// Bytes that differ from place to place and from seed to seed.
pub fn bytes(seed: u8, length: usize) -> Bytes {
    (0..length).map(|at| (at * 31 + at / 251 + usize::from(seed) * 7).to_le_bytes()[0]).collect()
}
