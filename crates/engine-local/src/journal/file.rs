//! One journal file.
//!
//! A file has its full size from the start, and its header says so; a shorter one has been cut. It is synced, and its
//! name too, before the manifest names it. Records begin in a block of their own, so that no write touches the header.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::changes::Payload;
use super::record::{self, RECORD_HEADER_LEN, RecordHeader};
use crate::folder::{create_file, sync_folder};

const MAGIC: [u8; 8] = *b"TAVJRNL\x01";
const HEADER_LEN: usize = 40;
const RECORDS_AT: u64 = 4096;
/// Zeros that are written behind a record where the file has no blocks yet.
static FILLING: [u8; 256 * 1024] = [0; 256 * 1024];

/// The name of a journal's file.
pub(crate) fn file_name(id: u64) -> String {
    format!("{id}.journal")
}

/// A journal file that is open.
pub(crate) struct JournalFile {
    pub(crate) id: u64,
    salt: u64,
    size: u64,
    /// Up to here the file has blocks on the disk.
    filled: u64,
    file: File,
}

impl JournalFile {
    /// Makes a journal and syncs it, but not its name.
    pub(crate) fn create(folder: &Path, id: u64, size: u64) -> io::Result<Self> {
        Self::create_at(&folder.join(file_name(id)), id, size)
    }

    /// Makes a journal of the file of an old one that nothing names any more, and syncs it, but not its name. Its blocks
    /// are on the disk already, so a sync has only data to write, and does not wait for what else the file system has to
    /// write. The old records are none under the new salt. `None` if the file has another size.
    pub(crate) fn recycle(folder: &Path, old_id: u64, id: u64, size: u64) -> io::Result<Option<Self>> {
        let old_path = folder.join(file_name(old_id));
        let file = File::options().read(true).write(true).open(&old_path)?;
        if file.metadata()?.len() != size {
            drop(file);
            std::fs::remove_file(old_path)?;
            return Ok(None);
        }
        let salt = getrandom::u64().map_err(io::Error::other)?;
        file.write_all_at(&encode_header(id, size, salt), 0)?;
        file.write_all_at(&[0; RECORD_HEADER_LEN], RECORDS_AT)?;
        file.sync_data()?;
        std::fs::rename(old_path, folder.join(file_name(id)))?;
        Ok(Some(Self { id, salt, size, filled: size, file }))
    }

    /// Puts another file in the place of an empty journal, one that fits a record of this length.
    pub(crate) fn enlarge(self, folder: &Path, record_len: usize) -> io::Result<Self> {
        let path = folder.join(file_name(self.id));
        let new_path = path.with_extension("journal.new");
        let size = RECORDS_AT + (record_len + RECORD_HEADER_LEN) as u64;
        let enlarged = Self::create_at(&new_path, self.id, size)?;
        std::fs::rename(new_path, path)?;
        sync_folder(folder)?;
        Ok(enlarged)
    }

    /// Whether a record of this length fits into the empty journal, and a mark behind it.
    pub(crate) fn fits(&self, record_len: usize) -> bool {
        RECORDS_AT + (record_len + RECORD_HEADER_LEN) as u64 <= self.size
    }

    fn create_at(path: &Path, id: u64, size: u64) -> io::Result<Self> {
        let salt = getrandom::u64().map_err(io::Error::other)?;
        let file = create_file(path)?;
        file.set_len(size)?;
        file.write_all_at(&encode_header(id, size, salt), 0)?;
        file.sync_all()?;
        Ok(Self { id, salt, size, filled: RECORDS_AT, file })
    }

    /// Opens a journal that was examined.
    pub(crate) fn open(folder: &Path, examined: &Examined) -> io::Result<Self> {
        let file = File::options().write(true).open(folder.join(file_name(examined.id)))?;
        let Examined { id, salt, size, end, .. } = *examined;
        Ok(Self { id, salt, size, filled: end, file })
    }
}

fn encode_header(id: u64, size: u64, salt: u64) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    for (number, at) in [(id, 8), (size, 16), (salt, 24)] {
        header[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let checksum = xxh3_64(&header[..32]);
    header[32..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// What a journal holds, found without changing anything.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) id: u64,
    pub(crate) salt: u64,
    size: u64,
    /// Where the last good record ends.
    pub(crate) end: u64,
    /// How many records there are.
    pub(crate) records: u64,
    /// The number that follows the last record.
    pub(crate) next_sequence: u64,
    /// The highest tick of the records.
    pub(crate) tick: u64,
    /// Whether a mark behind the last record says that everything is here.
    pub(crate) is_marked: bool,
    path: PathBuf,
}

impl Examined {
    /// Reads a journal whose first record has the number `sequence`. The inner error tells what is damaged.
    pub(crate) fn read(folder: &Path, id: u64, sequence: u64) -> io::Result<Result<Self, String>> {
        let path = folder.join(file_name(id));
        let (bytes, file_len) = match read_content(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(format!("journal {id} is missing")));
            }
            Err(error) => return Err(error),
        };
        Ok(Self::examine(path, &bytes, file_len, id, sequence))
    }

    fn examine(path: PathBuf, bytes: &[u8], file_len: u64, id: u64, sequence: u64) -> Result<Self, String> {
        let number =
            |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let (Some(size), Some(salt)) = (number(16), number(24)) else {
            return Err(format!("journal {id} is cut"));
        };
        if bytes.get(..HEADER_LEN) != Some(&encode_header(id, size, salt)[..]) {
            return Err(format!("the header of journal {id} is damaged"));
        }
        if file_len < size || size < RECORDS_AT {
            return Err(format!("journal {id} is cut"));
        }
        let mut end = usize::try_from(RECORDS_AT).expect("a small number");
        let mut examined = Self {
            id,
            salt,
            size,
            end: 0,
            records: 0,
            next_sequence: sequence,
            tick: 0,
            is_marked: false,
            path,
        };
        while let Some(record) = record::read(salt, bytes.get(end..).unwrap_or_default()) {
            if record.header.sequence != examined.next_sequence {
                return Err(format!("journal {id} has a gap before record {}", record.header.sequence));
            }
            examined.tick = examined.tick.max(record.header.tick);
            if record.payload.is_empty() {
                examined.is_marked = true;
                break;
            }
            examined.records += 1;
            examined.next_sequence += 1;
            end += RECORD_HEADER_LEN + record.payload.len();
        }
        if !examined.is_marked
            && record::proves_synced(salt, bytes.get(end..).unwrap_or_default(), examined.next_sequence)
        {
            return Err(format!("record {} of journal {id} is damaged", examined.next_sequence));
        }
        examined.end = end as u64;
        Ok(examined)
    }

    /// Gives the payload of each record to `visit`, in order.
    pub(crate) fn visit<E: From<io::Error>>(
        &self,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.records == 0 {
            return Ok(());
        }
        let (bytes, _) = read_content(&self.path)?;
        let mut at = usize::try_from(RECORDS_AT).expect("a small number");
        for _ in 0..self.records {
            let record = record::read(self.salt, bytes.get(at..).unwrap_or_default())
                .ok_or_else(|| io::Error::other("a journal changed while it was read"))?;
            visit(record.payload)?;
            at += RECORD_HEADER_LEN + record.payload.len();
        }
        Ok(())
    }
}

/// The bytes of a journal up to the zeros at its end, rounded up to whole blocks, and its length. A journal has its full
/// size from the start, so most of a young one is zeros.
fn read_content(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    const BLOCK: usize = 64 * 1024;
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let file = File::open(path)?;
    let file_len = file.metadata()?.len();
    let mut end = data_end(&file).map_or(file_len, |end| end.min(file_len));
    let mut buffer = vec![0; BLOCK];
    while end > 0 {
        let start = (end - 1) / BLOCK as u64 * BLOCK as u64;
        let block = &mut buffer[..usize::try_from(end - start).expect("at most a block")];
        file.read_exact_at(block, start)?;
        if *block != ZEROS[..block.len()] {
            break;
        }
        end = start;
    }
    // A header or a mark at the very end of the content may itself end in zeros.
    end = file_len.min(end + BLOCK as u64);
    let mut bytes = vec![0; usize::try_from(end).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok((bytes, file_len))
}

/// Where the last bytes are that were ever written to a file, if the file system knows.
fn data_end(file: &File) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let mut end = 0;
        loop {
            match seek(file, SeekFrom::Data(end)) {
                Ok(start) => end = seek(file, SeekFrom::Hole(start)).ok()?,
                Err(Errno::NXIO) => return Some(end),
                Err(_) => return None,
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

/// Writes records to a journal. Only the committer has one.
pub(crate) struct JournalWriter {
    journal: JournalFile,
    end: u64,
    next_sequence: u64,
    synced: u64,
}

impl JournalWriter {
    /// Goes on in a journal that is empty, with the record of this number.
    pub(crate) fn start(journal: JournalFile, sequence: u64) -> Self {
        Self { journal, end: RECORDS_AT, next_sequence: sequence, synced: sequence - 1 }
    }

    /// Goes on behind the last good record of a journal. Whatever a torn write left there is covered by a synced mark
    /// first, so that the journal can be closed as it is.
    pub(crate) fn resume(journal: JournalFile, examined: &Examined, tick: u64) -> io::Result<Self> {
        let next_sequence = examined.next_sequence;
        let writer = Self { journal, end: examined.end, next_sequence, synced: next_sequence - 1 };
        if !examined.is_marked {
            writer.mark(tick)?;
            writer.journal.file.sync_data()?;
        }
        Ok(writer)
    }

    pub(crate) fn id(&self) -> u64 {
        self.journal.id
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether a record of this length fits, and a mark behind it.
    pub(crate) fn fits(&self, record_len: usize) -> bool {
        self.end + (record_len + RECORD_HEADER_LEN) as u64 <= self.journal.size
    }

    /// Writes a record and syncs it. After an error nobody knows what the disk holds.
    pub(crate) fn append(&mut self, payload: &mut Payload, tick: u64) -> io::Result<()> {
        assert!(!payload.is_empty(), "a record without changes would be a mark");
        assert!(self.fits(payload.record_len()), "the committer takes the next journal in time");
        let header = RecordHeader { sequence: self.next_sequence, synced: self.synced, tick };
        record::seal(self.journal.salt, header, &mut payload.buffer);
        self.journal.file.write_all_at(&payload.buffer, self.end)?;
        self.end += payload.buffer.len() as u64;
        self.fill()?;
        self.journal.file.sync_data()?;
        self.synced = self.next_sequence;
        self.next_sequence += 1;
        Ok(())
    }

    /// Gives the file blocks for the next records. A sync of a file that has its blocks writes data alone; one that gives it
    /// blocks waits for all that the file system has to write, such as the blobs that others upload.
    fn fill(&mut self) -> io::Result<()> {
        if self.end <= self.journal.filled {
            return Ok(());
        }
        let filling = FILLING.len().min(usize::try_from(self.journal.size - self.end).unwrap_or(usize::MAX));
        self.journal.file.write_all_at(&FILLING[..filling], self.end)?;
        self.journal.filled = self.end + filling as u64;
        Ok(())
    }

    /// Notes behind the last record that everything up to it is synced.
    pub(crate) fn mark(&self, tick: u64) -> io::Result<()> {
        let header = RecordHeader { sequence: self.next_sequence, synced: self.synced, tick };
        self.journal.file.write_all_at(&record::mark(self.journal.salt, header), self.end)
    }

    /// Ends the journal, before another one is begun.
    pub(crate) fn finish(&self, tick: u64) -> io::Result<()> {
        self.mark(tick)?;
        self.journal.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::ChangedRow;

    const SIZE: u64 = 16 * 1024;

    fn payload(value: &[u8]) -> Payload {
        let mut payload = Payload::new();
        payload.push(ChangedRow { tree: 1, key: b"key", value: Some(value) });
        payload
    }

    /// A journal with three records whose first has the number 5, and where each of them ends.
    fn three_records(folder: &Path) -> Vec<u64> {
        let mut writer = JournalWriter::start(JournalFile::create(folder, 7, SIZE).unwrap(), 5);
        let mut ends = vec![writer.end];
        for number in 0..3u8 {
            writer.append(&mut payload(&[number; 700]), 100 + u64::from(number)).unwrap();
            ends.push(writer.end);
        }
        ends
    }

    fn examine(folder: &Path) -> Result<Examined, String> {
        Examined::read(folder, 7, 5).unwrap()
    }

    fn spoil(folder: &Path, at: u64) {
        let file = File::options().read(true).write(true).open(folder.join(file_name(7))).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }

    #[test]
    fn the_header_of_a_journal_has_these_bytes() {
        let expected = [
            &b"TAVJRNL\x01"[..],
            &7u64.to_le_bytes(),
            &SIZE.to_le_bytes(),
            &0x0102_0304u64.to_le_bytes(),
            &[229, 197, 157, 117, 161, 34, 51, 135],
        ];
        assert_eq!(encode_header(7, SIZE, 0x0102_0304)[..], expected.concat());
    }

    #[test]
    fn good_records_are_read_with_and_without_a_mark() {
        let folder = tempfile::tempdir().unwrap();
        let ends = three_records(folder.path());
        let examined = examine(folder.path()).unwrap();
        assert_eq!((examined.records, examined.next_sequence, examined.end), (3, 8, ends[3]));
        assert_eq!((examined.tick, examined.is_marked), (102, false));
        let mut seen = 0;
        examined
            .visit(|payload| {
                seen += payload.len();
                Ok::<(), io::Error>(())
            })
            .unwrap();
        assert_eq!(seen as u64, ends[3] - ends[0] - 3 * RECORD_HEADER_LEN as u64);
        let journal = JournalFile::open(folder.path(), &examined).unwrap();
        JournalWriter::resume(journal, &examined, 102).unwrap();
        assert!(examine(folder.path()).unwrap().is_marked);
    }

    #[test]
    fn a_last_record_that_nobody_was_told_of_is_cut_off_and_can_be_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let ends = three_records(folder.path());
        spoil(folder.path(), ends[2] + 300);
        let examined = examine(folder.path()).unwrap();
        assert_eq!((examined.records, examined.end, examined.is_marked), (2, ends[2], false));
        let journal = JournalFile::open(folder.path(), &examined).unwrap();
        let mut writer = JournalWriter::resume(journal, &examined, 9).unwrap();
        assert!(examine(folder.path()).unwrap().is_marked);
        writer.append(&mut payload(b"another"), 9).unwrap();
        let examined = examine(folder.path()).unwrap();
        assert_eq!((examined.records, examined.next_sequence), (3, 8));
    }

    #[test]
    fn a_synced_record_that_cannot_be_read_is_damage_wherever_it_is() {
        for victim in 0..3 {
            let folder = tempfile::tempdir().unwrap();
            let ends = three_records(folder.path());
            let examined = examine(folder.path()).unwrap();
            let journal = JournalFile::open(folder.path(), &examined).unwrap();
            JournalWriter::resume(journal, &examined, 9).unwrap().finish(9).unwrap();
            spoil(folder.path(), ends[victim] + 40);
            let error = examine(folder.path()).unwrap_err();
            assert!(error.contains(&format!("record {}", 5 + victim)), "{error}");
        }
    }

    #[test]
    fn a_cut_journal_and_a_spoilt_header_are_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file_name(7));
        for at in 0..HEADER_LEN as u64 {
            three_records(folder.path());
            spoil(folder.path(), at);
            examine(folder.path()).unwrap_err();
        }
        three_records(folder.path());
        for length in [SIZE - 1, 5000, 4096, 10, 0] {
            File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
            examine(folder.path()).unwrap_err();
        }
        std::fs::remove_file(path).unwrap();
        assert!(examine(folder.path()).unwrap_err().contains("missing"));
    }

    #[test]
    fn a_recycled_journal_has_nothing_of_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        three_records(folder.path());
        assert!(JournalFile::recycle(folder.path(), 7, 9, SIZE - 1).unwrap().is_none());
        three_records(folder.path());
        let journal = JournalFile::recycle(folder.path(), 7, 9, SIZE).unwrap().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let empty = Examined::read(folder.path(), 9, 5).unwrap().unwrap();
        assert_eq!((empty.records, empty.next_sequence, empty.is_marked), (0, 5, false));
        let mut writer = JournalWriter::start(journal, 5);
        // As long as the old ones, so that an old record stands right behind.
        writer.append(&mut payload(&[9; 700]), 3).unwrap();
        assert_eq!(Examined::read(folder.path(), 9, 5).unwrap().unwrap().records, 1);
        writer.append(&mut payload(&[9; 100]), 3).unwrap();
        writer.finish(3).unwrap();
        let examined = Examined::read(folder.path(), 9, 5).unwrap().unwrap();
        assert_eq!((examined.records, examined.is_marked), (2, true));
    }

    #[test]
    fn a_journal_has_blocks_for_the_next_records_and_a_recycled_one_for_all() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let size = 1024 * 1024;
        let mut writer = JournalWriter::start(JournalFile::create(folder.path(), 7, size).unwrap(), 5);
        let blocks = |id| std::fs::metadata(folder.path().join(file_name(id))).unwrap().blocks() * 512;
        for number in 0..20 {
            writer.append(&mut payload(&[number; 30_000]), 3).unwrap();
            assert!(blocks(7) > writer.end && writer.journal.filled > writer.end, "{}", writer.end);
        }
        assert!(blocks(7) < size, "they come a few at a time");
        assert_eq!(examine(folder.path()).unwrap().records, 20);
        while writer.fits(30_100) {
            writer.append(&mut payload(&[1; 30_000]), 3).unwrap();
        }
        assert_eq!(std::fs::metadata(folder.path().join(file_name(7))).unwrap().len(), size);
        let recycled = JournalFile::recycle(folder.path(), 7, 9, size).unwrap().unwrap();
        assert_eq!(recycled.filled, size);
    }

    #[test]
    fn a_record_larger_than_a_journal_gets_a_larger_journal() {
        let folder = tempfile::tempdir().unwrap();
        let mut large = payload(&vec![5; 100_000]);
        let journal = JournalFile::create(folder.path(), 7, SIZE).unwrap();
        assert!(!journal.fits(large.record_len()));
        let journal = journal.enlarge(folder.path(), large.record_len()).unwrap();
        let mut writer = JournalWriter::start(journal, 5);
        writer.append(&mut large, 3).unwrap();
        assert!(!writer.fits(1));
        writer.finish(3).unwrap();
        let examined = examine(folder.path()).unwrap();
        assert_eq!((examined.records, examined.is_marked), (1, true));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_journal_that_begins_with_another_number_has_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        three_records(folder.path());
        assert!(Examined::read(folder.path(), 7, 4).unwrap().unwrap_err().contains("gap"));
    }
}
