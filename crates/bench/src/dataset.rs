//! The entities that everything is measured on.
//!
//! Row `i` is in partition `i / 1000`, so that a partition is a page. An entity is about 1 KB of JSON with
//! eleven properties of the common types; its text differs from row to row, so that nothing compresses away.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use tavola_model::{EdmValue, PropertiesBuilder};

use crate::AnyError;

/// Entities in a partition.
pub const PARTITION_ROWS: u64 = 1000;
/// Operations in a batch.
pub const BATCH_ROWS: u64 = 100;

const TEXTS: usize = 7;
const TEXT_BYTES: usize = 116;
const POOL_BYTES: usize = 64 * 1024;

/// The PartitionKey of a row.
pub fn partition_key(row: u64) -> String {
    format!("p{:07}", row / PARTITION_ROWS)
}

/// The RowKey of a row.
pub fn row_key(row: u64) -> String {
    format!("r{:05}", row % PARTITION_ROWS)
}

/// Makes the same entities every time.
#[derive(Clone, Debug)]
pub struct Entities {
    pool: Arc<str>,
}

impl Default for Entities {
    fn default() -> Self {
        let mut random = fastrand::Rng::with_seed(42);
        let pool: String = (0..POOL_BYTES).map(|_| random.alphanumeric()).collect();
        Self { pool: pool.into() }
    }
}

impl Entities {
    /// Appends the JSON text of an entity.
    pub fn append_json(&self, body: &mut String, partition: &str, row: &str, seed: u64) {
        // Writing to a String cannot fail.
        let _ = write!(body, r#"{{"PartitionKey":"{partition}","RowKey":"{row}""#);
        let _ = write!(body, r#","Age":{},"Active":{},"City":"Lisbon""#, age(seed), seed.is_multiple_of(2));
        let _ = write!(body, r#","Score":{}.5"#, seed % 1000);
        for index in 0..TEXTS {
            let _ = write!(body, r#","Text{index}":"{}""#, self.text(seed, index));
        }
        body.push('}');
    }

    /// The same properties as a stored row holds them.
    pub fn stored(&self, seed: u64) -> Result<Bytes, AnyError> {
        let mut properties = PropertiesBuilder::new();
        properties.push("Age", EdmValue::Int32(age(seed)))?;
        properties.push("Active", EdmValue::Boolean(seed.is_multiple_of(2)))?;
        properties.push("City", EdmValue::String("Lisbon"))?;
        properties.push("Score", EdmValue::Double(age(seed % 1000).into()))?;
        for index in 0..TEXTS {
            properties.push(&format!("Text{index}"), EdmValue::String(self.text(seed, index)))?;
        }
        Ok(properties.finish().as_bytes().clone())
    }

    /// One of the texts of an entity.
    pub fn text(&self, seed: u64, index: usize) -> &str {
        let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let offset = usize::try_from(mixed).unwrap_or(0) + index * 7919;
        let offset = offset % (POOL_BYTES - TEXT_BYTES);
        &self.pool[offset..offset + TEXT_BYTES]
    }
}

/// An entity with binary properties of 64 KiB, the largest there may be.
pub fn large_json(partition: &str, row: &str, properties: usize) -> String {
    // 65,536 bytes are 87,384 characters of base64, the last two of them padding.
    let value = format!("{}==", "A".repeat(87_382));
    let mut body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}""#);
    for index in 0..properties {
        // Writing to a String cannot fail.
        let _ = write!(body, r#","Blob{index}@odata.type":"Edm.Binary","Blob{index}":"{value}""#);
    }
    body.push('}');
    body
}

/// From 0 to 99: no entity has a negative one, which is what the filters ask for.
fn age(seed: u64) -> i32 {
    i32::try_from(seed % 100).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_about_a_kilobyte_of_json() {
        let mut body = String::new();
        Entities::default().append_json(&mut body, &partition_key(12_345), &row_key(12_345), 12_345);
        assert!((950..1050).contains(&body.len()), "{}", body.len());
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["PartitionKey"], "p0000012");
        assert_eq!(value["RowKey"], "r00345");
    }
}
