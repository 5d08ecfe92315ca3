//! The bucket that an address names.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use tavola_model::Clock;
use url::Url;

use crate::BucketContents;

/// The address of a bucket, with a path in it: `s3://bucket/path`, `file:///folder`. It holds no secret, so it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUrl(Url);

/// Why a bucket was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenBucketError {
    /// The text is no address.
    #[error("the address of the bucket is not an address")]
    NotAnAddress(#[source] url::ParseError),
    /// Credentials are given by environment variables, because an address is stored and shown.
    #[error(
        "the address of the bucket has a user, a password or a query: give credentials in the environment"
    )]
    HasCredentials,
    /// Memory is lost with the process, and other servers do not see it.
    #[error("contents in memory would be lost")]
    Memory,
    /// This program was built without it.
    #[error(
        "this program was built without buckets of this kind: build it with the feature `cloud` (scheme={scheme})"
    )]
    NotBuilt {
        /// The beginning of the address.
        scheme: String,
    },
    /// The store refused.
    #[error("the bucket cannot be used")]
    Refused(#[source] object_store::Error),
}

impl BucketUrl {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, OpenBucketError> {
        let url = Url::parse(text).map_err(OpenBucketError::NotAnAddress)?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(OpenBucketError::HasCredentials);
        }
        Ok(Self(url))
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Opens the bucket. `options` are the settings of `object_store` for this kind of bucket, such as
    /// `aws_access_key_id`; others are passed over.
    pub fn open(
        &self,
        options: impl IntoIterator<Item = (String, String)>,
        clock: Arc<dyn Clock>,
    ) -> Result<BucketContents, OpenBucketError> {
        let (store, root): (Arc<dyn ObjectStore>, Path) = match self.0.scheme() {
            "file" => (Arc::new(self.folder()?), Path::default()),
            "memory" => return Err(OpenBucketError::Memory),
            _ => self.cloud(options)?,
        };
        Ok(BucketContents::new(store, root, clock))
    }

    /// A folder, which may be one that servers share. Files are synced before they are there.
    fn folder(&self) -> Result<LocalFileSystem, OpenBucketError> {
        let folder =
            self.0.to_file_path().map_err(|()| OpenBucketError::NotBuilt { scheme: "file".into() })?;
        let store = LocalFileSystem::new_with_prefix(folder).map_err(OpenBucketError::Refused)?;
        Ok(store.with_fsync(true).with_automatic_cleanup(true))
    }

    #[cfg(feature = "cloud")]
    fn cloud(
        &self,
        options: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Arc<dyn ObjectStore>, Path), OpenBucketError> {
        let (store, root) =
            object_store::parse_url_opts(&self.0, options).map_err(OpenBucketError::Refused)?;
        Ok((store.into(), root))
    }

    #[cfg(not(feature = "cloud"))]
    fn cloud(
        &self,
        _options: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Arc<dyn ObjectStore>, Path), OpenBucketError> {
        Err(OpenBucketError::NotBuilt { scheme: self.0.scheme().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use tavola_engine::conformance::TestClock;

    use super::*;

    #[test]
    fn an_address_holds_no_credentials() {
        for text in ["s3://key:secret@bucket/path", "s3://key@bucket", "https://a.example/c?sig=x"] {
            assert!(matches!(BucketUrl::parse(text), Err(OpenBucketError::HasCredentials)), "{text}");
        }
        assert!(matches!(BucketUrl::parse("bucket"), Err(OpenBucketError::NotAnAddress(_))));
        assert_eq!(BucketUrl::parse("s3://bucket/path").unwrap().as_str(), "s3://bucket/path");
    }

    #[test]
    fn memory_and_a_folder_that_is_not_there_are_refused() {
        let open = |text: &str| {
            BucketUrl::parse(text).unwrap().open(Vec::new(), Arc::new(TestClock::new())).map(|_| ())
        };
        assert!(matches!(open("memory:///"), Err(OpenBucketError::Memory)));
        assert!(matches!(open("file:///no/such/folder"), Err(OpenBucketError::Refused(_))));
        let folder = tempfile::tempdir().unwrap();
        assert!(open(&format!("file://{}", folder.path().display())).is_ok());
    }
}
