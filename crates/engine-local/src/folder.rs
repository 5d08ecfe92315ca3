//! The data folder: who owns it and what is in it.
//!
//! ```text
//! LOCK     held with an exclusive lock for as long as a process uses the folder
//! FORMAT   one line that names the version of everything below
//! store/   the files of the store
//! ```
//!
//! Every folder entry is synced before anything that relies on it is acknowledged.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tavola_engine::Cause;

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const STORE: &str = "store";
/// What an otherwise empty folder may hold: our own leavings, and the root folder of a mounted disk's.
const EMPTY_MAY_HOLD: [&str; 3] = [LOCK, FORMAT_NEW, "lost+found"];
const FORMAT_LINE: &str = "tavola data folder, format 1\n";

/// Why a data folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the folder.
    #[error("data folder is in use by another process (folder={})", folder.display())]
    Locked {
        /// Which.
        folder: PathBuf,
    },
    /// The folder holds files, but not ours.
    #[error("folder is neither empty nor a data folder (folder={})", folder.display())]
    NotADataFolder {
        /// Which.
        folder: PathBuf,
    },
    /// The folder was written by a version that this one cannot read.
    #[error("data folder has an unknown format (folder={}, found={found:?})", folder.display())]
    FormatUnknown {
        /// Which.
        folder: PathBuf,
        /// The first line of its format file.
        found: String,
    },
    /// Stored bytes cannot be trusted. Restore a backup.
    #[error("data folder is damaged (folder={}, what={what})", folder.display())]
    Damaged {
        /// Which.
        folder: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A file could not be read or written.
    #[error("data folder cannot be used (folder={})", folder.display())]
    Failed {
        /// Which.
        folder: PathBuf,
        /// What happened.
        #[source]
        cause: Cause,
    },
}

/// A data folder that this process owns until it is dropped.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Closing the file releases the lock, even if the process is killed.
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if need be, locks it and checks its format.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let folder = Self::lock(path)?;
        match folder.read_format().map_err(|cause| folder.failed(cause))? {
            Some(line) if line == FORMAT_LINE => {}
            Some(line) => {
                let found = line.lines().next().unwrap_or_default().to_owned();
                return Err(OpenError::FormatUnknown { folder: folder.path.clone(), found });
            }
            None if folder.is_empty().map_err(|cause| folder.failed(cause))? => {
                folder.write_format().map_err(|cause| folder.failed(cause))?;
            }
            None => return Err(OpenError::NotADataFolder { folder: folder.path.clone() }),
        }
        folder.remove_unfinished_store()?;
        Ok(folder)
    }

    /// Opens a data folder that must exist.
    pub(crate) fn open_existing(path: &Path) -> Result<Self, OpenError> {
        if !path.join(FORMAT).exists() {
            return Err(OpenError::NotADataFolder { folder: path.to_owned() });
        }
        Self::open(path)
    }

    /// Makes and locks a folder that must be empty, to be filled and then given its format file.
    pub(crate) fn create(path: &Path) -> Result<Self, OpenError> {
        let folder = Self::lock(path)?;
        match folder.is_empty() {
            Ok(true) => Ok(folder),
            Ok(false) => Err(OpenError::NotADataFolder { folder: folder.path.clone() }),
            Err(cause) => Err(folder.failed(cause)),
        }
    }

    /// Where the files of the store are.
    pub(crate) fn store_path(&self) -> PathBuf {
        self.path.join(STORE)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes this a data folder: from here on it can be opened.
    pub(crate) fn write_format(&self) -> io::Result<()> {
        let new_path = self.path.join(FORMAT_NEW);
        let mut file = File::create(&new_path)?;
        file.write_all(FORMAT_LINE.as_bytes())?;
        file.sync_all()?;
        fs::rename(new_path, self.path.join(FORMAT))?;
        sync_folder(&self.path)
    }

    /// An error of this folder.
    pub(crate) fn failed(&self, cause: impl Into<Cause>) -> OpenError {
        OpenError::Failed { folder: self.path.clone(), cause: cause.into() }
    }

    /// Damage in this folder.
    pub(crate) fn damaged(&self, what: &'static str) -> OpenError {
        OpenError::Damaged { folder: self.path.clone(), what }
    }

    fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |cause: io::Error| OpenError::Failed { folder: path.to_owned(), cause: cause.into() };
        make_folder(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { folder: path }),
            Err(TryLockError::Error(cause)) => Err(failed(cause)),
        }
    }

    fn read_format(&self) -> io::Result<Option<String>> {
        match fs::read(self.path.join(FORMAT)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_empty(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if !EMPTY_MAY_HOLD.iter().any(|known| name == *known) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A process that died while it made the store left one without its version file, which the store would
    /// neither open nor make anew. Nothing was acknowledged yet, so it is removed, unless it holds a space:
    /// then the version file was lost later, and that is damage.
    fn remove_unfinished_store(&self) -> Result<(), OpenError> {
        let store = self.store_path();
        if !store.exists() || store.join("version").exists() {
            return Ok(());
        }
        if store.join("keyspaces").join("1").exists() {
            return Err(self.damaged("the version file of the store is missing"));
        }
        fs::remove_dir_all(store).map_err(|cause| self.failed(cause))
    }
}

/// Makes a folder and those above it, and syncs each new entry.
fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent)?,
            _ => sync_folder(Path::new("."))?,
        }
    }
    Ok(())
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a folder, everything in it and every name in it durable.
pub(crate) fn sync_tree(root: &Path) -> io::Result<()> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                File::open(entry.path())?.sync_all()?;
            }
        }
        sync_folder(&folder)?;
    }
    Ok(())
}
