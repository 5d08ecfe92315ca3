//! The sums of bytes on their way in: MD5 and CRC-64/NVME.
//!
//! The MD5 of a large piece is counted on a thread of its own while the store writes it and the client sends the next ones,
//! so a transfer is as slow as the slowest of the three and not as all together. A CRC alone takes less than handing over.
//! These threads are few and have a low priority: uploads would otherwise take the processor from short requests.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use async_trait::async_trait;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use md5::{Digest as _, Md5};
use tavola_engine::{ByteSource, SourceError};
use tavola_model::{BlockWritten, Crc64, ErrorCode, ServiceError, TransferSums};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::low_priority::lower_priority;

/// A piece of fewer bytes is summed where it is: handing it over and back takes a good part of the time.
const BESIDE_BYTES_MIN: usize = 128 * 1024;
/// Bytes after which a thread that sums gives way. A kernel takes it from one of low priority only with its next tick, which
/// may be four milliseconds away.
const BYTES_AT_ONCE: usize = 64 * 1024;

/// Pieces of an upload that wait for their sum, with the one that is summed: two mebibytes, as much as may be written and
/// not synced. With fewer the thread that sums is idle while the writer waits for the disk: three of them made an upload of
/// 256 MiB a fifth slower.
const PIECES_WAITING_MAX: usize = 8;

/// The threads that sum large pieces, at most as many as there are cores.
static SUMMING: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .thread_name("tavola-md5")
        .max_blocking_threads(thread::available_parallelism().map_or(1, usize::from))
        .on_thread_start(|| lower_priority("checksums"))
        .build()
        .expect("nothing of it needs the system")
});

/// What was summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// How many bytes there were.
    pub length: u64,
    /// Their MD5, if it was asked for.
    pub md5: Option<tavola_model::Md5>,
    /// Their CRC-64/NVME.
    pub crc64: Crc64,
}

impl Sums {
    /// The sums of bytes that are there.
    pub fn of(bytes: &[u8], with_md5: bool) -> Self {
        let mut running = Running::new(with_md5);
        running.add(bytes);
        running.finish()
    }

    /// The one that a client is told: that which it knows.
    pub fn told(&self, announced: &TransferSums) -> BlockWritten {
        if announced.md5.is_some() || announced.tells_md5 {
            BlockWritten { md5: self.md5, crc64: None }
        } else {
            BlockWritten { md5: None, crc64: Some(self.crc64) }
        }
    }

    /// Whether they are what the client has announced.
    pub fn check(&self, announced: &TransferSums) -> Result<(), ServiceError> {
        match (announced.md5, self.md5) {
            (Some(announced), Some(counted)) if announced != counted => {
                return Err(md5_mismatch(announced, counted));
            }
            _ => {}
        }
        match announced.crc64 {
            Some(announced) if announced != self.crc64 => Err(mismatch(
                ErrorCode::Crc64Mismatch,
                ["UserSpecifiedCrc", "ServerCalculatedCrc"],
                [&announced.to_le_bytes(), &self.crc64.to_le_bytes()],
            )),
            _ => Ok(()),
        }
    }
}

/// The refusal of bytes whose MD5 is not the announced one.
pub(crate) fn md5_mismatch(announced: tavola_model::Md5, counted: tavola_model::Md5) -> ServiceError {
    mismatch(ErrorCode::Md5Mismatch, ["UserSpecifiedMd5", "ServerCalculatedMd5"], [&announced, &counted])
}

fn mismatch(code: ErrorCode, names: [&'static str; 2], sums: [&[u8]; 2]) -> ServiceError {
    let [announced, counted] = sums.map(|sum| base64_simd::STANDARD.encode_to_string(sum));
    ServiceError::new(code).with_detail(names[0], announced).with_detail(names[1], counted)
}

/// A source that sums what passes.
pub(crate) struct SummedSource<'a> {
    inner: &'a mut dyn ByteSource,
    /// Summed here, until a piece is large.
    running: Option<Box<Running>>,
    beside: Beside,
}

impl<'a> SummedSource<'a> {
    pub fn new(inner: &'a mut dyn ByteSource, with_md5: bool) -> Self {
        Self { inner, running: Some(Box::new(Running::new(with_md5))), beside: Beside::default() }
    }

    /// The sums of all that has passed.
    pub async fn finish(self) -> Result<Sums, SourceError> {
        let running = match self.running {
            Some(running) => Some(running),
            None => self.beside.finish().await?,
        };
        running.map(|running| running.finish()).ok_or_else(|| SourceError::Broken("the sums are lost".into()))
    }
}

#[async_trait]
impl ByteSource for SummedSource<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        let Some(piece) = self.inner.next().await? else { return Ok(None) };
        match &mut self.running {
            Some(running) if running.md5.is_none() || piece.len() < BESIDE_BYTES_MIN => running.add(&piece),
            here => self.beside.add(here, piece.clone()).await?,
        }
        Ok(Some(piece))
    }
}

/// Sums on another thread, which takes one piece after the other for as long as there are any.
#[derive(Default)]
struct Beside {
    work: Option<Arc<Work>>,
    /// The last of the tasks that sum; those before it have ended.
    task: Option<JoinHandle<()>>,
}

struct Work {
    /// One for each piece that may wait.
    permits: Arc<Semaphore>,
    state: Mutex<WorkState>,
}

#[derive(Default)]
struct WorkState {
    /// Here while no task sums.
    running: Option<Box<Running>>,
    pieces: VecDeque<(Bytes, OwnedSemaphorePermit)>,
}

impl Beside {
    /// Sums a piece after those before it; `running` is the sum so far, if it is not here yet.
    async fn add(&mut self, running: &mut Option<Box<Running>>, piece: Bytes) -> Result<(), SourceError> {
        let work = self.work.get_or_insert_with(Work::new).clone();
        let permit = work.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|closed| SourceError::Broken(closed.into()))?;
        let mut state = work.lock();
        state.pieces.push_back((piece, permit));
        if let Some(running) = running.take().or_else(|| state.running.take()) {
            drop(state);
            self.task = Some(SUMMING.spawn_blocking(move || work.sum(running)));
        }
        Ok(())
    }

    async fn finish(self) -> Result<Option<Box<Running>>, SourceError> {
        if let Some(task) = self.task {
            task.await.map_err(|stopped| SourceError::Broken(stopped.into()))?;
        }
        Ok(self.work.and_then(|work| work.lock().running.take()))
    }
}

impl Work {
    fn new() -> Arc<Self> {
        Arc::new(Self { permits: Arc::new(Semaphore::new(PIECES_WAITING_MAX)), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sums the pieces that wait, until there is none.
    fn sum(&self, mut running: Box<Running>) {
        loop {
            let mut state = self.lock();
            let Some((piece, _permit)) = state.pieces.pop_front() else {
                state.running = Some(running);
                return;
            };
            drop(state);
            for some in piece.chunks(BYTES_AT_ONCE) {
                running.add(some);
                thread::yield_now();
            }
        }
    }
}

struct Running {
    length: u64,
    md5: Option<Md5>,
    crc64: Digest,
}

impl Running {
    fn new(with_md5: bool) -> Self {
        Self { length: 0, md5: with_md5.then(Md5::new), crc64: Digest::new(CrcAlgorithm::Crc64Nvme) }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        self.crc64.update(bytes);
    }

    fn finish(self) -> Sums {
        Sums {
            length: self.length,
            md5: self.md5.map(|md5| md5.finalize().into()),
            crc64: self.crc64.finalize(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_that_the_service_sends() {
        let sums = Sums::of(b"123456789", true);
        // The check value of CRC-64/NVME.
        assert_eq!(sums.crc64, 0xAE8B_1486_0A79_9888);
        let md5: String = sums.md5.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(md5, "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(Sums::of(b"", false), Sums::default());
    }

    struct Pieces(Vec<Bytes>);

    #[async_trait]
    impl ByteSource for Pieces {
        async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
            Ok(if self.0.is_empty() { None } else { Some(self.0.remove(0)) })
        }
    }

    #[tokio::test]
    async fn pieces_sum_to_what_the_whole_does_wherever_they_are_summed() {
        let whole: Vec<u8> = (0..900_000u32).map(|at| at.to_le_bytes()[1]).collect();
        let whole = Bytes::from(whole);
        let cuts = [0, 10, 150_000, 300_000, 450_000, 600_000, 750_000, 750_020, 900_000];
        let mut pieces = Pieces(cuts.windows(2).map(|cut| whole.slice(cut[0]..cut[1])).collect());
        let mut summed = SummedSource::new(&mut pieces, true);
        while summed.next().await.unwrap().is_some() {}
        assert_eq!(summed.finish().await.unwrap(), Sums::of(&whole, true));
    }
}
