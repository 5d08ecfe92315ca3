//! Which server writes to a partition, where several share a store.
//!
//! A partition takes one write after the other, and writers of one server are combined while those of two get in each
//! other's way. So each partition has an owner among the servers that are up, chosen by rendezvous hash: every server
//! gives every partition a score, and the highest one owns it. All servers choose alike without asking anybody, and
//! one that comes or goes moves only its own share.
//!
//! Ownership only saves work. Servers may disagree about who is up, and any of them may write to any partition at any
//! time: the store keeps that right.

use tavola_model::{
    AccountCommand, AccountName, Command, Key, QueueCommand, QueueName, StorageService, TableCommand,
    TableName,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::pinned::Fingerprint;

/// A server, as the others on its store know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Stays the same from start to start, so that a server that comes back owns what it owned.
    pub name: String,
    /// Differs from start to start. A connection is used only if the server at its other end answers to this:
    /// whatever else may listen at the address keeps its data somewhere else.
    pub start_id: String,
    /// The address or host name by which others reach it.
    pub host: String,
    /// Its ports.
    pub ports: Vec<MemberPort>,
    /// The certificate of those that speak TLS.
    pub certificate: Option<Fingerprint>,
}

/// A port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPort {
    /// What is served there.
    pub service: StorageService,
    /// Over TLS.
    pub secure: bool,
    /// The number.
    pub number: u16,
}

impl Member {
    /// Whether it has a port of a service, with or without TLS.
    pub(crate) fn serves(&self, service: StorageService) -> bool {
        self.ports.iter().any(|port| port.service == service)
    }
}

/// A partition that has an owner, by the names that clients use. Blobs have none: their contents are written where they
/// arrive.
#[derive(Clone, Copy, Debug)]
pub enum OwnedPartition<'a> {
    /// The entities of a table that have one PartitionKey.
    Entities {
        /// The table.
        table: &'a TableName,
        /// The PartitionKey.
        partition: &'a Key,
    },
    /// The messages of a queue, which is one partition.
    Messages(&'a QueueName),
}

impl<'a> OwnedPartition<'a> {
    /// The one partition that a command writes to; `None` for what only reads, and for what goes to the catalog.
    pub(crate) fn written_by(command: &'a Command) -> Option<Self> {
        match command {
            Command::Table(TableCommand::WriteEntity(table, write)) => {
                Some(Self::Entities { table, partition: &write.key.partition })
            }
            Command::Table(TableCommand::TransactEntities(transaction)) => {
                let first = transaction.writes.first()?;
                Some(Self::Entities { table: &transaction.table, partition: &first.key.partition })
            }
            Command::Queue(command) => written_messages(command).map(Self::Messages),
            Command::Table(TableCommand::QueryTables(_))
            | Command::Blob(_)
            | Command::Table(TableCommand::GetTable(_))
            | Command::Table(TableCommand::CreateTable(_))
            | Command::Table(TableCommand::DeleteTable(_))
            | Command::Table(TableCommand::GetTableAcl(_))
            | Command::Table(TableCommand::SetTableAcl(..))
            | Command::Account(AccountCommand::GetServiceProperties)
            | Command::Account(AccountCommand::SetServiceProperties(_))
            | Command::Account(AccountCommand::GetServiceStats)
            | Command::Account(AccountCommand::PreflightRequest(_))
            | Command::Table(TableCommand::QueryEntities(_))
            | Command::Table(TableCommand::GetEntity(_))
            | Command::Table(TableCommand::ProbeTable(..)) => None,
        }
    }

    /// The service whose requests write to it.
    pub fn service(self) -> StorageService {
        match self {
            Self::Entities { .. } => StorageService::Table,
            Self::Messages(_) => StorageService::Queue,
        }
    }
}

/// A partition, reduced to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionHash(u64);

impl PartitionHash {
    /// The number of a partition of an account. Every server computes the same.
    pub fn of(account: &AccountName, partition: OwnedPartition<'_>) -> Self {
        let (seed, resource, partition) = match partition {
            OwnedPartition::Messages(queue) => (2, queue.as_str(), ""),
            OwnedPartition::Entities { table, partition } => (3, table.folded(), partition.as_str()),
        };
        let parts = [account.as_str(), resource, partition];
        Self(parts.iter().fold(seed, |seed, part| xxh3_64_with_seed(part.as_bytes(), seed)))
    }

    /// The two halves of the number.
    pub(crate) fn halves(self) -> (u32, u32) {
        let [high, low] = [self.0 >> 32, self.0 & u64::from(u32::MAX)];
        (u32::try_from(high).unwrap_or_default(), u32::try_from(low).unwrap_or_default())
    }

    #[cfg(test)]
    pub(crate) fn from_halves(high: u32, low: u32) -> Self {
        Self(u64::from(high) << 32 | u64::from(low))
    }
}

/// The queue whose messages a command changes.
fn written_messages(command: &QueueCommand) -> Option<&QueueName> {
    match command {
        QueueCommand::PutMessage(put) => Some(&put.queue),
        QueueCommand::GetMessages(get) => Some(&get.queue),
        QueueCommand::UpdateMessage(update) => Some(&update.message.queue),
        QueueCommand::DeleteMessage(message) => Some(&message.queue),
        QueueCommand::ListQueues(_)
        | QueueCommand::CreateQueue(..)
        | QueueCommand::DeleteQueue(_)
        | QueueCommand::GetQueueMetadata(_)
        | QueueCommand::SetQueueMetadata(..)
        | QueueCommand::GetQueueAcl(_)
        | QueueCommand::SetQueueAcl(..)
        | QueueCommand::PeekMessages(_)
        | QueueCommand::ClearMessages(_) => None,
    }
}

/// A server, reduced to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate(u64);

impl Candidate {
    pub fn of(member: &Member) -> Self {
        Self(xxh3_64(member.name.as_bytes()))
    }

    /// How high it stands for a partition. Every server computes the same.
    pub fn score(self, hash: PartitionHash) -> u64 {
        xxh3_64_with_seed(&hash.0.to_le_bytes(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::{
        EntityChange, EntityGroupTransaction, EntityKey, EntityWrite, EtagCondition, GetEntity, PeekMessages,
        PutMessage,
    };

    fn account() -> AccountName {
        AccountName::parse("devstoreaccount1").unwrap()
    }

    fn delete(partition: &str, row: &str) -> EntityWrite {
        let key = EntityKey { partition: Key::parse(partition).unwrap(), row: Key::parse(row).unwrap() };
        EntityWrite { key, change: EntityChange::Delete(EtagCondition::Any) }
    }

    fn hash_of(account: &AccountName, command: &Command) -> Option<PartitionHash> {
        OwnedPartition::written_by(command).map(|partition| PartitionHash::of(account, partition))
    }

    fn write(table: &str, partition: &str, row: &str) -> Option<PartitionHash> {
        let command = Command::Table(TableCommand::WriteEntity(
            TableName::parse(table).unwrap(),
            delete(partition, row),
        ));
        hash_of(&account(), &command)
    }

    fn candidates(count: u16) -> Vec<Candidate> {
        let member = |number| Member {
            name: format!("10.0.0.{number}:10001"),
            start_id: String::new(),
            host: String::new(),
            ports: Vec::new(),
            certificate: None,
        };
        (0..count).map(|number| Candidate::of(&member(number))).collect()
    }

    fn owner(candidates: &[Candidate], hash: PartitionHash) -> Candidate {
        *candidates.iter().max_by_key(|candidate| candidate.score(hash)).unwrap()
    }

    fn hashes(count: u32) -> impl Iterator<Item = PartitionHash> {
        (0..count).map(|number| write("People", &number.to_string(), "r").unwrap())
    }

    #[test]
    fn every_write_of_a_partition_has_one_hash_and_other_partitions_have_others() {
        let hash = write("People", "p", "r");
        assert!(hash.is_some());
        assert_eq!(hash, write("PEOPLE", "p", "another"));
        let transaction = EntityGroupTransaction {
            table: TableName::parse("people").unwrap(),
            writes: vec![delete("p", "a"), delete("p", "b")],
        };
        assert_eq!(hash, hash_of(&account(), &Command::Table(TableCommand::TransactEntities(transaction))));
        assert_ne!(hash, write("People", "q", "r"));
        assert_ne!(hash, write("Peoplep", "", "r"), "names and keys are kept apart");
        assert_ne!(
            hash,
            hash_of(
                &AccountName::parse("another").unwrap(),
                &Command::Table(TableCommand::WriteEntity(
                    TableName::parse("People").unwrap(),
                    delete("p", "r")
                ))
            )
        );
    }

    #[test]
    fn a_queue_has_one_hash_and_what_only_reads_has_none() {
        let queue = || QueueName::parse("tasks").unwrap();
        let put = PutMessage { queue: queue(), text: "a".to_owned(), hidden_seconds: 0, life_seconds: None };
        let of = |command| hash_of(&account(), &Command::Queue(command));
        assert!(of(QueueCommand::PutMessage(put)).is_some());
        assert_eq!(of(QueueCommand::PeekMessages(PeekMessages { queue: queue(), count: 1 })), None);
        assert_eq!(of(QueueCommand::ClearMessages(queue())), None);
        let table = TableName::parse("People").unwrap();
        let get = GetEntity { table: table.clone(), key: delete("p", "r").key };
        assert_eq!(hash_of(&account(), &Command::Table(TableCommand::GetEntity(get))), None);
        assert_eq!(hash_of(&account(), &Command::Table(TableCommand::DeleteTable(table))), None);
    }

    #[test]
    fn every_server_owns_about_as_much_as_any_other() {
        for count in [2, 3, 5, 16] {
            let servers = candidates(count);
            let mut owned = vec![0u32; servers.len()];
            for hash in hashes(u32::from(count) * 1000) {
                let chosen = owner(&servers, hash);
                owned[servers.iter().position(|server| *server == chosen).unwrap()] += 1;
            }
            assert!(owned.iter().all(|share| (850..1150).contains(share)), "{owned:?}");
        }
    }

    #[test]
    fn a_server_that_leaves_moves_only_what_it_owned() {
        let servers = candidates(5);
        let (gone, rest) = servers.split_first().unwrap();
        let mut moved = 0;
        for hash in hashes(5000) {
            let (before, after) = (owner(&servers, hash), owner(rest, hash));
            if before == *gone {
                moved += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        assert!(moved > 0);
    }
}
