//! Content keys, and the keys that wrap them.

use std::collections::BTreeMap;
use std::fmt;

use aes_kw::KwAes256;
use aes_kw::cipher::KeyInit;
use futures_core::future::BoxFuture;

use crate::error::{Error, Result};

/// The algorithm of [`LocalKeys`], by its usual name (RFC 3394).
const ALGORITHM: &str = "A256KW";

/// The key of the secrets of one entity. Its bytes are never shown.
///
/// ```
/// use tavola_client::encrypt::ContentKey;
/// let key = ContentKey::new([7; 32]);
/// assert_eq!(format!("{key:?}"), "ContentKey");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ContentKey([u8; 32]);

impl ContentKey {
    /// A key of these bytes.
    ///
    /// ```
    /// let key = tavola_client::encrypt::ContentKey::new([7; 32]);
    /// ```
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A fresh one, from the system's source of chance.
    pub(crate) fn fresh() -> Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::Encryption(format!("no random bytes: {error}")))?;
        Ok(Self(bytes))
    }

    /// Its bytes, to wrap them.
    ///
    /// ```
    /// assert_eq!(tavola_client::encrypt::ContentKey::new([7; 32]).as_bytes(), &[7; 32]);
    /// ```
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentKey")
    }
}

/// A content key as it is stored.
///
/// ```
/// use tavola_client::encrypt::WrappedKey;
/// let wrapped = WrappedKey { key_id: "2026".into(), algorithm: "A256KW".into(), bytes: vec![0; 40] };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKey {
    /// Which key wrapped it.
    pub key_id: String,
    /// How.
    pub algorithm: String,
    /// The wrapped bytes.
    pub bytes: Vec<u8>,
}

/// Whoever holds the keys that wrap content keys: a service for keys, a device, or [`LocalKeys`].
///
/// `unwrap` is asked with the id that was stored, so old keys stay readable while `wrap` uses a new one.
///
/// ```
/// # async fn example() -> tavola_client::Result<()> {
/// use tavola_client::encrypt::{ContentKey, KeyWrapper, LocalKeys};
/// let keys = LocalKeys::new("2026", [1; 32]);
/// let wrapped = keys.wrap(&ContentKey::new([7; 32])).await?;
/// assert_eq!(keys.unwrap(&wrapped).await?.as_bytes(), &[7; 32]);
/// # Ok(())
/// # }
/// ```
pub trait KeyWrapper: Send + Sync + 'static {
    /// The key that wraps now.
    fn current_key_id(&self) -> &str;

    /// Wraps a content key under the current key.
    fn wrap<'a>(&'a self, key: &'a ContentKey) -> BoxFuture<'a, Result<WrappedKey>>;

    /// Unwraps a content key under the key that wrapped it.
    fn unwrap<'a>(&'a self, wrapped: &'a WrappedKey) -> BoxFuture<'a, Result<ContentKey>>;
}

/// Keys of this process: one wraps, all unwrap.
///
/// ```
/// use tavola_client::encrypt::{KeyWrapper, LocalKeys};
/// let keys = LocalKeys::new("2026", [1; 32]).with_old("2025", [2; 32]);
/// assert_eq!(keys.current_key_id(), "2026");
/// ```
pub struct LocalKeys {
    current: String,
    keys: BTreeMap<String, [u8; 32]>,
}

impl LocalKeys {
    /// One key, with the id that is stored beside what it wraps.
    ///
    /// ```
    /// let keys = tavola_client::encrypt::LocalKeys::new("2026", [1; 32]);
    /// ```
    pub fn new(key_id: impl Into<String>, key: [u8; 32]) -> Self {
        let current = key_id.into();
        Self { keys: BTreeMap::from([(current.clone(), key)]), current }
    }

    /// The same, and a key that still unwraps.
    ///
    /// ```
    /// let keys = tavola_client::encrypt::LocalKeys::new("2026", [1; 32]).with_old("2025", [2; 32]);
    /// ```
    #[must_use]
    pub fn with_old(mut self, key_id: impl Into<String>, key: [u8; 32]) -> Self {
        self.keys.entry(key_id.into()).or_insert(key);
        self
    }

    fn cipher(&self, key_id: &str) -> Result<KwAes256> {
        let key = self.keys.get(key_id);
        let key =
            key.ok_or_else(|| Error::Encryption(format!("there is no key of this id (key={key_id})")))?;
        Ok(KwAes256::new(key.into()))
    }
}

impl fmt::Debug for LocalKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKeys").field("current", &self.current).finish_non_exhaustive()
    }
}

impl KeyWrapper for LocalKeys {
    fn current_key_id(&self) -> &str {
        &self.current
    }

    fn wrap<'a>(&'a self, key: &'a ContentKey) -> BoxFuture<'a, Result<WrappedKey>> {
        Box::pin(async move {
            let mut bytes = vec![0; 40];
            let wrapped = self.cipher(&self.current)?.wrap_key(key.as_bytes(), &mut bytes);
            wrapped.map_err(|error| Error::Encryption(error.to_string()))?;
            Ok(WrappedKey { key_id: self.current.clone(), algorithm: ALGORITHM.to_owned(), bytes })
        })
    }

    fn unwrap<'a>(&'a self, wrapped: &'a WrappedKey) -> BoxFuture<'a, Result<ContentKey>> {
        Box::pin(async move {
            if wrapped.algorithm != ALGORITHM {
                return Err(Error::Encryption(format!(
                    "the key was wrapped by another algorithm ({})",
                    wrapped.algorithm
                )));
            }
            let mut bytes = [0; 32];
            let opened = self.cipher(&wrapped.key_id)?.unwrap_key(&wrapped.bytes, &mut bytes);
            match opened {
                Ok(opened) if opened.len() == 32 => Ok(ContentKey(bytes)),
                _ => Err(Error::Encryption("the wrapped key was changed, or is of another key".to_owned())),
            }
        })
    }
}
