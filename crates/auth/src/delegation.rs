//! User delegation: keys with which the bearer of a token signs tokens of its own, and what these sign
//! (<https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas>).
//!
//! Nothing is kept of a key. It is a hash, by the key of the account, of all that a token names of it and of what its
//! owner could do when it was issued, so it can be made again whenever a token comes. Whoever could only read then
//! cannot do more by any token of that key.

use tavola_model::{
    AccountName, BlobCommand, Command, DateTime, DelegationKey, ErrorCode, IssueDelegationKey, ServiceError,
    USER_DELEGATION_DAYS_MAX,
};

use crate::Account;
use crate::access::Access;
use crate::sas::SasFields;

/// The oldest version with keys of users.
const VERSION_MIN: &str = "2018-11-09";
/// Permissions that a key of someone who can only read opens at most.
const READ_LETTERS: &str = "rl";

/// Who asks for a key: the subject of a bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSubject {
    /// `oid`, or `sub` of an issuer that has none.
    pub object_id: String,
    /// `tid`; empty if the issuer has none.
    pub tenant_id: String,
}

/// What it takes to issue a key to a bearer.
#[derive(Clone, Debug)]
pub(crate) struct KeyIssuer {
    pub account: Account,
    pub subject: TokenSubject,
    pub access: Access,
}

impl KeyIssuer {
    /// Issues the key that a command asks for.
    pub fn issue_into(&self, command: &mut Command, now: DateTime) -> Result<(), ServiceError> {
        if let Command::Blob(command) = command
            && let BlobCommand::GetUserDelegationKey(asked) = command.as_mut()
        {
            asked.key = Some(self.issue(asked, now)?);
        }
        Ok(())
    }

    /// Issues a key for the times asked for.
    fn issue(&self, asked: &IssueDelegationKey, now: DateTime) -> Result<DelegationKey, ServiceError> {
        let start = asked.start.unwrap_or(now);
        let latest = start.max(now).plus_seconds(USER_DELEGATION_DAYS_MAX * 24 * 60 * 60);
        if asked.expiry <= now || asked.expiry <= start || latest.is_none_or(|latest| asked.expiry > latest) {
            return Err(ErrorCode::InvalidXmlDocument.into());
        }
        let TokenSubject { object_id, tenant_id } = self.subject.clone();
        let mut key = DelegationKey {
            object_id,
            tenant_id,
            start,
            expiry: asked.expiry,
            service: 'b',
            version: asked.version.clone(),
            value: String::new(),
        };
        key.value = self.account.sign(&described(&KeyFields::of(&key), self.access));
        Ok(key)
    }
}

/// The fields of a key as a token names them.
struct KeyFields<'a> {
    object_id: &'a str,
    tenant_id: &'a str,
    start: DateTime,
    expiry: DateTime,
    service: &'a str,
    version: &'a str,
}

impl<'a> KeyFields<'a> {
    fn of(key: &'a DelegationKey) -> Self {
        Self {
            object_id: &key.object_id,
            tenant_id: &key.tenant_id,
            start: whole_seconds(key.start),
            expiry: whole_seconds(key.expiry),
            service: "b",
            version: &key.version,
        }
    }

    fn in_token(fields: &'a SasFields) -> Option<Self> {
        let time = |name: &str| DateTime::parse(fields.value(name)).map(whole_seconds);
        Some(Self {
            object_id: fields.value("skoid"),
            tenant_id: fields.value("sktid"),
            start: time("skt")?,
            expiry: time("ske")?,
            service: fields.value("sks"),
            version: fields.value("skv"),
        })
    }
}

/// Times of keys have no fraction of a second, neither in answers nor in tokens.
fn whole_seconds(time: DateTime) -> DateTime {
    DateTime::from_ticks(time.ticks() / 10_000_000 * 10_000_000).unwrap_or(time)
}

/// All that a key stands for. Object and tenant hold no line break: `verify` and the issuer see to it.
fn described(key: &KeyFields<'_>, access: Access) -> String {
    let access = match access {
        Access::None => "none",
        Access::Read => "read",
        Access::Write => "write",
    };
    let KeyFields { object_id, tenant_id, start, expiry, service, version } = key;
    format!(
        "user delegation key\n{object_id}\n{tenant_id}\n{start}\n{expiry}\n{service}\n{version}\n{access}"
    )
}

/// The permissions of a token that is signed with a user's key; `None` if its signature does not hold now.
pub(crate) fn verify(account: &Account, resource: &str, fields: &SasFields, now: DateTime) -> Option<String> {
    if fields.iter().any(|(_, value)| value.contains('\n')) || fields.given("si").is_some() {
        return None;
    }
    let key = KeyFields::in_token(fields)?;
    let holds_now = key.start <= now && now < key.expiry && key.service == "b";
    let named = fields.value("sp");
    let texts = texts_to_sign(account.name(), resource, fields)?;
    let signature = fields.signature();
    let signed_by = |access: Access| {
        let described = described(&key, access);
        texts.iter().any(|text| account.verifies_derived(&described, text, &signature))
    };
    if !holds_now {
        return None;
    }
    if signed_by(Access::Write) {
        return Some(named.to_owned());
    }
    let readable = || named.chars().filter(|letter| READ_LETTERS.contains(*letter)).collect();
    signed_by(Access::Read).then(readable)
}

/// The text that a token signs. Two forms, where it is not known which version began the second.
pub(crate) fn texts_to_sign(
    account: &AccountName,
    resource: &str,
    fields: &SasFields,
) -> Option<Vec<String>> {
    let version = fields.version_from(VERSION_MIN)?;
    // What these ask of the request is not checked here, so a token that has them is none.
    if fields.given("srh").is_some() || fields.given("srq").is_some() {
        return None;
    }
    let canonical = format!("/blob/{account}/{resource}");
    let mut lines = vec![fields.value("sp"), fields.value("st"), fields.value("se"), &canonical];
    lines.extend(["skoid", "sktid", "skt", "ske", "sks", "skv"].map(|name| fields.value(name)));
    if version >= "2020-02-10" {
        lines.extend(["saoid", "suoid", "scid"].map(|name| fields.value(name)));
    }
    if version >= "2025-07-05" {
        lines.extend(["skdutid", "sduoid"].map(|name| fields.value(name)));
    }
    lines.extend(["sip", "spr", "sv", "sr"].map(|name| fields.value(name)));
    lines.push(fields.blob_moment());
    if version >= "2020-12-06" {
        lines.push(fields.value("ses"));
    }
    let headers = ["rscc", "rscd", "rsce", "rscl", "rsct"].map(|name| fields.value(name));
    let plain = [&lines[..], &headers[..]].concat().join("\n");
    if version < "2025-11-05" {
        return Some(vec![plain]);
    }
    let with_request = [&lines[..], &["", ""], &headers[..]].concat().join("\n");
    Some(vec![with_request, plain])
}
