//! Accounts kept in the data folder, for `tavola account …`. Only the owner can read the file.
//!
//! A change is written aside, synced and renamed into place under a lock, so that two commands at once cannot lose
//! one another's and a crash leaves the old or the new list.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tavola_auth::Account;

const FILE: &str = "accounts.json";
const LOCK: &str = "accounts.lock";
const OWNER_ONLY: u32 = 0o600;

/// Names and keys as the file holds them.
#[derive(Default)]
pub struct AccountFile {
    keys: BTreeMap<String, Vec<String>>,
}

impl AccountFile {
    /// Reads the file; a missing one is empty.
    pub fn read(data_dir: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Self::parse(&text).with_context(|| format!("cannot parse {}", path.display()))
    }

    /// Changes the file as a whole.
    pub fn change<T>(
        data_dir: &Path,
        change: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        std::fs::create_dir_all(data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
        let lock = owner_only(&data_dir.join(LOCK))?;
        lock.lock().context("cannot lock the accounts")?;
        let mut file = Self::read(data_dir)?;
        let result = change(&mut file)?;
        file.accounts()?;
        file.write(data_dir)?;
        Ok(result)
    }

    /// The accounts.
    pub fn accounts(&self) -> anyhow::Result<Vec<Account>> {
        let texts = self.keys.iter().map(|(name, keys)| format!("{name}:{}", keys.join(":")));
        texts.map(|text| Account::parse(&text)).collect::<Result<_, _>>().context("cannot use an account")
    }

    /// Names with the number of their keys.
    pub fn list(&self) -> impl Iterator<Item = (&str, usize)> {
        self.keys.iter().map(|(name, keys)| (name.as_str(), keys.len()))
    }

    /// Adds an account.
    pub fn add(&mut self, name: &str, key: String) -> anyhow::Result<()> {
        if self.keys.contains_key(name) {
            bail!("there is an account {name} already");
        }
        self.keys.insert(name.to_owned(), vec![key]);
        Ok(())
    }

    /// Sets a new first key; the old first one stays valid as the second until the next rotation.
    pub fn rotate(&mut self, name: &str, key: String) -> anyhow::Result<()> {
        let keys = self
            .keys
            .get_mut(name)
            .with_context(|| format!("there is no account {name} in the data folder"))?;
        keys.insert(0, key);
        keys.truncate(2);
        Ok(())
    }

    /// Removes an account; its tables stay.
    pub fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        self.keys.remove(name).with_context(|| format!("there is no account {name} in the data folder"))?;
        Ok(())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let accounts = value.get("accounts").and_then(Value::as_object).context("no accounts in it")?;
        let mut keys = BTreeMap::new();
        for (name, list) in accounts {
            let list = list.as_array().context("the keys of an account are a list")?;
            let list: Option<Vec<String>> = list.iter().map(|key| key.as_str().map(str::to_owned)).collect();
            keys.insert(name.clone(), list.context("a key is a text")?);
        }
        Ok(Self { keys })
    }

    fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let aside: PathBuf = data_dir.join(format!("{FILE}.new"));
        let text = format!("{:#}\n", json!({ "version": 1, "accounts": self.keys }));
        let written = owner_only(&aside).and_then(|mut file| {
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&aside, data_dir.join(FILE))?;
            Ok(File::open(data_dir)?.sync_all()?)
        });
        written.with_context(|| format!("cannot write the accounts into {}", data_dir.display()))
    }
}

fn owner_only(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(OWNER_ONLY);
    options.open(path).with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn names(folder: &Path) -> Vec<(String, usize)> {
        AccountFile::read(folder).unwrap().list().map(|(name, keys)| (name.to_owned(), keys)).collect()
    }

    #[test]
    fn accounts_are_added_rotated_and_removed_and_only_the_owner_can_read_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        AccountFile::change(path, |file| file.add("mine", "Zmlyc3Q=".into())).unwrap();
        assert!(AccountFile::change(path, |file| file.add("mine", "eA==".into())).is_err());
        for key in ["c2Vjb25k", "dGhpcmQ="] {
            AccountFile::change(path, |file| file.rotate("mine", key.into())).unwrap();
        }
        assert_eq!(names(path), [("mine".to_owned(), 2)]);
        assert_eq!(AccountFile::read(path).unwrap().keys["mine"][0], "dGhpcmQ=");
        let mode = std::fs::metadata(path.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, OWNER_ONLY);
        AccountFile::change(path, |file| file.remove("mine")).unwrap();
        assert!(AccountFile::change(path, |file| file.remove("mine")).is_err());
        assert_eq!(names(path), []);
    }

    #[test]
    fn the_file_keeps_its_form() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let written = "{\n  \"accounts\": {\n    \"mine\": [\n      \"eA==\",\n      \"eQ==\"\n    ]\n  },\n  \"version\": 1\n}\n";
        AccountFile::change(path, |file| file.add("mine", "eQ==".into())).unwrap();
        AccountFile::change(path, |file| file.rotate("mine", "eA==".into())).unwrap();
        assert_eq!(std::fs::read_to_string(path.join(FILE)).unwrap(), written);
        assert_eq!(AccountFile::parse(written).unwrap().keys["mine"], ["eA==", "eQ=="]);
    }

    #[test]
    fn a_change_that_makes_an_unusable_account_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AccountFile::change(folder.path(), |file| file.add("UPPER", "eA==".into())).is_err());
        assert!(AccountFile::change(folder.path(), |file| file.add("mine", "not base64".into())).is_err());
        assert_eq!(names(folder.path()), []);
    }
}
