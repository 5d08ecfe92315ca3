//! Encryption by the client, property by property (feature `encryption`).
//!
//! Fields marked `#[entity(encrypt)]` leave the process as ciphertext. Each write of secrets takes a fresh content key;
//! a [`KeyWrapper`] wraps it, and the wrapped key is stored beside the data. Every value is sealed by AES-256-GCM under a
//! fresh nonce, with its name and the keys of its entity as associated data: a value that was changed, renamed or moved
//! to another entity does not open. The list of sealed properties is sealed too, so none can be taken away unnoticed.
//!
//! The compiler refuses to compare, select or merge an encrypted field; [`EncryptedTable`] writes and reads whole
//! entities. Data written by the old .NET library can be read ([`Legacy::Read`]), and is never written in that form.

mod legacy;
mod seal;
mod table;
mod wrap;

pub use seal::Binding;
pub use table::{EncryptedTable, Legacy, Opened, Rewrapped};
pub use wrap::{ContentKey, KeyWrapper, LocalKeys, WrappedKey};

/// Whose name holds the wrapped content key.
pub(crate) const KEY_DETAILS: &str = "_ClientEncryptionMetadata1";
/// Whose name holds the sealed list of encrypted properties.
pub(crate) const PROPERTY_DETAILS: &str = "_ClientEncryptionMetadata2";
