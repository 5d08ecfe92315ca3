//! Accounts from the settings, and whether they may face the address that is asked for.

use std::net::IpAddr;

use anyhow::{Context, bail};
use tavola_auth::{Account, Accounts};

/// Reads `NAME:KEY[:KEY2];…`; nothing means the development account.
pub fn parse(text: &str) -> anyhow::Result<Accounts> {
    let parts: Vec<&str> = text.split(';').map(str::trim).filter(|part| !part.is_empty()).collect();
    let accounts = if parts.is_empty() {
        vec![Account::development()]
    } else {
        parts
            .into_iter()
            .map(Account::parse)
            .collect::<Result<Vec<_>, _>>()
            .context("cannot read the accounts")?
    };
    Accounts::new(accounts).context("cannot use the accounts")
}

/// Refuses to show an account with the public development key to a network.
pub fn check_exposure(accounts: &Accounts, host: IpAddr, allowed: bool) -> anyhow::Result<()> {
    if host.is_loopback() || allowed || !accounts.iter().any(Account::has_public_key) {
        return Ok(());
    }
    bail!(
        "refusing to listen on {host} with the development key, which everybody knows.\n\
         Give the server an account of its own:  --account NAME:KEY   (a key: openssl rand -base64 64)\n\
         or listen on this machine only:         --host 127.0.0.1\n\
         or, on a network you trust entirely:    --allow-public-development-key"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_development_key_stays_on_loopback_unless_told_otherwise() {
        let accounts = parse("").unwrap();
        let public: IpAddr = "0.0.0.0".parse().unwrap();
        assert!(check_exposure(&accounts, "127.0.0.1".parse().unwrap(), false).is_ok());
        assert!(check_exposure(&accounts, public, false).is_err());
        assert!(check_exposure(&accounts, public, true).is_ok());
        assert!(check_exposure(&parse("mine:c2VjcmV0").unwrap(), public, false).is_ok());
    }

    #[test]
    fn errors_name_the_account_and_never_the_key() {
        for text in ["UPPER:c2VjcmV0", "mine:not base64!", "mine", "mine:c2VjcmV0;mine:c2VjcmV0"] {
            let message = format!("{:#}", parse(text).unwrap_err());
            assert!(!message.contains("c2VjcmV0") && !message.contains("not base64"), "{message}");
        }
    }
}
