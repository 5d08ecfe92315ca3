//! The floor below us on disk: how often it makes 64 rows durable, and what one block costs that is in no cache but
//! the system's.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::AnyError;
use crate::cores::{Cores, on_cores};
use crate::load::{Measured, latencies};

const COMMIT_BYTES: usize = 64 * 1024;
const FILE_BYTES_MAX: u64 = 1 << 30;
/// A block of a table file (`BLOCK_BYTES` of the embedded engine).
const BLOCK_BYTES: usize = 8 * 1024;
/// Smaller files are no table files of any interest.
const TABLE_BYTES_MIN: u64 = 1 << 20;
const BLOCK_READS: u32 = 100_000;

/// Appends 64 KiB and syncs, one after the other.
pub fn sync_rate(cores: &Cores, folder: &Path, period: Duration) -> Result<Measured, AnyError> {
    on_cores(&cores.contestant, || {
        let path = folder.join("sync-probe");
        let mut file = File::create(&path)?;
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

/// Microseconds to read a block from any offset of the files of a data folder, and to read each of its bytes: what a
/// store pays for a row that it does not hold in memory of its own. The middle of many, because some come from the disk.
/// `None` while all rows are still in the journal.
pub fn block_read_micros(cores: &Cores, data: &Path) -> Result<Option<f64>, AnyError> {
    on_cores(&cores.contestant, || {
        let mut files = Vec::new();
        collect_files(data, &mut files)?;
        let mut random = fastrand::Rng::with_seed(1);
        let mut block = vec![0; BLOCK_BYTES];
        let (mut nanos, mut sum) = (Vec::new(), 0u64);
        for _ in 0..BLOCK_READS {
            let Some((file, len)) = random.choice(&files) else { return Ok(None) };
            let offset = random.u64(..len - BLOCK_BYTES as u64);
            let begun = Instant::now();
            file.read_exact_at(&mut block, offset)?;
            sum = block.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)));
            nanos.push(begun.elapsed().as_nanos());
        }
        std::hint::black_box(sum);
        nanos.sort_unstable();
        Ok(Some(nanos[nanos.len() / 2] as f64 / 1000.0))
    })
}

fn collect_files(folder: &Path, files: &mut Vec<(File, u64)>) -> Result<(), AnyError> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // A file that is gone by now was merged meanwhile.
        let Ok(about) = std::fs::metadata(&path) else { continue };
        if about.is_dir() {
            collect_files(&path, files)?;
        } else if about.len() >= TABLE_BYTES_MIN
            && path.extension().is_none()
            && let Ok(file) = File::open(&path)
        {
            files.push((file, about.len()));
        }
    }
    Ok(())
}
