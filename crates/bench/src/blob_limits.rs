//! What uploads may not do: take memory, and slow down the inserts beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;

use crate::AnyError;
use crate::blob_lines::{block_phases, whole};
use crate::blob_requests::Container;
use crate::blobs::{BlobPlan, BlobStage};
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::cores::Cores;
use crate::load::{Load, Pace, Waiting, run};
use crate::process::memory;
use crate::report::{Bound, Report};
use crate::tavola::{Tavola, fill, scratch_folder, send};
use crate::transfer::{MIB, Transfer, transfer, transfer_until};
use crate::work::{Table, Work};

const INSERT_CONNECTIONS: usize = 16;
const UPLOADS: usize = 4;
/// Bytes of each of the uploads that run beside inserts, again and again.
const UPLOAD_BYTES: usize = 64 * MIB;
const CROWD: usize = 32;
const MEMORY_MIB_MAX: f64 = 256.0;
/// Inserts a second, while there are uploads and while there are none: a tenth of what the server takes.
const INSERTS_PER_SECOND: u32 = 1_000;

impl BlobStage {
    /// Inserts at a steady rate, in turns with four uploads beside them and without.
    pub fn run_beside(&mut self, only: &str) -> Result<(), AnyError> {
        const LINE: &str = "insert beside 4 blob uploads";
        if !LINE.contains(only) {
            return Ok(());
        }
        let stage = &*self;
        let table = Table::new(&stage.tavola.endpoint, "Beside", 0);
        fill(&stage.cores, &stage.tavola.target(), &table)?;
        let source = table.source(Work::InsertMany)?;
        let container = stage.container(stage.tavola.blob_target(), "beside")?;
        let load = Load {
            pace: Pace::Open { per_second: INSERTS_PER_SECOND },
            waiting: Waiting::Sleeping,
            ..Load::closed(INSERT_CONNECTIONS, stage.plan.beside_period)
        };
        let target = stage.tavola.target();
        let alone = || run(&stage.cores, &target, load, &source);
        let mut uploaded = 0;
        let beside = || {
            let stop = Arc::new(AtomicBool::new(false));
            let uploads = (0..UPLOADS).map(|number| whole(&container, &format!("up{number}"), UPLOAD_BYTES));
            let uploads = uploads.collect();
            std::thread::scope(|scope| {
                let uploading = scope.spawn(|| {
                    transfer_until(&stage.cores, &container.target, &stage.payload, uploads, &stop)
                });
                let measured = alone();
                stop.store(true, Ordering::Relaxed);
                uploaded += uploading.join().unwrap_or(Err("a thread panicked".into()))?;
                measured
            })
        };
        let contestants = vec![
            Contestant { name: "alone", process_id: None, round: Box::new(alone) },
            Contestant { name: "beside uploads", process_id: None, round: Box::new(beside) },
        ];
        let series = take_turns(stage.plan.rounds, contestants)?;
        let seconds = stage.plan.beside_period.as_secs_f64() * stage.plan.rounds as f64;
        self.report
            .note(format!("uploads beside inserts: {:.0} MiB/s", uploaded as f64 / MIB as f64 / seconds));
        self.report.add_series(LINE, &series)?;
        let slow = |series: &Series| -> Vec<f64> {
            series.rounds.iter().map(|round| round.latency.value_at_quantile(0.999) as f64).collect()
        };
        if let [alone, beside] = series.as_slice() {
            let range = Range::of_ratios(&slow(beside), &slow(alone));
            self.report.check(LINE, "× p99.9 without uploads", range, Bound::AtMost(1.5));
        }
        Ok(())
    }
}

/// Moves one very large blob up and down and then many at once, and tells the most memory that the server held.
pub fn measure_memory(
    cores: &Cores,
    plan: &BlobPlan,
    payload: &Arc<[u8]>,
    only: &str,
    report: &mut Report,
) -> Result<(), AnyError> {
    const LINE: &str = "memory of blob transfers";
    if !LINE.contains(only) {
        return Ok(());
    }
    let folder = scratch_folder()?;
    let server = Tavola::start(cores, &folder.path().join("memory"))?;
    let container = Container::new(server.blob_target(), "memory")?;
    send(cores, &container.endpoint, &container.creation())?;
    let target = &container.target;
    let get = |blob: &str, bytes| {
        Transfer::download(container.head(&Method::GET, &format!("/{blob}"), "", "", 0), bytes)
    };
    let mut move_all = |what: &str, connections, phases| {
        let moved = transfer(cores, target, connections, payload, phases)?;
        let peak = memory(target.process_id).peak as f64 / MIB as f64;
        report.note(format!("{what}: {:.0} MiB/s, {peak:.0} MiB resident at most so far", moved.rate()));
        Ok::<_, AnyError>(peak)
    };
    let (large, each) = (plan.memory_bytes, plan.crowd_bytes);
    let size = large / MIB;
    move_all(&format!("{size} MiB up by blocks"), 4, block_phases(&container, payload, "large", large))?;
    move_all(&format!("{size} MiB down"), 1, vec![vec![get("large", large)]])?;
    // A blob as a whole may have 5,000 MiB.
    let most = large.min(5_000 * MIB);
    move_all(&format!("{} MiB up as a whole", most / MIB), 1, vec![vec![whole(&container, "large", most)]])?;
    let names: Vec<String> = (0..CROWD).map(|number| format!("crowd{number}")).collect();
    let ups = names.iter().map(|name| whole(&container, name, each)).collect();
    move_all(&format!("{CROWD} × {} MiB up at once", each / MIB), CROWD, vec![ups])?;
    let downs = names.iter().map(|name| get(name, each)).collect();
    let peak = move_all(&format!("{CROWD} × {} MiB down at once", each / MIB), CROWD, vec![downs])?;
    let work = format!("{LINE}, {size} MiB and {CROWD} at once");
    report.check(&work, "MiB resident at most", Range::of(&[peak]), Bound::AtMost(MEMORY_MIB_MAX));
    server.stop();
    Ok(())
}
