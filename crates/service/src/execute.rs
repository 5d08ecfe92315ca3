//! Each command to the service it is for.

use std::sync::Arc;

use tavola_auth::KeyLimit;
use tavola_engine::ByteSource;
use tavola_model::{
    AccountCommand, AccountName, AccountOutcome, Command, ErrorCode, Outcome, ServiceStats, StorageService,
};

use crate::catalog::to_its_end;
use crate::cors;
use crate::failure::Failure;
use crate::service::{AnswerBudget, Executed, Service};

/// What comes with a command.
pub(crate) struct Sent<'a> {
    /// The bytes that its client sends.
    pub upload: Option<&'a mut dyn ByteSource>,
    /// Whether it may replace what is there.
    pub overwrites: Overwrites,
    /// Memory for a page.
    pub budget: Option<Arc<dyn AnswerBudget>>,
}

/// Whether a blob that is there may be replaced: some tokens are for new ones only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrites {
    Allowed,
    Refused,
}

impl Service {
    pub(crate) async fn execute_command(
        &self,
        account: &AccountName,
        service: StorageService,
        command: Command,
        limit: Option<&KeyLimit>,
        budget: Option<Arc<dyn AnswerBudget>>,
        sent: Sent<'_>,
    ) -> Result<Executed, Failure> {
        // All but tables are boxed: a request of one service does not carry what another needs.
        let outcome = match command {
            Command::Account(command) => {
                Box::pin(self.execute_account(account, service, command)).await.map(Outcome::Account)
            }
            Command::Table(command) => {
                self.tables.execute(account, command, limit, budget).await.map(Outcome::Table)
            }
            Command::Queue(command) => {
                Box::pin(self.queues.execute(account, command)).await.map(Outcome::Queue)
            }
            Command::Blob(command) => {
                let blobs = self.blobs.as_ref().ok_or(ErrorCode::NotImplemented)?;
                let (outcome, download) = Box::pin(blobs.execute(account, *command, sent)).await?;
                return Ok(Executed { outcome: Outcome::Blob(Box::new(outcome)), download });
            }
        };
        Ok(Executed { outcome: outcome?, download: None })
    }

    async fn execute_account(
        &self,
        account: &AccountName,
        service: StorageService,
        command: AccountCommand,
    ) -> Result<AccountOutcome, Failure> {
        match command {
            AccountCommand::GetServiceProperties => {
                let properties = self.properties.get(account, service).await?.properties.clone();
                Ok(AccountOutcome::ServicePropertiesFetched(Box::new(properties)))
            }
            AccountCommand::SetServiceProperties(patch) => {
                let (properties, account) = (self.properties.clone(), account.clone());
                to_its_end(async move { properties.patch(&account, service, &patch).await }).await?;
                Ok(AccountOutcome::ServicePropertiesSet)
            }
            // The secondary endpoint reads the same store, so it is never behind.
            AccountCommand::GetServiceStats => {
                Ok(AccountOutcome::ServiceStatsFetched(ServiceStats { last_sync: self.clock.now() }))
            }
            AccountCommand::PreflightRequest(preflight) => {
                let rules = self.properties.get(account, service).await?.cors_rules.clone();
                Ok(cors::answer_preflight(&rules, preflight).map(AccountOutcome::PreflightAllowed)?)
            }
        }
    }
}
