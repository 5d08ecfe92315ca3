//! The data folder: who owns it and what is in it.
//!
//! ```text
//! LOCK     held with an exclusive lock for as long as a process uses the folder
//! FORMAT   one line that names the version of everything below: 2, or 3 once there are contents of blobs
//! store/   the files of the store
//! ```
//!
//! A store is made whole under the name `store.new`, then `FORMAT` is written, then the store gets its name. So a `store`
//! that is missing beside a `FORMAT` was lost, unless there is a `store.new`: then the first start was cut short.
//!
//! Every folder entry is synced before anything that relies on it is acknowledged. Only the owner may read any of it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tavola_engine::Cause;

const LOCK: &str = "LOCK";
const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const STORE: &str = "store";
const STORE_NEW: &str = "store.new";
/// What an otherwise empty folder may hold: our own leavings, and the root folder of a mounted disk's.
const EMPTY_MAY_HOLD: [&str; 4] = [LOCK, FORMAT_NEW, STORE_NEW, "lost+found"];
const FORMAT_LINE: &str = "tavola data folder, format 2\n";
/// The same, with contents of blobs. A version that knows only format 2 would take their index for a lost table.
const FORMAT_LINE_CONTENTS: &str = "tavola data folder, format 3\n";
/// Written before the first release, on another store.
const FORMAT_LINE_RETIRED: &str = "tavola data folder, format 1\n";
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

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
    /// The folder was written before the first release.
    #[error(
        "data folder has format 1, which no release ever wrote and this version does not read: export its data with \
         the version that wrote it, then import it into a new folder (folder={})",
        folder.display()
    )]
    FormatRetired {
        /// Which.
        folder: PathBuf,
    },
    /// Stored bytes cannot be trusted. Nothing was changed. Restore a backup.
    #[error("data folder is damaged (folder={}, what={what})", folder.display())]
    Damaged {
        /// Which.
        folder: PathBuf,
        /// What is wrong.
        what: String,
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

/// What a store holds, which is what the format tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Rows only: format 2.
    Rows,
    /// Contents of blobs too: format 3.
    Contents,
}

/// A data folder that this process owns until it is dropped.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// Closing the file releases the lock, even if the process is killed.
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if need be, locks it and checks its format. A new folder gets its format with its store.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        check_format(path)?;
        let folder = Self::lock(path)?;
        // Once more: another process may have made it a data folder meanwhile.
        check_format(&folder.path)?;
        Ok(folder)
    }

    /// Locks a data folder that must exist, and changes nothing in it.
    pub(crate) fn open_existing(path: &Path) -> Result<Self, OpenError> {
        if !path.join(FORMAT).exists() {
            return Err(OpenError::NotADataFolder { folder: path.to_owned() });
        }
        check_format(path)?;
        match File::open(path.join(LOCK)) {
            Ok(lock) => Self::take(path.to_owned(), lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(OpenError::Damaged {
                folder: path.to_owned(),
                what: "the file LOCK is missing".to_owned(),
            }),
            Err(cause) => Err(OpenError::Failed { folder: path.to_owned(), cause: cause.into() }),
        }
    }

    /// Makes and locks a folder that must be empty, to be filled and then given its format file.
    pub(crate) fn create(path: &Path) -> Result<Self, OpenError> {
        let folder = Self::open(path)?;
        if folder.path.join(FORMAT).exists() {
            return Err(OpenError::NotADataFolder { folder: folder.path.clone() });
        }
        Ok(folder)
    }

    /// Where the files of the store are.
    pub(crate) fn store_path(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// Whether there is no store yet. A store that was lost is damage.
    pub(crate) fn is_without_store(&self) -> Result<bool, OpenError> {
        if self.store_path().exists() {
            return Ok(false);
        }
        if self.path.join(FORMAT).exists() && !self.path.join(STORE_NEW).exists() {
            return Err(self.damaged("the folder of the store is missing"));
        }
        Ok(true)
    }

    /// Makes the store: `fill` puts everything into the folder it is given. Whatever an attempt that was cut short left
    /// is removed; nothing in there was ever acknowledged.
    pub(crate) fn make_store<E>(
        &self,
        fill: impl FnOnce(&Path) -> Result<(E, Holding), OpenError>,
    ) -> Result<E, OpenError> {
        let new_path = self.path.join(STORE_NEW);
        if new_path.exists() {
            fs::remove_dir_all(&new_path).map_err(|cause| self.failed(cause))?;
        }
        create_folder(&new_path).map_err(|cause| self.failed(cause))?;
        let (filled, holding) = fill(&new_path)?;
        let named = sync_tree(&new_path)
            .and_then(|()| sync_folder(&self.path))
            .and_then(|()| self.write_format(holding))
            .and_then(|()| fs::rename(&new_path, self.store_path()))
            .and_then(|()| sync_folder(&self.path));
        named.map_err(|cause| self.failed(cause))?;
        Ok(filled)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Says that the folder has contents of blobs, or is about to.
    pub(crate) fn note_contents(&self) -> io::Result<()> {
        if fs::read(self.path.join(FORMAT))? == FORMAT_LINE_CONTENTS.as_bytes() {
            return Ok(());
        }
        self.write_format(Holding::Contents)
    }

    /// Makes this a data folder.
    fn write_format(&self, holding: Holding) -> io::Result<()> {
        let line = match holding {
            Holding::Rows => FORMAT_LINE,
            Holding::Contents => FORMAT_LINE_CONTENTS,
        };
        let new_path = self.path.join(FORMAT_NEW);
        let mut file = create_file(&new_path)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        fs::rename(new_path, self.path.join(FORMAT))?;
        sync_folder(&self.path)
    }

    /// An error of this folder.
    pub(crate) fn failed(&self, cause: impl Into<Cause>) -> OpenError {
        OpenError::Failed { folder: self.path.clone(), cause: cause.into() }
    }

    /// Damage in this folder.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { folder: self.path.clone(), what: what.into() }
    }

    fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |cause: io::Error| OpenError::Failed { folder: path.to_owned(), cause: cause.into() };
        make_folder(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(FILE_MODE)
            .open(path.join(LOCK))
            .map_err(failed)?;
        Self::take(path, lock)
    }

    fn take(path: PathBuf, lock: File) -> Result<Self, OpenError> {
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { folder: path }),
            Err(TryLockError::Error(cause)) => Err(OpenError::Failed { folder: path, cause: cause.into() }),
        }
    }
}

/// `Ok` for a data folder of this format, and for one that can become one. Changes nothing.
fn check_format(path: &Path) -> Result<(), OpenError> {
    let folder = path.to_owned();
    let failed = |cause: io::Error| OpenError::Failed { folder: path.to_owned(), cause: cause.into() };
    match fs::read(path.join(FORMAT)) {
        Ok(line) if line == FORMAT_LINE.as_bytes() || line == FORMAT_LINE_CONTENTS.as_bytes() => Ok(()),
        Ok(line) if line == FORMAT_LINE_RETIRED.as_bytes() => Err(OpenError::FormatRetired { folder }),
        Ok(line) => {
            let found = String::from_utf8_lossy(&line).lines().next().unwrap_or_default().to_owned();
            Err(OpenError::FormatUnknown { folder, found })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !path.exists() || is_empty(path).map_err(failed)? {
                Ok(())
            } else {
                Err(OpenError::NotADataFolder { folder })
            }
        }
        Err(error) => Err(failed(error)),
    }
}

fn is_empty(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !EMPTY_MAY_HOLD.iter().any(|known| name == *known) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a file, or empties it. Only its owner may read it.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(true).read(true).write(true).mode(FILE_MODE).open(path)
}

/// Makes a folder, if need be. Only its owner may look into it.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Makes a folder and those above it, and syncs each new entry.
fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
    create_folder(path)?;
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
