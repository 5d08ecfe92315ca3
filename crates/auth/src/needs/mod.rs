//! What each operation needs of a caller who does not hold the account key; a table for each service.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-table>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation>.

pub(crate) mod blob;
mod queue;
mod table;

use tavola_model::{AccountCommand, Command, EntityKey, ErrorCode};

use self::blob::BlobNeed;
use crate::access::Access;

/// What a token must say.
#[derive(Clone, Debug)]
pub(crate) struct Need<'a> {
    /// The letter of a resource type and the permissions, for an account SAS; `None` where none is enough.
    pub account_sas: Option<(char, Letters)>,
    /// The resource (a table in lower case) and the permissions, for a service SAS; `None` where none is enough.
    pub service_sas: Option<(&'a str, Letters)>,
    /// What the roles of a bearer token must open.
    pub bearer: Bearer,
    /// The entity that is read by its key.
    pub read: Option<&'a EntityKey>,
    /// The entities that are written, each with the letters of which it needs every one.
    pub writes: Vec<(&'a EntityKey, &'static str)>,
    /// Whether the position of a write that is refused is told.
    pub is_transaction: bool,
    /// Nothing is needed, not even an account.
    pub is_free: bool,
    /// What a token for a container or a blob must say; `None` where none is enough.
    pub blob: Option<BlobNeed<'a>>,
    /// Any token is enough.
    pub is_for_any_token: bool,
    /// Letters that are needed besides, every one.
    pub all_of: &'static str,
}

/// What a command needs of the bearer of a token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bearer {
    /// A role with this access.
    Needs(Access),
    /// No role is enough.
    Refused(ErrorCode),
}

/// Which permission letters an operation needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Letters {
    /// One of these.
    AnyOf(&'static str),
    /// Those of each write.
    OfWrites,
}

impl<'a> Need<'a> {
    /// Of the command.
    pub fn of(command: &'a Command) -> Self {
        let mut need = match command {
            Command::Account(command) => Self::of_account(command),
            Command::Table(command) => table::need(command),
            Command::Queue(command) => queue::need(command),
            Command::Blob(command) => blob::need(command),
        };
        if command.writes() && matches!(need.bearer, Bearer::Needs(_)) {
            need.bearer = Bearer::Needs(Access::Write);
        }
        need
    }

    fn of_account(command: &AccountCommand) -> Self {
        match command {
            AccountCommand::PreflightRequest(_) => {
                Self { is_free: true, bearer: Bearer::Needs(Access::None), ..Self::base() }
            }
            // What is set for a whole service is left to those who may write.
            AccountCommand::GetServiceProperties => {
                Self { bearer: Bearer::Needs(Access::Write), ..Self::account('s', "r") }
            }
            AccountCommand::GetServiceStats => Self::account('s', "r"),
            AccountCommand::SetServiceProperties(_) => Self::account('s', "w"),
        }
    }

    /// What the others start from: no SAS is enough, a bearer must be able to read.
    fn base() -> Self {
        Self {
            account_sas: None,
            service_sas: None,
            bearer: Bearer::Needs(Access::Read),
            read: None,
            writes: Vec::new(),
            is_transaction: false,
            is_free: false,
            blob: None,
            is_for_any_token: false,
            all_of: "",
        }
    }

    /// Only the account's owner: lists of access policies do not exist for bearers of tokens.
    fn owner_alone(refusal: ErrorCode) -> Self {
        Self { bearer: Bearer::Refused(refusal), ..Self::base() }
    }

    /// An account SAS with one of these letters; never a service SAS.
    fn account(resource_type: char, letters: &'static str) -> Self {
        Self { account_sas: Some((resource_type, Letters::AnyOf(letters))), ..Self::base() }
    }

    /// An account SAS with one of these letters, or a service SAS for this resource with one of its own.
    fn either(account_sas: (char, &'static str), service_sas: (&'a str, &'static str)) -> Self {
        Self {
            account_sas: Some((account_sas.0, Letters::AnyOf(account_sas.1))),
            service_sas: Some((service_sas.0, Letters::AnyOf(service_sas.1))),
            ..Self::base()
        }
    }
}
