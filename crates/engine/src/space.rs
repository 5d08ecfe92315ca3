//! Names of spaces and ranges of keys.

use std::fmt;

/// Names a space. The services choose a fresh one for every table, so that a dropped table and its
/// successor of the same name never share rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceId(pub [u8; 16]);

impl SpaceId {
    /// The space in which the services keep what tables, queues and containers there are. Every engine has it
    /// from the start.
    pub const CATALOG: SpaceId = SpaceId([0; 16]);

    /// Reads the 32 hex digits that `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        let mut bytes = [0u8; 16];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpaceId({self})")
    }
}

/// A place in a space, at or between rows. Positions compare as rows do: by partition bytes, then row bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Partition bytes.
    pub partition: Vec<u8>,
    /// Row bytes.
    pub row: Vec<u8>,
}

impl Position {
    /// Before every row.
    pub fn first() -> Self {
        Self::default()
    }

    /// At this row.
    pub fn at(partition: &[u8], row: &[u8]) -> Self {
        Self { partition: partition.to_vec(), row: row.to_vec() }
    }

    /// Right behind this row: no row fits between. A zero byte is the smallest thing that can follow.
    pub fn after(partition: &[u8], row: &[u8]) -> Self {
        let mut position = Self::at(partition, row);
        position.row.push(0);
        position
    }

    /// Before the first row of this partition.
    pub fn partition_start(partition: &[u8]) -> Self {
        Self::at(partition, &[])
    }

    /// Behind the last row of this partition.
    pub fn partition_end(partition: &[u8]) -> Self {
        let mut position = Self::at(partition, &[]);
        position.partition.push(0);
        position
    }
}

/// The rows from one position up to, but not at, another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange {
    /// The first row that may be given.
    pub from: Position,
    /// The first row that is not given any more; `None` for all the rest.
    pub before: Option<Position>,
}

impl ScanRange {
    /// The whole space.
    pub fn all() -> Self {
        Self { from: Position::first(), before: None }
    }

    /// One row.
    pub fn row(partition: &[u8], row: &[u8]) -> Self {
        Self { from: Position::at(partition, row), before: Some(Position::after(partition, row)) }
    }

    /// One partition.
    pub fn partition(partition: &[u8]) -> Self {
        Self { from: Position::partition_start(partition), before: Some(Position::partition_end(partition)) }
    }

    /// Whether the range can hold no row.
    pub fn is_empty(&self) -> bool {
        self.before.as_ref().is_some_and(|before| *before <= self.from)
    }

    /// Whether a row lies in the range.
    pub fn contains(&self, partition: &[u8], row: &[u8]) -> bool {
        let at = (partition, row);
        let from = (self.from.partition.as_slice(), self.from.row.as_slice());
        from <= at
            && self
                .before
                .as_ref()
                .is_none_or(|before| at < (before.partition.as_slice(), before.row.as_slice()))
    }
}
