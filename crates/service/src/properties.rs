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

use std::sync::Arc;

use quick_cache::Equivalent;
use tavola_engine::{Change, Decision, Engine, SpaceId, StoredRow, Transacted};
use tavola_model::{
    AccountName, BlobServiceProperties, CorsRule, DateTime, DeleteRetention, Logging, Metrics,
    RetentionPolicy, ServiceProperties, ServicePropertiesPatch, StaticWebsite, StorageService,
};

use crate::catalog::{Cache, account_partition};
use crate::codec::{Reader, put_list, put_option, put_text};
use crate::failure::Failure;
use crate::service::ServiceSettings;

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
}

impl PropertiesStore {
    pub fn new(engine: Arc<dyn Engine>, settings: &ServiceSettings) -> Self {
        let cache = Cache::new(REMEMBERED_MAX, settings.catalog_cache, settings.catalog_lease);
        Self { engine, cache }
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
            Some(row) => decode_stored(&row.body)?,
            None => ServiceProperties::default(),
        };
        let cors_rules = Arc::new(properties.cors.clone());
        let found = Arc::new(CachedProperties { properties, cors_rules });
        self.cache.remember(ticket, PropertiesKey { account: account.clone(), service }, &found);
        Ok(found)
    }

    /// Sets the given properties; the others stay as they are.
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
                None => Ok(ServiceProperties::default()),
            };
            match stored {
                Ok(properties) => {
                    let body = encode(&properties.patched(patch.clone())).into();
                    Decision::Apply(vec![Change::Put { index: 0, body }])
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

fn decode_stored(bytes: &[u8]) -> Result<ServiceProperties, Failure> {
    decode(bytes).ok_or_else(|| Failure::damaged(SpaceId::CATALOG, "the properties of a service"))
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

fn decode(bytes: &[u8]) -> Option<ServiceProperties> {
    let with_blob = Reader::of_version(bytes, VERSION_WITH_BLOB);
    let has_blob = with_blob.is_some();
    let mut reader = with_blob.or_else(|| Reader::of_version(bytes, VERSION))?;
    let properties = ServiceProperties {
        logging: Logging {
            version: reader.text()?,
            delete: reader.flag()?,
            read: reader.flag()?,
            write: reader.flag()?,
            retention: retention(&mut reader)?,
        },
        hour_metrics: metrics(&mut reader)?,
        minute_metrics: metrics(&mut reader)?,
        cors: reader.list(|reader| {
            Some(CorsRule {
                allowed_origins: reader.list(Reader::text)?,
                allowed_methods: reader.list(Reader::text)?,
                allowed_headers: reader.list(Reader::text)?,
                exposed_headers: reader.list(Reader::text)?,
                max_age_seconds: u32::from_le_bytes(reader.array()?),
            })
        })?,
        blob: if has_blob { blob(&mut reader)? } else { BlobServiceProperties::default() },
    };
    reader.is_done().then_some(properties)
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
        let hex: String = encode(&properties()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, FIXTURE);
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
        let bytes = encode(&properties);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, BLOB_FIXTURE);
        assert_eq!(decode(&bytes), Some(properties));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
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
