//! `blobs`: the figures of the Blob service, each beside what bounds it in the same run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tavola_testkit::AzuriteService;

use crate::AnyError;
use crate::azurite::Azurite;
use crate::blob_lines::put_lines;
use crate::blob_requests::Container;
use crate::cores::Cores;
use crate::load::Target;
use crate::nginx::Nginx;
use crate::report::{Report, machine};
use crate::suite::Extent;
use crate::tavola::{Tavola, output_folder, scratch_folder, send};
use crate::transfer::{MIB, payload};

/// What an extent means for blobs.
#[derive(Clone, Copy, Debug)]
pub struct BlobPlan {
    pub rounds: usize,
    pub period: Duration,
    /// Bytes of the blob that is moved by us and by what bounds us.
    pub large_bytes: usize,
    /// Bytes of the one that is moved by the emulator, which is slow.
    pub azurite_bytes: usize,
    /// Blobs of the larger container that is listed.
    pub listed_blobs: u64,
    /// Bytes of the blob that goes up and down while memory is watched.
    pub memory_bytes: usize,
    /// Bytes of each of the transfers at once.
    pub crowd_bytes: usize,
    /// How long inserts are measured with uploads beside them, and without.
    pub beside_period: Duration,
}

impl BlobPlan {
    fn of(extent: Extent) -> Self {
        match extent {
            Extent::Quick => Self {
                rounds: 3,
                period: Duration::from_millis(600),
                large_bytes: 256 * MIB,
                azurite_bytes: 32 * MIB,
                listed_blobs: 100_000,
                memory_bytes: 512 * MIB,
                crowd_bytes: 16 * MIB,
                beside_period: Duration::from_secs(3),
            },
            Extent::Full => Self {
                rounds: 5,
                period: Duration::from_secs(2),
                large_bytes: 256 * MIB,
                azurite_bytes: 64 * MIB,
                listed_blobs: 1_000_000,
                memory_bytes: 5 * 1024 * MIB,
                crowd_bytes: 64 * MIB,
                beside_period: Duration::from_secs(10),
            },
        }
    }
}

/// Everyone who takes part, and what is found.
pub struct BlobStage {
    pub cores: Cores,
    pub plan: BlobPlan,
    pub folder: tempfile::TempDir,
    pub tavola: Tavola,
    pub azurite: Option<Azurite>,
    pub nginx: Option<Nginx>,
    pub payload: Arc<[u8]>,
    pub report: Report,
}

/// Runs the lines whose name contains `only`; prints them and keeps them as JSON.
pub fn blobs(extent: Extent, only: &str) -> Result<(), AnyError> {
    let started = Instant::now();
    let cores = Cores::share_out();
    println!("{}: generator on {:?}, contestants on {:?}", machine(), cores.generator, cores.contestant);
    let plan = BlobPlan::of(extent);
    let mut report = Report::default();
    if put_lines(plan).any(|(line, _)| line.contains(only)) {
        // An upload is received, summed and written by three threads; one core would show only how they take turns.
        let mut stage = set_up(cores.for_everyone(), plan, report)?;
        stage.run_put_lines(only)?;
        report = stage.end();
    }
    let mut stage = set_up(cores, plan, report)?;
    stage.run_get_lines(only)?;
    stage.run_small_lines(only)?;
    stage.run_listing(only)?;
    stage.run_beside(only)?;
    let BlobStage { cores, plan, tavola, payload, mut report, .. } = stage;
    tavola.stop();
    crate::blob_limits::measure_memory(&cores, &plan, &payload, only, &mut report)?;
    println!("\n{}", report.tables());
    let path = output_folder()?.join(match extent {
        _ if !only.is_empty() => "blobs-some.json",
        Extent::Quick => "blobs-quick.json",
        Extent::Full => "blobs-full.json",
    });
    std::fs::write(&path, serde_json::to_vec_pretty(&report.to_json())?)?;
    println!("took {:.0} s; figures are in {}", started.elapsed().as_secs_f64(), path.display());
    Ok(())
}

fn set_up(cores: Cores, plan: BlobPlan, mut report: Report) -> Result<BlobStage, AnyError> {
    let folder = scratch_folder()?;
    let tavola = Tavola::start(&cores, &folder.path().join("tavola"))?;
    // One that cannot be had on this machine is no reason to know nothing of the others.
    let azurite = Azurite::start_service(&cores, folder.path(), AzuriteService::Blob)
        .inspect_err(|error| report.note(format!("Azurite is skipped: {error}")))
        .ok();
    let nginx = Nginx::start(&cores, folder.path())
        .inspect_err(|error| report.note(format!("nginx is skipped: {error}")))
        .ok();
    Ok(BlobStage { cores, plan, folder, tavola, azurite, nginx, payload: payload(), report })
}

impl BlobStage {
    /// Ends everyone; gives what was found.
    fn end(self) -> Report {
        self.tavola.stop();
        self.report
    }

    /// A new container at one of the servers.
    pub fn container(&self, target: Target, name: &str) -> Result<Container, AnyError> {
        let container = Container::new(target, name)?;
        send(&self.cores, &container.endpoint, &container.creation())?;
        Ok(container)
    }
}
