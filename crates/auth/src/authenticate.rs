//! Who is asking: the head of a request against the keys of the account it addresses.
//!
//! Everything that a signature or token says about itself is checked here: the signature, the times, the
//! address it may come from, the protocol. What it may be used for is left to `authorize`, which knows the
//! command. A refusal never says which check failed beyond the service's own code.

use std::net::IpAddr;

use http::{HeaderMap, Method};
use tavola_model::{
    AccountName, Address, AddressStyle, DateTime, ErrorCode, Query, ServiceError, StorageService,
};

use crate::access::Access;
use crate::delegation::{self, KeyIssuer};
use crate::sas::{self, BlobScope, SasFields};
use crate::shared_key::{self, Scheme, SignedRequest, WhiteSpace};
use crate::{Account, Accounts, KeyLimit};

/// Seconds that the date of a signed request may differ from ours
/// (<https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key#specifying-the-date-header>).
pub const SKEW_SECONDS_MAX: u64 = 15 * 60;

/// From this version on a request without credentials, or with a token that does not hold, is told how to
/// authenticate; before, it is told nothing.
const CHALLENGE_VERSION_MIN: &str = "2019-12-12";

/// What is known of a request before its body is read. It holds signatures and keys of entities, so it cannot be
/// printed.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The verb on the wire.
    pub method: &'a Method,
    /// The raw path as received, account included where it is in the path.
    pub path: &'a str,
    /// The query, parsed once for signature and route.
    pub query: &'a Query<'a>,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The account it addresses.
    pub address: &'a Address<'a>,
    /// It came over TLS.
    pub secure: bool,
    /// Who sent it.
    pub peer: IpAddr,
}

/// Someone whose credentials hold, and what these say they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(crate) account: AccountName,
    pub(crate) service: StorageService,
    pub(crate) rights: Rights,
}

#[derive(Clone, Debug)]
pub(crate) enum Rights {
    /// No credentials: may do what needs none, which is a browser's preflight request.
    Anonymous,
    /// No credentials, but perhaps what is read is public; otherwise this is the answer.
    Public(ErrorCode),
    /// Holds an account key.
    Owner,
    /// Holds a token for one table, queue, container or blob.
    ServiceSas(ServiceSasRights),
    /// Holds a token for kinds of resources.
    AccountSas(AccountSasRights),
    /// Holds a token of the issuer that the accounts trust.
    Bearer(Access, Option<Box<KeyIssuer>>),
}

#[derive(Clone, Debug)]
pub(crate) struct ServiceSasRights {
    /// The table (lower case), queue, container or container/blob.
    pub resource: String,
    pub limits: TokenLimits,
    /// The stored policy that adds what the token leaves out.
    pub policy_id: Option<String>,
    pub key_limit: Option<KeyLimit>,
    /// What of a container or blob it is for.
    pub blob_scope: Option<BlobScope>,
}

#[derive(Clone, Debug)]
pub(crate) struct AccountSasRights {
    pub service: StorageService,
    pub services: String,
    pub resource_types: String,
    pub permissions: String,
}

/// What a token itself says; `None` must come from a stored policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenLimits {
    pub start: Option<DateTime>,
    pub expiry: Option<DateTime>,
    pub permissions: Option<String>,
}

impl Caller {
    /// Whoever holds a key of the account, shown by other means than a signed request: by [`Account::prove`], or by a
    /// credential that opens the whole server. To be called only where that was checked.
    pub fn owner(account: &Account, service: StorageService) -> Self {
        Self { account: account.name().clone(), service, rights: Rights::Owner }
    }

    /// The account that is asked.
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// Whether it has shown any credentials.
    pub fn has_credentials(&self) -> bool {
        !matches!(self.rights, Rights::Anonymous | Rights::Public(_))
    }

    /// The table, queue or container and the id of the stored policy that `authorize` needs, if the token refers to one.
    pub fn stored_policy(&self) -> Option<(&str, &str)> {
        match &self.rights {
            Rights::ServiceSas(rights) => {
                let resource = rights.resource.as_str();
                // Policies are those of the container.
                let whole = if rights.blob_scope.is_some() { resource.split('/').next() } else { None };
                rights.policy_id.as_deref().map(|id| (whole.unwrap_or(resource), id))
            }
            Rights::Anonymous
            | Rights::Public(_)
            | Rights::Owner
            | Rights::AccountSas(_)
            | Rights::Bearer(..) => None,
        }
    }
}

/// Checks the credentials of a request.
pub fn authenticate(
    accounts: &Accounts,
    service: StorageService,
    head: &RequestHead<'_>,
    now: DateTime,
) -> Result<Caller, ServiceError> {
    let account = accounts.get(&head.address.account).ok_or(match service {
        StorageService::Queue => ErrorCode::AccountNotFound,
        StorageService::Blob | StorageService::Table => ErrorCode::ResourceNotFound,
    })?;
    let rights = if head.method == Method::OPTIONS {
        // A browser sends no credentials with a preflight, or those in the URL that it is asking about.
        Rights::Anonymous
    } else if let Some(authorization) = head.headers.get(http::header::AUTHORIZATION) {
        let authorization = authorization.to_str().map_err(|_| malformed_authorization())?;
        let (scheme, credentials) =
            authorization.trim().split_once(' ').ok_or_else(malformed_authorization)?;
        if scheme.eq_ignore_ascii_case("bearer") {
            let issuer = accounts.issuer().ok_or_else(|| not_believed(head.headers))?;
            let token = credentials.trim();
            let access = issuer.check(service, token, now).map_err(|_| not_believed(head.headers))?;
            let subject = (service == StorageService::Blob).then(|| issuer.subject(token)).flatten();
            let key_issuer = subject.map(|subject| KeyIssuer { account: account.clone(), subject, access });
            Rights::Bearer(access, key_issuer.map(Box::new))
        } else {
            check_shared_key(account, service, head, (scheme, credentials), now)?;
            Rights::Owner
        }
    } else {
        match token(head.query)? {
            Some(fields) => check_token(account, service, head, &fields, now)?,
            None if service == StorageService::Blob && matches!(*head.method, Method::GET | Method::HEAD) => {
                Rights::Public(no_credentials(head.headers).code)
            }
            None => return Err(no_credentials(head.headers)),
        }
    };
    Ok(Caller { account: account.name().clone(), service, rights })
}

fn check_shared_key(
    account: &Account,
    service: StorageService,
    head: &RequestHead<'_>,
    (scheme, credentials): (&str, &str),
    now: DateTime,
) -> Result<(), ServiceError> {
    let scheme = match scheme {
        "SharedKey" => Scheme::SharedKey,
        "SharedKeyLite" => Scheme::SharedKeyLite,
        _ => return Err(malformed_authorization()),
    };
    let (name, signature) = credentials.trim().split_once(':').ok_or_else(malformed_authorization)?;
    let dated = shared_key::date(head.headers).and_then(DateTime::parse_rfc1123).ok_or_else(failed)?;
    if name != account.name().as_str() || dated.seconds_between(now) > SKEW_SECONDS_MAX {
        return Err(failed());
    }
    let request =
        SignedRequest { method: head.method, path: head.path, query: head.query, headers: head.headers };
    let text_of =
        |request: &SignedRequest<'_>| shared_key::string_to_sign(service, scheme, account.name(), request);
    let text = text_of(&request);
    if text.as_ref().is_some_and(|text| account.verifies(text, signature)) {
        return Ok(());
    }
    let primary = primary_path(head).and_then(|path| text_of(&SignedRequest { path: &path, ..request }));
    if primary.is_some_and(|text| account.verifies(&text, signature)) {
        return Ok(());
    }
    let kept = shared_key::text_with(service, scheme, account.name(), &request, WhiteSpace::Kept);
    if kept != text && kept.is_some_and(|text| account.verifies(&text, signature)) {
        return Ok(());
    }
    Err(mismatch(service, signature, text.as_deref()))
}

/// The signature is another one. Queues and blobs are told of what, as recorded; all of it came with the request.
fn mismatch(service: StorageService, signature: &str, text: Option<&str>) -> ServiceError {
    match (service, text) {
        (StorageService::Queue | StorageService::Blob, Some(text)) => failed().with_detail(
            "AuthenticationErrorDetail",
            format!(
                "The MAC signature found in the HTTP request '{signature}' is not the same as any computed signature. \
                 Server used following string to sign: '{text}'."
            ),
        ),
        (StorageService::Table, _) | (_, None) => failed(),
    }
}

/// The path without the `-secondary` suffix of its account. Clients of the emulator differ in which of the two
/// they sign when they read from the secondary.
fn primary_path(head: &RequestHead<'_>) -> Option<String> {
    let has_suffix = head.address.secondary && head.address.style == AddressStyle::Path;
    let name = format!("/{}-secondary", head.address.account);
    let rest = head.path.strip_prefix(&name).filter(|_| has_suffix)?;
    Some(format!("/{}{rest}", head.address.account))
}

/// The token in the query, if there is a signature.
fn token(query: &Query<'_>) -> Result<Option<SasFields>, ServiceError> {
    if query.get("sig").is_none() {
        return Ok(None);
    }
    SasFields::pick(query).map(Some).ok_or_else(failed)
}

fn check_token(
    account: &Account,
    service: StorageService,
    head: &RequestHead<'_>,
    fields: &SasFields,
    now: DateTime,
) -> Result<Rights, ServiceError> {
    let resource = sas::resource(service, head.address.path, head.query, fields);
    if fields.is_delegated() && !fields.is_account_sas() && service == StorageService::Blob {
        return check_delegated(account, head, fields, resource, now);
    }
    let text = if fields.is_account_sas() {
        sas::account_string_to_sign(account.name(), fields)
    } else {
        resource
            .as_deref()
            .and_then(|resource| sas::service_string_to_sign(service, account.name(), resource, fields))
    };
    if !text.is_some_and(|text| account.verifies(&text, &fields.signature())) {
        return Err(failed());
    }
    let limits = checked_limits(fields, head, now)?;
    if fields.is_account_sas() {
        return account_sas_rights(service, fields, limits);
    }
    let policy_id = fields.given("si").filter(|id| !id.is_empty()).map(str::to_owned);
    let is_whole = limits.expiry.is_some() && limits.permissions.is_some();
    if policy_id.is_none() && !is_whole {
        return Err(failed());
    }
    let key_limit = match service {
        StorageService::Table => parse_key_limit(fields)?,
        StorageService::Blob | StorageService::Queue => None,
    };
    let resource = resource.ok_or_else(failed)?;
    let blob_scope = match service {
        StorageService::Blob => Some(BlobScope::of(fields).ok_or_else(failed)?),
        StorageService::Queue | StorageService::Table => None,
    };
    Ok(Rights::ServiceSas(ServiceSasRights { resource, limits, policy_id, key_limit, blob_scope }))
}

/// The limits of a token whose signature holds, if it may be used now, from there, over this protocol.
fn checked_limits(
    fields: &SasFields,
    head: &RequestHead<'_>,
    now: DateTime,
) -> Result<TokenLimits, ServiceError> {
    let limits = TokenLimits {
        start: parse_time(fields.given("st"))?,
        expiry: parse_time(fields.given("se"))?,
        permissions: fields.given("sp").filter(|permissions| !permissions.is_empty()).map(str::to_owned),
    };
    check_times(limits.start, limits.expiry, now)?;
    check_protocol(fields, head)?;
    check_peer(fields, head.peer)?;
    Ok(limits)
}

/// A token that is signed with the key of a user.
fn check_delegated(
    account: &Account,
    head: &RequestHead<'_>,
    fields: &SasFields,
    resource: Option<String>,
    now: DateTime,
) -> Result<Rights, ServiceError> {
    let resource = resource.ok_or_else(failed)?;
    let permissions = delegation::verify(account, &resource, fields, now).ok_or_else(failed)?;
    let limits = checked_limits(fields, head, now)?;
    if limits.expiry.is_none() || limits.permissions.is_none() {
        return Err(failed());
    }
    Ok(Rights::ServiceSas(ServiceSasRights {
        resource,
        limits: TokenLimits { permissions: Some(permissions), ..limits },
        policy_id: None,
        key_limit: None,
        blob_scope: Some(BlobScope::of(fields).ok_or_else(failed)?),
    }))
}

fn account_sas_rights(
    service: StorageService,
    fields: &SasFields,
    limits: TokenLimits,
) -> Result<Rights, ServiceError> {
    let only = |name: &str, letters: &str| {
        let value = fields.value(name);
        let valid = !value.is_empty() && value.chars().all(|letter| letters.contains(letter));
        if valid { Ok(value.to_owned()) } else { Err(failed()) }
    };
    let (Some(_), Some(permissions)) = (limits.expiry, limits.permissions) else {
        return Err(failed());
    };
    Ok(Rights::AccountSas(AccountSasRights {
        service,
        services: only("ss", "bqtf")?,
        resource_types: only("srt", "sco")?,
        permissions,
    }))
}

/// A token holds from its start up to its expiry.
pub(crate) fn check_times(
    start: Option<DateTime>,
    expiry: Option<DateTime>,
    now: DateTime,
) -> Result<(), ServiceError> {
    let begun = start.is_none_or(|start| start <= now);
    let over = expiry.is_some_and(|expiry| expiry <= now);
    if begun && !over { Ok(()) } else { Err(failed()) }
}

fn parse_time(text: Option<&str>) -> Result<Option<DateTime>, ServiceError> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => DateTime::parse(text).map(Some).ok_or_else(failed),
    }
}

fn check_protocol(fields: &SasFields, head: &RequestHead<'_>) -> Result<(), ServiceError> {
    match fields.value("spr") {
        "" | "https,http" | "http,https" => Ok(()),
        "https" if head.secure => Ok(()),
        "https" => Err(ErrorCode::AuthorizationProtocolMismatch.into()),
        _ => Err(failed()),
    }
}

/// `sip` is one address or a range, both ends included.
fn check_peer(fields: &SasFields, peer: IpAddr) -> Result<(), ServiceError> {
    let range = fields.value("sip");
    if range.is_empty() {
        return Ok(());
    }
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (Ok(first), Ok(last)) = (first.parse::<IpAddr>(), last.parse::<IpAddr>()) else {
        return Err(failed());
    };
    let peer = peer.to_canonical();
    let one_family = first.is_ipv4() == peer.is_ipv4() && last.is_ipv4() == peer.is_ipv4();
    if one_family && first <= peer && peer <= last {
        Ok(())
    } else {
        Err(ErrorCode::AuthorizationSourceIPMismatch.into())
    }
}

/// A RowKey bound needs its PartitionKey bound. An empty bound is none: both sign the same text, so a holder could
/// turn one into the other.
fn parse_key_limit(fields: &SasFields) -> Result<Option<KeyLimit>, ServiceError> {
    let given = |name: &str| fields.given(name).filter(|text| !text.is_empty());
    let bound = |partition: &str, row: &str| match (given(partition), given(row)) {
        (None, None) => Ok(None),
        (Some(partition), row) => Ok(Some((partition.to_owned(), row.map(str::to_owned)))),
        (None, Some(_)) => Err(failed()),
    };
    let limit = KeyLimit { start: bound("spk", "srk")?, end: bound("epk", "erk")? };
    Ok((limit != KeyLimit::default()).then_some(limit))
}

pub(crate) fn failed() -> ServiceError {
    ErrorCode::AuthenticationFailed.into()
}

fn malformed_authorization() -> ServiceError {
    ErrorCode::MalformedAuthenticationInfo.into()
}

/// A bearer token that does not hold.
fn not_believed(headers: &HeaderMap) -> ServiceError {
    if is_challenged(headers) { ErrorCode::InvalidAuthenticationInfo.into() } else { failed() }
}

fn no_credentials(headers: &HeaderMap) -> ServiceError {
    if is_challenged(headers) {
        ErrorCode::NoAuthenticationInformation.into()
    } else {
        ErrorCode::ResourceNotFound.into()
    }
}

/// Whether the version of a request knows challenges.
fn is_challenged(headers: &HeaderMap) -> bool {
    let version = headers.get("x-ms-version").and_then(|value| value.to_str().ok()).unwrap_or_default();
    version >= CHALLENGE_VERSION_MIN
}
