//! What freeing disk space does to commits: small records are synced one after the other, as a journal does, while uploads
//! of 64 MiB are synced by the mebibyte and the space of each is freed, at once or in steps.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};

use crate::AnyError;
use crate::compare::{Contestant, take_turns};
use crate::load::{Measured, latencies};
use crate::report::Report;
use crate::tavola::scratch_folder;
use crate::transfer::MIB;

const JOURNAL_BYTES: u64 = 32 << 20;
const RECORD_BYTES: usize = 1100;
/// Time between two records.
const RECORD_PAUSE: Duration = Duration::from_millis(1);
const UPLOAD_BYTES: u64 = 64 << 20;
/// Bytes of uploads in a second: less than the disk takes.
const UPLOADED_PER_SECOND: u64 = 300 << 20;
/// The file of the uploads, which is a hole at first.
const FILE_BYTES: u64 = 8 << 30;
const ROUNDS: usize = 3;
const PERIOD: Duration = Duration::from_secs(5);

/// Measures it and prints what came of it.
pub fn free_space() -> Result<(), AnyError> {
    let folder = scratch_folder()?;
    let journal = File::create_new(folder.path().join("journal"))?;
    let filled = vec![1; MIB];
    for at in (0..JOURNAL_BYTES).step_by(MIB) {
        journal.write_all_at(&filled, at)?;
    }
    journal.sync_all()?;
    let (journal, path) = (&journal, folder.path());
    let beside = |step: Option<u64>| move || sync_beside_uploads(journal, path, step);
    let contestants = vec![
        Contestant { name: "alone", process_id: None, round: Box::new(|| sync_records(journal)) },
        Contestant { name: "uploads, nothing freed", process_id: None, round: Box::new(beside(None)) },
        Contestant { name: "freed at once", process_id: None, round: Box::new(beside(Some(UPLOAD_BYTES))) },
        Contestant { name: "freed by 1 MiB", process_id: None, round: Box::new(beside(Some(MIB as u64))) },
    ];
    let series = take_turns(ROUNDS, contestants)?;
    let mut report = Report::default();
    report.add_series("sync of a record", &series)?;
    println!("\n{}", report.tables());
    Ok(())
}

/// Writes and syncs records for a while.
fn sync_records(journal: &File) -> Result<Measured, AnyError> {
    let mut latency = latencies();
    let record = [7; RECORD_BYTES];
    let started = Instant::now();
    let mut at = 0;
    while started.elapsed() < PERIOD {
        let begun = Instant::now();
        journal.write_all_at(&record, at)?;
        journal.sync_data()?;
        latency.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
        at = (at + RECORD_BYTES as u64) % (JOURNAL_BYTES - RECORD_BYTES as u64);
        std::thread::sleep(RECORD_PAUSE);
    }
    Ok(Measured { requests: latency.len(), elapsed: started.elapsed(), latency, cpu: Duration::ZERO })
}

/// The same while uploads run, whose space is freed in steps of so many bytes.
fn sync_beside_uploads(journal: &File, folder: &Path, step: Option<u64>) -> Result<Measured, AnyError> {
    let path = folder.join("uploads");
    let file = File::create(&path)?;
    file.set_len(FILE_BYTES)?;
    let (stop, uploaded) = (AtomicBool::new(false), AtomicU64::new(0));
    let measured = std::thread::scope(|scope| {
        let uploading = scope.spawn(|| upload(&file, &stop, &uploaded));
        let freeing = scope.spawn(|| free(&file, step, &stop, &uploaded));
        let measured = sync_records(journal);
        stop.store(true, Ordering::Relaxed);
        let joined = [uploading.join(), freeing.join()];
        joined.into_iter().try_for_each(|done| done.unwrap_or(Err("a thread panicked".into())))?;
        measured
    });
    std::fs::remove_file(&path)?;
    measured
}

fn upload(file: &File, stop: &AtomicBool, uploaded: &AtomicU64) -> Result<(), AnyError> {
    let piece = vec![3; MIB];
    let started = Instant::now();
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) && at < FILE_BYTES {
        file.write_all_at(&piece, at)?;
        file.sync_data()?;
        at += piece.len() as u64;
        uploaded.store(at, Ordering::Relaxed);
        let due = Duration::from_secs_f64(at as f64 / UPLOADED_PER_SECOND as f64);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
    Ok(())
}

fn free(file: &File, step: Option<u64>, stop: &AtomicBool, uploaded: &AtomicU64) -> Result<(), AnyError> {
    let Some(step) = step else { return Ok(()) };
    let mut freed = 0;
    while !stop.load(Ordering::Relaxed) {
        if freed + UPLOAD_BYTES > uploaded.load(Ordering::Relaxed) {
            std::thread::sleep(RECORD_PAUSE);
            continue;
        }
        for at in (freed..freed + UPLOAD_BYTES).step_by(usize::try_from(step)?) {
            fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, step)?;
        }
        freed += UPLOAD_BYTES;
    }
    Ok(())
}
