//! The lines of large blobs: down beside nginx, up beside `dd` and the MD5 of one core, both beside the emulator.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use md5::{Digest as _, Md5};

use crate::AnyError;
use crate::blob_requests::{BLOCK_BLOB, Container};
use crate::blobs::{BlobPlan, BlobStage};
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::cores::{Cores, on_cores};
use crate::engine::EngineFloor;
use crate::load::{Measured, latencies};
use crate::process::wait_until_idle;
use crate::report::Bound;
use crate::tavola::send;
use crate::transfer::{MIB, PAYLOAD_BYTES, Transfer, transfer};

pub const TAVOLA: &str = "Tavola";
pub const AZURITE: &str = "Azurite";
const NGINX: &str = "nginx";
/// The store of contents without a server: what is sent is read and checked.
const STORE: &str = "store";
const DD: &str = "dd";
const MD5: &str = "MD5";
/// The name of the blob, and of the file that nginx serves.
const LARGE: &str = "large";
/// Downloads of one connection in a round.
const DOWNLOADS: usize = 2;

/// How a large blob is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Blocks of 8 MiB with their CRC-64, on four connections.
    Blocks,
    /// As a whole, of which the server keeps the MD5.
    Whole,
}

/// The lines of uploads, and how each of them is put.
pub fn put_lines(plan: BlobPlan) -> impl Iterator<Item = (String, Put)> {
    let large = plan.large_bytes / MIB;
    [("blocks of 8 MiB, 4 at once", Put::Blocks), ("as a whole", Put::Whole)]
        .into_iter()
        .map(move |(what, put)| (format!("blob put {large} MiB, {what}, MiB/s"), put))
}

impl BlobStage {
    /// Runs the lines of downloads whose name contains `only`.
    pub fn run_get_lines(&mut self, only: &str) -> Result<(), AnyError> {
        let large = self.plan.large_bytes / MIB;
        for connections in [1, 4] {
            let line = format!("blob get {large} MiB, {connections} at once, MiB/s");
            if line.contains(only) {
                self.run_downloads(&line, connections)?;
            }
        }
        Ok(())
    }

    /// Runs the lines of uploads whose name contains `only`.
    pub fn run_put_lines(&mut self, only: &str) -> Result<(), AnyError> {
        for (line, put) in put_lines(self.plan).filter(|(line, _)| line.contains(only)) {
            self.run_uploads(&line, put)?;
        }
        Ok(())
    }

    fn run_downloads(&mut self, line: &str, connections: usize) -> Result<(), AnyError> {
        let (large, small) = (self.plan.large_bytes, self.plan.azurite_bytes);
        let stage = &*self;
        let name = format!("down{connections}");
        let mut sides = Vec::new();
        let ours = stage.container(stage.tavola.blob_target(), &name)?;
        stage.upload(&ours, Put::Blocks, LARGE, large)?;
        sides.push((TAVOLA, ours.target.clone(), ours.head(&Method::GET, "/large", "", "", 0), large));
        if let Some(nginx) = &stage.nginx {
            write_file(&stage.folder.path().join("files").join(LARGE), &stage.payload, large)?;
            let target = nginx.target();
            let head = format!("GET /{LARGE} HTTP/1.1\r\nHost: {}\r\n\r\n", target.host).into_bytes();
            sides.push((NGINX, target, head, large));
        }
        if let Some(azurite) = &stage.azurite {
            let theirs = stage.container(azurite.target(), &name)?;
            stage.upload(&theirs, Put::Blocks, LARGE, small)?;
            sides.push((
                AZURITE,
                theirs.target.clone(),
                theirs.head(&Method::GET, "/large", "", "", 0),
                small,
            ));
        }
        let engine = EngineFloor::open(&stage.cores, stage.folder.path(), 0)?;
        let content = engine.keep_content(&Bytes::copy_from_slice(&stage.payload), large)?;
        let mut contestants = Vec::new();
        for (name, target, head, bytes) in sides {
            let process_id = Some(target.process_id);
            let round = Box::new(move || {
                let all = vec![Transfer::download(head.clone(), bytes); DOWNLOADS * connections];
                transfer(&stage.cores, &target, connections, &stage.payload, vec![all])
            });
            contestants.push(Contestant { name, process_id, round });
        }
        let round = Box::new(|| engine.read_content(content, DOWNLOADS * connections));
        contestants.push(Contestant { name: STORE, process_id: None, round });
        let series = take_turns(stage.plan.rounds, contestants)?;
        self.report.add_series(line, &series)?;
        // On one core, a server that checks what it sends takes the time of both.
        let find = |name| series.iter().find(|one| one.name == name).map(Series::rates);
        if let (Some(ours), Some(nginx), Some(store)) = (find(TAVOLA), find(NGINX), find(STORE)) {
            let both = nginx.iter().zip(&store).map(|(nginx, store)| nginx * store / (nginx + store));
            let range = Range::of_ratios(&ours, &both.collect::<Vec<_>>());
            self.report.check(line, "× nginx and the store, one after the other", range, Bound::None);
        }
        self.judge_rate(line, &series, NGINX, "× nginx sendfile", Bound::AtLeast(0.8));
        self.judge_cpu(line, &series, NGINX, "× nginx sendfile, per CPU second");
        self.judge_rate(line, &series, AZURITE, "× Azurite", Bound::AtLeast(5.0));
        self.tell_rate(line, &series, [NGINX, AZURITE]);
        self.judge_cpu(line, &series, AZURITE, "× Azurite, per CPU second");
        Ok(())
    }

    fn run_uploads(&mut self, line: &str, put: Put) -> Result<(), AnyError> {
        let (large, small) = (self.plan.large_bytes, self.plan.azurite_bytes);
        let stage = &*self;
        let name = if put == Put::Blocks { "upblocks" } else { "upwhole" };
        let source = stage.folder.path().join("dd-source");
        write_file(&source, &stage.payload, large)?;
        let ours = stage.container(stage.tavola.blob_target(), name)?;
        let mut contestants = vec![Contestant {
            name: TAVOLA,
            process_id: Some(ours.target.process_id),
            round: Box::new(move || stage.upload_and_delete(&ours, put, large)),
        }];
        let (cores, folder) = (&stage.cores, stage.folder.path());
        let round = Box::new(move || dd(cores, &source, &folder.join("dd-copy"), large));
        contestants.push(Contestant { name: DD, process_id: None, round });
        if put == Put::Whole {
            let round = Box::new(move || Ok(md5_of_one_core(cores, &stage.payload, large)));
            contestants.push(Contestant { name: MD5, process_id: None, round });
        }
        if let Some(azurite) = &stage.azurite {
            let theirs = stage.container(azurite.target(), name)?;
            let process_id = Some(theirs.target.process_id);
            let round = Box::new(move || stage.upload_and_delete(&theirs, put, small));
            contestants.push(Contestant { name: AZURITE, process_id, round });
        }
        let series = take_turns(stage.plan.rounds, contestants)?;
        self.report.add_series(line, &series)?;
        match put {
            Put::Blocks => {
                self.judge_rate(line, &series, DD, "× dd conv=fdatasync", Bound::AtLeast(0.6));
            }
            Put::Whole => {
                self.judge_rate(line, &series, DD, "× dd conv=fdatasync", Bound::None);
                self.judge_rate(line, &series, MD5, "× MD5 of one core", Bound::None);
                let rates =
                    |name| series.iter().find(|one| one.name == name).map(Series::rates).unwrap_or_default();
                let least: Vec<f64> = rates(DD).iter().zip(rates(MD5)).map(|(dd, md5)| dd.min(md5)).collect();
                let range = Range::of_ratios(&rates(TAVOLA), &least);
                self.report.check(line, "× the smaller of dd and MD5", range, Bound::AtLeast(0.7));
            }
        }
        self.judge_rate(line, &series, AZURITE, "× Azurite", Bound::AtLeast(4.0));
        self.judge_cpu(line, &series, AZURITE, "× Azurite, per CPU second");
        Ok(())
    }

    /// Puts a new blob and removes it again when the clock has stopped, with all that follows from it.
    fn upload_and_delete(&self, container: &Container, put: Put, bytes: usize) -> Result<Measured, AnyError> {
        let measured = self.upload(container, put, LARGE, bytes)?;
        let deletion = container.head(&Method::DELETE, &format!("/{LARGE}"), "", "", 0);
        send(&self.cores, &container.endpoint, &deletion)?;
        wait_until_idle(container.target.process_id);
        Ok(measured)
    }

    fn upload(
        &self,
        container: &Container,
        put: Put,
        blob: &str,
        bytes: usize,
    ) -> Result<Measured, AnyError> {
        let (phases, connections) = match put {
            Put::Blocks => (block_phases(container, &self.payload, blob, bytes), 4),
            Put::Whole => (vec![vec![whole(container, blob, bytes)]], 1),
        };
        transfer(&self.cores, &container.target, connections, &self.payload, phases)
    }

    /// Keeps the ratio of our rates to those of another who took part.
    pub fn judge_rate(&mut self, line: &str, all: &[Series], other: &str, measure: &str, bound: Bound) {
        let find = |name: &str| all.iter().find(|series| series.name == name);
        let (Some(ours), Some(theirs)) = (find(TAVOLA), find(other)) else { return };
        let range = Range::of_ratios(&ours.rates(), &theirs.rates());
        self.report.check(line, measure, range, bound);
    }

    /// Tells the ratio of the rates of two others: what no server could be above.
    pub fn tell_rate(&mut self, line: &str, all: &[Series], [above, below]: [&str; 2]) {
        let find = |name: &str| all.iter().find(|series| series.name == name);
        let (Some(one), Some(other)) = (find(above), find(below)) else { return };
        let range = Range::of_ratios(&one.rates(), &other.rates());
        self.report.check(line, &format!("{above} × {below}"), range, Bound::None);
    }

    /// The same of what is done in a second of cores, which does not depend on who else is at work.
    pub fn judge_cpu(&mut self, line: &str, all: &[Series], other: &str, measure: &str) {
        let find = |name: &str| all.iter().find(|series| series.name == name);
        let (Some(ours), Some(theirs)) = (find(TAVOLA), find(other)) else { return };
        let range = Range::of_ratios(&theirs.cpu_micros(), &ours.cpu_micros());
        self.report.check(line, measure, range, Bound::None);
    }
}

/// All blocks of a blob, then their list.
pub fn block_phases(
    container: &Container,
    payload: &Arc<[u8]>,
    blob: &str,
    bytes: usize,
) -> Vec<Vec<Transfer>> {
    let count = (bytes / PAYLOAD_BYTES) as u64;
    let block = |number| Transfer::upload(container.block(blob, number, payload), PAYLOAD_BYTES);
    vec![(0..count).map(block).collect(), vec![Transfer::upload(container.block_list(blob, count), 0)]]
}

/// A blob as a whole.
pub fn whole(container: &Container, blob: &str, bytes: usize) -> Transfer {
    Transfer::upload(container.head(&Method::PUT, &format!("/{blob}"), "", BLOCK_BLOB, bytes), bytes)
}

fn write_file(path: &Path, payload: &[u8], bytes: usize) -> Result<(), AnyError> {
    let mut file = File::create(path)?;
    for _ in 0..bytes / payload.len() {
        file.write_all(payload)?;
    }
    Ok(file.sync_all()?)
}

/// Copies a file that is in memory to the disk, durably, as a whole process.
fn dd(cores: &Cores, from: &Path, to: &PathBuf, bytes: usize) -> Result<Measured, AnyError> {
    on_cores(&cores.contestant, || {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", from.display())).arg(format!("of={}", to.display()));
        command.args(["bs=1M", "conv=fdatasync"]).stderr(Stdio::null());
        let started = Instant::now();
        if !command.status()?.success() {
            return Err("dd failed".into());
        }
        let elapsed = started.elapsed();
        std::fs::remove_file(to)?;
        let requests = (bytes / MIB) as u64;
        Ok(Measured { requests, elapsed, latency: latencies(), cpu: Duration::ZERO })
    })
}

fn md5_of_one_core(cores: &Cores, payload: &[u8], bytes: usize) -> Measured {
    on_cores(&cores.contestant, || {
        let started = Instant::now();
        let mut sum = Md5::new();
        for _ in 0..bytes / payload.len() {
            sum.update(payload);
        }
        std::hint::black_box(sum.finalize());
        let elapsed = started.elapsed();
        Measured { requests: (bytes / MIB) as u64, elapsed, latency: latencies(), cpu: elapsed }
    })
}
