//! Who is asking, and may they: Shared Key, Shared Key Lite, service and account SAS, stored policies,
//! bearer tokens.
//!
//! `authenticate` reads the head of a request and gives a `Caller`; `authorize` holds the decoded command
//! against it and gives a `Permitted`, the only thing the service layer executes. The same layouts sign, for
//! clients and tests. Keys never leave this crate and never reach a log.
//!
//! ```
//! use tavola_auth::{Account, Accounts};
//! let accounts = Accounts::new(vec![Account::development()]).unwrap();
//! let name = tavola_model::AccountName::parse("devstoreaccount1").unwrap();
//! assert!(accounts.get(&name).is_some());
//! ```

mod access;
mod account;
mod admit;
mod authenticate;
mod authorize;
#[cfg(feature = "oidc")]
mod bearer;
mod delegation;
mod key_limit;
mod needs;
mod sas;
mod shared_key;
mod sign;

pub use access::{Access, TokenVerifier};
pub use account::{Account, AccountError, Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, KeyProof};
pub use admit::admit;
pub use authenticate::{Caller, RequestHead, SKEW_SECONDS_MAX, authenticate};
pub use authorize::{Permitted, authorize, authorize_public};
#[cfg(feature = "oidc")]
pub use bearer::{BEARER_LEEWAY_SECONDS, BearerRules, KeySet, KeySetError, TokenIssuer};
pub use delegation::TokenSubject;
pub use key_limit::KeyLimit;
pub use needs::HeadOperation;
pub use shared_key::{Scheme, SignedRequest};
pub use sign::{
    AccountSas, ServiceSas, sign_account_sas, sign_delegated_sas, sign_request, sign_service_sas,
};
