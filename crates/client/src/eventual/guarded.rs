//! A write of an entity with something derived from it elsewhere: intent, entity, derived data, intent gone.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{After, Derived, Envelope, Intent, Intents, Rules, Settle, Target, settle};
use crate::error::{Error, Result};
use crate::key::EntityKey;
use crate::options::WriteOptions;
use crate::queue::Lease;

/// The queue of a kind of derived data.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) intents: Intents,
    pub(crate) kind: String,
}

impl Guard {
    /// Writes an entity by `write` and what is derived from it. `write` gives the entity as it is then.
    pub(crate) async fn write<D, T>(
        &self,
        derived: &D,
        owner: EntityKey,
        targets: BTreeSet<Target>,
        how: Settle,
        write: impl AsyncFnOnce(WriteOptions) -> Result<T>,
        known: impl FnOnce(&T) -> Option<(String, D::Source)>,
    ) -> Result<T>
    where
        D: Derived + Clone + Send + 'static,
    {
        let mut intent = Intent { owner, targets, unique: () };
        let body = serde_json::to_value(&intent).map_err(|error| Error::Step(error.to_string()))?;
        let lease = self.intents.put(&self.kind, body, self.intents.lease()).await?;
        let written = match write(Rules::default().within(&lease)?).await {
            Ok(written) => written,
            Err(error) => {
                if !matches!(error, Error::OutcomeUnknown { .. } | Error::LeaseLost) {
                    // Nothing was written, so nothing is to be settled; what fails here, a worker finds.
                    let _ = lease.delete().await;
                }
                return Err(error);
            }
        };
        let known = known(&written);
        match how {
            Settle::Wait => self.finish(derived, &mut intent, &lease, Some(known)).await?,
            Settle::Behind => {
                let (guard, derived) = (self.clone(), derived.clone());
                // What this task does not finish, a worker does.
                tokio::spawn(async move { guard.finish(&derived, &mut intent, &lease, Some(known)).await });
            }
            Settle::Worker => {}
        }
        Ok(written)
    }

    /// Settles an entity again, with these targets beside those that it should have.
    pub(crate) async fn repair<D: Derived>(
        &self,
        derived: &D,
        owner: EntityKey,
        targets: BTreeSet<Target>,
    ) -> Result<()> {
        let mut intent = Intent { owner, targets, unique: () };
        let body = serde_json::to_value(&intent).map_err(|error| Error::Step(error.to_string()))?;
        let lease = self.intents.put(&self.kind, body, self.intents.lease()).await?;
        self.finish(derived, &mut intent, &lease, None).await
    }

    async fn finish<D: Derived>(
        &self,
        derived: &D,
        intent: &mut Intent,
        lease: &Lease,
        known: Option<Option<(String, D::Source)>>,
    ) -> Result<()> {
        match self.settle(derived, intent, lease, known).await {
            // A worker has taken over.
            Err(Error::LeaseLost) => return Ok(()),
            settled => settled?,
        }
        match lease.delete().await {
            Err(Error::LeaseLost) => Ok(()),
            deleted => deleted,
        }
    }

    async fn settle<D: Derived>(
        &self,
        derived: &D,
        intent: &mut Intent,
        lease: &Lease,
        known: Option<Option<(String, D::Source)>>,
    ) -> Result<()> {
        let rename = |intent: &Intent| {
            let body = serde_json::to_value(intent).map_err(|error| Error::Step(error.to_string()))?;
            Envelope { kind: self.kind.clone(), body }.text()
        };
        settle(derived, intent, lease, self.intents.lease(), Rules::default(), known, rename).await
    }

    /// Settles an intent that a worker got.
    pub(crate) async fn serve<D: Derived>(&self, derived: &D, body: &Value, lease: &Lease) -> Result<After> {
        let mut intent: Intent =
            serde_json::from_value(body.clone()).map_err(|error| Error::Step(error.to_string()))?;
        self.settle(derived, &mut intent, lease, None).await?;
        Ok(After::Delete)
    }
}
