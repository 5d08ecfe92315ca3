//! The sealed form of secrets: what is stored, and how it is opened.
//!
//! A sealed value is `nonce (12) | ciphertext | tag (16)`, as a Binary property. The plaintext begins with the code of
//! its type. Associated data: the format, whether keys are bound, both keys, and the name, each with its length.

use std::collections::BTreeMap;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::wrap::{ContentKey, WrappedKey};
use super::{KEY_DETAILS, PROPERTY_DETAILS};
use crate::dynamic::DynamicEntity;
use crate::edm::{DateTime, EdmRef, EdmValue, Guid};
use crate::error::{Error, Result};
use crate::key::EntityKey;

const PROTOCOL: &str = "tavola-1";
const ALGORITHM: &str = "AES_GCM_256";
const NONCE_BYTES: usize = 12;

/// What a sealed value belongs to.
///
/// ```
/// use tavola_client::encrypt::Binding;
/// assert_eq!(Binding::default(), Binding::Keys);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// To the keys of its entity: it opens nowhere else.
    #[default]
    Keys,
    /// To its property only: raw copies of the entity under other keys open too.
    Unbound,
}

/// What `_ClientEncryptionMetadata1` says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct KeyDetails {
    wrapped_content_key: WrappedDetails,
    encryption_agent: Agent,
    bound: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct WrappedDetails {
    key_id: String,
    encrypted_key: String,
    algorithm: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Agent {
    protocol: String,
    encryption_algorithm: String,
}

/// The details of a sealed entity.
pub(crate) struct Details {
    pub wrapped: WrappedKey,
    binding: Binding,
}

fn broken(what: &str) -> Error {
    Error::Encryption(format!("{what} was changed, or is of another entity or key"))
}

/// Reads how an entity is sealed.
pub(crate) fn read_details(entity: &DynamicEntity) -> Result<Details> {
    let text = entity.get(KEY_DETAILS).and_then(EdmValue::as_str);
    let text =
        text.ok_or_else(|| Error::Encryption("the entity does not say how it is encrypted".to_owned()))?;
    let details: KeyDetails = serde_json::from_str(text)
        .map_err(|error| Error::Encryption(format!("{KEY_DETAILS} cannot be read: {error}")))?;
    if details.encryption_agent.protocol != PROTOCOL
        || details.encryption_agent.encryption_algorithm != ALGORITHM
    {
        return Err(Error::Encryption(format!(
            "the protocol is unknown ({})",
            details.encryption_agent.protocol
        )));
    }
    let bytes =
        STANDARD.decode(&details.wrapped_content_key.encrypted_key).map_err(|_| broken("the wrapped key"))?;
    let binding = if details.bound { Binding::Keys } else { Binding::Unbound };
    let WrappedDetails { key_id, algorithm, .. } = details.wrapped_content_key;
    Ok(Details { wrapped: WrappedKey { key_id, algorithm, bytes }, binding })
}

/// The text of `_ClientEncryptionMetadata1`.
pub(crate) fn write_details(wrapped: &WrappedKey, binding: Binding) -> Result<String> {
    let details = KeyDetails {
        wrapped_content_key: WrappedDetails {
            key_id: wrapped.key_id.clone(),
            encrypted_key: STANDARD.encode(&wrapped.bytes),
            algorithm: wrapped.algorithm.clone(),
        },
        encryption_agent: Agent { protocol: PROTOCOL.to_owned(), encryption_algorithm: ALGORITHM.to_owned() },
        bound: binding == Binding::Keys,
    };
    serde_json::to_string(&details).map_err(|error| Error::Encryption(error.to_string()))
}

impl Details {
    /// The same sealed values under a key that was wrapped again.
    pub fn rewritten(&self, wrapped: &WrappedKey) -> Result<String> {
        write_details(wrapped, self.binding)
    }
}

/// Seals secrets: their properties, the list of them, and the wrapped key.
pub(crate) fn seal(
    secrets: &[(&str, EdmRef<'_>)],
    key: &EntityKey,
    content: &ContentKey,
    wrapped: &WrappedKey,
    binding: Binding,
) -> Result<Vec<(String, EdmValue)>> {
    let cipher = Aes256Gcm::new(content.as_bytes().into());
    let mut sealed = Vec::new();
    for (name, value) in secrets {
        sealed.push((
            (*name).to_owned(),
            seal_bytes(&cipher, &encode(*value), &associated(binding, key, name))?,
        ));
    }
    let names: Vec<&str> = secrets.iter().map(|(name, _)| *name).collect();
    let list = serde_json::to_vec(&names).map_err(|error| Error::Encryption(error.to_string()))?;
    let list = seal_bytes(&cipher, &list, &associated(binding, key, PROPERTY_DETAILS))?;
    sealed.push((PROPERTY_DETAILS.to_owned(), list));
    sealed.push((KEY_DETAILS.to_owned(), EdmValue::String(write_details(wrapped, binding)?)));
    Ok(sealed)
}

/// Opens the secrets of an entity. Those that the list names must all be there.
pub(crate) fn open(
    entity: &DynamicEntity,
    details: &Details,
    content: &ContentKey,
) -> Result<BTreeMap<String, EdmValue>> {
    let cipher = Aes256Gcm::new(content.as_bytes().into());
    let open = |name: &str| {
        let Some(EdmValue::Binary(bytes)) = entity.get(name) else { return Err(broken(name)) };
        let (nonce, rest) = bytes.split_at_checked(NONCE_BYTES).ok_or_else(|| broken(name))?;
        let nonce = Nonce::try_from(nonce).map_err(|_| broken(name))?;
        let payload = Payload { msg: rest, aad: &associated(details.binding, &entity.key, name) };
        cipher.decrypt(&nonce, payload).map_err(|_| broken(name))
    };
    let list = open(PROPERTY_DETAILS)?;
    let names: Vec<String> = serde_json::from_slice(&list).map_err(|_| broken(PROPERTY_DETAILS))?;
    names
        .into_iter()
        .map(|name| {
            let value = decode(&open(&name)?).ok_or_else(|| broken(&name))?;
            Ok((name, value))
        })
        .collect()
}

fn seal_bytes(cipher: &Aes256Gcm, plain: &[u8], aad: &[u8]) -> Result<EdmValue> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(|error| Error::Encryption(format!("no random bytes: {error}")))?;
    let sealed = cipher.encrypt(&nonce.into(), Payload { msg: plain, aad });
    let sealed = sealed.map_err(|_| Error::Encryption("the value is too large to be sealed".to_owned()))?;
    Ok(EdmValue::Binary([nonce.as_slice(), &sealed].concat()))
}

/// What a sealed value is bound to. Every text has its length, so no two lists of texts give the same bytes.
fn associated(binding: Binding, key: &EntityKey, name: &str) -> Vec<u8> {
    let mut out = PROTOCOL.as_bytes().to_vec();
    let bound: &[&str] = match binding {
        Binding::Keys => &[&key.partition, &key.row, name],
        Binding::Unbound => &[name],
    };
    out.push(u8::from(binding == Binding::Keys));
    for text in bound {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// A code of the type, then the value.
fn encode(value: EdmRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |code: u8, bytes: &[u8]| {
        out.push(code);
        out.extend_from_slice(bytes);
    };
    match value {
        EdmRef::Binary(bytes) => put(1, bytes),
        EdmRef::Boolean(flag) => put(2, &[u8::from(flag)]),
        EdmRef::DateTime(time) => put(3, &time.ticks().to_le_bytes()),
        EdmRef::Double(number) => put(4, &number.to_bits().to_le_bytes()),
        EdmRef::Guid(guid) => put(5, &guid.0),
        EdmRef::Int32(number) => put(6, &number.to_le_bytes()),
        EdmRef::Int64(number) => put(7, &number.to_le_bytes()),
        EdmRef::String(text) => put(8, text.as_bytes()),
    }
    out
}

fn decode(bytes: &[u8]) -> Option<EdmValue> {
    let (code, rest) = bytes.split_first()?;
    Some(match code {
        1 => EdmValue::Binary(rest.to_vec()),
        2 => EdmValue::Boolean(*rest.first()? == 1),
        3 => EdmValue::DateTime(DateTime::from_ticks(u64::from_le_bytes(rest.try_into().ok()?))?),
        4 => EdmValue::Double(f64::from_bits(u64::from_le_bytes(rest.try_into().ok()?))),
        5 => EdmValue::Guid(Guid(rest.try_into().ok()?)),
        6 => EdmValue::Int32(i32::from_le_bytes(rest.try_into().ok()?)),
        7 => EdmValue::Int64(i64::from_le_bytes(rest.try_into().ok()?)),
        8 => EdmValue::String(String::from_utf8(rest.to_vec()).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encrypt::{KeyWrapper, LocalKeys};
    use futures_util::FutureExt;
    use proptest::prelude::*;

    fn keys() -> LocalKeys {
        LocalKeys::new("k1", [3; 32])
    }

    fn sealed(values: &[(&str, EdmValue)], key: &EntityKey, binding: Binding) -> DynamicEntity {
        let content = ContentKey::fresh().unwrap();
        let wrapped = keys().wrap(&content).now_or_never().unwrap().unwrap();
        let borrowed: Vec<(&str, EdmRef<'_>)> =
            values.iter().map(|(name, value)| (*name, value.borrow())).collect();
        let properties = seal(&borrowed, key, &content, &wrapped, binding).unwrap();
        DynamicEntity { key: key.clone(), properties: properties.into_iter().collect() }
    }

    fn opened(entity: &DynamicEntity) -> Result<BTreeMap<String, EdmValue>> {
        let details = read_details(entity)?;
        let content = keys().unwrap(&details.wrapped).now_or_never().unwrap()?;
        open(entity, &details, &content)
    }

    fn value() -> impl Strategy<Value = EdmValue> {
        prop_oneof![
            "\\PC{0,20}".prop_map(EdmValue::String),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(EdmValue::Binary),
            any::<bool>().prop_map(EdmValue::Boolean),
            (0..=DateTime::MAX.ticks())
                .prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks).unwrap())),
            any::<f64>().prop_filter("equals nothing", |number| !number.is_nan()).prop_map(EdmValue::Double),
            any::<[u8; 16]>().prop_map(|bytes| EdmValue::Guid(Guid(bytes))),
            any::<i32>().prop_map(EdmValue::Int32),
            any::<i64>().prop_map(EdmValue::Int64),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_type_opens_to_what_was_sealed(a in value(), b in value(), partition in "\\PC{0,6}", row in "\\PC{0,6}", bound: bool) {
            let binding = if bound { Binding::Keys } else { Binding::Unbound };
            let entity = sealed(&[("A", a.clone()), ("B", b.clone())], &EntityKey { partition, row }, binding);
            prop_assert_eq!(opened(&entity).unwrap(), BTreeMap::from([("A".to_owned(), a), ("B".to_owned(), b)]));
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let key = EntityKey::from(("Sales", "000007"));
        let entity =
            sealed(&[("Salary", EdmValue::from("100")), ("Bonus", EdmValue::from(5))], &key, Binding::Keys);
        assert!(opened(&entity).is_ok());
        let mut flipped = 0;
        for (name, value) in &entity.properties {
            let bytes = match value {
                EdmValue::Binary(bytes) => bytes.clone(),
                EdmValue::String(text) => text.clone().into_bytes(),
                other => panic!("a sealed entity has no {other:?}"),
            };
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                let changed = match value {
                    EdmValue::Binary(_) => EdmValue::Binary(changed),
                    // A string that is no text cannot be stored at all.
                    _ => match String::from_utf8(changed) {
                        Ok(text) => EdmValue::String(text),
                        Err(_) => continue,
                    },
                };
                let mut copy = entity.clone();
                copy.properties.insert(name.clone(), changed);
                assert!(opened(&copy).is_err(), "bit {bit} of {name}");
                flipped += 1;
            }
        }
        assert!(flipped > 2_000, "{flipped}");
    }

    #[test]
    fn a_value_that_was_moved_renamed_or_taken_away_does_not_open() {
        let (here, there) = (EntityKey::from(("Sales", "1")), EntityKey::from(("Sales", "2")));
        let values = [("Salary", EdmValue::from("100")), ("Bonus", EdmValue::from("5"))];
        let entity = sealed(&values, &here, Binding::Keys);
        assert!(opened(&DynamicEntity { key: there.clone(), ..entity.clone() }).is_err());
        let mut swapped = entity.clone();
        let (salary, bonus) = (entity.properties["Salary"].clone(), entity.properties["Bonus"].clone());
        swapped.properties.extend([("Salary".to_owned(), bonus), ("Bonus".to_owned(), salary)]);
        assert!(opened(&swapped).is_err());
        let mut without = entity.clone();
        without.remove("Bonus");
        assert!(opened(&without).is_err());
        // A key of the same letters, cut elsewhere, is another key.
        assert!(opened(&DynamicEntity { key: EntityKey::from(("Sale", "s1")), ..entity }).is_err());

        let unbound = sealed(&values, &here, Binding::Unbound);
        assert!(opened(&DynamicEntity { key: there, ..unbound }).is_ok());
    }

    #[test]
    fn another_key_does_not_open() {
        let entity = sealed(&[("A", EdmValue::from(1))], &EntityKey::from(("p", "r")), Binding::Keys);
        let details = read_details(&entity).unwrap();
        let other = LocalKeys::new("k1", [4; 32]);
        assert!(other.unwrap(&details.wrapped).now_or_never().unwrap().is_err());
        let unknown = LocalKeys::new("k2", [3; 32]);
        assert!(unknown.unwrap(&details.wrapped).now_or_never().unwrap().is_err());
        let both = LocalKeys::new("k2", [4; 32]).with_old("k1", [3; 32]);
        assert!(both.unwrap(&details.wrapped).now_or_never().unwrap().is_ok());
    }
}
