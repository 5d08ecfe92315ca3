//! Bearer tokens of an OpenID Connect issuer.
//!
//! A token is believed when a key of the issuer has signed it with RS256 or ES256 and it names this issuer, this
//! server as its audience, and a time that holds now (<https://www.rfc-editor.org/rfc/rfc7519>,
//! <https://www.rfc-editor.org/rfc/rfc8725>). Which algorithm is used is said by the key, never by the token. Its
//! roles open all accounts of the server, for reading or for both. Fetching keys is the server's business: this
//! file is handed a `KeySet`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation};
use quick_cache::sync::Cache;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tavola_model::{DateTime, ErrorCode, ServiceError, StorageService};

use crate::access::{Access, TokenVerifier};
use crate::delegation::TokenSubject;

/// Seconds by which the issuer's clock may differ from ours.
pub const BEARER_LEEWAY_SECONDS: i64 = 60;

/// The shortest RSA key that RS256 may be used with (<https://www.rfc-editor.org/rfc/rfc7518#section-3.3>).
const RSA_MODULUS_BYTES_MIN: usize = 2048 / 8;

/// Whose tokens are believed, and what their roles mean.
#[derive(Clone, Debug, Default)]
pub struct BearerRules {
    /// The `iss` of a token.
    pub issuer: String,
    /// The `aud` of a token, or one of them.
    pub audience: String,
    /// The role that may read everything.
    pub read_role: String,
    /// The role that may read and write everything.
    pub write_role: String,
}

/// Tokens that are remembered at most; a client sends the same one for an hour.
const BELIEVED_MAX: usize = 4096;

/// The issuer whose tokens are believed, with the keys it has now.
pub struct TokenIssuer {
    rules: BearerRules,
    current: ArcSwap<Current>,
    on_unknown_key: Box<dyn Fn() + Send + Sync>,
}

/// Keys, and what they have verified already: a signature takes longer than all the rest of a request. The two are
/// replaced together, so a key that is taken back takes its tokens with it.
struct Current {
    keys: KeySet,
    /// The claims of tokens with a good signature, issuer and audience, by the hash of the token.
    believed: Cache<[u8; 32], Arc<Claims>>,
}

impl Current {
    fn of(keys: KeySet) -> Arc<Self> {
        Arc::new(Self { keys, believed: Cache::new(BELIEVED_MAX) })
    }
}

impl TokenIssuer {
    /// An issuer. `on_unknown_key` is called when a token names a key that is not in the set: it may be new.
    pub fn new(rules: BearerRules, keys: KeySet, on_unknown_key: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { rules, current: ArcSwap::new(Current::of(keys)), on_unknown_key }
    }

    /// From the next request on, these keys.
    pub fn replace_keys(&self, keys: KeySet) {
        self.current.store(Current::of(keys));
    }

    /// The claims of a token with the right signature, issuer and audience. Times are held against the server's
    /// own clock, not the one that the library would ask.
    fn claims(&self, token: &str) -> Option<Arc<Claims>> {
        let current = self.current.load();
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = current.believed.get(&digest) {
            return Some(claims);
        }
        let claims = Arc::new(self.verify(&current.keys, token)?);
        current.believed.insert(digest, claims.clone());
        Some(claims)
    }

    fn verify(&self, keys: &KeySet, token: &str) -> Option<Claims> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        // An extension that must be understood is one that we do not.
        if header.crit.is_some() {
            return None;
        }
        let Some(key) = keys.by_id.get(header.kid.as_deref()?) else {
            (self.on_unknown_key)();
            return None;
        };
        let mut validation = Validation::new(key.algorithm);
        // A claim is only compared where it is there, so each must be.
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.rules.issuer]);
        validation.set_audience(&[&self.rules.audience]);
        validation.validate_exp = false;
        jsonwebtoken::decode(token, &key.key, &validation).ok().map(|decoded| decoded.claims)
    }
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl TokenVerifier for TokenIssuer {
    fn check(&self, service: StorageService, token: &str, now: DateTime) -> Result<Access, ServiceError> {
        let claims = self.claims(token).ok_or_else(refused)?;
        let seconds = now.unix_seconds();
        let is_over = claims.exp.saturating_add(BEARER_LEEWAY_SECONDS) <= seconds;
        let has_begun = claims.nbf.is_none_or(|nbf| nbf <= seconds.saturating_add(BEARER_LEEWAY_SECONDS));
        if is_over || !has_begun {
            return Err(refused());
        }
        Ok(claims.roles.access(&self.rules, service))
    }

    fn subject(&self, token: &str) -> Option<TokenSubject> {
        let claims = self.claims(token)?;
        let object_id = claims.oid.clone().or_else(|| claims.sub.clone())?;
        let tenant_id = claims.tid.clone().unwrap_or_default();
        // Line breaks would make two keys of one text.
        let is_text = |text: &str| !text.is_empty() && !text.contains(['\n', '\r']);
        let is_plain = is_text(&object_id) && (tenant_id.is_empty() || is_text(&tenant_id));
        is_plain.then_some(TokenSubject { object_id, tenant_id })
    }
}

/// The keys of an issuer that can verify tokens, by their ids.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    by_id: HashMap<String, VerifyingKey>,
}

#[derive(Clone, Debug)]
struct VerifyingKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl KeySet {
    /// Reads a JSON Web Key Set (<https://www.rfc-editor.org/rfc/rfc7517#section-5>). Keys for other uses or
    /// algorithms are passed over, as the standard asks; one key must be left.
    pub fn parse(text: &str) -> Result<Self, KeySetError> {
        let document: serde_json::Value = serde_json::from_str(text).map_err(KeySetError::NotJson)?;
        let keys = document.get("keys").and_then(serde_json::Value::as_array).ok_or(KeySetError::NoKeys)?;
        let mut by_id = HashMap::new();
        for key in keys {
            let Ok(jwk) = Jwk::deserialize(key) else { continue };
            if let (Some(id), Some(key)) = (jwk.common.key_id.clone(), verifying_key(&jwk)) {
                by_id.insert(id, key);
            }
        }
        if by_id.is_empty() { Err(KeySetError::NoneUsable) } else { Ok(Self { by_id }) }
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether it has none, and so no token is believed.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// The key, if it is one that we let sign tokens.
fn verifying_key(jwk: &Jwk) -> Option<VerifyingKey> {
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(parameters) if parameters.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        _ => return None,
    };
    if jwk.common.key_algorithm.is_some_and(|algorithm| algorithm != named) {
        return None;
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let is_short = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => n.len() < RSA_MODULUS_BYTES_MIN,
        DecodingKeyKind::SecretOrDer(_) => false,
    };
    (!is_short).then_some(VerifyingKey { algorithm, key })
}

/// Why a key set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeySetError {
    /// Not JSON.
    #[error("key set is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// No list of keys.
    #[error("key set has no list \"keys\"")]
    NoKeys,
    /// Keys, but none of a kind that is accepted.
    #[error("key set has no key with an id for RS256 (2048 bits or more) or ES256")]
    NoneUsable,
}

#[derive(Deserialize)]
struct Claims {
    /// One issuer. The library would also take a list that holds ours.
    #[serde(rename = "iss")]
    _issuer: String,
    exp: i64,
    nbf: Option<i64>,
    oid: Option<String>,
    sub: Option<String>,
    tid: Option<String>,
    #[serde(default)]
    roles: Roles,
}

/// The `roles` claim: a list, or one of them alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Roles {
    Many(Vec<String>),
    One(String),
}

impl Default for Roles {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Roles {
    /// The most that a role gives. Beside the two of the settings, the roles of the real service are known
    /// (<https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/storage>).
    fn access(&self, rules: &BearerRules, service: StorageService) -> Access {
        let word = match service {
            StorageService::Blob => "Blob",
            StorageService::Queue => "Queue",
            StorageService::Table => "Table",
        };
        let reader = format!("Storage {word} Data Reader");
        let contributor = format!("Storage {word} Data Contributor");
        let of_role = |role: &str| {
            if role == rules.write_role || role == contributor {
                Access::Write
            } else if role == rules.read_role || role == reader {
                Access::Read
            } else {
                Access::None
            }
        };
        match self {
            Self::Many(roles) => roles.iter().map(|role| of_role(role)).max().unwrap_or(Access::None),
            Self::One(role) => of_role(role),
        }
    }
}

fn refused() -> ServiceError {
    ErrorCode::InvalidAuthenticationInfo.into()
}
