//! The manifest of an export: which spaces there are, and the sum of each. It is written last, so a folder that has one
//! is finished.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tavola_engine::SpaceId;
use tavola_model::DateTime;
use xxhash_rust::xxh3::xxh3_128;

use super::rows::Sum;

const FILE: &str = "manifest.json";
const FILE_NEW: &str = "manifest.json.new";
const FORMAT: u64 = 1;
/// The same, with contents of blobs.
const FORMAT_CONTENTS: u64 = 2;

/// What an export holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportManifest {
    /// No version that the store has given is above this.
    pub tick: DateTime,
    /// The spaces with their sums.
    pub spaces: BTreeMap<SpaceId, Sum>,
    /// The spaces that have contents of blobs, with the sums of these.
    pub contents: BTreeMap<SpaceId, Sum>,
}

impl ExportManifest {
    /// Rows of all spaces.
    pub fn rows(&self) -> u64 {
        self.spaces.values().map(|sum| sum.rows).sum()
    }

    /// Contents of blobs of all spaces.
    pub fn content_count(&self) -> u64 {
        self.contents.values().map(|sum| sum.rows).sum()
    }

    /// Tells this export from any other.
    pub fn checksum(&self) -> u128 {
        xxh3_128(self.content().to_string().as_bytes())
    }

    /// Whether a folder has a manifest.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(FILE).exists()
    }

    /// Keeps a second import from the folder, for as long as the file is held. One that was only stopped would otherwise
    /// go on after the other had ended, and load old rows over those that were written since.
    pub fn lock(folder: &Path) -> anyhow::Result<File> {
        let path = folder.join(FILE);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => bail!("another import of {} is running", folder.display()),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// Reads the manifest of a folder.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "{} has no {FILE}: it is no export, or one that is not finished (run `tavola export` again)",
                folder.display()
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Self::parse(&text).with_context(|| format!("cannot use {}", path.display()))
    }

    /// Finishes a folder: from here on it can be imported.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text = json!({ "export": self.content(), "checksum": format!("{:032x}", self.checksum()) });
        let written = || -> std::io::Result<()> {
            let mut file = File::create(folder.join(FILE_NEW))?;
            file.write_all(format!("{text:#}\n").as_bytes())?;
            file.sync_all()?;
            // The names of the other files first.
            File::open(folder)?.sync_all()?;
            std::fs::rename(folder.join(FILE_NEW), folder.join(FILE))?;
            File::open(folder)?.sync_all()
        };
        written().with_context(|| format!("cannot write the manifest into {}", folder.display()))
    }

    fn content(&self) -> Value {
        let spaces = list(&self.spaces, "rows");
        if self.contents.is_empty() {
            return json!({ "format": FORMAT, "tick": self.tick.ticks(), "spaces": spaces });
        }
        let contents = list(&self.contents, "contents");
        json!({
            "format": FORMAT_CONTENTS,
            "tick": self.tick.ticks(),
            "spaces": spaces,
            "contents": contents,
        })
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let whole: Value = serde_json::from_str(text).context("it is not JSON")?;
        let content = &whole["export"];
        let format = content["format"].as_u64().context("it has no format")?;
        if format != FORMAT && format != FORMAT_CONTENTS {
            bail!("it has format {format}, and this version reads formats {FORMAT} and {FORMAT_CONTENTS}");
        }
        let parsed = Self::parse_content(content).context("something is missing in it")?;
        let checksum = whole["checksum"].as_str().unwrap_or_default();
        if checksum != format!("{:032x}", parsed.checksum()) || parsed.content() != *content {
            bail!("it is damaged: its checksum does not match");
        }
        Ok(parsed)
    }

    fn parse_content(content: &Value) -> Option<Self> {
        let tick = DateTime::from_ticks(content["tick"].as_u64()?)?;
        let spaces = parse_list(&content["spaces"], "rows")?;
        let contents = match &content["contents"] {
            Value::Null => BTreeMap::new(),
            contents => parse_list(contents, "contents")?,
        };
        Some(Self { tick, spaces, contents })
    }
}

/// Sums by space, with the word for what is counted.
fn list(sums: &BTreeMap<SpaceId, Sum>, counted: &str) -> Vec<Value> {
    let entry = |(space, sum): (&SpaceId, &Sum)| {
        json!({
            "space": space.to_string(),
            counted: sum.rows,
            "bytes": sum.bytes,
            "checksum": format!("{:016x}", sum.checksum),
        })
    };
    sums.iter().map(entry).collect()
}

fn parse_list(list: &Value, counted: &str) -> Option<BTreeMap<SpaceId, Sum>> {
    let entry = |entry: &Value| {
        let checksum = u64::from_str_radix(entry["checksum"].as_str()?, 16).ok()?;
        let sum = Sum { rows: entry[counted].as_u64()?, bytes: entry["bytes"].as_u64()?, checksum };
        Some((SpaceId::parse(entry["space"].as_str()?)?, sum))
    };
    list.as_array()?.iter().map(entry).collect()
}
