//! Shared access signatures: the fields of a token, and what text they sign.
//!
//! A service SAS opens one table, queue, container or blob; an account SAS opens kinds of resources of whole
//! services (<https://learn.microsoft.com/rest/api/storageservices/create-service-sas>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas>). Which fields are signed, and in
//! which order, depends on the service and on the version that the token names.

use percent_encoding::percent_decode_str;
use tavola_model::{AccountName, ContainerName, Query, StorageService};

/// Names of query parameters that belong to a token.
const FIELD_NAMES: [&str; 38] = [
    "sv",
    "st",
    "se",
    "sp",
    "sip",
    "spr",
    "si",
    "sig",
    "sr",
    "sdd",
    "ses",
    "ss",
    "srt",
    "tn",
    "spk",
    "srk",
    "epk",
    "erk",
    "rscc",
    "rscd",
    "rsce",
    "rscl",
    "rsct",
    "snapshot",
    "versionid",
    "skoid",
    "sktid",
    "skt",
    "ske",
    "sks",
    "skv",
    "saoid",
    "suoid",
    "scid",
    "skdutid",
    "sduoid",
    "srh",
    "srq",
];

/// The oldest service SAS we know the layout of.
const SERVICE_VERSION_MIN: &str = "2012-02-12";
const ACCOUNT_VERSION_MIN: &str = "2015-04-05";

/// The fields of a token, un-encoded, each at most once.
#[derive(Clone, Default)]
pub(crate) struct SasFields(Vec<(&'static str, String)>);

impl SasFields {
    /// Picks the fields of a token out of a query; `None` if one is given twice.
    pub fn pick(query: &Query<'_>) -> Option<Self> {
        let mut fields = Self::default();
        for (name, value) in query.iter() {
            let Some(&name) = FIELD_NAMES.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
                continue;
            };
            if fields.given(name).is_some() {
                return None;
            }
            fields.set(name, value.to_owned());
        }
        Some(fields)
    }

    /// Adds a field that is not there yet.
    pub fn set(&mut self, name: &'static str, value: String) {
        self.0.push((name, value));
    }

    /// The field if the token has it.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The field, empty if the token does not have it: both sign the same.
    pub fn value(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// The signature. A blank stands for a `+` that was not encoded.
    pub fn signature(&self) -> String {
        self.value("sig").replace(' ', "+")
    }

    /// An account SAS has resource types.
    pub fn is_account_sas(&self) -> bool {
        self.given("srt").is_some() || self.given("ss").is_some()
    }

    /// A token that is signed with the key of a user.
    pub fn is_delegated(&self) -> bool {
        self.given("skoid").is_some()
    }

    /// The version if it is a date and not before `min`.
    pub fn version_from(&self, min: &str) -> Option<&str> {
        version(self, min)
    }

    /// The time of the snapshot or version that the token is for.
    pub fn blob_moment(&self) -> &str {
        match self.value("sr") {
            "bs" => self.value("snapshot"),
            "bv" => self.value("versionid"),
            _ => "",
        }
    }

    /// All fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// The text that an account SAS signs; `None` if its version is too old or malformed.
pub(crate) fn account_string_to_sign(account: &AccountName, fields: &SasFields) -> Option<String> {
    let version = version(fields, ACCOUNT_VERSION_MIN)?;
    let mut lines = vec![account.as_str()];
    lines.extend(["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"].map(|name| fields.value(name)));
    if version >= "2020-12-06" {
        lines.push(fields.value("ses"));
    }
    Some(lines.join("\n") + "\n")
}

/// The text that a service SAS signs; `None` if its version is too old or malformed. `resource` is the table,
/// queue, container or container/blob, decoded.
pub(crate) fn service_string_to_sign(
    service: StorageService,
    account: &AccountName,
    resource: &str,
    fields: &SasFields,
) -> Option<String> {
    let version = version(fields, SERVICE_VERSION_MIN)?;
    let prefix = if version >= "2015-02-21" { format!("/{}", service.as_str()) } else { String::new() };
    let canonical = format!("{prefix}/{account}/{resource}");
    let mut lines = vec![fields.value("sp"), fields.value("st"), fields.value("se"), &canonical];
    lines.push(fields.value("si"));
    if version >= "2015-04-05" {
        lines.extend([fields.value("sip"), fields.value("spr")]);
    }
    lines.push(version);
    match service {
        StorageService::Queue => {}
        StorageService::Table => {
            lines.extend(["spk", "srk", "epk", "erk"].map(|name| fields.value(name)));
        }
        StorageService::Blob => push_blob_lines(&mut lines, version, fields),
    }
    Some(lines.join("\n"))
}

fn push_blob_lines<'a>(lines: &mut Vec<&'a str>, version: &str, fields: &'a SasFields) {
    if version < "2013-08-15" {
        return;
    }
    if version >= "2018-11-09" {
        lines.push(fields.value("sr"));
        lines.push(fields.blob_moment());
    }
    if version >= "2020-12-06" {
        lines.push(fields.value("ses"));
    }
    lines.extend(["rscc", "rscd", "rsce", "rscl", "rsct"].map(|name| fields.value(name)));
}

/// The resource that a service SAS of this form can only be for, given the raw path behind the account. A table
/// is named by the token itself, because `$batch` and key predicates hide it in the path.
pub(crate) fn resource(
    service: StorageService,
    path: &str,
    query: &Query<'_>,
    fields: &SasFields,
) -> Option<String> {
    match service {
        StorageService::Table => fields.given("tn").filter(|name| !name.is_empty()).map(str::to_lowercase),
        StorageService::Queue => {
            let queue = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
            let queue = queue.split('/').next().unwrap_or_default();
            (!queue.is_empty()).then(|| queue.to_owned())
        }
        StorageService::Blob => {
            let (container, blob) = split_blob_path(path, query)?;
            match (BlobScope::of(fields)?, blob) {
                (BlobScope::Container, _) => Some(container),
                (_, Some(blob)) => Some(format!("{container}/{blob}")),
                (_, None) => None,
            }
        }
    }
}

/// The container and the blob that a path names, as it is routed: a path of one segment is a blob of `$root` unless the
/// query says that it is a container.
fn split_blob_path(path: &str, query: &Query<'_>) -> Option<(String, Option<String>)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
    let inside = path.strip_prefix('/').unwrap_or(path);
    let (container, blob) = inside.split_once('/').unwrap_or((inside, ""));
    let (container, blob) = (decode(container)?, decode(blob)?);
    let names_container = matches!(query.get("restype"), Some("container" | "account"));
    match (container.is_empty(), blob.is_empty()) {
        (true, _) => None,
        (false, true) if names_container => Some((container, None)),
        (false, true) => Some((ContainerName::ROOT.to_owned(), Some(container))),
        (false, false) => Some((container, Some(blob))),
    }
}

/// What a token for blobs is for (`sr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobScope {
    /// `c`: a container and the blobs in it.
    Container,
    /// `b`: a blob. Before there were tokens for snapshots, its snapshots too.
    Blob {
        /// They are.
        with_snapshots: bool,
    },
    /// `bs`: a snapshot.
    Snapshot,
    /// `bv`: a version.
    Version,
}

/// First version with tokens for snapshots.
const SNAPSHOT_VERSION_MIN: &str = "2018-11-09";

impl BlobScope {
    /// Of a token; `None` for a kind that is not known, as that of directories.
    pub fn of(fields: &SasFields) -> Option<Self> {
        let knows_snapshots = fields.value("sv") >= SNAPSHOT_VERSION_MIN;
        match fields.value("sr") {
            "c" => Some(Self::Container),
            "b" => Some(Self::Blob { with_snapshots: !knows_snapshots }),
            "bs" if knows_snapshots => Some(Self::Snapshot),
            "bv" if knows_snapshots => Some(Self::Version),
            _ => None,
        }
    }
}

/// The version of the token if it is a date and not before `min`.
fn version<'a>(fields: &'a SasFields, min: &str) -> Option<&'a str> {
    let version = fields.value("sv");
    let is_date = version.len() == 10
        && version.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    (is_date && version >= min).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(query: &str) -> SasFields {
        SasFields::pick(&Query::parse(query).unwrap()).unwrap()
    }

    fn check(service: StorageService, query: &str, expected: Option<&str>) {
        let account = AccountName::parse("acct").unwrap();
        let text = service_string_to_sign(service, &account, "res", &fields(query));
        assert_eq!(text.as_deref(), expected, "{query}");
    }

    #[test]
    fn each_version_signs_its_own_layout() {
        use StorageService::{Blob, Queue, Table};
        let all = "sp=P&st=S&se=E&si=I&sip=IP&spr=PR&spk=1&srk=2&epk=3&erk=4&sr=bs&snapshot=N&ses=X&rscc=C";
        let at = |version: &str| format!("{all}&sv={version}");
        check(Table, &at("2012-02-12"), Some("P\nS\nE\n/acct/res\nI\n2012-02-12\n1\n2\n3\n4"));
        check(Table, &at("2015-02-21"), Some("P\nS\nE\n/table/acct/res\nI\n2015-02-21\n1\n2\n3\n4"));
        check(Table, &at("2015-04-05"), Some("P\nS\nE\n/table/acct/res\nI\nIP\nPR\n2015-04-05\n1\n2\n3\n4"));
        check(Queue, &at("2014-02-14"), Some("P\nS\nE\n/acct/res\nI\n2014-02-14"));
        check(Queue, &at("2019-02-02"), Some("P\nS\nE\n/queue/acct/res\nI\nIP\nPR\n2019-02-02"));
        check(Blob, &at("2012-02-12"), Some("P\nS\nE\n/acct/res\nI\n2012-02-12"));
        check(Blob, &at("2013-08-15"), Some("P\nS\nE\n/acct/res\nI\n2013-08-15\nC\n\n\n\n"));
        check(
            Blob,
            &at("2018-11-09"),
            Some("P\nS\nE\n/blob/acct/res\nI\nIP\nPR\n2018-11-09\nbs\nN\nC\n\n\n\n"),
        );
        check(
            Blob,
            &at("2020-12-06"),
            Some("P\nS\nE\n/blob/acct/res\nI\nIP\nPR\n2020-12-06\nbs\nN\nX\nC\n\n\n\n"),
        );
    }

    #[test]
    fn versions_that_are_no_date_or_too_old_are_refused() {
        for query in ["sp=r", "sv=", "sv=2011-08-18", "sv=latest", "sv=2019-2-2", "sv=20190-02-0"] {
            check(StorageService::Table, query, None);
        }
        let account = AccountName::parse("acct").unwrap();
        assert_eq!(account_string_to_sign(&account, &fields("ss=t&sv=2015-02-21")), None);
        assert!(account_string_to_sign(&account, &fields("ss=t&sv=2015-04-05")).is_some());
    }

    #[test]
    fn a_repeated_field_is_refused_in_any_case() {
        for query in ["sp=r&sp=rw", "tn=a&TN=b"] {
            assert!(SasFields::pick(&Query::parse(query).unwrap()).is_none(), "{query}");
        }
        assert!(SasFields::pick(&Query::parse("x=1&x=2").unwrap()).is_some());
    }
}
