//! One extent: a file of regions.
//!
//! ```text
//! header, 4096 bytes:  "TAVEXTN" 01 | u64 extent | u64 size | u64 XXH3-64 of all before | zeros
//! regions, each at a multiple of 4096
//! ```
//!
//! A file has its full size from the start, as a hole, and its name and header are synced before the catalog names it. So
//! an extent that is not there, is shorter, or has another header was lost or changed. Numbers are little-endian.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, SeekFrom};
use xxhash_rust::xxh3::xxh3_64;

use crate::folder::{create_file, sync_folder};
use crate::settings::PUNCHED_BYTES_MAX;

/// Bytes before the first region.
pub(crate) const HEADER_BYTES: u64 = 4096;
const MAGIC: [u8; 8] = *b"TAVEXTN\x01";
const HEADER_LEN: usize = 32;

/// An extent file that is open.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) number: u64,
    pub(crate) file: File,
}

/// The file of an extent.
pub(crate) fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}"))
}

/// The number in a file name, if it is one of an extent.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if name.len() != 16 || !name.bytes().all(is_hex) {
        return None;
    }
    u64::from_str_radix(name, 16).ok()
}

impl Extent {
    /// Makes an extent, durably, with its name.
    pub(crate) fn create(folder: &Path, number: u64, size: u64) -> io::Result<Self> {
        let file = create_file(&path_of(folder, number))?;
        file.write_all_at(&header(number, size), 0)?;
        file.set_len(size)?;
        file.sync_all()?;
        sync_folder(folder)?;
        Ok(Self { number, file })
    }

    /// Opens an extent that is there.
    pub(crate) fn open(folder: &Path, number: u64) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path_of(folder, number))?;
        Ok(Self { number, file })
    }

    /// Frees the disk space of a range, in steps: a file system gives all blocks of one step to the disk together, and a
    /// commit of rows that comes then waits for it.
    pub(crate) fn punch(&self, offset: u64, length: u64) -> io::Result<()> {
        assert!(offset >= HEADER_BYTES, "the header is never given back");
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let end = offset + length;
        let mut at = offset;
        while at < end {
            let step_end = (at + PUNCHED_BYTES_MAX).min(end);
            rustix::fs::fallocate(&self.file, flags, at, step_end - at)?;
            at = step_end;
        }
        Ok(())
    }

    /// The next range that takes disk space, at or behind an offset. `None` if there is none, `Err` if the file
    /// system cannot say.
    pub(crate) fn next_data(&self, from: u64) -> io::Result<Option<(u64, u64)>> {
        let start = match rustix::fs::seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&self.file, SeekFrom::Hole(start))?;
        Ok(Some((start, end)))
    }
}

fn header(number: u64, size: u64) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&size.to_le_bytes());
    let sum = xxh3_64(&header[..24]);
    header[24..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Reads what an extent says of itself, and changes nothing. The inner error tells what is wrong.
pub(crate) fn inspect(folder: &Path, number: u64, size: u64) -> io::Result<Result<(), String>> {
    let damaged = |what: &str| Ok(Err(format!("extent {number:016x} {what}")));
    let file = match File::open(path_of(folder, number)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return damaged("is missing");
        }
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() != size {
        return damaged("has another size");
    }
    let mut found = [0; HEADER_LEN];
    match file.read_exact_at(&mut found, 0) {
        Ok(()) if found == header(number, size) => Ok(Ok(())),
        Ok(()) => damaged("has a damaged header"),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => damaged("is cut"),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_an_extent_stays_as_it_was_first_written() {
        let found = header(0x0102_0304, 0x1000_0000);
        let expected = b"TAVEXTN\x01\x04\x03\x02\x01\0\0\0\0\0\0\0\x10\0\0\0\0";
        assert_eq!(found[..24], expected[..]);
        assert_eq!(found[24..], [0x62, 0xd0, 0x5d, 0x4d, 0xee, 0x86, 0x46, 0xd2]);
    }

    #[test]
    fn a_missing_cut_or_changed_extent_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let check = |size| inspect(folder.path(), 7, size).unwrap();
        assert_eq!(check(8192).unwrap_err(), "extent 0000000000000007 is missing");
        let extent = Extent::create(folder.path(), 7, 8192).unwrap();
        assert_eq!(check(8192), Ok(()));
        assert_eq!(check(8191).unwrap_err(), "extent 0000000000000007 has another size");
        extent.file.write_all_at(b"x", 9).unwrap();
        assert_eq!(check(8192).unwrap_err(), "extent 0000000000000007 has a damaged header");
    }

    #[test]
    fn names_are_sixteen_hex_digits() {
        assert_eq!(path_of(Path::new("f"), 0xAB), Path::new("f/00000000000000ab"));
        assert_eq!(number_of("00000000000000ab"), Some(0xAB));
        for name in ["", "ab", "00000000000000AB", "+0000000000000ab", "00000000000000ab0"] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
