//! Accounts from the settings and from the data folder, and whether they may face the address asked for.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use tavola_auth::{Account, Accounts, DEVELOPMENT_ACCOUNT, TokenIssuer};

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
    /// The accounts to serve: those of the settings, those of the data folder, and the development account if it is
    /// wanted. Its key is public, so beside others it has to be asked for: a proxy on the same machine would show it
    /// to a network.
    pub fn gather(&self) -> anyhow::Result<Accounts> {
        let mut accounts = parse(self.values.text("account"))?;
        accounts.extend(AccountFile::read(&self.data_dir)?.accounts()?);
        let has_its_name = accounts.iter().any(|account| account.name().as_str() == DEVELOPMENT_ACCOUNT);
        let is_wanted = match self.values.word("development-account", &["on", "off", "auto"])? {
            "on" => !has_its_name,
            "off" => false,
            _ => accounts.is_empty(),
        };
        if is_wanted {
            accounts.push(Account::development());
        }
        if accounts.is_empty() {
            bail!(
                "there is no account to serve, and --development-account is off.\n\
                 Add one:  tavola account add NAME"
            );
        }
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

/// What to say at the start about the development account beside others; nothing without others.
pub fn development_note(accounts: &Accounts) -> Option<&'static str> {
    let is_public = |account: &Account| account.has_public_key();
    match (accounts.iter().any(is_public), accounts.iter().any(|account| !is_public(account))) {
        (true, true) => Some("served beside the others: everybody knows its key (--development-account off)"),
        (false, _) => Some("not served: there are other accounts (--development-account on)"),
        (true, false) => None,
    }
}

/// Refuses to show an account with the public development key to a network.
fn check_exposure(accounts: &Accounts, host: IpAddr, allowed: bool) -> anyhow::Result<()> {
    if host.is_loopback() || allowed || !accounts.iter().any(Account::has_public_key) {
        return Ok(());
    }
    bail!(
        "refusing to listen on {host} with the development key, which is public.\n\
         Add an account of your own:             tavola account add NAME\n\
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

    fn names(kept: &[&str], flags: &[(&'static str, &str)], host: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        for name in kept {
            AccountFile::change(folder.path(), |file| file.add(name, "c2VjcmV0".into())).unwrap();
        }
        let flags = flags.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let values = Arc::new(Values::gather(&flags, |_| None).unwrap());
        let data_dir = folder.path().to_owned();
        let source = AccountSource { values, host: host.parse().unwrap(), data_dir, issuer: None };
        let accounts = source.gather().map_err(|error| format!("{error:#}"))?;
        let mut names: Vec<_> = accounts.iter().map(|account| account.name().as_str().to_owned()).collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn the_development_account_goes_when_there_is_another_unless_it_is_asked_for() {
        let (loopback, public) = ("127.0.0.1", "0.0.0.0");
        let own = || Ok(vec!["mine".to_owned()]);
        let development = || Ok(vec![DEVELOPMENT_ACCOUNT.to_owned()]);
        let both = || Ok(vec![DEVELOPMENT_ACCOUNT.to_owned(), "mine".to_owned()]);
        let (on, off) = (("development-account", "on"), ("development-account", "off"));
        assert_eq!(names(&[], &[], loopback), development());
        assert_eq!(names(&["mine"], &[], loopback), own());
        assert_eq!(names(&[], &[("account", "mine:c2VjcmV0")], loopback), own());
        assert_eq!(names(&["mine"], &[], public), own());
        assert_eq!(names(&["mine"], &[on], loopback), both());
        assert_eq!(names(&["mine"], &[off], loopback), own());
        assert_eq!(names(&[DEVELOPMENT_ACCOUNT], &[on], loopback), development());
        assert!(names(&["mine"], &[on], public).unwrap_err().contains("refusing to listen"));
        assert!(names(&[], &[], public).unwrap_err().contains("refusing to listen"));
        assert!(names(&[], &[off], loopback).unwrap_err().contains("no account to serve"));
        assert!(names(&[], &[("development-account", "maybe")], loopback).is_err());
    }

    #[test]
    fn the_start_says_how_the_development_account_stands_beside_others() {
        let note = |text: &str, with: bool| {
            let mut accounts = parse(text).unwrap();
            accounts.extend(with.then(Account::development));
            development_note(&Accounts::new(accounts).unwrap()).unwrap_or_default()
        };
        assert_eq!(note("", true), "");
        assert!(note("mine:c2VjcmV0", false).starts_with("not served"));
        assert!(note("mine:c2VjcmV0", true).starts_with("served beside"));
    }

    #[test]
    fn errors_name_the_account_and_never_the_key() {
        for text in ["UPPER:c2VjcmV0", "mine:*hidden*", "mine"] {
            let message = format!("{:#}", parse(text).unwrap_err());
            assert!(!message.contains("c2VjcmV0") && !message.contains("hidden"), "{message}");
        }
    }
}
