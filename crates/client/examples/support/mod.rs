//! What every example shares: the account it works on.

use tavola_client::{Account, Result};

/// The account of `TAVOLA_CONNECTION_STRING`, or the development account on this machine.
pub fn account() -> Result<Account> {
    match std::env::var("TAVOLA_CONNECTION_STRING") {
        Ok(text) => Account::from_connection_string(&text),
        Err(_) => Account::development(),
    }
}
