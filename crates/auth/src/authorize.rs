//! May they: a decoded command against what the caller's credentials allow.
//!
//! The rule is applied to the command, never to the URL, so a tunnelled verb, a continuation token and every part
//! of a transaction meet the same one. What each operation needs is in `needs/`.
//!
//! Invariant: a `Permitted` was made by `authorize`.
use tavola_model::{
    AccessPolicy, AccountName, BlobCommand, Command, ContainerName, DateTime, EntityKey, ErrorCode,
    PublicAccess, ServiceError, SignedIdentifier, StorageService,
};

use crate::KeyLimit;
use crate::authenticate::{
    AccountSasRights, Caller, Rights, ServiceSasRights, TokenLimits, check_times, failed,
};
use crate::needs::{Letters, Need, blob, change_letters};

/// A command that may be executed for an account, on the keys inside the limit.
#[derive(Clone, Debug)]
pub struct Permitted {
    account: AccountName,
    service: StorageService,
    command: Command,
    key_limit: Option<KeyLimit>,
    may_overwrite: bool,
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

    /// Whether a blob that exists may be replaced. A token that opens only new blobs is refused where there is one, with
    /// `UnauthorizedBlobOverwrite`: only whoever executes the command knows.
    pub fn may_overwrite(&self) -> bool {
        self.may_overwrite
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
        Self { account, service, command, key_limit, may_overwrite: true }
    }

    /// The same at the endpoint of another service, for commands that every service has.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn at_service(self, service: StorageService) -> Self {
        Self { service, ..self }
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
    let need = Need::of(&command);
    let (mut key_limit, mut permissions, mut key_issuer) = (None, None, None);
    match &caller.rights {
        Rights::Owner | Rights::AccountSas(_) | Rights::ServiceSas(_) if need.issues_key => {
            let detail = "Only authentication scheme Bearer is supported";
            return Err(failed().with_detail("AuthenticationErrorDetail", detail));
        }
        Rights::Owner => {}
        Rights::Anonymous if need.is_free => {}
        Rights::Anonymous => return Err(ErrorCode::AuthorizationFailure.into()),
        // Whether what is read is public is asked by `authorize_public`.
        Rights::Public(refusal) => return Err((*refusal).into()),
        Rights::AccountSas(rights) => {
            check_account_sas(rights, &need)?;
            permissions = Some(rights.permissions.clone());
        }
        Rights::Bearer(access, issuer) => {
            access.check(&need)?;
            if need.issues_key {
                key_issuer = Some(issuer.as_ref().ok_or(ErrorCode::AuthorizationFailure)?);
            }
        }
        Rights::ServiceSas(rights) => {
            permissions = check_service_sas(rights, policy, &need, now)?;
            key_limit.clone_from(&rights.key_limit);
        }
    }
    let may_overwrite = !need.replaces || permissions.is_none_or(|permissions| permissions.contains('w'));
    let mut command = command;
    if let Some(issuer) = key_issuer {
        issuer.issue_into(&mut command, now)?;
    }
    let (account, service) = (caller.account.clone(), caller.service);
    Ok(Permitted { account, service, command, key_limit, may_overwrite })
}

impl Caller {
    /// The container whose public access `authorize_public` must be told, where the caller has no credentials and the
    /// command only reads what can be public.
    pub fn asks_public_access<'a>(&self, command: &'a Command) -> Option<&'a ContainerName> {
        match (&self.rights, command) {
            (Rights::Public(_), Command::Blob(command)) => {
                blob::public_access(command).map(|(container, _)| container)
            }
            _ => None,
        }
    }

    /// Whether the caller may read the source of a copy without credentials for it: that is left to whoever holds the
    /// account, for copies within the account that go on after the answer, as the service has it. Every other source is
    /// asked for with the credentials in its address or header, like any blob.
    pub fn covers_source(&self, source_account: &AccountName, command: &Command) -> bool {
        let Command::Blob(command) = command else { return false };
        let is_async = matches!(command.as_ref(), BlobCommand::CopyBlob(copy) if !copy.is_sync);
        let is_own = self.account == *source_account;
        is_async && is_own && matches!(self.rights, Rights::Owner | Rights::Bearer(..))
    }
}

/// Permits someone without credentials what the public access of the container opens. `access` is that of the container
/// that `Caller::asks_public_access` names; none if there is no such container.
pub fn authorize_public(
    caller: &Caller,
    access: PublicAccess,
    command: Command,
) -> Result<Permitted, ServiceError> {
    let needed = match &command {
        Command::Blob(command) => blob::public_access(command).map(|(_, needed)| needed),
        _ => None,
    };
    let Rights::Public(refusal) = caller.rights else { return Err(ErrorCode::AuthorizationFailure.into()) };
    if needed.is_none_or(|needed| access < needed) {
        return Err(refusal.into());
    }
    let (account, service) = (caller.account.clone(), caller.service);
    Ok(Permitted { account, service, command, key_limit: None, may_overwrite: false })
}

fn check_account_sas(rights: &AccountSasRights, need: &Need<'_>) -> Result<(), ServiceError> {
    if !rights.services.contains(rights.service.letter()) {
        return Err(ErrorCode::AuthorizationServiceMismatch.into());
    }
    if need.is_free || need.is_for_any_token {
        return Ok(());
    }
    let (resource_type, letters) = need.account_sas.ok_or(ErrorCode::AuthorizationFailure)?;
    if !rights.resource_types.contains(resource_type) {
        return Err(ErrorCode::AuthorizationResourceTypeMismatch.into());
    }
    check_all_of(&rights.permissions, need)?;
    check_letters(&rights.permissions, letters, need, None)
}

fn check_all_of(permissions: &str, need: &Need<'_>) -> Result<(), ServiceError> {
    if need.all_of.chars().all(|letter| permissions.contains(letter)) {
        Ok(())
    } else {
        Err(ErrorCode::AuthorizationPermissionMismatch.into())
    }
}

fn check_service_sas(
    rights: &ServiceSasRights,
    policy: Option<&SignedIdentifier>,
    need: &Need<'_>,
    now: DateTime,
) -> Result<Option<String>, ServiceError> {
    let limits = with_policy(rights, policy)?;
    check_times(limits.start, limits.expiry, now)?;
    if need.is_free || need.is_for_any_token {
        return Ok(None);
    }
    if let Some(scope) = rights.blob_scope {
        let need_of_blob = need.blob.as_ref().ok_or(ErrorCode::AuthorizationFailure)?;
        if !need_of_blob.is_of(&rights.resource, scope) {
            return Err(ErrorCode::AuthorizationFailure.into());
        }
        let permissions = limits.permissions.unwrap_or_default();
        check_all_of(&permissions, need)?;
        check_letters(&permissions, Letters::AnyOf(need_of_blob.letters), need, None)?;
        return Ok(Some(permissions));
    }
    let (resource, letters) = need.service_sas.ok_or(ErrorCode::AuthorizationFailure)?;
    if resource != rights.resource {
        return Err(ErrorCode::AuthorizationFailure.into());
    }
    let permissions = limits.permissions.unwrap_or_default();
    check_letters(&permissions, letters, need, rights.key_limit.as_ref())?;
    check_point_read(rights.key_limit.as_ref(), need.read)?;
    Ok(Some(permissions))
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
    for (index, write) in need.writes.iter().enumerate() {
        let letters = change_letters(&write.change);
        let code = if letters.chars().any(|letter| !permissions.contains(letter)) {
            ErrorCode::AuthorizationPermissionMismatch
        } else if key_limit.is_some_and(|limit| !limit.contains(&write.key)) {
            ErrorCode::AuthorizationFailure
        } else {
            continue;
        };
        let error = ServiceError::new(code);
        return Err(if need.is_transaction { error.at_operation(index) } else { error });
    }
    Ok(())
}
