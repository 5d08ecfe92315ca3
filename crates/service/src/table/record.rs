//! What the catalog keeps, as bytes.
//!
//! ```text
//! table:    u8 version = 1 | text name | 16 bytes space | time created | option(time deleted until)
//!           | list of (text id | option(option(time start) | option(time expiry) | option(text permission)))
//! settings: u8 version = 1 | text logging version | flag delete | flag read | flag write | option(u32 days)
//!           | hour metrics | minute metrics: text version | flag enabled | option(flag) include APIs | option(u32 days)
//!           | list of CORS rules: 4 lists of texts (origins, methods, allowed, exposed) | u32 max age seconds
//! ```
//!
//! A flag is a byte 0 or 1, an option a flag and what follows it, a text or list a u32 length and its content, a
//! time u64 ticks; numbers are little-endian. A version that is not known is damage, never guessed at.

use tavola_engine::SpaceId;
use tavola_model::{
    AccessPolicy, CorsRule, DateTime, Logging, Metrics, RetentionPolicy, ServiceProperties, SignedIdentifier,
    TableName,
};

const VERSION: u8 = 1;

/// A table as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The name as it was created.
    pub name: TableName,
    /// Where its entities are.
    pub space: SpaceId,
    pub created: DateTime,
    /// Until when a deleted table keeps its name from others; `None` while the table exists.
    pub deleted_until: Option<DateTime>,
    /// Stored access policies.
    pub identifiers: Vec<SignedIdentifier>,
}

impl Table {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_text(&mut out, self.name.as_str());
        out.extend_from_slice(&self.space.0);
        put_time(&mut out, self.created);
        put_option(&mut out, self.deleted_until.as_ref(), |out, time| put_time(out, *time));
        put_identifiers(&mut out, &self.identifiers);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let table = Self {
            name: TableName::parse(&reader.text()?).ok()?,
            space: SpaceId(reader.array()?),
            created: reader.time()?,
            deleted_until: reader.option(Reader::time)?,
            identifiers: reader.identifiers()?,
        };
        reader.is_done().then_some(table)
    }
}

pub(crate) fn encode_settings(settings: &ServiceProperties) -> Vec<u8> {
    let mut out = vec![VERSION];
    let Logging { version, delete, read, write, retention } = &settings.logging;
    put_text(&mut out, version);
    out.extend([*delete, *read, *write].map(u8::from));
    put_retention(&mut out, retention);
    for metrics in [&settings.hour_metrics, &settings.minute_metrics] {
        put_text(&mut out, &metrics.version);
        out.push(u8::from(metrics.enabled));
        put_option(&mut out, metrics.include_apis.as_ref(), |out, flag| out.push(u8::from(*flag)));
        put_retention(&mut out, &metrics.retention);
    }
    put_list(&mut out, &settings.cors, |out, rule| {
        for texts in
            [&rule.allowed_origins, &rule.allowed_methods, &rule.allowed_headers, &rule.exposed_headers]
        {
            put_list(out, texts, |out, text| put_text(out, text));
        }
        out.extend_from_slice(&rule.max_age_seconds.to_le_bytes());
    });
    out
}

pub(crate) fn decode_settings(bytes: &[u8]) -> Option<ServiceProperties> {
    let mut reader = Reader::of_version(bytes, VERSION)?;
    let settings = ServiceProperties {
        logging: Logging {
            version: reader.text()?,
            delete: reader.flag()?,
            read: reader.flag()?,
            write: reader.flag()?,
            retention: reader.retention()?,
        },
        hour_metrics: reader.metrics()?,
        minute_metrics: reader.metrics()?,
        cors: reader.list(|reader| {
            Some(CorsRule {
                allowed_origins: reader.list(Reader::text)?,
                allowed_methods: reader.list(Reader::text)?,
                allowed_headers: reader.list(Reader::text)?,
                exposed_headers: reader.list(Reader::text)?,
                max_age_seconds: u32::from_le_bytes(reader.array()?),
            })
        })?,
    };
    reader.is_done().then_some(settings)
}

/// Stored access policies.
pub(crate) fn put_identifiers(out: &mut Vec<u8>, identifiers: &[SignedIdentifier]) {
    put_list(out, identifiers, |out, identifier| {
        put_text(out, &identifier.id);
        put_option(out, identifier.policy.as_ref(), |out, policy| {
            put_option(out, policy.start.as_ref(), |out, time| put_time(out, *time));
            put_option(out, policy.expiry.as_ref(), |out, time| put_time(out, *time));
            put_option(out, policy.permission.as_ref(), |out, text| put_text(out, text));
        });
    });
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_time(out: &mut Vec<u8>, time: DateTime) {
    out.extend_from_slice(&time.ticks().to_le_bytes());
}

fn put_retention(out: &mut Vec<u8>, retention: &RetentionPolicy) {
    put_option(out, retention.days.as_ref(), |out, days| out.extend_from_slice(&days.to_le_bytes()));
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a request body is smaller than 4 GiB");
    out.extend_from_slice(&len.to_le_bytes());
}

pub(crate) fn put_list<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_len(out, items.len());
    items.iter().for_each(|item| put(out, item));
}

pub(crate) fn put_option<T>(out: &mut Vec<u8>, item: Option<&T>, put: impl Fn(&mut Vec<u8>, &T)) {
    out.push(u8::from(item.is_some()));
    if let Some(item) = item {
        put(out, item);
    }
}

/// Takes values off the front of a record; `None` when the bytes are not what they should be.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn of_version(bytes: &'a [u8], version: u8) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        (*first == version).then_some(Self { rest })
    }

    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            [_] => None,
        }
    }

    pub fn time(&mut self) -> Option<DateTime> {
        DateTime::from_ticks(u64::from_le_bytes(self.array()?))
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    pub fn text(&mut self) -> Option<String> {
        let len = self.len()?;
        String::from_utf8(self.take(len)?.to_vec()).ok()
    }

    pub fn identifiers(&mut self) -> Option<Vec<SignedIdentifier>> {
        self.list(|reader| {
            let id = reader.text()?;
            let policy = reader.option(|reader| {
                Some(AccessPolicy {
                    start: reader.option(Reader::time)?,
                    expiry: reader.option(Reader::time)?,
                    permission: reader.option(Reader::text)?,
                })
            })?;
            Some(SignedIdentifier { id, policy })
        })
    }

    fn retention(&mut self) -> Option<RetentionPolicy> {
        let days = self.option(|reader| reader.array().map(u32::from_le_bytes))?;
        Some(RetentionPolicy { days })
    }

    fn metrics(&mut self) -> Option<Metrics> {
        Some(Metrics {
            version: self.text()?,
            enabled: self.flag()?,
            include_apis: self.option(Reader::flag)?,
            retention: self.retention()?,
        })
    }

    pub fn option<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    pub fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.len()?;
        // The length is not trusted with memory: damage may have made it huge.
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(read(self)?);
        }
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_FIXTURE: &str = "010600000050656f706c65070707070707070707070707070707070180ec012014d708000200000002000000c3a90101\
        0180ec012014d7080001040000007261756405000000656d70747900";
    const SETTINGS_FIXTURE: &str = "0103000000312e300000000003000000312e30010101010700000003000000312e300000000100000002000000080000\
        00687474703a2f2f6108000000687474703a2f2f6201000000030000004745540000000001000000010000002a070000\
        00";

    fn table() -> Table {
        let time = DateTime::from_ticks(637_000_000_000_000_001).unwrap();
        let policy = AccessPolicy { start: Some(time), expiry: None, permission: Some("raud".into()) };
        Table {
            name: TableName::parse("People").unwrap(),
            space: SpaceId([7; 16]),
            created: time,
            deleted_until: None,
            identifiers: vec![
                SignedIdentifier { id: "é".into(), policy: Some(policy) },
                SignedIdentifier { id: "empty".into(), policy: None },
            ],
        }
    }

    fn settings() -> ServiceProperties {
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
    fn records_read_back_as_they_were_written() {
        let deleted = Table { deleted_until: Some(DateTime::MAX), ..table() };
        for table in [table(), deleted] {
            assert_eq!(Table::decode(&table.encode()), Some(table));
        }
        assert_eq!(decode_settings(&encode_settings(&settings())), Some(settings()));
    }

    #[test]
    fn records_of_version_1_keep_their_layout() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&table().encode()), TABLE_FIXTURE);
        assert_eq!(hex(&encode_settings(&settings())), SETTINGS_FIXTURE);
    }

    #[test]
    fn cut_or_unknown_records_are_refused() {
        let (table, settings) = (table().encode(), encode_settings(&settings()));
        for len in 0..table.len() {
            assert_eq!(Table::decode(&table[..len]), None, "{len}");
        }
        for len in 0..settings.len() {
            assert_eq!(decode_settings(&settings[..len]), None, "{len}");
        }
        let mut newer = table;
        newer[0] = 2;
        assert_eq!(Table::decode(&newer), None);
    }
}
