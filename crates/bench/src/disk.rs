//! The floor below us on disk: how often it makes 64 rows durable.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::AnyError;
use crate::cores::{Cores, on_cores};
use crate::load::{Measured, latencies};

const COMMIT_BYTES: usize = 64 * 1024;
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Appends 64 KiB and syncs, one after the other.
pub fn sync_rate(cores: &Cores, folder: &Path, period: Duration) -> Result<Measured, AnyError> {
    on_cores(&cores.contestant, || {
        let path = folder.join("sync-probe");
        let mut file = std::fs::File::create(&path)?;
        let mut latency = latencies();
        let started = Instant::now();
        while started.elapsed() < period && latency.len() * (COMMIT_BYTES as u64) < FILE_BYTES_MAX {
            let begun = Instant::now();
            file.write_all(&[1; COMMIT_BYTES])?;
            file.sync_data()?;
            latency.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
        }
        let elapsed = started.elapsed();
        std::fs::remove_file(&path)?;
        Ok(Measured { requests: latency.len(), elapsed, latency, cpu: Duration::ZERO })
    })
}
