//! A table, queue or container as the catalog keeps it: one record for all of them.
//!
//! ```text
//! u8 version = 2 | text name | 16 bytes space | time created | option(time deleted until)
//! | list of metadata (text name | text value)
//! | list of access policies (text id | option(option(time start) | option(time expiry) | option(text permission)))
//! | of a container only: time changed | u8 public access (0 none, 1 blob, 2 container) | option(lease)
//! ```
//!
//! The primitives are those of `codec.rs`. A server meets records of a newer version while others are upgraded; it
//! leaves them alone and serves the rest.

use tavola_engine::SpaceId;
use tavola_model::{AccessPolicy, DateTime, ErrorCode, Metadata, PublicAccess, SignedIdentifier};

use crate::codec::{Reader, put_list, put_option, put_text, put_time};
use crate::failure::Failure;
use crate::lease::Lease;

const VERSION: u8 = 2;

/// The kinds of resources that have a name and a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ResourceKind {
    Table,
    Queue,
    Container,
}

impl ResourceKind {
    /// All of them.
    pub const ALL: [ResourceKind; 3] = [Self::Table, Self::Queue, Self::Container];

    /// The first byte of a row key in the catalog.
    pub const fn row_letter(self) -> u8 {
        match self {
            Self::Table => b't',
            Self::Queue => b'q',
            Self::Container => b'c',
        }
    }

    /// The row key of a resource. `key` is its name as names compare: that of a table in lower case.
    pub fn row(self, key: &str) -> Vec<u8> {
        let mut row = Vec::with_capacity(1 + key.len());
        row.push(self.row_letter());
        row.extend_from_slice(key.as_bytes());
        row
    }

    /// What whoever asks for a resource is told that does not exist.
    pub fn not_found(self) -> ErrorCode {
        match self {
            Self::Table => ErrorCode::TableNotFound,
            Self::Queue => ErrorCode::QueueNotFound,
            Self::Container => ErrorCode::ContainerNotFound,
        }
    }

    /// What is told while the name of a deleted resource is held back.
    pub fn being_deleted(self) -> ErrorCode {
        match self {
            Self::Table => ErrorCode::TableBeingDeleted,
            Self::Queue => ErrorCode::QueueBeingDeleted,
            Self::Container => ErrorCode::ContainerBeingDeleted,
        }
    }
}

/// A table, queue or container as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The name as it was created.
    pub name: Box<str>,
    /// Where its contents are. Clearing a queue gives it a fresh one.
    pub space: SpaceId,
    pub created: DateTime,
    /// Until when a deleted resource keeps its name from others; `None` while it exists.
    pub deleted_until: Option<DateTime>,
    pub metadata: Metadata,
    /// Stored access policies.
    pub identifiers: Vec<SignedIdentifier>,
    /// What only containers have.
    pub container: Option<ContainerState>,
}

/// What a container has beside what every resource has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerState {
    /// When it was changed last: its ETag. Leases change nothing of it.
    pub changed: DateTime,
    /// What may be read without credentials.
    pub access: PublicAccess,
    pub lease: Option<Lease>,
}

impl Resource {
    /// What this resource has because it is a container.
    pub fn container(&self) -> Result<&ContainerState, Failure> {
        self.container.as_ref().ok_or_else(|| Undecodable::Damaged.into())
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_text(&mut out, &self.name);
        out.extend_from_slice(&self.space.0);
        put_time(&mut out, self.created);
        put_option(&mut out, self.deleted_until.as_ref(), |out, time| put_time(out, *time));
        let pairs: Vec<(&str, &str)> = self.metadata.iter().collect();
        put_list(&mut out, &pairs, |out, (name, value)| {
            put_text(out, name);
            put_text(out, value);
        });
        put_list(&mut out, &self.identifiers, put_identifier);
        if let Some(ContainerState { changed, access, lease }) = &self.container {
            put_time(&mut out, *changed);
            out.push(match access {
                PublicAccess::None => 0,
                PublicAccess::Blob => 1,
                PublicAccess::Container => 2,
            });
            put_option(&mut out, lease.as_ref(), Lease::put);
        }
        out
    }

    /// Reads a record; `Newer` for one that a later version of the server has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, Undecodable> {
        match bytes.first() {
            Some(&VERSION) => Self::decode_current(bytes).ok_or(Undecodable::Damaged),
            Some(version) if *version > VERSION => Err(Undecodable::Newer),
            _ => Err(Undecodable::Damaged),
        }
    }

    fn decode_current(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::of_version(bytes, VERSION)?;
        let resource = Self {
            name: reader.text()?.into(),
            space: SpaceId(reader.array()?),
            created: reader.time()?,
            deleted_until: reader.option(Reader::time)?,
            metadata: Metadata::parse(reader.list(|reader| Some((reader.text()?, reader.text()?)))?).ok()?,
            identifiers: reader.list(identifier)?,
            container: if reader.is_done() { None } else { Some(container(&mut reader)?) },
        };
        reader.is_done().then_some(resource)
    }
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecodable {
    /// It was written by a later version of the server.
    Newer,
    /// Its bytes say nothing.
    Damaged,
}

impl From<Undecodable> for Failure {
    fn from(undecodable: Undecodable) -> Self {
        Failure::damaged(
            SpaceId::CATALOG,
            match undecodable {
                Undecodable::Newer => "a record of a newer version of the server",
                Undecodable::Damaged => "a table, queue or container",
            },
        )
    }
}

fn put_identifier(out: &mut Vec<u8>, identifier: &SignedIdentifier) {
    put_text(out, &identifier.id);
    put_option(out, identifier.policy.as_ref(), |out, policy| {
        put_option(out, policy.start.as_ref(), |out, time| put_time(out, *time));
        put_option(out, policy.expiry.as_ref(), |out, time| put_time(out, *time));
        put_option(out, policy.permission.as_ref(), |out, text| put_text(out, text));
    });
}

fn identifier(reader: &mut Reader<'_>) -> Option<SignedIdentifier> {
    let id = reader.text()?;
    let policy = reader.option(|reader| {
        Some(AccessPolicy {
            start: reader.option(Reader::time)?,
            expiry: reader.option(Reader::time)?,
            permission: reader.option(Reader::text)?,
        })
    })?;
    Some(SignedIdentifier { id, policy })
}

fn container(reader: &mut Reader<'_>) -> Option<ContainerState> {
    let changed = reader.time()?;
    let access = match reader.array()? {
        [0] => PublicAccess::None,
        [1] => PublicAccess::Blob,
        [2] => PublicAccess::Container,
        [_] => return None,
    };
    Some(ContainerState { changed, access, lease: reader.option(Lease::read)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fixture::{bytes, hex};

    const FIXTURE: &str = "02060000006f7264657273070707070707070707070707070707070180ec012014d70801ff3f37f47528ca2b02000000\
        06000000436f6c6f757204000000626c756505000000656d707479000000000200000002000000c3a901010180ec0120\
        14d7080001040000007261756405000000656d70747900";

    fn resource() -> Resource {
        let time = DateTime::from_ticks(637_000_000_000_000_001).unwrap();
        let pairs = [("Colour", "blue"), ("empty", "")].map(|(name, value)| (name.into(), value.into()));
        let policy = AccessPolicy { start: Some(time), expiry: None, permission: Some("raud".into()) };
        Resource {
            name: "orders".into(),
            space: SpaceId([7; 16]),
            created: time,
            deleted_until: Some(DateTime::MAX),
            metadata: Metadata::parse(pairs).unwrap(),
            identifiers: vec![
                SignedIdentifier { id: "é".into(), policy: Some(policy) },
                SignedIdentifier { id: "empty".into(), policy: None },
            ],
            container: None,
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let bare = Resource {
            deleted_until: None,
            metadata: Metadata::default(),
            identifiers: vec![],
            ..resource()
        };
        let state = ContainerState { changed: DateTime::MAX, access: PublicAccess::Blob, lease: None };
        let container = Resource { container: Some(state), ..resource() };
        for resource in [resource(), bare, container] {
            assert_eq!(Resource::decode(&resource.encode()), Ok(resource));
        }
    }

    /// What follows the rest in the record of a container.
    const NONE_FIXTURE: &str = "0180ec012014d7080000";
    const BLOB_FIXTURE: &str = "0180ec012014d70801010a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0f008151dd0a2014d708";
    const CONTAINER_FIXTURE: &str =
        "0180ec012014d70802010b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b00010142d80d2014d708";

    #[test]
    fn records_of_containers_keep_their_layout() {
        let changed = resource().created;
        let [held, broken] = Lease::held_and_broken(changed);
        let states = [
            (PublicAccess::None, None, NONE_FIXTURE),
            (PublicAccess::Blob, Some(held), BLOB_FIXTURE),
            (PublicAccess::Container, Some(broken), CONTAINER_FIXTURE),
        ];
        for (access, lease, fixture) in states {
            let container = Some(ContainerState { changed, access, lease });
            let resource = Resource { container, ..resource() };
            let fixture = format!("{FIXTURE}{fixture}");
            assert_eq!(hex(&resource.encode()), fixture);
            assert_eq!(Resource::decode(&bytes(&fixture)), Ok(resource));
        }
        assert_eq!(hex(&resource().encode()), FIXTURE);
        assert_eq!(Resource::decode(&bytes(FIXTURE)), Ok(resource()));
    }

    #[test]
    fn row_keys_keep_their_layout() {
        let rows = ResourceKind::ALL.map(|kind| kind.row("box"));
        assert_eq!(rows, [b"tbox", b"qbox", b"cbox"]);
    }

    #[test]
    fn cut_records_are_damaged_and_those_of_a_newer_version_are_told_apart() {
        let mut bytes = resource().encode();
        for len in 0..bytes.len() {
            assert_eq!(Resource::decode(&bytes[..len]), Err(Undecodable::Damaged), "{len}");
        }
        bytes[0] = VERSION + 1;
        assert_eq!(Resource::decode(&bytes), Err(Undecodable::Newer));
    }
}
