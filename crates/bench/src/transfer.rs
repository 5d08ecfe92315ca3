//! Large bodies in both directions, which are neither made nor kept as a whole.
//!
//! What is sent repeats one buffer of random bytes, and what comes is counted and thrown away. A run consists of
//! phases: the transfers of a phase are shared by the connections, and all are over before the next phase begins.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::AnyError;
use crate::cores::{Cores, keep_to, lower_priority};
use crate::load::{Measured, Target, Waiting, latencies, stay_awake};
use crate::process::cpu_time;

/// Bytes of the buffer that is sent again and again: one block.
pub const PAYLOAD_BYTES: usize = 8 * MIB;
pub const MIB: usize = 1024 * 1024;
const READ_BYTES: usize = 256 * 1024;
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// One request with a large body on either side.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The head of the request, and a body that is small.
    pub head: Vec<u8>,
    /// Bytes of payload behind it.
    pub upload_bytes: usize,
    /// Bytes that the answer has to have, if that is told.
    pub answer_bytes: Option<usize>,
}

impl Transfer {
    pub fn upload(head: Vec<u8>, bytes: usize) -> Self {
        Self { head, upload_bytes: bytes, answer_bytes: None }
    }

    pub fn download(head: Vec<u8>, bytes: usize) -> Self {
        Self { head, upload_bytes: 0, answer_bytes: Some(bytes) }
    }

    fn bytes(&self) -> usize {
        self.upload_bytes + self.answer_bytes.unwrap_or(0)
    }
}

/// Bytes that do not compress, the same in each run.
pub fn payload() -> Arc<[u8]> {
    let mut random = fastrand::Rng::with_seed(18);
    let mut bytes = vec![0; PAYLOAD_BYTES];
    random.fill(&mut bytes);
    bytes.into()
}

/// Does the phases one after the other. The requests of what is measured are mebibytes.
pub fn transfer(
    cores: &Cores,
    target: &Target,
    connections: usize,
    payload: &Arc<[u8]>,
    phases: Vec<Vec<Transfer>>,
) -> Result<Measured, AnyError> {
    let cpu_before = cpu_time(target.process_id);
    let bytes: usize = phases.iter().flatten().map(Transfer::bytes).sum();
    let (elapsed, latency) = on_generator(cores, Waiting::Polling, async {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(Exchange::open(&target.host, payload).await?);
        }
        let mut latency = latencies();
        let started = Instant::now();
        for phase in phases {
            let (phase, next) = (Arc::new(phase), Arc::new(AtomicUsize::new(0)));
            let mut tasks = tokio::task::JoinSet::new();
            for mut exchange in open.drain(..) {
                let (phase, next) = (phase.clone(), next.clone());
                tasks.spawn(async move {
                    let mut micros = Vec::new();
                    while let Some(one) = phase.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let begun = Instant::now();
                        exchange.run(one).await?;
                        micros.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
                    }
                    Ok::<_, AnyError>((exchange, micros))
                });
            }
            while let Some(joined) = tasks.join_next().await {
                let (exchange, micros) = joined??;
                open.push(exchange);
                micros.into_iter().for_each(|micros| latency.saturating_record(micros));
            }
        }
        Ok((started.elapsed(), latency))
    })?;
    let cpu = cpu_time(target.process_id).saturating_sub(cpu_before);
    Ok(Measured { requests: (bytes / MIB) as u64, elapsed, latency, cpu })
}

/// Repeats the same transfers until `stop` is set; gives the bytes moved. They are made at the lowest priority and
/// without polling: whatever is measured beside them on the generator's cores must not wait for its own generator.
pub fn transfer_until(
    cores: &Cores,
    target: &Target,
    payload: &Arc<[u8]>,
    transfers: Vec<Transfer>,
    stop: &Arc<AtomicBool>,
) -> Result<u64, AnyError> {
    on_generator(cores, Waiting::Sleeping, async {
        lower_priority();
        let mut tasks = tokio::task::JoinSet::new();
        for one in transfers {
            let (mut exchange, stop) = (Exchange::open(&target.host, payload).await?, stop.clone());
            tasks.spawn(async move {
                let mut bytes = 0;
                while !stop.load(Ordering::Relaxed) {
                    exchange.run(&one).await?;
                    bytes += one.bytes() as u64;
                }
                Ok::<_, AnyError>(bytes)
            });
        }
        let mut bytes = 0;
        while let Some(joined) = tasks.join_next().await {
            bytes += joined??;
        }
        Ok(bytes)
    })
}

/// Runs on the generator's cores, on one thread.
fn on_generator<T: Send>(
    cores: &Cores,
    waiting: Waiting,
    work: impl Future<Output = Result<T, AnyError>> + Send,
) -> Result<T, AnyError> {
    std::thread::scope(|scope| {
        let handle = scope.spawn(|| {
            keep_to(&cores.generator);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                if waiting == Waiting::Polling {
                    tokio::spawn(stay_awake());
                }
                work.await
            })
        });
        handle.join().unwrap_or(Err("a thread panicked".into()))
    })
}

/// A connection for large bodies.
struct Exchange {
    stream: TcpStream,
    payload: Arc<[u8]>,
    buffer: Vec<u8>,
}

impl Exchange {
    async fn open(host: &str, payload: &Arc<[u8]>) -> io::Result<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, payload: payload.clone(), buffer: vec![0; READ_BYTES] })
    }

    async fn run(&mut self, one: &Transfer) -> Result<(), AnyError> {
        self.stream.write_all(&one.head).await?;
        let mut left = one.upload_bytes;
        while left > 0 {
            let part = left.min(self.payload.len());
            self.stream.write_all(&self.payload[..part]).await?;
            left -= part;
        }
        let (status, length, mut received) = self.read_head().await?;
        let Some(length) = length else { return self.read_chunks(status, received).await };
        if !(200..300).contains(&status) {
            let text = String::from_utf8_lossy(&self.buffer[..received.min(800)]).into_owned();
            return Err(format!("a transfer was refused ({status})\n{text}").into());
        }
        while received < length {
            let count = self.stream.read(&mut self.buffer).await?;
            if count == 0 {
                return Err("a transfer was cut short".into());
            }
            received += count;
        }
        if received != length || one.answer_bytes.is_some_and(|expected| expected != length) {
            return Err(format!("an answer has {received} bytes").into());
        }
        Ok(())
    }

    /// Reads a short answer in chunks, as the emulator answers uploads.
    async fn read_chunks(&mut self, status: u16, mut filled: usize) -> Result<(), AnyError> {
        while !self.buffer[..filled].ends_with(b"0\r\n\r\n") {
            let count = self.stream.read(&mut self.buffer[filled..]).await?;
            if count == 0 {
                return Err("an answer in chunks was cut short or is too long".into());
            }
            filled += count;
        }
        if !(200..300).contains(&status) {
            let text = String::from_utf8_lossy(&self.buffer[..filled]).into_owned();
            return Err(format!("a transfer was refused ({status})\n{text}").into());
        }
        Ok(())
    }

    /// Status, length of the body unless it comes in chunks, and bytes of it that came with the head, which are at the
    /// start of the buffer.
    async fn read_head(&mut self) -> Result<(u16, Option<usize>, usize), AnyError> {
        let mut filled = 0;
        loop {
            let count = self.stream.read(&mut self.buffer[filled..HEAD_BYTES_MAX]).await?;
            if count == 0 {
                return Err("a connection ended before an answer".into());
            }
            filled += count;
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut head = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(head_bytes) = head.parse(&self.buffer[..filled])? else {
                continue;
            };
            let status = head.code.ok_or("an answer has no status")?;
            let find = |name: &str| head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            let length = match find("content-length") {
                Some(length) => Some(std::str::from_utf8(length.value)?.parse()?),
                None if find("transfer-encoding").is_some() => None,
                None => Some(0),
            };
            self.buffer.copy_within(head_bytes..filled, 0);
            return Ok((status, length, filled - head_bytes));
        }
    }
}
