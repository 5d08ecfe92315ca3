//! Large fields and logs, which live in blobs.

use std::time::Duration;

use futures_util::TryStreamExt;
use tavola_client::eventual::Worker;
use tavola_client::patterns::large::{Large, LargeTable};
use tavola_client::patterns::log::{LogSettings, LogWriter, read_log};
use tavola_client::{DateTime, Entity, Error, Result};

use super::derived::Work;
use super::{Case, Fixture, settings};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{department}", row = "{id:06}")]
struct Employee {
    department: String,
    id: u32,
    photo: Option<Large>,
}

const BYTES: usize = 60_000;
const KEY: (&str, &str) = ("Sales", "000212");

fn don(byte: u8) -> Employee {
    Employee { department: "Sales".into(), id: 212, photo: Some(Large::new(vec![byte; BYTES])) }
}

fn photos(fixture: &Fixture) -> LargeTable<Employee> {
    LargeTable::new(fixture.table(), fixture.container(), fixture.intents())
        .with_retention(Duration::from_secs(1))
}

pub struct LargeField(pub Work);

impl Case for LargeField {
    const HAS_INTENTS: bool = true;

    async fn prepare(&self, fixture: &Fixture) {
        photos(fixture).create().await.unwrap();
        if self.0 != Work::Insert {
            photos(fixture).insert(don(1)).await.unwrap();
        }
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        let photos = photos(fixture);
        if self.0 == Work::Insert {
            return photos.insert(don(2)).await.map(|_| ());
        }
        let mut stored = photos.get(KEY).await?.ok_or(Error::NotFound)?;
        if self.0 == Work::Delete {
            return photos.delete(&stored).await;
        }
        stored.photo = don(2).photo;
        photos.save(&mut stored).await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        Worker::new(fixture.intents(), settings()).serve(photos(fixture)).drain().await.map(|_| ())
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let whole = photos(fixture).get_whole(KEY).await.unwrap();
        let byte = whole.as_ref().map(|(_, contents)| {
            assert_eq!(contents[0].1.len(), BYTES);
            contents[0].1[0]
        });
        let (before, after) = match self.0 {
            Work::Insert => (None, Some(2)),
            Work::Change => (Some(1), Some(2)),
            Work::Delete => (Some(1), None),
        };
        assert!(byte == after || !told && byte == before, "{} {byte:?}", fixture.name);
        let blobs = fixture.container().list("").await.unwrap();
        assert_eq!(blobs.len(), usize::from(byte.is_some()), "{} {blobs:?}", fixture.name);
    }
}

/// Lines of two hours, flushed twice; what repairs is a writer that goes on.
pub struct Log;

const LINES: usize = 30;

async fn write(fixture: &Fixture, who: &str) -> Result<()> {
    let log = LogWriter::new(fixture.container(), "orders", LogSettings::default());
    for flush in 0..2 {
        for line in 0..LINES {
            let at = DateTime::from_parts((2026, 11, 15), (18 + flush, 0, 0), 0).unwrap();
            log.line(at, &format!("{who} {flush} {line}")).await?;
        }
        log.flush().await?;
    }
    log.close().await
}

impl Case for Log {
    async fn prepare(&self, fixture: &Fixture) {
        fixture.container().create().await.unwrap();
    }

    async fn call(&self, fixture: &Fixture) -> Result<()> {
        write(fixture, "call").await
    }

    async fn settle(&self, fixture: &Fixture) -> Result<()> {
        write(fixture, &format!("settle {}", std::process::id())).await
    }

    async fn verify(&self, fixture: &Fixture, told: bool) {
        let at = |hour| DateTime::from_parts((2026, 11, 15), (hour, 0, 0), 0).unwrap();
        let lines: Vec<_> =
            read_log(&fixture.container(), "orders", at(18), at(20)).try_collect().await.unwrap();
        let mut texts: Vec<&str> = lines.iter().map(|(_, text)| text.as_str()).collect();
        let count = texts.len();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), count, "{}: every line is there once", fixture.name);
        let of = |begin: &str| texts.iter().filter(|text| text.starts_with(begin)).count();
        let (first, second) = (of("call 0 "), of("call 1 "));
        assert!(first == LINES || !told && first == 0, "{}: a flush is whole", fixture.name);
        assert!(second == LINES || !told && second == 0, "{}: a flush is whole", fixture.name);
        assert!(first >= second, "{}: flushes are in order", fixture.name);
        assert_eq!(of(&format!("settle {} ", std::process::id())), 2 * LINES, "{}", fixture.name);
    }
}
