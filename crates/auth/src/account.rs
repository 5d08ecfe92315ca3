//! Accounts and their keys.
//!
//! An account has one or two keys, both valid at once so that keys can be rotated. A key is kept as a hash
//! state that is ready to sign; its text is gone after parsing and `Debug` prints nothing of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tavola_model::AccountName;

use crate::access::TokenVerifier;

/// The account that every tool of this ecosystem knows.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// Its public key
/// (<https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string#configure-a-connection-string-for-azurite>).
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// All accounts of the server; never changed, only replaced.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    by_name: HashMap<AccountName, Account>,
    issuer: Option<Arc<dyn TokenVerifier>>,
}

impl Accounts {
    /// The accounts, each name once.
    pub fn new(accounts: Vec<Account>) -> Result<Self, AccountError> {
        let mut by_name = HashMap::with_capacity(accounts.len());
        for account in accounts {
            if let Some(earlier) = by_name.insert(account.name.clone(), account) {
                return Err(AccountError::NamedTwice(earlier.name));
            }
        }
        Ok(Self { by_name, issuer: None })
    }

    /// The same accounts, open also to bearers of this issuer's tokens.
    #[must_use]
    pub fn with_issuer(self, issuer: Arc<dyn TokenVerifier>) -> Self {
        Self { issuer: Some(issuer), ..self }
    }

    /// The issuer whose tokens open these accounts, if any.
    pub(crate) fn issuer(&self) -> Option<&dyn TokenVerifier> {
        self.issuer.as_deref()
    }

    /// The account of this name.
    pub fn get(&self, name: &AccountName) -> Option<&Account> {
        self.by_name.get(name)
    }

    /// Every account, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.by_name.values()
    }
}

/// An account with its keys.
#[derive(Clone, Debug)]
pub struct Account {
    name: AccountName,
    first: Secret,
    second: Option<Secret>,
}

impl Account {
    /// Reads `NAME:KEY[:KEY2]`, the keys in base64.
    pub fn parse(text: &str) -> Result<Self, AccountError> {
        let mut parts = text.trim().split(':');
        let name = parts.next().unwrap_or_default();
        let name = AccountName::parse(name).ok_or_else(|| AccountError::BadName(name.to_owned()))?;
        let first = Secret::parse(&name, parts.next().unwrap_or_default())?;
        let second = parts.next().map(|key| Secret::parse(&name, key)).transpose()?;
        match parts.next() {
            Some(_) => Err(AccountError::TooManyKeys(name)),
            None => Ok(Self { name, first, second }),
        }
    }

    /// The well-known development account. Its key is public: never serve it beyond loopback.
    pub fn development() -> Self {
        Self::parse(&format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}")).expect("a constant that is valid")
    }

    /// Its name.
    pub fn name(&self) -> &AccountName {
        &self.name
    }

    /// Whether one of its keys is the public one of the development account.
    pub fn has_public_key(&self) -> bool {
        let probe = b"the same key signs the same";
        let development = Self::development().first.sign(probe);
        self.keys().any(|key| key.verifies(probe, &development))
    }

    /// Proves that someone has shown a key of this account, without keeping the key; `None` if it is not one.
    pub fn prove(&self, key: &str) -> Option<KeyProof> {
        let proof = KeyProof(Secret::parse(&self.name, key).ok()?.sign(PROVEN));
        self.accepts(&proof).then_some(proof)
    }

    /// Whether a proof is by a key that the account still has.
    pub fn accepts(&self, proof: &KeyProof) -> bool {
        self.keys().any(|key| key.verifies(PROVEN, &proof.0))
    }

    /// Signs with the first key.
    pub(crate) fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.first.sign(text.as_bytes()))
    }

    /// Whether `signature`, in base64, was made over `text` with one of the keys.
    pub(crate) fn verifies(&self, text: &str, signature: &str) -> bool {
        // What does not fit is too long for a signature.
        let mut decoded = [0; 64];
        match STANDARD.decode_slice(signature, &mut decoded) {
            Ok(length) => self.keys().any(|key| key.verifies(text.as_bytes(), &decoded[..length])),
            Err(_) => false,
        }
    }

    /// Whether `signature`, in base64, was made over `text` with the key that one of the keys derives from `described`:
    /// its signature of that, as `sign` gives it.
    pub(crate) fn verifies_derived(&self, described: &str, text: &str, signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        self.keys().any(|key| {
            let derived = Hmac::new_from_slice(&key.sign(described.as_bytes())).map(Secret);
            derived.is_ok_and(|derived| derived.verifies(text.as_bytes(), &signature))
        })
    }

    fn keys(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

/// What a key signs to prove itself: no text that a request or a token could sign.
const PROVEN: &[u8] = b"tavola: the holder of this key has shown it";

/// Shows that someone held a key of an account. It says nothing about the key, and ends with it.
#[derive(Clone)]
pub struct KeyProof(Vec<u8>);

impl fmt::Debug for KeyProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyProof")
    }
}

/// A key, keyed into the hash once so that each request saves that work.
#[derive(Clone)]
struct Secret(Hmac<Sha256>);

impl Secret {
    fn parse(account: &AccountName, text: &str) -> Result<Self, AccountError> {
        let bad_key = || AccountError::BadKey(account.clone());
        let bytes = STANDARD.decode(text).map_err(|_| bad_key())?;
        if bytes.is_empty() {
            return Err(bad_key());
        }
        Hmac::new_from_slice(&bytes).map(Self).map_err(|_| bad_key())
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.clone().chain_update(text).finalize().into_bytes().to_vec()
    }

    /// Compares in constant time.
    fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        self.0.clone().chain_update(text).verify_slice(signature).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why an account was not accepted. Never holds a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The name breaks the naming rule.
    #[error("account name is not 3 to 24 lower-case letters and digits (name={0})")]
    BadName(String),
    /// A key is missing or not base64.
    #[error("account key is missing or not base64 (account={0})")]
    BadKey(AccountName),
    /// More than two keys.
    #[error("account has more than two keys (account={0})")]
    TooManyKeys(AccountName),
    /// Two accounts of one name.
    #[error("account is named twice (account={0})")]
    NamedTwice(AccountName),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match Account::parse(text) {
            Ok(account) => format!("{} {}", account.name, account.keys().count()),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn an_account_has_a_name_and_one_or_two_keys() {
        check("acct:a2V5", "acct 1");
        check("acct:a2V5:b3RoZXI=", "acct 2");
    }

    #[test]
    fn malformed_accounts_are_refused_without_telling_the_key() {
        check("Acct:a2V5", "account name is not 3 to 24 lower-case letters and digits (name=Acct)");
        check("acct", "account key is missing or not base64 (account=acct)");
        check("acct:", "account key is missing or not base64 (account=acct)");
        check("acct:!!", "account key is missing or not base64 (account=acct)");
        check("acct:a2V5:", "account key is missing or not base64 (account=acct)");
        check("acct:a2V5:a2V5:a2V5", "account has more than two keys (account=acct)");
    }

    #[test]
    fn an_account_can_be_named_only_once() {
        let twice = vec![Account::development(), Account::development()];
        assert!(matches!(Accounts::new(twice), Err(AccountError::NamedTwice(_))));
    }

    #[test]
    fn debug_prints_no_key() {
        let shown = format!("{:?}", Account::development());
        assert_eq!(
            shown,
            r#"Account { name: AccountName("devstoreaccount1"), first: Secret, second: None }"#
        );
    }

    #[test]
    fn the_public_key_is_recognised_under_any_name_and_in_both_places() {
        assert!(Account::development().has_public_key());
        assert!(Account::parse(&format!("mine:{DEVELOPMENT_KEY}")).unwrap().has_public_key());
        assert!(Account::parse(&format!("mine:a2V5:{DEVELOPMENT_KEY}")).unwrap().has_public_key());
        assert!(!Account::parse("mine:a2V5").unwrap().has_public_key());
    }

    #[test]
    fn a_key_is_proven_by_itself_alone_and_no_longer_than_the_account_has_it() {
        let both = Account::parse("acct:a2V5:b3RoZXI=").unwrap();
        let rotated = Account::parse("acct:bmV3:a2V5").unwrap();
        for wrong in ["", "a2V", "bmV3", "!!"] {
            assert!(both.prove(wrong).is_none(), "{wrong}");
        }
        let (first, second) = (both.prove("a2V5").unwrap(), both.prove("b3RoZXI=").unwrap());
        assert!(both.accepts(&first) && both.accepts(&second));
        assert!(rotated.accepts(&first) && !rotated.accepts(&second));
        assert_eq!(format!("{first:?}"), "KeyProof");
    }

    #[test]
    fn either_key_verifies() {
        let both = Account::parse("acct:a2V5:b3RoZXI=").unwrap();
        let other = Account::parse("acct:b3RoZXI=").unwrap();
        assert!(both.verifies("text", &both.sign("text")));
        assert!(both.verifies("text", &other.sign("text")));
        assert!(!other.verifies("text", &both.sign("text")));
        assert!(!both.verifies("text", "not base64!"));
    }
}
