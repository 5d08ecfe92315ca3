//! What can be asked of the services. Each service has its own commands in its own folder; here is what all of
//! them answer, and the sum. A command is complete and valid: whatever it holds was checked when it was decoded.

use crate::{
    BlobCommand, ContainerName, QueueCommand, QueueName, ServicePropertiesPatch, TableCommand, TableName,
};

/// A decoded request.
#[derive(Clone, Debug)]
pub enum Command {
    /// For the service as a whole; every service of an account has the same.
    Account(AccountCommand),
    /// For the table service.
    Table(TableCommand),
    /// For the queue service.
    Queue(QueueCommand),
    /// For the blob service. Boxed: it is the largest, and the others are moved as often.
    Blob(Box<BlobCommand>),
}

/// A request about a service of an account, not about anything kept in it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum AccountCommand {
    GetServiceProperties,
    SetServiceProperties(Box<ServicePropertiesPatch>),
    GetServiceStats,
    PreflightRequest(Preflight),
}

impl Command {
    /// Whether it changes anything; such a command is refused on the secondary endpoint.
    pub fn writes(&self) -> bool {
        match self {
            Self::Account(command) => command.writes(),
            Self::Table(command) => command.writes(),
            Self::Queue(command) => command.writes(),
            Self::Blob(command) => command.writes(),
        }
    }

    /// Whether its answer cannot be asked for a second time: messages that were handed out are hidden.
    pub fn answers_once(&self) -> bool {
        matches!(self, Self::Queue(QueueCommand::GetMessages(_)))
    }

    /// Its name in logs and metrics: the service's own word for the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Account(command) => command.name(),
            Self::Table(command) => command.name(),
            Self::Queue(command) => command.name(),
            Self::Blob(command) => command.name(),
        }
    }

    /// The table, queue or container it names, if it names one.
    pub fn resource(&self) -> Option<&str> {
        match self {
            Self::Account(_) => None,
            Self::Table(command) => command.table().map(TableName::as_str),
            Self::Queue(command) => command.queue().map(QueueName::as_str),
            Self::Blob(command) => command.container().map(ContainerName::as_str),
        }
    }
}

impl AccountCommand {
    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        match self {
            Self::SetServiceProperties(_) => true,
            Self::GetServiceProperties | Self::GetServiceStats | Self::PreflightRequest(_) => false,
        }
    }

    /// Its name in logs and metrics: the service's own word for the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::GetServiceProperties => "GetServiceProperties",
            Self::SetServiceProperties(_) => "SetServiceProperties",
            Self::GetServiceStats => "GetServiceStats",
            Self::PreflightRequest(_) => "PreflightRequest",
        }
    }
}

impl From<AccountCommand> for Command {
    fn from(command: AccountCommand) -> Self {
        Self::Account(command)
    }
}

impl From<TableCommand> for Command {
    fn from(command: TableCommand) -> Self {
        Self::Table(command)
    }
}

impl From<QueueCommand> for Command {
    fn from(command: QueueCommand) -> Self {
        Self::Queue(command)
    }
}

impl From<BlobCommand> for Command {
    fn from(command: BlobCommand) -> Self {
        Self::Blob(Box::new(command))
    }
}

/// What a browser asks before it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preflight {
    /// `Origin`.
    pub origin: String,
    /// `Access-Control-Request-Method`.
    pub method: String,
    /// `Access-Control-Request-Headers`, split.
    pub headers: Vec<String>,
}
