//! The file that keeps traffic across restarts.
//!
//! One line, `tavola-traffic VERSION CHECKSUM`, and then JSON. It is written aside, synced and renamed, so it is the old
//! one or the new one. Traffic is advice and no data: a file that cannot be read is set aside with a warning, and
//! counting starts over.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::KeptTraffic;

/// Raised when the form changes; an older form is dropped like a damaged file.
const VERSION: u32 = 1;
/// Bytes of what is written.
pub(super) const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of a file that is read: the same and the first line.
const FILE_BYTES_MAX: u64 = BODY_BYTES_MAX as u64 + 1024;

/// What the file holds; `None` if there is none that can be used.
pub(super) fn load(path: &Path) -> Option<KeptTraffic> {
    match read(path) {
        Ok(kept) => kept,
        Err(reason) => {
            let aside = beside(path, "damaged");
            let moved = std::fs::rename(path, &aside).is_ok();
            tracing::warn!(
                file = %path.display(), aside = %aside.display(), moved, reason,
                "cannot read the recorded traffic; recording starts from nothing"
            );
            None
        }
    }
}

fn read(path: &Path) -> Result<Option<KeptTraffic>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("larger than it can be".to_owned());
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("no first line")?;
    let body = &bytes[end + 1..];
    if bytes[..end] != *head(body).as_bytes() {
        return Err("another version, or changed".to_owned());
    }
    serde_json::from_slice(body).map(Some).map_err(|error| error.to_string())
}

/// Replaces the file.
pub(super) fn save(path: &Path, body: &[u8]) -> std::io::Result<()> {
    let aside = beside(path, "new");
    let mut file = File::create(&aside)?;
    file.write_all(head(body).as_bytes())?;
    file.write_all(b"\n")?;
    file.write_all(body)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)
}

fn head(body: &[u8]) -> String {
    format!("tavola-traffic {VERSION} {:016x}", xxh3_64(body))
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &[u8] = b"tavola-traffic 1 4b3842415f2ab8d9\n{\"tables\":[],\"accounts\":{}}";

    #[test]
    fn a_file_keeps_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traffic");
        std::fs::write(&path, FIXTURE).unwrap();
        assert!(matches!(read(&path), Ok(Some(_))));
        std::fs::remove_file(&path).unwrap();
        save(&path, b"{\"tables\":[],\"accounts\":{}}").unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(FIXTURE));
    }
}
