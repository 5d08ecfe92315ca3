//! May they begin: what the head of a request alone settles, before memory is reserved for its body.
//!
//! A command is authorized when it is decoded, in `authorize`. But a body takes memory and time, and often the head
//! already says that the caller's token is not enough. What is refused here, `authorize` would refuse too, with the
//! same code; what passes here is still to be authorized.

use tavola_model::{DateTime, EntityKey, ErrorCode, ServiceError, SignedIdentifier};

use crate::access::Access;
use crate::authenticate::{AccountSasRights, Caller, Rights, ServiceSasRights, check_times};
use crate::authorize::with_policy;
use crate::needs::HeadOperation;
use crate::sas::BlobScope;

/// What a request with a body will need of a token, as far as its head tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadNeed<'a> {
    /// A letter of the resource types, and permissions; `None` if no token for the account is enough.
    pub account_sas: Option<(char, Permissions)>,
    /// What a token for one resource must have; `None` if none is enough.
    pub service_sas: Option<ResourceNeed<'a>>,
}

/// What a token for one table or queue must have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceNeed<'a> {
    /// The table in lower case, the queue, or the container and the blob; `None` where only the body names it.
    pub resource: Option<&'a str>,
    /// Its permissions.
    pub permissions: Permissions,
    /// The entity, where the head names one.
    pub key: Option<&'a EntityKey>,
}

/// Permission letters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Permissions {
    /// One of them is enough.
    Any(&'static str),
    /// Every one is needed.
    All(&'static str),
}

impl Permissions {
    fn check(self, given: &str) -> Result<(), ServiceError> {
        let is_enough = match self {
            Self::Any(letters) => letters.chars().any(|letter| given.contains(letter)),
            Self::All(letters) => letters.chars().all(|letter| given.contains(letter)),
        };
        if is_enough { Ok(()) } else { Err(ErrorCode::AuthorizationPermissionMismatch.into()) }
    }
}

/// Refuses a request whose token cannot be enough, whatever the body says. `policy` is the stored policy that
/// `Caller::stored_policy` asks for.
pub fn admit(
    caller: &Caller,
    policy: Option<&SignedIdentifier>,
    operation: HeadOperation<'_>,
    now: DateTime,
) -> Result<(), ServiceError> {
    let need = &HeadNeed::of(operation);
    match &caller.rights {
        Rights::Owner | Rights::Anonymous | Rights::Public(_) => Ok(()),
        Rights::AccountSas(rights) => admit_account_sas(rights, need),
        Rights::ServiceSas(rights) => admit_service_sas(rights, policy, need, now),
        // Lists of access policies, which only owners may write, have an answer of their own for bearers.
        Rights::Bearer(access, _) if need.account_sas.is_some() && *access < Access::Write => {
            Err(ErrorCode::AuthorizationPermissionMismatch.into())
        }
        Rights::Bearer(..) => Ok(()),
    }
}

fn admit_account_sas(rights: &AccountSasRights, need: &HeadNeed<'_>) -> Result<(), ServiceError> {
    if !rights.services.contains(rights.service.letter()) {
        return Err(ErrorCode::AuthorizationServiceMismatch.into());
    }
    let (resource_type, permissions) = need.account_sas.ok_or(ErrorCode::AuthorizationFailure)?;
    if !rights.resource_types.contains(resource_type) {
        return Err(ErrorCode::AuthorizationResourceTypeMismatch.into());
    }
    permissions.check(&rights.permissions)
}

/// Whether a token is about a resource: itself, or for a container what is in it.
fn is_of(rights: &ServiceSasRights, resource: &str) -> bool {
    let container = resource.split('/').next().unwrap_or(resource);
    match rights.blob_scope {
        Some(BlobScope::Container) => rights.resource == container,
        Some(_) | None => rights.resource == resource,
    }
}

fn admit_service_sas(
    rights: &ServiceSasRights,
    policy: Option<&SignedIdentifier>,
    need: &HeadNeed<'_>,
    now: DateTime,
) -> Result<(), ServiceError> {
    let limits = with_policy(rights, policy)?;
    check_times(limits.start, limits.expiry, now)?;
    let need = need.service_sas.ok_or(ErrorCode::AuthorizationFailure)?;
    if need.resource.is_some_and(|resource| !is_of(rights, resource)) {
        return Err(ErrorCode::AuthorizationFailure.into());
    }
    need.permissions.check(&limits.permissions.unwrap_or_default())?;
    match (&rights.key_limit, need.key) {
        (Some(limit), Some(key)) if !limit.contains(key) => Err(ErrorCode::AuthorizationFailure.into()),
        (_, _) => Ok(()),
    }
}
