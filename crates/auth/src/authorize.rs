//! May they: a decoded command against what the caller's credentials allow.
//!
//! The command is looked at, never the URL, so a tunnelled verb, a continuation token and every part of a
//! transaction meet the same rule. Needs of each operation:
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-table> and
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation>.
//!
//! Invariant: a `Permitted` was made by `authorize`.

use tavola_model::{
    AccessPolicy, AccountName, Command, DateTime, EntityChange, EntityKey, EntityWrite, ErrorCode,
    ServiceError, SignedIdentifier, TableName,
};

use crate::authenticate::{
    AccountSasRights, Caller, Rights, ServiceSasRights, TokenLimits, check_times, failed,
};
use crate::queue_rights::{QueueNeed, queue_need};
use crate::{KeyLimit, StorageService};

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
            _ => StorageService::Table,
        };
        Self { account, service, command, key_limit }
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
        Rights::Preflight => {
            check_preflight(&command)?;
            None
        }
        Rights::AccountSas(rights) => {
            check_account_sas(rights, &command)?;
            None
        }
        Rights::Bearer(access) => {
            access.check(&command)?;
            None
        }
        Rights::ServiceSas(rights) => {
            check_service_sas(rights, policy, &command, now)?;
            rights.key_limit.clone()
        }
    };
    Ok(Permitted { account: caller.account.clone(), service: caller.service, command, key_limit })
}

/// What an operation needs of a token.
enum Need<'a> {
    /// Nothing.
    Free,
    /// The service as a whole: these letters with `s`; never a service SAS.
    Service(Letters),
    /// A table as a whole: these letters with `c`; never a service SAS.
    Container(Letters),
    /// Only the account's owner.
    Owner,
    /// Reading entities of a table, or the one of this key.
    Read(&'a TableName, Option<&'a EntityKey>),
    /// Learning whether a table exists, which any permission on its entities tells.
    Probe(&'a TableName),
    /// Writing an entity of a table.
    Write(&'a TableName, &'a EntityWrite),
    /// Writing several.
    Transact(&'a TableName, &'a [EntityWrite]),
    /// Something of the queue service.
    Queue(QueueNeed<'a>),
}

/// Permission letters: one of them is enough.
pub(crate) type Letters = &'static str;

/// Every letter that opens entities.
const ENTITY_LETTERS: Letters = "raud";

fn need(command: &Command) -> Need<'_> {
    match command {
        Command::PreflightRequest(_) => Need::Free,
        Command::GetServiceProperties | Command::GetServiceStats => Need::Service("r"),
        Command::SetServiceProperties(_) => Need::Service("w"),
        Command::QueryTables(_) | Command::GetTable(_) => Need::Container("l"),
        Command::CreateTable(_) => Need::Container("cw"),
        Command::DeleteTable(_) => Need::Container("d"),
        Command::GetTableAcl(_) | Command::SetTableAcl(..) => Need::Owner,
        Command::QueryEntities(query) => Need::Read(&query.table, None),
        Command::GetEntity(get) => Need::Read(&get.table, Some(&get.key)),
        Command::ProbeTable(table, _) => Need::Probe(table),
        Command::WriteEntity(table, write) => Need::Write(table, write),
        Command::TransactEntities(transaction) => Need::Transact(&transaction.table, &transaction.writes),
        Command::Queue(command) => Need::Queue(queue_need(command)),
    }
}

/// The letters of which a change needs every one.
fn change_letters(change: &EntityChange) -> Letters {
    match change {
        EntityChange::Insert(_) => "a",
        EntityChange::Update(..) | EntityChange::Merge(..) => "u",
        EntityChange::InsertOrReplace(_) | EntityChange::InsertOrMerge(_) => "au",
        EntityChange::Delete(_) => "d",
    }
}

fn check_preflight(command: &Command) -> Result<(), ServiceError> {
    match need(command) {
        Need::Free => Ok(()),
        Need::Service(_)
        | Need::Container(_)
        | Need::Owner
        | Need::Read(..)
        | Need::Probe(_)
        | Need::Write(..)
        | Need::Transact(..)
        | Need::Queue(_) => Err(ErrorCode::AuthorizationFailure.into()),
    }
}

fn check_account_sas(rights: &AccountSasRights, command: &Command) -> Result<(), ServiceError> {
    if !rights.services.contains(rights.service.letter()) {
        return Err(ErrorCode::AuthorizationServiceMismatch.into());
    }
    let check_type = |letter: char| match rights.resource_types.contains(letter) {
        true => Ok(()),
        false => Err(ServiceError::new(ErrorCode::AuthorizationResourceTypeMismatch)),
    };
    match need(command) {
        Need::Free => Ok(()),
        Need::Owner => Err(ErrorCode::AuthorizationFailure.into()),
        Need::Service(letters) => {
            check_type('s')?;
            check_any(&rights.permissions, letters)
        }
        Need::Container(letters) => {
            check_type('c')?;
            check_any(&rights.permissions, letters)
        }
        Need::Read(..) => {
            check_type('o')?;
            check_any(&rights.permissions, "r")
        }
        Need::Probe(_) => {
            check_type('o')?;
            check_any(&rights.permissions, ENTITY_LETTERS)
        }
        Need::Write(_, write) => {
            check_type('o')?;
            check_write(&rights.permissions, None, write)
        }
        Need::Transact(_, writes) => {
            check_type('o')?;
            check_writes(&rights.permissions, None, writes)
        }
        Need::Queue(need) => {
            let (letter, letters) = need.account_sas.ok_or(ErrorCode::AuthorizationFailure)?;
            check_type(letter)?;
            check_any(&rights.permissions, letters)
        }
    }
}

fn check_service_sas(
    rights: &ServiceSasRights,
    policy: Option<&SignedIdentifier>,
    command: &Command,
    now: DateTime,
) -> Result<(), ServiceError> {
    let limits = with_policy(rights, policy)?;
    check_times(limits.start, limits.expiry, now)?;
    let permissions = limits.permissions.unwrap_or_default();
    let check_table = |table: &TableName| match table.folded() == rights.resource {
        true => Ok(()),
        false => Err(ServiceError::new(ErrorCode::AuthorizationFailure)),
    };
    match need(command) {
        Need::Free => Ok(()),
        Need::Service(_) | Need::Container(_) | Need::Owner => Err(ErrorCode::AuthorizationFailure.into()),
        Need::Read(table, key) => {
            check_table(table)?;
            check_any(&permissions, "r")?;
            check_point_read(rights.key_limit.as_ref(), key)
        }
        Need::Probe(table) => {
            check_table(table)?;
            check_any(&permissions, ENTITY_LETTERS)
        }
        Need::Write(table, write) => {
            check_table(table)?;
            check_write(&permissions, rights.key_limit.as_ref(), write)
        }
        Need::Transact(table, writes) => {
            check_table(table)?;
            check_writes(&permissions, rights.key_limit.as_ref(), writes)
        }
        Need::Queue(need) => {
            let (queue, letters) = need.service_sas.ok_or(ErrorCode::AuthorizationFailure)?;
            if queue.as_str() != rights.resource {
                return Err(ErrorCode::AuthorizationFailure.into());
            }
            check_any(&permissions, letters)
        }
    }
}

/// The limits of the token together with those of its stored policy. Each limit comes from one of the two: a
/// token cannot widen what was stored, so the service refuses a limit that is in both.
fn with_policy(
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

fn check_any(permissions: &str, letters: Letters) -> Result<(), ServiceError> {
    match letters.chars().any(|letter| permissions.contains(letter)) {
        true => Ok(()),
        false => Err(ErrorCode::AuthorizationPermissionMismatch.into()),
    }
}

/// An entity outside the limit does not exist for the caller.
fn check_point_read(key_limit: Option<&KeyLimit>, key: Option<&EntityKey>) -> Result<(), ServiceError> {
    match (key_limit, key) {
        (Some(limit), Some(key)) if !limit.contains(key) => Err(ErrorCode::ResourceNotFound.into()),
        (_, _) => Ok(()),
    }
}

/// A write needs its letters and a key inside the limit.
fn check_write(
    permissions: &str,
    key_limit: Option<&KeyLimit>,
    write: &EntityWrite,
) -> Result<(), ServiceError> {
    if change_letters(&write.change).chars().any(|letter| !permissions.contains(letter)) {
        return Err(ErrorCode::AuthorizationPermissionMismatch.into());
    }
    match key_limit {
        Some(limit) if !limit.contains(&write.key) => Err(ErrorCode::AuthorizationFailure.into()),
        Some(_) | None => Ok(()),
    }
}

/// Every write of a transaction; the first that may not be done is named.
fn check_writes(
    permissions: &str,
    key_limit: Option<&KeyLimit>,
    writes: &[EntityWrite],
) -> Result<(), ServiceError> {
    for (index, write) in writes.iter().enumerate() {
        check_write(permissions, key_limit, write).map_err(|error| error.at_operation(index))?;
    }
    Ok(())
}
