//! The format of the old .NET and Java libraries, protocol 1.0: read, never written.
//!
//! AES-256-CBC without authentication, so what it gives can have been changed by whoever can write to the table: that is
//! why reading it must be asked for, and why a save writes the new format. The initialization vector of a property is the
//! first half of SHA-256 over the content's vector and the keys and the name run together: RowKey, PartitionKey, name in
//! .NET; PartitionKey, RowKey, name in Java. Only strings were encrypted.

use std::collections::BTreeMap;

use aes::Aes256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::wrap::{ContentKey, WrappedKey};
use super::{KEY_DETAILS, PROPERTY_DETAILS};
use crate::dynamic::DynamicEntity;
use crate::edm::EdmValue;
use crate::error::{Error, Result};

const PROTOCOL: &str = "1.0";
const ALGORITHM: &str = "AES_CBC_256";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyDetails {
    wrapped_content_key: WrappedDetails,
    encryption_agent: Agent,
    #[serde(rename = "ContentEncryptionIV")]
    content_vector: String,
    #[serde(default)]
    key_wrapping_metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrappedDetails {
    key_id: String,
    encrypted_key: String,
    algorithm: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Agent {
    protocol: String,
    encryption_algorithm: String,
}

/// The details of an entity that an old library encrypted.
pub(crate) struct LegacyDetails {
    pub wrapped: WrappedKey,
    vector: Vec<u8>,
    by_java: bool,
}

fn broken(what: &str) -> Error {
    Error::Encryption(format!("{what} cannot be read in the format of the old libraries"))
}

/// The details, if the entity is in the old format.
pub(crate) fn read_details(entity: &DynamicEntity) -> Option<LegacyDetails> {
    let details: KeyDetails = serde_json::from_str(entity.get(KEY_DETAILS)?.as_str()?).ok()?;
    if details.encryption_agent.protocol != PROTOCOL
        || details.encryption_agent.encryption_algorithm != ALGORITHM
    {
        return None;
    }
    let WrappedDetails { key_id, encrypted_key, algorithm } = details.wrapped_content_key;
    let library =
        details.key_wrapping_metadata.as_ref().and_then(|metadata| metadata.get("EncryptionLibrary"));
    Some(LegacyDetails {
        wrapped: WrappedKey { key_id, algorithm, bytes: STANDARD.decode(encrypted_key).ok()? },
        vector: STANDARD.decode(details.content_vector).ok()?,
        by_java: library.is_some_and(|library| library.contains("Java")),
    })
}

/// Opens what the old library encrypted.
pub(crate) fn open(
    entity: &DynamicEntity,
    details: &LegacyDetails,
    content: &ContentKey,
) -> Result<BTreeMap<String, EdmValue>> {
    let list = open_text(entity, details, content, PROPERTY_DETAILS)?;
    let names: Vec<String> = match serde_json::from_str(&list) {
        Ok(names) => names,
        // Java wrote `[a, b]`.
        Err(_) if details.by_java => {
            let inside = list.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
            let inside = inside.ok_or_else(|| broken(PROPERTY_DETAILS))?;
            inside.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
        Err(_) => return Err(broken(PROPERTY_DETAILS)),
    };
    let open =
        |name: String| Ok((name.clone(), EdmValue::String(open_text(entity, details, content, &name)?)));
    names.into_iter().map(open).collect()
}

fn open_text(
    entity: &DynamicEntity,
    details: &LegacyDetails,
    content: &ContentKey,
    name: &str,
) -> Result<String> {
    let Some(EdmValue::Binary(bytes)) = entity.get(name) else { return Err(broken(name)) };
    let (partition, row) = (entity.key.partition.as_str(), entity.key.row.as_str());
    let keys = if details.by_java { [partition, row] } else { [row, partition] };
    let mut hash = Sha256::new();
    hash.update(&details.vector);
    for text in keys.into_iter().chain([name]) {
        hash.update(text.as_bytes());
    }
    let hash = hash.finalize();
    let vector: [u8; 16] = hash[..16].try_into().expect("half of 32 bytes");
    let cipher = cbc::Decryptor::<Aes256>::new(content.as_bytes().into(), &vector.into());
    let plain = cipher.decrypt_padded_vec::<Pkcs7>(bytes).map_err(|_| broken(name))?;
    String::from_utf8(plain).map_err(|_| broken(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encrypt::{KeyWrapper, LocalKeys};
    use futures_util::FutureExt;

    /// Made by `tests/vectors/legacy_encryption.py`, which shares no code with this file.
    const VECTORS: &str = include_str!("../../tests/vectors/legacy_encryption.json");

    fn entity(vector: &serde_json::Value) -> DynamicEntity {
        let text = |name: &str| vector[name].as_str().unwrap().to_owned();
        let mut entity = DynamicEntity::new((text("partition"), text("row")));
        entity.put(KEY_DETAILS, text("details"));
        for (name, value) in vector["sealed"].as_object().unwrap() {
            entity.put(name, STANDARD.decode(value.as_str().unwrap()).unwrap());
        }
        entity
    }

    #[test]
    fn what_the_old_libraries_wrote_is_read() {
        let vectors: Vec<serde_json::Value> = serde_json::from_str(VECTORS).unwrap();
        assert_eq!(vectors.len(), 2);
        let keys = LocalKeys::new("symm", [0x42; 32]);
        for vector in &vectors {
            let entity = entity(vector);
            let details = read_details(&entity).unwrap();
            let content = keys.unwrap(&details.wrapped).now_or_never().unwrap().unwrap();
            let opened = open(&entity, &details, &content).unwrap();
            for (name, value) in vector["plain"].as_object().unwrap() {
                assert_eq!(opened.get(name).and_then(EdmValue::as_str), value.as_str(), "{name}");
            }
            assert_eq!(opened.len(), vector["plain"].as_object().unwrap().len());
            let elsewhere = DynamicEntity { key: crate::EntityKey::from(("x", "y")), ..entity };
            assert!(open(&elsewhere, &details, &content).is_err());
        }
    }
}
