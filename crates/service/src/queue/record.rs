//! A queue as the catalog keeps it. `docs/formats.md` has the full text.

use tavola_engine::SpaceId;
use tavola_model::{DateTime, Metadata, QueueName, ServiceError, SignedIdentifier};

use crate::failure::damaged;
use crate::table::record::{Reader, put_identifiers, put_list, put_option, put_text, put_time};

/// Kind letter of a queue in the catalog.
pub(crate) const QUEUE_ROW: u8 = b'q';

const VERSION: u8 = 1;

/// A queue as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub name: QueueName,
    /// Where its messages are. Clearing a queue gives it a fresh one.
    pub space: SpaceId,
    pub created: DateTime,
    /// Until when a deleted queue keeps its name from others; `None` while the queue exists.
    pub deleted_until: Option<DateTime>,
    pub metadata: Metadata,
    /// Stored access policies.
    pub identifiers: Vec<SignedIdentifier>,
}

impl Queue {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_text(&mut out, self.name.as_str());
        out.extend_from_slice(&self.space.0);
        put_time(&mut out, self.created);
        put_option(&mut out, self.deleted_until.as_ref(), |out, time| put_time(out, *time));
        let pairs: Vec<(&str, &str)> = self.metadata.iter().collect();
        put_list(&mut out, &pairs, |out, (name, value)| {
            put_text(out, name);
            put_text(out, value);
        });
        put_identifiers(&mut out, &self.identifiers);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let queue = Self {
            name: QueueName::parse(&reader.text()?).ok()?,
            space: SpaceId(reader.array()?),
            created: reader.time()?,
            deleted_until: reader.option(Reader::time)?,
            metadata: Metadata::parse(reader.list(|reader| Some((reader.text()?, reader.text()?)))?).ok()?,
            identifiers: reader.identifiers()?,
        };
        reader.is_done().then_some(queue)
    }
}

/// The row key of a queue.
pub(super) fn queue_row(name: &str) -> Vec<u8> {
    let mut row = vec![QUEUE_ROW];
    row.extend_from_slice(name.as_bytes());
    row
}

pub(crate) fn decode_queue(bytes: &[u8]) -> Result<Queue, ServiceError> {
    Queue::decode(bytes).ok_or_else(|| damaged(SpaceId::CATALOG, "a queue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        let pairs = [("Colour", "blue"), ("empty", "")].map(|(name, value)| (name.into(), value.into()));
        Queue {
            name: QueueName::parse("orders").unwrap(),
            space: SpaceId([7; 16]),
            created: DateTime::from_ticks(637_000_000_000_000_001).unwrap(),
            deleted_until: Some(DateTime::MAX),
            metadata: Metadata::parse(pairs).unwrap(),
            identifiers: vec![SignedIdentifier { id: "é".into(), policy: None }],
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let bare =
            Queue { deleted_until: None, metadata: Metadata::default(), identifiers: vec![], ..queue() };
        for queue in [queue(), bare] {
            assert_eq!(Queue::decode(&queue.encode()), Some(queue));
        }
    }

    #[test]
    fn cut_or_unknown_records_are_refused() {
        let mut bytes = queue().encode();
        for len in 0..bytes.len() {
            assert_eq!(Queue::decode(&bytes[..len]), None, "{len}");
        }
        bytes[0] = 2;
        assert_eq!(Queue::decode(&bytes), None);
    }
}
