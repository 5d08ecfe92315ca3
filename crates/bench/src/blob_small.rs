//! The lines of small blobs beside table entities, the store alone and bare hyper.

use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::AnyError;
use crate::blob_lines::{AZURITE, TAVOLA};
use crate::blob_requests::{BLOCK_BLOB, Container};
use crate::blobs::BlobStage;
use crate::compare::{Contestant, take_turns};
use crate::engine::{EngineFloor, Summed};
use crate::floor::Floor;
use crate::load::{Load, run};
use crate::report::Bound;
use crate::tavola::{fill, send};
use crate::work::{Source, Table, Work};

const TABLE: &str = "table";
const STORE: &str = "store";
const STORE_MD5: &str = "store and MD5";
const FLOOR: &str = "bare hyper";
const CONNECTIONS: usize = 64;
const KIB: usize = 1024;
/// Rows of the table and blobs of the container that are read.
const READ_ROWS: u64 = 10_000;
/// As many as the emulator takes in a few seconds.
const AZURITE_READ_BLOBS: u64 = 1_000;
const FILL_TIME_MAX: Duration = Duration::from_secs(1200);

impl BlobStage {
    /// Runs the lines whose name contains `only`.
    pub fn run_small_lines(&mut self, only: &str) -> Result<(), AnyError> {
        for (line, bytes) in [("blob put 1 KiB", KIB), ("blob put 64 KiB", 64 * KIB)] {
            if line.contains(only) {
                self.run_small_puts(line, bytes)?;
            }
        }
        if "blob get 1 KiB".contains(only) {
            self.run_small_gets("blob get 1 KiB")?;
        }
        Ok(())
    }

    fn run_small_puts(&mut self, line: &str, bytes: usize) -> Result<(), AnyError> {
        let stage = &*self;
        let load = Load::closed(CONNECTIONS, stage.plan.period);
        let name = format!("put{bytes}");
        let body = &stage.payload[..bytes];
        // Blobs of a few kilobytes are in their rows, so the store of contents says nothing of them.
        let engine = match bytes {
            KIB => None,
            _ => Some(EngineFloor::open(&stage.cores, stage.folder.path(), 0)?),
        };
        let mut contestants = Vec::new();
        let azurite = stage.azurite.as_ref().filter(|_| bytes == KIB);
        for (who, target) in
            [(TAVOLA, Some(stage.tavola.blob_target())), (AZURITE, azurite.map(|one| one.target()))]
        {
            let Some(target) = target else { continue };
            let container = stage.container(target, &name)?;
            if who == TAVOLA {
                let headers = format!("{BLOCK_BLOB}Content-Type: application/octet-stream\r\n");
                let mut request = container.head(&Method::PUT, "/one", "", &headers, body.len());
                request.extend_from_slice(body);
                let (answer, _) = send(&stage.cores, &container.endpoint, &request)?;
                let source = container.puts(Arc::default(), u64::MAX, body);
                contestants.push(stage.bare(&answer, source, load)?);
            }
            let source = container.puts(Arc::default(), u64::MAX, body);
            let process_id = Some(container.target.process_id);
            let round = Box::new(move || run(&stage.cores, &container.target, load, &source));
            contestants.push(Contestant { name: who, process_id, round });
        }
        if bytes == KIB {
            let table = Table::new(&stage.tavola.endpoint, "BlobPeer", 0);
            fill(&stage.cores, &stage.tavola.target(), &table)?;
            let source = table.source(Work::InsertMany)?;
            let target = stage.tavola.target();
            let process_id = Some(target.process_id);
            let round = Box::new(move || run(&stage.cores, &target, load, &source));
            contestants.push(Contestant { name: TABLE, process_id, round });
        }
        if let Some(engine) = &engine {
            for (name, summed) in [(STORE, Summed::No), (STORE_MD5, Summed::Md5)] {
                let (body, period) = (bytes::Bytes::copy_from_slice(body), stage.plan.period);
                let round = Box::new(move || engine.put_contents(&body, summed, period));
                contestants.push(Contestant { name, process_id: None, round });
            }
        }
        let series = take_turns(stage.plan.rounds, contestants)?;
        self.report.add_series(line, &series)?;
        self.judge_rate(line, &series, TABLE, "× insert of an entity of 1 KB", Bound::AtLeast(0.8));
        self.judge_cpu(line, &series, TABLE, "× insert of an entity, per CPU second");
        self.judge_rate(line, &series, STORE, "× store of contents alone", Bound::AtLeast(0.5));
        self.judge_rate(
            line,
            &series,
            STORE_MD5,
            "× store of contents and the MD5 it must keep",
            Bound::None,
        );
        self.judge_cpu(line, &series, STORE, "× store of contents alone, per CPU second");
        self.judge_rate(line, &series, FLOOR, "× bare hyper", Bound::None);
        self.tell_rate(line, &series, [FLOOR, AZURITE]);
        self.judge_rate(line, &series, AZURITE, "× Azurite", Bound::AtLeast(20.0));
        self.judge_cpu(line, &series, AZURITE, "× Azurite, per CPU second");
        Ok(())
    }

    fn run_small_gets(&mut self, line: &str) -> Result<(), AnyError> {
        let stage = &*self;
        let load = Load::closed(CONNECTIONS, stage.plan.period);
        let mut contestants = Vec::new();
        let azurite = stage.azurite.as_ref().map(|one| one.target());
        for (who, target, count) in
            [(TAVOLA, Some(stage.tavola.blob_target()), READ_ROWS), (AZURITE, azurite, AZURITE_READ_BLOBS)]
        {
            let Some(target) = target else { continue };
            let container = stage.container(target, "get1024")?;
            stage.fill_container(&container, count, KIB)?;
            let source = container.gets(count, count)?;
            if who == TAVOLA {
                let one = container.head(&Method::GET, "/n000000000000", "", "", 0);
                let (answer, _) = send(&stage.cores, &container.endpoint, &one)?;
                contestants.push(stage.bare(&answer, source.clone(), load)?);
            }
            let process_id = Some(container.target.process_id);
            let round = Box::new(move || run(&stage.cores, &container.target, load, &source));
            contestants.push(Contestant { name: who, process_id, round });
        }
        let table = Table::new(&stage.tavola.endpoint, "BlobPeerRead", READ_ROWS);
        let target = stage.tavola.target();
        fill(&stage.cores, &target, &table)?;
        let source = table.source(Work::PointRead)?;
        let process_id = Some(target.process_id);
        let round = Box::new(move || run(&stage.cores, &target, load, &source));
        contestants.push(Contestant { name: TABLE, process_id, round });
        let series = take_turns(stage.plan.rounds, contestants)?;
        self.report.add_series(line, &series)?;
        self.judge_rate(line, &series, TABLE, "× point read of an entity of 1 KB", Bound::AtLeast(0.9));
        self.judge_cpu(line, &series, TABLE, "× point read of an entity, per CPU second");
        self.judge_rate(line, &series, FLOOR, "× bare hyper", Bound::None);
        self.tell_rate(line, &series, [FLOOR, AZURITE]);
        self.judge_rate(line, &series, AZURITE, "× Azurite", Bound::AtLeast(40.0));
        self.judge_cpu(line, &series, AZURITE, "× Azurite, per CPU second");
        Ok(())
    }

    /// A server that answers each of these requests with the same bytes, which cost it nothing.
    fn bare(&self, answer: &[u8], source: Source, load: Load) -> Result<Contestant<'_>, AnyError> {
        let floor = Floor::start(&self.cores, self.folder.path(), answer)?;
        let process_id = Some(floor.target().process_id);
        let round = Box::new(move || run(&self.cores, &floor.target(), load, &source));
        Ok(Contestant { name: FLOOR, process_id, round })
    }

    pub fn fill_container(&self, container: &Container, count: u64, bytes: usize) -> Result<f64, AnyError> {
        let load = Load::closed(CONNECTIONS, FILL_TIME_MAX);
        let source = container.puts(Arc::default(), count, &self.payload[..bytes]);
        let measured = run(&self.cores, &container.target, load, &source)?;
        if measured.requests < count {
            return Err("a container could not be filled in time".into());
        }
        Ok(measured.rate())
    }
}
