//! The accounts of a running server, which can change while it runs.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tavola_auth::Accounts;

/// Accounts that can be replaced as a whole; a request sees one set from its start to its end.
#[derive(Debug)]
pub struct LiveAccounts {
    current: ArcSwap<Accounts>,
}

impl LiveAccounts {
    /// Starts with these.
    pub fn new(accounts: Accounts) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(accounts) })
    }

    /// The accounts of now.
    pub fn current(&self) -> Guard<Arc<Accounts>> {
        self.current.load()
    }

    /// From the next request on, these.
    pub fn replace(&self, accounts: Accounts) {
        self.current.store(Arc::new(accounts));
    }
}
