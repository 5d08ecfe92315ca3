//! What is stored in the tables, as far as the advisor needs it: sizes and a few entities.
//!
//! The traffic says what is asked; only the table says what it holds. Whoever asks for findings gathers this first.

use serde::Serialize;

/// What is known of some tables.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableFacts {
    /// One for each table.
    pub tables: Vec<TableFact>,
}

impl TableFacts {
    /// What is known of one table.
    pub fn of(&self, account: &str, table: &str) -> Option<&TableFact> {
        self.tables.iter().find(|fact| fact.account == account && fact.table.eq_ignore_ascii_case(table))
    }
}

/// What is known of one table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableFact {
    /// Its account.
    pub account: String,
    /// Its name.
    pub table: String,
    /// How many entities it holds, at least; exact if `is_exact`.
    pub entities: u64,
    /// Their bytes by the service's own formula.
    pub bytes: u64,
    /// Whether all of the table was counted.
    pub is_exact: bool,
    /// Some of its entities.
    pub samples: Vec<SampleEntity>,
}

/// An entity, with its values as text.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SampleEntity {
    /// Its PartitionKey.
    pub partition: String,
    /// Its RowKey.
    pub row: String,
    /// Its other properties.
    pub properties: Vec<(String, String)>,
}
