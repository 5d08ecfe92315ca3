//! What each operation needs of a caller who does not hold the account key; a table for each service.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-table>,
//! <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#account-sas-permissions-by-operation>.

pub(crate) mod blob;
mod queue;
mod table;

use tavola_model::{AccountCommand, Command, EntityKey, EntityWrite, ErrorCode, QueueName, TableName};

use self::blob::BlobNeed;
pub(crate) use self::table::change_letters;
use crate::access::Access;
use crate::admit::{HeadNeed, Permissions, ResourceNeed};

/// The letter of an account SAS that sets what holds for a whole service.
const SET_SERVICE: &str = "w";

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
    /// What is written: each needs every one of its letters (`change_letters`).
    pub writes: &'a [EntityWrite],
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
    /// Only bearers of tokens may: it gives them a key of their own, and whoever owns the account has one.
    pub issues_key: bool,
    /// Replaces what is there, which takes the letter `w` of a token, and more than making something new.
    pub replaces: bool,
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
            AccountCommand::SetServiceProperties(_) => Self::account('s', SET_SERVICE),
        }
    }

    /// What the others start from: no SAS is enough, a bearer must be able to read.
    fn base() -> Self {
        Self {
            account_sas: None,
            service_sas: None,
            bearer: Bearer::Needs(Access::Read),
            read: None,
            writes: &[],
            is_transaction: false,
            is_free: false,
            blob: None,
            is_for_any_token: false,
            all_of: "",
            issues_key: false,
            replaces: false,
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

/// An operation that takes a body, as far as the head of its request names it.
#[derive(Clone, Copy, Debug)]
pub enum HeadOperation<'a> {
    /// Set Table or Queue Service Properties.
    SetServiceProperties,
    /// Set Table or Queue ACL.
    SetAcl,
    /// Create Table.
    CreateTable,
    /// An entity group transaction: only its body says of which table, and what is written.
    TransactEntities,
    /// Insert Entity.
    InsertEntity(&'a TableName),
    /// Update or Merge Entity. Without a condition, which the head has too, it may also insert, and needs more.
    ChangeEntity(&'a TableName, &'a EntityKey),
    /// Put Message.
    PutMessage(&'a QueueName),
    /// Update Message.
    UpdateMessage(&'a QueueName),
}

impl<'a> HeadNeed<'a> {
    /// What an operation needs of a token at least, whatever its body says. The letters are those of `Need::of`.
    pub fn of(operation: HeadOperation<'a>) -> Self {
        match operation {
            HeadOperation::SetServiceProperties => Self::account('s', SET_SERVICE),
            HeadOperation::SetAcl => Self { account_sas: None, service_sas: None },
            HeadOperation::CreateTable => Self::account('c', table::CREATE_TABLE),
            HeadOperation::TransactEntities => {
                Self::objects(None, Permissions::Any(table::ENTITY_LETTERS), None)
            }
            HeadOperation::InsertEntity(table) => {
                Self::objects(Some(table.folded()), Permissions::All(table::INSERT), None)
            }
            HeadOperation::ChangeEntity(table, key) => {
                Self::objects(Some(table.folded()), Permissions::All(table::UPDATE), Some(key))
            }
            HeadOperation::PutMessage(queue) => {
                Self::objects(Some(queue.as_str()), Permissions::Any(queue::PUT_MESSAGE), None)
            }
            HeadOperation::UpdateMessage(queue) => {
                Self::objects(Some(queue.as_str()), Permissions::Any(queue::UPDATE_MESSAGE), None)
            }
        }
    }

    fn account(resource_type: char, letters: &'static str) -> Self {
        Self { account_sas: Some((resource_type, Permissions::Any(letters))), service_sas: None }
    }

    fn objects(resource: Option<&'a str>, permissions: Permissions, key: Option<&'a EntityKey>) -> Self {
        Self {
            account_sas: Some(('o', permissions)),
            service_sas: Some(ResourceNeed { resource, permissions, key }),
        }
    }
}
