//! The other side: signing requests and making tokens, for the client library, the CLI and tests. Uses the
//! same layouts that verify.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_model::{
    AccountName, BlobHeaders, DateTime, DelegationKey, ErrorCode, ServiceError, StorageService,
};

use crate::delegation;
use crate::sas::{self, SasFields};
use crate::shared_key::{self, Scheme, SignedRequest};
use crate::{Account, KeyLimit};

/// The version whose layout new tokens have.
const TOKEN_VERSION: &str = "2019-02-02";
/// The version whose layout new tokens by keys of users have.
const DELEGATED_VERSION: &str = "2020-12-06";

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The value of the Authorization header for a request that has its date and content headers already.
pub fn sign_request(
    account: &Account,
    service: StorageService,
    scheme: Scheme,
    request: &SignedRequest<'_>,
) -> Result<String, ServiceError> {
    let text = shared_key::string_to_sign(service, scheme, account.name(), request)
        .ok_or(ErrorCode::InvalidHeaderValue)?;
    Ok(format!("{} {}:{}", scheme.as_str(), account.name(), account.sign(&text)))
}

/// The limits of a service SAS. What is empty or `None` is left out of the token.
#[derive(Clone, Debug, Default)]
pub struct ServiceSas<'a> {
    /// The table, queue, container or container/blob.
    pub resource: &'a str,
    /// Permission letters.
    pub permissions: &'a str,
    /// Valid from.
    pub start: Option<DateTime>,
    /// Valid until.
    pub expiry: Option<DateTime>,
    /// An address or a range of addresses.
    pub ip: &'a str,
    /// `https` or `https,http`.
    pub protocol: &'a str,
    /// The id of a stored policy.
    pub policy_id: &'a str,
    /// Entities of a table.
    pub keys: KeyLimit,
    /// The kind of a blob resource: `b`, `c`, `bs` or `bv`; if empty, that of the resource.
    pub blob_kind: &'a str,
    /// The snapshot or version that `bs` or `bv` is for.
    pub blob_moment: Option<DateTime>,
    /// Headers that answers have instead of those of the blob.
    pub blob_headers: BlobHeaders,
    /// The version whose layout is signed, if not ours.
    pub version: &'a str,
}

/// Makes a service SAS: the text to put behind `?`.
pub fn sign_service_sas(
    account: &Account,
    service: StorageService,
    sas: &ServiceSas<'_>,
) -> Result<String, ServiceError> {
    let mut fields =
        common_fields(sas.version, sas.permissions, (sas.start, sas.expiry), sas.ip, sas.protocol);
    set_text(&mut fields, "si", sas.policy_id);
    if service == StorageService::Blob {
        set_blob_fields(&mut fields, sas)?;
    }
    let resource = match service {
        StorageService::Table => {
            fields.set("tn", sas.resource.to_owned());
            sas.resource.to_lowercase()
        }
        StorageService::Blob | StorageService::Queue => sas.resource.to_owned(),
    };
    set_key_limit(&mut fields, &sas.keys)?;
    let text = sas::service_string_to_sign(service, account.name(), &resource, &fields)
        .ok_or(ErrorCode::InvalidInput)?;
    Ok(finish(fields, account.sign(&text)))
}

/// What only tokens for blobs have.
fn set_blob_fields(fields: &mut SasFields, sas: &ServiceSas<'_>) -> Result<(), ServiceError> {
    let kind = match (sas.blob_kind, sas.resource.contains('/')) {
        ("", true) => "b",
        ("", false) => "c",
        (kind, _) => kind,
    };
    set_text(fields, "sr", kind);
    match (kind, sas.blob_moment) {
        ("bs", Some(time)) => fields.set("snapshot", time.to_text_7_digits()),
        ("bv", Some(time)) => fields.set("versionid", time.to_text_7_digits()),
        ("b" | "c", None) => {}
        // Without its time the token would be for no state, and with one for none of its own.
        _ => return Err(ErrorCode::InvalidInput.into()),
    }
    let headers = &sas.blob_headers;
    for (name, text) in [
        ("rscc", &headers.cache_control),
        ("rscd", &headers.content_disposition),
        ("rsce", &headers.content_encoding),
        ("rscl", &headers.content_language),
        ("rsct", &headers.content_type),
    ] {
        set_text(fields, name, text.as_deref().unwrap_or_default());
    }
    Ok(())
}

/// Makes a token for blobs with the key of a user: the text to put behind `?`.
pub fn sign_delegated_sas(
    account: &AccountName,
    key: &DelegationKey,
    sas: &ServiceSas<'_>,
) -> Result<String, ServiceError> {
    let version = if sas.version.is_empty() { DELEGATED_VERSION } else { sas.version };
    let mut fields = common_fields(version, sas.permissions, (sas.start, sas.expiry), sas.ip, sas.protocol);
    set_blob_fields(&mut fields, sas)?;
    for (name, text) in [
        ("skoid", key.object_id.clone()),
        ("sktid", key.tenant_id.clone()),
        ("skt", key.start.to_string()),
        ("ske", key.expiry.to_string()),
        ("sks", key.service.to_string()),
        ("skv", key.version.clone()),
    ] {
        set_text(&mut fields, name, &text);
    }
    let texts = delegation::texts_to_sign(account, sas.resource, &fields).ok_or(ErrorCode::InvalidInput)?;
    let signer = Account::parse(&format!("{account}:{}", key.value)).map_err(|_| ErrorCode::InvalidInput)?;
    Ok(finish(fields, signer.sign(&texts[0])))
}

/// The limits of an account SAS. What is empty or `None` is left out of the token.
#[derive(Clone, Debug, Default)]
pub struct AccountSas<'a> {
    /// Letters of services: `b`, `q`, `t`.
    pub services: &'a str,
    /// Letters of resource types: `s`, `c`, `o`.
    pub resource_types: &'a str,
    /// Permission letters.
    pub permissions: &'a str,
    /// Valid from.
    pub start: Option<DateTime>,
    /// Valid until.
    pub expiry: Option<DateTime>,
    /// An address or a range of addresses.
    pub ip: &'a str,
    /// `https` or `https,http`.
    pub protocol: &'a str,
    /// The version whose layout is signed, if not ours.
    pub version: &'a str,
}

/// Makes an account SAS: the text to put behind `?`.
pub fn sign_account_sas(account: &Account, sas: &AccountSas<'_>) -> Result<String, ServiceError> {
    let mut fields =
        common_fields(sas.version, sas.permissions, (sas.start, sas.expiry), sas.ip, sas.protocol);
    fields.set("ss", sas.services.to_owned());
    fields.set("srt", sas.resource_types.to_owned());
    let text = sas::account_string_to_sign(account.name(), &fields).ok_or(ErrorCode::InvalidInput)?;
    Ok(finish(fields, account.sign(&text)))
}

/// Sets the bounds of a key limit. An empty field signs the same text as a missing one, so a bound that would need
/// an empty field to hold is refused: its holder could remove it.
fn set_key_limit(fields: &mut SasFields, keys: &KeyLimit) -> Result<(), ServiceError> {
    if let Some((partition, row)) = &keys.start {
        let row = row.as_deref().unwrap_or_default();
        if partition.is_empty() && !row.is_empty() {
            return Err(inexpressible_bound());
        }
        set_text(fields, "spk", partition);
        set_text(fields, "srk", row);
    }
    if let Some((partition, row)) = &keys.end {
        if partition.is_empty() || row.as_deref().is_some_and(str::is_empty) {
            return Err(inexpressible_bound());
        }
        set_text(fields, "epk", partition);
        set_text(fields, "erk", row.as_deref().unwrap_or_default());
    }
    Ok(())
}

fn inexpressible_bound() -> ServiceError {
    ServiceError::with_message(
        ErrorCode::InvalidInput,
        "a signature cannot hold an empty key as a bound: whoever has it could take the bound away",
    )
}

fn common_fields(
    version: &str,
    permissions: &str,
    (start, expiry): (Option<DateTime>, Option<DateTime>),
    ip: &str,
    protocol: &str,
) -> SasFields {
    let mut fields = SasFields::default();
    set_text(&mut fields, "sv", if version.is_empty() { TOKEN_VERSION } else { version });
    set_text(&mut fields, "sp", permissions);
    set_text(&mut fields, "st", &start.map(|time| time.to_string()).unwrap_or_default());
    set_text(&mut fields, "se", &expiry.map(|time| time.to_string()).unwrap_or_default());
    set_text(&mut fields, "sip", ip);
    set_text(&mut fields, "spr", protocol);
    fields
}

fn set_text(fields: &mut SasFields, name: &'static str, text: &str) {
    if !text.is_empty() {
        fields.set(name, text.to_owned());
    }
}

/// The query text of the fields with their signature.
fn finish(mut fields: SasFields, signature: String) -> String {
    fields.set("sig", signature);
    let parts: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, UNRESERVED)))
        .collect();
    parts.join("&")
}
