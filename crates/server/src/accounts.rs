//! Accounts from the settings and from the data folder, and whether they may face the address asked for.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use tavola_auth::{Account, Accounts, TokenIssuer};

use crate::account_file::AccountFile;
use crate::settings::Values;

/// Where the accounts of a running server come from.
pub struct AccountSource {
    /// The settings.
    pub values: Arc<Values>,
    /// The address that they face.
    pub host: IpAddr,
    /// The data folder.
    pub data_dir: PathBuf,
    /// Whose tokens open them beside their keys.
    pub issuer: Option<Arc<TokenIssuer>>,
}

impl AccountSource {
    /// The accounts to serve: those of the settings and those of the data folder. Where the settings name none,
    /// the development account is there too, on a loopback address or where there would be none at all.
    pub fn gather(&self) -> anyhow::Result<Accounts> {
        let mut accounts = parse(self.values.text("account"))?;
        let kept = AccountFile::read(&self.data_dir)?.accounts()?;
        if accounts.is_empty() && (self.host.is_loopback() || kept.is_empty()) {
            accounts.push(Account::development());
        }
        accounts.extend(kept);
        let accounts = Accounts::new(accounts).context("cannot use the accounts")?;
        check_exposure(&accounts, self.host, self.values.switch("allow-public-development-key")?)?;
        Ok(match &self.issuer {
            Some(issuer) => accounts.with_issuer(issuer.clone()),
            None => accounts,
        })
    }
}

/// Reads `NAME:KEY[:KEY2];…`.
pub fn parse(text: &str) -> anyhow::Result<Vec<Account>> {
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    parts.map(Account::parse).collect::<Result<_, _>>().context("cannot read the accounts")
}

/// Refuses to show an account with the public development key to a network.
fn check_exposure(accounts: &Accounts, host: IpAddr, allowed: bool) -> anyhow::Result<()> {
    if host.is_loopback() || allowed || !accounts.iter().any(Account::has_public_key) {
        return Ok(());
    }
    bail!(
        "refusing to listen on {host} with the development key, which everybody knows.\n\
         Give the server an account of its own:  tavola account add NAME\n\
         or listen on this machine only:         --host 127.0.0.1\n\
         or, on a network you trust entirely:    --allow-public-development-key"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_development_key_stays_on_loopback_unless_told_otherwise() {
        let accounts = Accounts::new(vec![Account::development()]).unwrap();
        let public: IpAddr = "0.0.0.0".parse().unwrap();
        assert!(check_exposure(&accounts, "127.0.0.1".parse().unwrap(), false).is_ok());
        assert!(check_exposure(&accounts, public, false).is_err());
        assert!(check_exposure(&accounts, public, true).is_ok());
        let own = Accounts::new(parse("mine:c2VjcmV0").unwrap()).unwrap();
        assert!(check_exposure(&own, public, false).is_ok());
    }

    #[test]
    fn errors_name_the_account_and_never_the_key() {
        for text in ["UPPER:c2VjcmV0", "mine:*hidden*", "mine"] {
            let message = format!("{:#}", parse(text).unwrap_err());
            assert!(!message.contains("c2VjcmV0") && !message.contains("hidden"), "{message}");
        }
    }
}
