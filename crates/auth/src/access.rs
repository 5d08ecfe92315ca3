//! What the bearer of a token may do, and who says so.
//!
//! Verifying tokens takes a library for them, which a client that only signs does not need: the one verifier there is,
//! `TokenIssuer`, comes with the feature `oidc`.

use std::fmt::Debug;

use tavola_model::{DateTime, ErrorCode, ServiceError, StorageService};

use crate::delegation::TokenSubject;
use crate::needs::{Bearer, Need};

/// Believes tokens or refuses them.
pub trait TokenVerifier: Debug + Send + Sync {
    /// What the bearer of a token may do with a service; a token that is not believed is refused.
    fn check(&self, service: StorageService, token: &str, now: DateTime) -> Result<Access, ServiceError>;

    /// Who the bearer of a token is that `check` believes; `None` where tokens do not say.
    fn subject(&self, _token: &str) -> Option<TokenSubject> {
        None
    }
}

/// What a bearer may do with the service it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The token is good, but no role of it is about this service.
    None,
    /// Reader.
    Read,
    /// Contributor.
    Write,
}

impl Access {
    /// Holds the need of a command against the roles.
    pub(crate) fn check(self, need: &Need<'_>) -> Result<(), ServiceError> {
        match need.bearer {
            Bearer::Refused(code) => Err(code.into()),
            Bearer::Needs(needed) if self >= needed => Ok(()),
            Bearer::Needs(_) => Err(ErrorCode::AuthorizationPermissionMismatch.into()),
        }
    }
}
