//! What a folder takes on the disk, and how it grows.
//!
//! To measure it every file below it is looked at, so the result serves everybody who asks for a while, longer the longer
//! it took. Some results are kept for a day, to tell the growth. It waits for the disk: call it where that is allowed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tavola_console::Growth;

/// How long a result serves at least.
const AGE_MIN: Duration = Duration::from_secs(30);
/// How much longer it serves than it took.
const AGE_FACTOR: u32 = 50;
/// Results that are kept: those of a day.
const NOTED_MAX: usize = 288;
/// Growth over less time says nothing.
const WATCHED_MIN: Duration = Duration::from_secs(10 * 60);

/// The size of a folder.
pub struct FolderSize {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last result, and until when it serves.
    last: Option<(u64, Instant)>,
    is_measuring: bool,
    noted: VecDeque<(Instant, u64)>,
}

impl FolderSize {
    /// How often a result is kept.
    pub const NOTED_EVERY: Duration = Duration::from_secs(5 * 60);

    pub fn new(folder: PathBuf) -> Self {
        Self { folder, state: Mutex::default() }
    }

    /// What the folder takes, measured again if the last result is old and nobody is about to.
    pub fn measure(&self) -> u64 {
        let started = Instant::now();
        {
            let mut state = self.lock();
            match state.last {
                Some((bytes, until)) if state.is_measuring || started < until => return bytes,
                _ => state.is_measuring = true,
            }
        }
        let bytes = folder_bytes(&self.folder);
        let ended = Instant::now();
        let mut state = self.lock();
        state.last = Some((bytes, ended + AGE_MIN.max((ended - started) * AGE_FACTOR)));
        state.is_measuring = false;
        state.note(ended, bytes);
        bytes
    }

    /// The growth since the oldest result, if there was any.
    pub fn growth(&self) -> Option<Growth> {
        self.lock().growth()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The newest result replaces one that is younger than the time between two.
    fn note(&mut self, at: Instant, bytes: u64) {
        let before = self.noted.len().checked_sub(2).and_then(|place| self.noted.get(place));
        if before.is_some_and(|(before, _)| at.duration_since(*before) < FolderSize::NOTED_EVERY) {
            self.noted.pop_back();
        }
        self.noted.push_back((at, bytes));
        if self.noted.len() > NOTED_MAX {
            self.noted.pop_front();
        }
    }

    fn growth(&self) -> Option<Growth> {
        let ((from, first), (to, last)) = (self.noted.front()?, self.noted.back()?);
        let watched = to.duration_since(*from);
        let bytes = last.checked_sub(*first).filter(|bytes| *bytes > 0)?;
        (watched >= WATCHED_MIN).then_some(Growth { bytes, seconds: watched.as_secs() })
    }
}

/// What the files below a folder take on the disk. Whatever goes away meanwhile counts for nothing.
fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let (mut bytes, mut folders) = (0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => folders.push(entry.path()),
                Ok(data) => bytes += data.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_once_for_all_who_ask() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        std::fs::write(folder.path().join("deep/a"), vec![7; 100_000]).unwrap();
        let size = FolderSize::new(folder.path().to_owned());
        let first = size.measure();
        assert!(first >= 100_000, "{first}");
        std::fs::write(folder.path().join("b"), vec![7; 100_000]).unwrap();
        assert_eq!(size.measure(), first, "the first result still serves");
        size.lock().last = Some((first, Instant::now()));
        assert!(size.measure() >= first + 100_000);
    }

    #[test]
    fn growth_is_told_from_ten_minutes_to_a_day() {
        let (start, mut state) = (Instant::now(), State::default());
        let minutes = |count: u64| Duration::from_secs(count * 60);
        for minute in 0..10 {
            state.note(start + minutes(minute), 1000 + minute);
        }
        assert_eq!(state.growth(), None);
        state.note(start + minutes(10), 2000);
        assert_eq!(state.growth(), Some(Growth { bytes: 1000, seconds: 600 }));
        assert!(state.noted.len() <= 4, "{:?}", state.noted);
        for minute in (15..3 * 24 * 60).step_by(5) {
            state.note(start + minutes(minute), 2000 + minute);
        }
        assert_eq!(state.noted.len(), NOTED_MAX);
        assert_eq!(state.growth(), Some(Growth { bytes: 287 * 5, seconds: 287 * 5 * 60 }));
        state.note(start + minutes(3 * 24 * 60), 10);
        assert_eq!(state.growth(), None, "it shrank");
    }
}
