//! The one engine for all derived data: index copies, lists, embedded properties.
//!
//! An intent names an entity and every target where something derived from it may be. Settling reads the entity as it is
//! now, writes what should be, removes what should not, and looks again; so any number of attempts that died converge,
//! and no log of changes is kept. The rules, each of which the model in `converge` shows to be needed:
//!
//! 1. the intent is in the queue before the first write;
//! 2. a target is named in the intent before it is written;
//! 3. nothing is written after the lease of the intent ran out;
//! 4. the entity is read again after the last write; if it changed, all over.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::key::EntityKey;
use crate::options::WriteOptions;
use crate::queue::Lease;

/// What is derived from one entity, and how it is written.
pub(crate) trait Derived: Sync {
    /// The entity as it was read.
    type Source: Send + Sync;

    /// Reads the entity: its tag and what it is; `None` where there is none.
    fn read(&self, owner: &EntityKey) -> impl Future<Output = Result<Option<(String, Self::Source)>>> + Send;

    /// Where something should be.
    fn wanted(&self, source: &Self::Source) -> Result<Vec<Target>>;

    /// Makes it be there as the entity says, within the options' deadline.
    fn put(
        &self,
        target: &Target,
        source: &Self::Source,
        options: &WriteOptions,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Makes nothing of this owner be there, within the options' deadline.
    fn remove(
        &self,
        target: &Target,
        owner: &EntityKey,
        options: &WriteOptions,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// A target where something derived may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Target {
    /// Which index, list or holder.
    pub(crate) of: String,
    pub(crate) key: EntityKey,
}

/// What an intent says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Intent<U = ()> {
    pub(crate) owner: EntityKey,
    /// Everything that may have been written.
    pub(crate) targets: BTreeSet<Target>,
    /// What a unique index needs beside.
    pub(crate) unique: U,
}

/// Which rules are kept: all, but in the model that shows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) intent_first: bool,
    pub(crate) name_first: bool,
    pub(crate) lease: bool,
    pub(crate) look_again: bool,
    pub(crate) fence: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { intent_first: true, name_first: true, lease: true, look_again: true, fence: true }
    }
}

impl Rules {
    /// Rule 3: refuses where the lease ran out, and gives the options of a write that ends with it.
    pub(crate) fn within(self, lease: &Lease) -> Result<WriteOptions> {
        if !self.lease {
            return Ok(WriteOptions::default());
        }
        lease.still_mine()?;
        Ok(WriteOptions { deadline: Some(lease.left()), ..WriteOptions::default() })
    }
}

/// Settles an intent. `known` is the entity if the caller has just written it. `rename` is the text of the intent with
/// more targets in it.
pub(crate) async fn settle<D: Derived, U: Clone>(
    derived: &D,
    intent: &mut Intent<U>,
    lease: &Lease,
    hidden: Duration,
    rules: Rules,
    known: Option<Option<(String, D::Source)>>,
    rename: impl Fn(&Intent<U>) -> Result<String>,
) -> Result<()> {
    let owner = intent.owner.clone();
    let mut now = match known {
        Some(known) => known,
        None => derived.read(&owner).await?,
    };
    loop {
        let wanted = now.as_ref().map(|(_, source)| derived.wanted(source)).transpose()?.unwrap_or_default();
        let mut named = intent.clone();
        named.targets.extend(wanted.iter().cloned());
        if named.targets != intent.targets {
            if rules.name_first {
                lease.rewrite(&rename(&named)?, hidden).await?;
            }
            *intent = named;
        }
        if let Some((_, source)) = &now {
            let puts = wanted
                .iter()
                .map(|target| async move { derived.put(target, source, &rules.within(lease)?).await });
            try_join_all(puts).await?;
        }
        let unwanted = intent.targets.iter().filter(|target| !wanted.contains(target));
        let owner_key = &owner;
        let removals = unwanted
            .map(|target| async move { derived.remove(target, owner_key, &rules.within(lease)?).await });
        try_join_all(removals).await?;
        if !rules.look_again {
            return Ok(());
        }
        let again = derived.read(&owner).await?;
        if again.as_ref().map(|(etag, _)| etag) == now.as_ref().map(|(etag, _)| etag) {
            return Ok(());
        }
        now = again;
    }
}
