//! Messages put back from a poison queue into the one they were given up in.
//!
//! A message is in the queue before it leaves the poison queue, hidden until it has: nobody gets it twice, and it is
//! lost at no point. Where it cannot leave, because somebody else has taken it meanwhile, the copy is removed again.

use std::collections::HashSet;

use serde_json::{Value, json};
use tavola_auth::Account;
use tavola_model::{
    Command, ErrorCode, MessageRef, Outcome, PutMessage, QueueCommand, QueueName, QueueOutcome, ServiceError,
    StorageService, UpdateMessage,
};
use tavola_service::InspectedMessage;

use crate::api::Asked;

/// Messages that are looked at in one go.
const LOOK_MAX: usize = 200;
/// Messages that one request moves.
const MOVED_MAX: u64 = 100_000;
/// For how long a message is hidden at most while it is in both queues.
const HIDDEN_SECONDS: u32 = 60;
/// As long as a message lives that says nothing about it.
const LIFE_SECONDS: u32 = 7 * 24 * 60 * 60;

impl Asked<'_> {
    /// Moves messages `from` one queue `to` another: those whose `ids` are given, else all. Answers how many were moved,
    /// how many were left, and why the first of these was.
    pub async fn put_back(&self, wanted: &Value) -> Result<Value, ServiceError> {
        let text = |name: &str| wanted.get(name).and_then(Value::as_str).unwrap_or_default();
        let account = self.account(text("account"))?;
        let (from, to) = (QueueName::parse(text("from"))?, QueueName::parse(text("to"))?);
        if from == to {
            return Err(ErrorCode::InvalidInput.into());
        }
        let ids = wanted.get("ids").and_then(Value::as_array);
        let ids: Option<HashSet<&str>> = ids.map(|ids| ids.iter().filter_map(Value::as_str).collect());
        let (mut moved, mut left, mut failure) = (0_u64, 0_u64, None);
        let mut seen = HashSet::new();
        while moved < MOVED_MAX {
            let found =
                self.console.inner.parts.service.inspect_queue(account.name(), &from, LOOK_MAX).await?;
            let new: Vec<_> = found.into_iter().filter(|found| seen.insert(found.message.id)).collect();
            if new.is_empty() {
                break;
            }
            for found in new {
                if ids.as_ref().is_some_and(|ids| !ids.contains(found.message.id.to_string().as_str())) {
                    continue;
                }
                match self.move_message(&account, &from, &to, &found).await {
                    Ok(()) => moved += 1,
                    Err(error) => {
                        left += 1;
                        failure.get_or_insert(error.message.to_string());
                    }
                }
            }
        }
        Ok(json!({ "moved": moved, "left": left, "failure": failure }))
    }

    async fn move_message(
        &self,
        account: &Account,
        from: &QueueName,
        to: &QueueName,
        found: &InspectedMessage,
    ) -> Result<(), ServiceError> {
        let execute = |command| self.execute(account, StorageService::Queue, Command::Queue(command));
        let put = PutMessage {
            queue: to.clone(),
            text: found.message.text.clone(),
            hidden_seconds: HIDDEN_SECONDS,
            life_seconds: Some(LIFE_SECONDS),
        };
        let Outcome::Queue(QueueOutcome::MessagePut(copy, hold)) =
            execute(QueueCommand::PutMessage(put)).await?
        else {
            return Err(ErrorCode::InternalError.into());
        };
        let copy = MessageRef { queue: to.clone(), id: Some(copy.id), receipt: Some(hold.receipt) };
        let old =
            MessageRef { queue: from.clone(), id: Some(found.message.id), receipt: Some(found.hold.receipt) };
        if let Err(error) = execute(QueueCommand::DeleteMessage(old)).await {
            execute(QueueCommand::DeleteMessage(copy)).await?;
            return Err(error);
        }
        // Where this fails it is seen when its time is over.
        let _ = execute(QueueCommand::UpdateMessage(UpdateMessage {
            message: copy,
            hidden_seconds: 0,
            text: None,
        }))
        .await;
        Ok(())
    }
}
