//! May they: a decoded command against what the caller's credentials allow.
//!
//! The rule is applied to the command, never to the URL, so a tunnelled verb, a continuation token and every part
//! of a transaction meet the same one. What each operation needs is in `needs/`.
//!
//! Invariant: a `Permitted` was made by `authorize`.
use tavola_model::{
    AccessPolicy, AccountName, Command, DateTime, EntityKey, ErrorCode, ServiceError, SignedIdentifier,
    StorageService,
};

use crate::KeyLimit;
use crate::authenticate::{
    AccountSasRights, Caller, Rights, ServiceSasRights, TokenLimits, check_times, failed,
};
use crate::needs::{Letters, Need};

/// A command that may be executed for an account, on the keys inside the limit.
#[derive(Clone, Debug)]
pub struct Permitted {
    account: AccountName,
    service: StorageService,
    command: Command,
    key_limit: Option<KeyLimit>,
}

impl Permitted {
    /// The command.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// The service that was asked.
    pub fn service(&self) -> StorageService {
        self.service
    }

    /// Account, command and the keys it may see; writes were already held against these.
    pub fn into_parts(self) -> (AccountName, Command, Option<KeyLimit>) {
        (self.account, self.command, self.key_limit)
    }

    /// Permits anything, for tests of the layers below.
    #[cfg(feature = "testing")]
    pub fn unchecked_for_test(account: AccountName, command: Command, key_limit: Option<KeyLimit>) -> Self {
        let service = match command {
            Command::Queue(_) => StorageService::Queue,
            Command::Blob(_) => StorageService::Blob,
            Command::Account(_) | Command::Table(_) => StorageService::Table,
        };
        Self { account, service, command, key_limit }
    }
}

impl Caller {
    /// Whether they hold a key of the account.
    pub fn is_owner(&self) -> bool {
        matches!(self.rights, Rights::Owner)
    }
}

/// Permits the command or says why not. `policy` is the stored policy that `Caller::stored_policy` asks for,
/// `None` if the table has none of that id.
pub fn authorize(
    caller: &Caller,
    policy: Option<&SignedIdentifier>,
    command: Command,
    now: DateTime,
) -> Result<Permitted, ServiceError> {
    let key_limit = match &caller.rights {
        Rights::Owner => None,
        Rights::Anonymous if Need::of(&command).is_free => None,
        Rights::Anonymous => return Err(ErrorCode::AuthorizationFailure.into()),
        Rights::AccountSas(rights) => {
            check_account_sas(rights, &Need::of(&command))?;
            None
        }
        Rights::Bearer(access) => {
            access.check(&Need::of(&command))?;
            None
        }
        Rights::ServiceSas(rights) => {
            check_service_sas(rights, policy, &Need::of(&command), now)?;
            rights.key_limit.clone()
        }
    };
    Ok(Permitted { account: caller.account.clone(), service: caller.service, command, key_limit })
}

fn check_account_sas(rights: &AccountSasRights, need: &Need<'_>) -> Result<(), ServiceError> {
    if !rights.services.contains(rights.service.letter()) {
        return Err(ErrorCode::AuthorizationServiceMismatch.into());
    }
    if need.is_free {
        return Ok(());
    }
    let (resource_type, letters) = need.account_sas.ok_or(ErrorCode::AuthorizationFailure)?;
    if !rights.resource_types.contains(resource_type) {
        return Err(ErrorCode::AuthorizationResourceTypeMismatch.into());
    }
    check_letters(&rights.permissions, letters, need, None)
}

fn check_service_sas(
    rights: &ServiceSasRights,
    policy: Option<&SignedIdentifier>,
    need: &Need<'_>,
    now: DateTime,
) -> Result<(), ServiceError> {
    let limits = with_policy(rights, policy)?;
    check_times(limits.start, limits.expiry, now)?;
    if need.is_free {
        return Ok(());
    }
    let (resource, letters) = need.service_sas.ok_or(ErrorCode::AuthorizationFailure)?;
    if resource != rights.resource {
        return Err(ErrorCode::AuthorizationFailure.into());
    }
    let permissions = limits.permissions.unwrap_or_default();
    check_letters(&permissions, letters, need, rights.key_limit.as_ref())?;
    check_point_read(rights.key_limit.as_ref(), need.read)
}

fn check_letters(
    permissions: &str,
    letters: Letters,
    need: &Need<'_>,
    key_limit: Option<&KeyLimit>,
) -> Result<(), ServiceError> {
    match letters {
        Letters::AnyOf(letters) if letters.chars().any(|letter| permissions.contains(letter)) => Ok(()),
        Letters::AnyOf(_) => Err(ErrorCode::AuthorizationPermissionMismatch.into()),
        Letters::OfWrites => check_writes(permissions, key_limit, need),
    }
}

/// The limits of the token together with those of its stored policy. Each limit comes from one of the two: a
/// token cannot widen what was stored, so the service refuses a limit that is in both.
pub(crate) fn with_policy(
    rights: &ServiceSasRights,
    policy: Option<&SignedIdentifier>,
) -> Result<TokenLimits, ServiceError> {
    let Some(id) = &rights.policy_id else {
        return Ok(rights.limits.clone());
    };
    let stored = policy.filter(|policy| policy.id == *id).ok_or_else(failed)?;
    let AccessPolicy { start, expiry, permission } = stored.policy.clone().unwrap_or_default();
    let permission = permission.filter(|permission| !permission.is_empty());
    let token = rights.limits.clone();
    let limits = TokenLimits {
        start: one_of(token.start, start)?,
        expiry: one_of(token.expiry, expiry)?,
        permissions: one_of(token.permissions, permission)?,
    };
    if limits.expiry.is_none() {
        return Err(failed());
    }
    Ok(limits)
}

fn one_of<T>(token: Option<T>, stored: Option<T>) -> Result<Option<T>, ServiceError> {
    match (token, stored) {
        (Some(_), Some(_)) => Err(failed()),
        (token, stored) => Ok(token.or(stored)),
    }
}

/// An entity outside the limit does not exist for the caller.
fn check_point_read(key_limit: Option<&KeyLimit>, key: Option<&EntityKey>) -> Result<(), ServiceError> {
    match (key_limit, key) {
        (Some(limit), Some(key)) if !limit.contains(key) => Err(ErrorCode::ResourceNotFound.into()),
        (_, _) => Ok(()),
    }
}

/// Every write needs its letters and a key inside the limit; the first of a transaction that lacks them is named.
fn check_writes(
    permissions: &str,
    key_limit: Option<&KeyLimit>,
    need: &Need<'_>,
) -> Result<(), ServiceError> {
    for (index, (key, letters)) in need.writes.iter().enumerate() {
        let code = if letters.chars().any(|letter| !permissions.contains(letter)) {
            ErrorCode::AuthorizationPermissionMismatch
        } else if key_limit.is_some_and(|limit| !limit.contains(key)) {
            ErrorCode::AuthorizationFailure
        } else {
            continue;
        };
        let error = ServiceError::new(code);
        return Err(if need.is_transaction { error.at_operation(index) } else { error });
    }
    Ok(())
}
