//! The accounts of a running server, which can change while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use tavola_auth::Accounts;

/// Accounts that can be replaced as a whole; a request sees one set from its start to its end.
#[derive(Debug)]
pub struct LiveAccounts {
    current: RwLock<Arc<Accounts>>,
}

impl LiveAccounts {
    /// Starts with these.
    pub fn new(accounts: Accounts) -> Arc<Self> {
        Arc::new(Self { current: RwLock::new(Arc::new(accounts)) })
    }

    /// The accounts of now.
    pub fn current(&self) -> Arc<Accounts> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From the next request on, these.
    pub fn replace(&self, accounts: Accounts) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(accounts);
    }
}
