//! Containers of many blobs, put by the service in this process.
//!
//! Every blob is put as a request would put it, with its MD5 and a durable row; only HTTP and signatures are left out.
//! So many puts are under way at once that they share their syncs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use tavola_auth::{Account, Caller, authorize};
use tavola_engine::BytesSource;
use tavola_engine_local::{LocalEngine, LocalSettings};
use tavola_model::{
    BlobCommand, BlobConditions, BlobHeaders, BlobName, BlobPath, Clock, Command, ContainerName,
    CreateContainer, Metadata, NewBlob, NewKind, PublicAccess, PutBlob, StorageService, TransferSums,
};
use tavola_service::{Service, ServiceSettings};
use tavola_system::{SystemClock, SystemRandom};

use crate::AnyError;

/// Bytes of each blob.
pub const BLOB_BYTES: usize = 16;
const WRITERS: u64 = 1024;

/// A container with blobs `n{number}` of twelve digits.
#[derive(Clone, Debug)]
pub struct Filled {
    pub container: String,
    pub count: u64,
}

/// Makes and fills containers in a data folder that nobody else has open. Gives how many blobs were put in a second.
pub fn fill_in_process(data: &Path, containers: &[Filled]) -> Result<f64, AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let clock = Arc::new(SystemClock);
    let engine = LocalEngine::open(LocalSettings::new(data), clock.clone())?;
    let service = Service::new(engine.clone(), clock, Arc::new(SystemRandom), ServiceSettings::default());
    let service = service.with_contents(engine.contents());
    let started = Instant::now();
    let total: u64 = containers.iter().map(|filled| filled.count).sum();
    runtime.block_on(async {
        service.start().await?;
        for filled in containers {
            fill(&service, filled).await?;
        }
        Ok::<_, AnyError>(())
    })?;
    let rate = total as f64 / started.elapsed().as_secs_f64();
    // What runs in the background lets go of the service before the engine is closed.
    drop(service);
    drop(runtime);
    drop(engine);
    Ok(rate)
}

async fn fill(service: &Service, filled: &Filled) -> Result<(), AnyError> {
    let container = ContainerName::parse(&filled.container).map_err(|error| error.to_string())?;
    let (metadata, public_access) = (Metadata::default(), PublicAccess::default());
    let create = CreateContainer { container: container.clone(), metadata, public_access };
    execute(service, BlobCommand::CreateContainer(create), None).await?;
    let next = Arc::new(AtomicU64::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (service, container, next, count) =
            (service.clone(), container.clone(), next.clone(), filled.count);
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok::<_, AnyError>(());
                }
                let put = put(&container, number)?;
                execute(&service, BlobCommand::PutBlob(put), Some(Bytes::from_static(&[7; BLOB_BYTES])))
                    .await?;
            }
        });
    }
    while let Some(joined) = writers.join_next().await {
        joined??;
    }
    Ok(())
}

fn put(container: &ContainerName, number: u64) -> Result<PutBlob, AnyError> {
    let name = BlobName::parse(&format!("n{number:012}")).map_err(|error| error.to_string())?;
    let headers =
        BlobHeaders { content_type: Some("application/octet-stream".to_owned()), ..BlobHeaders::default() };
    Ok(PutBlob {
        blob: BlobPath { container: container.clone(), name },
        kind: NewKind::Block,
        length: Some(BLOB_BYTES as u64),
        sums: TransferSums::default(),
        new: NewBlob { headers, ..NewBlob::default() },
        conditions: BlobConditions::default(),
    })
}

/// Does what a command says, as the owner of the account may.
async fn execute(service: &Service, command: BlobCommand, body: Option<Bytes>) -> Result<(), AnyError> {
    let caller = Caller::owner(&Account::development(), StorageService::Blob);
    let permitted = authorize(&caller, None, Command::Blob(Box::new(command)), SystemClock.now())
        .map_err(|error| error.to_string())?;
    let mut upload = body.map(|body| BytesSource::new([body]));
    let upload = upload.as_mut().map(|upload| upload as &mut dyn tavola_engine::ByteSource);
    service.execute_with(permitted, None, upload).await.map_err(|error| error.to_string())?;
    Ok(())
}
