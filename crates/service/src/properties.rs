//! The properties of an account's services: logging, metrics, CORS rules.
//!
//! ```text
//! u8 version = 1 or 2 | text logging version | flag delete | flag read | flag write | option(u32 days)
//! | hour metrics | minute metrics: text version | flag enabled | option(flag) include APIs | option(u32 days)
//! | list of CORS rules: 4 lists of texts (origins, methods, allowed, exposed) | u32 max age seconds
//! | only in version 2, where one of these is set: option(text) default version | option(u32 days) of deleted blobs
//! | flag for good | flag website | option(text) index | option(text) error page | option(text) default index path
//! ```
//!
//! They are rows of the catalog beside tables and queues; the primitives are those of `codec.rs`.
//!
//! A later version of the record only adds at its end. So a server that meets one, while others are upgraded, goes by
//! the part that it knows, and leaves the row as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quick_cache::Equivalent;
use tavola_engine::{Change, Decision, Engine, EngineError, SpaceId, StoredRow, Transacted};
use tavola_model::{
    AccountName, BlobServiceProperties, CorsRule, DateTime, DeleteRetention, Logging, Metrics,
    RETENTION_DAYS_MAX, RetentionPolicy, ServiceProperties, ServicePropertiesPatch, StaticWebsite,
    StorageService,
};

use crate::catalog::{Cache, account_partition};
use crate::codec::{Reader, put_list, put_option, put_text};
use crate::failure::Failure;
use crate::settings::ServiceSettings;

const VERSION: u8 = 1;
/// Records with settings that only the blob service has.
const VERSION_WITH_BLOB: u8 = 2;
/// The first byte of a row key in the catalog.
pub(crate) const PROPERTIES_ROW: u8 = b's';
/// Services whose properties are remembered at most (ours).
const REMEMBERED_MAX: usize = 10_000;

/// The properties of one of an account's services, with the rules apart because every browser request asks for
/// them.
#[derive(Debug)]
pub(crate) struct CachedProperties {
    pub properties: ServiceProperties,
    pub cors_rules: Arc<Vec<CorsRule>>,
}

/// The properties of all services.
pub(crate) struct PropertiesStore {
    engine: Arc<dyn Engine>,
    cache: Cache<PropertiesKey, CachedProperties>,
    /// The log says once that there are records of a newer version.
    has_warned: AtomicBool,
}

impl PropertiesStore {
    pub fn new(engine: Arc<dyn Engine>, settings: &ServiceSettings) -> Self {
        let cache = Cache::new(REMEMBERED_MAX, settings.catalog_cache, settings.catalog_lease);
        Self { engine, cache, has_warned: AtomicBool::new(false) }
    }

    /// The properties of one of an account's services, if they are in memory.
    pub fn remembered(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Option<Arc<CachedProperties>> {
        self.cache.get(&PropertiesQuery { account, service })
    }

    /// The properties of one of an account's services.
    pub async fn get(
        &self,
        account: &AccountName,
        service: StorageService,
    ) -> Result<Arc<CachedProperties>, Failure> {
        if let Some(known) = self.remembered(account, service) {
            return Ok(known);
        }
        let ticket = self.cache.ticket();
        let row = self.engine.get(SpaceId::CATALOG, account_partition(account), &row(service)).await?;
        let properties = match row {
            None => ServiceProperties::default(),
            Some(row) => match decode_stored(&row.body)? {
                Stored::Whole(properties) => properties,
                Stored::Newer(properties) => {
                    if !self.has_warned.swap(true, Ordering::Relaxed) {
                        let (account, service) = (account.as_str(), service.as_str());
                        tracing::warn!(
                            account,
                            service,
                            "a newer version of the server has set the properties of a service; this version uses those that it knows"
                        );
                    }
                    properties
                }
            },
        };
        let cors_rules = Arc::new(properties.cors.clone());
        let found = Arc::new(CachedProperties { properties, cors_rules });
        self.cache.remember(ticket, PropertiesKey { account: account.clone(), service }, &found);
        Ok(found)
    }

    /// Sets the given properties; the others stay as they are. A record of a newer version is left to a newer server:
    /// writing it here would lose what this one does not know.
    pub async fn patch(
        &self,
        account: &AccountName,
        service: StorageService,
        patch: &ServicePropertiesPatch,
    ) -> Result<(), Failure> {
        let mut refusal = None;
        let mut decide = |_: DateTime, rows: &[Option<StoredRow>]| {
            let stored = match &rows[0] {
                Some(row) => decode_stored(&row.body),
                None => Ok(Stored::Whole(ServiceProperties::default())),
            };
            match stored {
                Ok(Stored::Whole(properties)) => {
                    let body = encode(&properties.patched(patch.clone())).into();
                    Decision::Apply(vec![Change::Put { index: 0, body }])
                }
                Ok(Stored::Newer(_)) => {
                    let reason = "the properties of the service are of a newer version of the server";
                    refusal = Some(EngineError::Unavailable { reason }.into());
                    Decision::Refuse
                }
                Err(error) => {
                    refusal = Some(error);
                    Decision::Refuse
                }
            }
        };
        let partition = account_partition(account);
        let done = self.engine.transact(SpaceId::CATALOG, partition, &[&row(service)], &mut decide).await;
        self.cache.forget(&PropertiesQuery { account, service });
        match done? {
            Transacted::Applied(_) => Ok(()),
            Transacted::Refused => Err(refusal.expect("a decide that refuses says why")),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PropertiesKey {
    account: AccountName,
    service: StorageService,
}

/// The same, borrowed: the fields are hashed in the same order.
#[derive(Hash)]
struct PropertiesQuery<'a> {
    account: &'a AccountName,
    service: StorageService,
}

impl Equivalent<PropertiesKey> for PropertiesQuery<'_> {
    fn equivalent(&self, known: &PropertiesKey) -> bool {
        *self.account == known.account && self.service == known.service
    }
}

fn row(service: StorageService) -> Vec<u8> {
    let mut row = vec![PROPERTIES_ROW];
    row.extend_from_slice(service.as_str().as_bytes());
    row
}

/// A record, as far as this version can read it.
#[derive(Debug, PartialEq)]
enum Stored {
    Whole(ServiceProperties),
    /// A newer server has written it: the part that is known.
    Newer(ServiceProperties),
}

fn decode_stored(bytes: &[u8]) -> Result<Stored, Failure> {
    match bytes.first() {
        Some(version) if *version > VERSION_WITH_BLOB => Ok(Stored::Newer(decode_newer(bytes, *version))),
        _ => decode(bytes)
            .map(Stored::Whole)
            .ok_or_else(|| Failure::damaged(SpaceId::CATALOG, "the properties of a service")),
    }
}

/// What is known of a record of a newer version. If it does not begin like one of this version, nothing is, and deleted
/// blobs are kept for as long as anybody can have asked for.
fn decode_newer(bytes: &[u8], version: u8) -> ServiceProperties {
    let known = Reader::of_version(bytes, version).and_then(|mut reader| fields(&mut reader, HasBlob::Yes));
    known.unwrap_or_else(|| {
        let delete_retention = DeleteRetention { days: Some(RETENTION_DAYS_MAX), allows_permanent: false };
        let blob = BlobServiceProperties { delete_retention, ..BlobServiceProperties::default() };
        ServiceProperties { blob, ..ServiceProperties::default() }
    })
}

fn encode(properties: &ServiceProperties) -> Vec<u8> {
    let has_blob = properties.blob != BlobServiceProperties::default();
    let mut out = vec![if has_blob { VERSION_WITH_BLOB } else { VERSION }];
    let Logging { version, delete, read, write, retention } = &properties.logging;
    put_text(&mut out, version);
    out.extend([*delete, *read, *write].map(u8::from));
    put_retention(&mut out, retention);
    for metrics in [&properties.hour_metrics, &properties.minute_metrics] {
        put_text(&mut out, &metrics.version);
        out.push(u8::from(metrics.enabled));
        put_option(&mut out, metrics.include_apis.as_ref(), |out, flag| out.push(u8::from(*flag)));
        put_retention(&mut out, &metrics.retention);
    }
    put_list(&mut out, &properties.cors, |out, rule| {
        for texts in
            [&rule.allowed_origins, &rule.allowed_methods, &rule.allowed_headers, &rule.exposed_headers]
        {
            put_list(out, texts, |out, text| put_text(out, text));
        }
        out.extend_from_slice(&rule.max_age_seconds.to_le_bytes());
    });
    if has_blob {
        put_blob(&mut out, &properties.blob);
    }
    out
}

fn put_blob(out: &mut Vec<u8>, blob: &BlobServiceProperties) {
    let put_optional = |out: &mut Vec<u8>, text: &Option<String>| {
        put_option(out, text.as_ref(), |out, text| put_text(out, text));
    };
    put_optional(out, &blob.default_service_version);
    put_retention(out, &RetentionPolicy { days: blob.delete_retention.days });
    out.push(u8::from(blob.delete_retention.allows_permanent));
    let StaticWebsite { enabled, index_document, error_document, default_index_path } = &blob.static_website;
    out.push(u8::from(*enabled));
    for text in [index_document, error_document, default_index_path] {
        put_optional(out, text);
    }
}

fn blob(reader: &mut Reader<'_>) -> Option<BlobServiceProperties> {
    Some(BlobServiceProperties {
        default_service_version: reader.option(Reader::text)?,
        delete_retention: DeleteRetention { days: retention(reader)?.days, allows_permanent: reader.flag()? },
        static_website: StaticWebsite {
            enabled: reader.flag()?,
            index_document: reader.option(Reader::text)?,
            error_document: reader.option(Reader::text)?,
            default_index_path: reader.option(Reader::text)?,
        },
    })
}

/// Whether a record has the settings that only the blob service has.
#[derive(Clone, Copy)]
enum HasBlob {
    Yes,
    No,
}

fn decode(bytes: &[u8]) -> Option<ServiceProperties> {
    let (mut reader, has_blob) = match Reader::of_version(bytes, VERSION_WITH_BLOB) {
        Some(reader) => (reader, HasBlob::Yes),
        None => (Reader::of_version(bytes, VERSION)?, HasBlob::No),
    };
    let properties = fields(&mut reader, has_blob)?;
    reader.is_done().then_some(properties)
}

fn fields(reader: &mut Reader<'_>, has_blob: HasBlob) -> Option<ServiceProperties> {
    Some(ServiceProperties {
        logging: Logging {
            version: reader.text()?,
            delete: reader.flag()?,
            read: reader.flag()?,
            write: reader.flag()?,
            retention: retention(reader)?,
        },
        hour_metrics: metrics(reader)?,
        minute_metrics: metrics(reader)?,
        cors: reader.list(|reader| {
            Some(CorsRule {
                allowed_origins: reader.list(Reader::text)?,
                allowed_methods: reader.list(Reader::text)?,
                allowed_headers: reader.list(Reader::text)?,
                exposed_headers: reader.list(Reader::text)?,
                max_age_seconds: u32::from_le_bytes(reader.array()?),
            })
        })?,
        blob: match has_blob {
            HasBlob::Yes => blob(reader)?,
            HasBlob::No => BlobServiceProperties::default(),
        },
    })
}

fn put_retention(out: &mut Vec<u8>, retention: &RetentionPolicy) {
    put_option(out, retention.days.as_ref(), |out, days| out.extend_from_slice(&days.to_le_bytes()));
}

fn retention(reader: &mut Reader<'_>) -> Option<RetentionPolicy> {
    let days = reader.option(|reader| reader.array().map(u32::from_le_bytes))?;
    Some(RetentionPolicy { days })
}

fn metrics(reader: &mut Reader<'_>) -> Option<Metrics> {
    Some(Metrics {
        version: reader.text()?,
        enabled: reader.flag()?,
        include_apis: reader.option(Reader::flag)?,
        retention: retention(reader)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};

    const FIXTURE: &str = "0103000000312e300000000003000000312e30010101010700000003000000312e300000000100000002000000080000\
        00687474703a2f2f6108000000687474703a2f2f6201000000030000004745540000000001000000010000002a070000\
        00";

    fn properties() -> ServiceProperties {
        let rule = CorsRule {
            allowed_origins: vec!["http://a".into(), "http://b".into()],
            allowed_methods: vec!["GET".into()],
            allowed_headers: vec![],
            exposed_headers: vec!["*".into()],
            max_age_seconds: 7,
        };
        ServiceProperties { cors: vec![rule], ..ServiceProperties::default() }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        assert_eq!(decode(&encode(&properties())), Some(properties()));
    }

    #[test]
    fn records_of_version_1_keep_their_layout() {
        assert_eq!(hex(&encode(&properties())), FIXTURE);
        assert_eq!(decode(&bytes(FIXTURE)), Some(properties()));
        let rows = [StorageService::Table, StorageService::Queue, StorageService::Blob].map(row);
        assert_eq!(rows, [&b"stable"[..], b"squeue", b"sblob"]);
    }

    const BLOB_FIXTURE: &str = "0203000000312e300000000003000000312e30010101010700000003000000312e3000000000000000010a000000323031\
        392d30322d3032010500000001010105000000612e68746d0000";

    #[test]
    fn records_of_version_2_hold_the_settings_of_blobs() {
        let properties = ServiceProperties {
            blob: BlobServiceProperties {
                default_service_version: Some("2019-02-02".into()),
                delete_retention: DeleteRetention { days: Some(5), allows_permanent: true },
                static_website: StaticWebsite {
                    enabled: true,
                    index_document: Some("a.htm".into()),
                    ..StaticWebsite::default()
                },
            },
            ..ServiceProperties::default()
        };
        assert_eq!(hex(&encode(&properties)), BLOB_FIXTURE);
        let stored = bytes(BLOB_FIXTURE);
        assert_eq!(decode(&stored), Some(properties));
        for len in 0..stored.len() {
            assert_eq!(decode(&stored[..len]), None, "{len}");
        }
    }

    #[test]
    fn of_a_newer_record_the_known_part_counts() {
        let known = ServiceProperties {
            blob: BlobServiceProperties {
                delete_retention: DeleteRetention { days: Some(5), allows_permanent: true },
                ..BlobServiceProperties::default()
            },
            ..properties()
        };
        let mut bytes = encode(&known);
        bytes[0] = VERSION_WITH_BLOB + 1;
        bytes.extend_from_slice(b"more");
        assert_eq!(decode_stored(&bytes).unwrap(), Stored::Newer(known));
    }

    #[test]
    fn of_a_newer_record_with_another_beginning_nothing_counts_and_deleted_blobs_are_kept() {
        let Stored::Newer(read) = decode_stored(&[VERSION_WITH_BLOB + 1, 9, 9]).unwrap() else {
            panic!("it is newer")
        };
        assert_eq!(read.blob.delete_retention.days, Some(RETENTION_DAYS_MAX));
        assert_eq!(
            ServiceProperties { blob: BlobServiceProperties::default(), ..read },
            ServiceProperties::default()
        );
    }

    #[test]
    fn cut_or_unknown_records_are_refused() {
        let mut bytes = encode(&properties());
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        for version in [0, VERSION_WITH_BLOB, VERSION_WITH_BLOB + 1] {
            bytes[0] = version;
            assert_eq!(decode(&bytes), None);
        }
    }
}
