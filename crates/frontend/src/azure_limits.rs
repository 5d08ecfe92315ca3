//! The scalability targets of the real service, for whoever wants to see a design fail before it is deployed.
//!
//! Within a second an account takes 20,000 requests, a partition of a table 2,000 entities and a queue 2,000 messages
//! (<https://learn.microsoft.com/azure/storage/tables/scalability-targets>,
//! <https://learn.microsoft.com/azure/storage/queues/scalability-targets>). Beyond that the service answers `503
//! ServerBusy` or `500 OperationTimedOut`
//! (<https://learn.microsoft.com/azure/storage/tables/storage-performance-checklist#throttlingserver-busy-errors>).
//! Here it is 503 for what exceeds a target, and 500 for what is asked beyond twice the target. What is refused has not
//! been executed; the real service may have executed what it answers 500.
//!
//! The targets are buckets that hold one second's worth. A request is let in while its buckets are not empty, and may
//! leave them owing. A batch costs as many as it writes. A query costs 1 when it is let in, paid by the partition where
//! it begins to read, and in all as many as it has read, whether they are on its page or not, paid by the partitions
//! they are in as soon as that is known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tavola_model::{
    ACCOUNT_REQUESTS_PER_SECOND, AccountName, Clock, Command, EdmValue, EntityPage, ErrorCode, Filter,
    FilterNode, Operator, Outcome, PARTITION_ENTITIES_PER_SECOND, PropertyRef, QUEUE_MESSAGES_PER_SECOND,
    QueueOutcome, ServiceError, TableCommand, TableOutcome,
};
use xxhash_rust::xxh3::Xxh3;

/// Buckets that are kept before full ones are thrown away.
const BUCKETS_KEPT: usize = 65_536;

/// Parts of one token, so that a bucket fills evenly.
const PARTS: i64 = 1_000_000;

/// Holds accounts, partitions and queues to their targets.
pub struct AzureLimits {
    clock: Arc<dyn Clock>,
    buckets: Mutex<Buckets>,
}

/// All buckets that are not full, and some that are.
struct Buckets {
    targets: HashMap<u64, Target>,
    /// How many there are when full ones are looked for next.
    sweep_at: usize,
}

/// What one account, partition or queue has left.
#[derive(Clone, Copy, Debug)]
struct Target {
    per_second: i64,
    at: Duration,
    /// What it is given.
    given: i64,
    /// What is asked of it, refused requests included; filled twice as fast.
    asked: i64,
}

/// What a request has paid from when it was let in, beside its account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Admitted {
    bucket: Option<u64>,
}

/// What a request is paid from, beside its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Charge {
    bucket: u64,
    per_second: u32,
    count: usize,
}

impl AzureLimits {
    /// Limits that have not been used yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let buckets = Buckets { targets: HashMap::new(), sweep_at: BUCKETS_KEPT };
        Self { clock, buckets: Mutex::new(buckets) }
    }

    /// Lets a command in, or says why not.
    pub(crate) fn admit(&self, account: &AccountName, command: &Command) -> Result<Admitted, ServiceError> {
        let now = self.clock.monotonic();
        let mut buckets = self.lock();
        buckets.sweep(now);
        let of_account = buckets.target(hash(&[account.as_str()]), ACCOUNT_REQUESTS_PER_SECOND, now);
        if !of_account.ask(1, now) {
            return Err(ErrorCode::OperationTimedOut.into());
        }
        if !of_account.take(1, now) {
            let message = "Operations per second is over the account limit.";
            return Err(ServiceError::with_message(ErrorCode::ServerBusy, message));
        }
        let Some(charge) = charge(account, command) else { return Ok(Admitted::default()) };
        let partition = buckets.target(charge.bucket, charge.per_second, now);
        if !partition.ask(charge.count, now) {
            return Err(ErrorCode::OperationTimedOut.into());
        }
        if !partition.take(charge.count, now) {
            return Err(ErrorCode::ServerBusy.into());
        }
        Ok(Admitted { bucket: Some(charge.bucket) })
    }

    /// Takes what an answer costs beyond what was taken when its request was let in.
    pub(crate) fn settle(
        &self,
        account: &AccountName,
        admitted: Admitted,
        resource: Option<&str>,
        outcome: &Outcome,
    ) {
        let (Some(resource), now) = (resource, self.clock.monotonic()) else { return };
        let mut buckets = self.lock();
        match outcome {
            Outcome::Table(TableOutcome::EntitiesQueried(page)) => {
                for (bucket, count) in page_costs(account, admitted, resource, page) {
                    buckets.target(bucket, PARTITION_ENTITIES_PER_SECOND, now).owe(count, now);
                }
            }
            Outcome::Queue(QueueOutcome::MessagesGot(got)) => {
                let bucket = hash(&[account.as_str(), "queue", resource]);
                let more = got.len().saturating_sub(1);
                buckets.target(bucket, QUEUE_MESSAGES_PER_SECOND, now).owe(more, now);
            }
            Outcome::Queue(QueueOutcome::MessagesPeeked(peeked)) => {
                let bucket = hash(&[account.as_str(), "queue", resource]);
                let more = peeked.len().saturating_sub(1);
                buckets.target(bucket, QUEUE_MESSAGES_PER_SECOND, now).owe(more, now);
            }
            Outcome::Account(_) | Outcome::Table(_) | Outcome::Queue(_) | Outcome::Blob(_) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    fn target(&mut self, bucket: u64, per_second: u32, now: Duration) -> &mut Target {
        self.targets.entry(bucket).or_insert_with(|| Target::new(per_second, now))
    }

    /// Throws full buckets away once there are many. While most are in use it is not tried with every request.
    fn sweep(&mut self, now: Duration) {
        if self.targets.len() >= self.sweep_at {
            self.targets.retain(|_, target| !target.is_full(now));
            self.sweep_at = BUCKETS_KEPT.max(2 * self.targets.len());
        }
    }
}

impl Target {
    fn new(per_second: u32, now: Duration) -> Self {
        let per_second = i64::from(per_second);
        Self { per_second, at: now, given: per_second * PARTS, asked: 2 * per_second * PARTS }
    }

    fn fill(&mut self, now: Duration) {
        // More than a second fills everything that is not owed for longer.
        let micros = now.saturating_sub(self.at).as_micros();
        let parts = i64::try_from(micros).unwrap_or(i64::MAX).saturating_mul(self.per_second);
        let full = self.per_second * PARTS;
        self.given = self.given.saturating_add(parts).min(full);
        self.asked = self.asked.saturating_add(parts.saturating_mul(2)).min(2 * full);
        self.at = self.at.max(now);
    }

    /// Counts what is asked for; `false` if it is beyond twice the target.
    fn ask(&mut self, count: usize, now: Duration) -> bool {
        self.fill(now);
        let is_served = self.asked > 0;
        if is_served {
            self.asked -= cost(count);
        }
        is_served
    }

    /// Takes as much, if there is anything left.
    fn take(&mut self, count: usize, now: Duration) -> bool {
        self.fill(now);
        let is_served = self.given > 0;
        if is_served {
            self.given -= cost(count);
        }
        is_served
    }

    /// Takes as much in any case, of both.
    fn owe(&mut self, count: usize, now: Duration) {
        self.fill(now);
        self.given -= cost(count);
        self.asked -= cost(count);
    }

    fn is_full(&self, now: Duration) -> bool {
        let mut target = *self;
        target.fill(now);
        target.given == self.per_second * PARTS && target.asked == 2 * self.per_second * PARTS
    }
}

fn cost(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / PARTS).saturating_mul(PARTS)
}

/// What a page costs beyond the 1 that its query has paid, by bucket: the rows that were read for it. With these limits a
/// page ends with its partition, so rows that are not on it were read from the same one.
fn page_costs(
    account: &AccountName,
    admitted: Admitted,
    table: &str,
    page: &EntityPage,
) -> Vec<(u64, usize)> {
    let of_partition = page.entities.chunk_by(|one, next| one.key.partition == next.key.partition);
    let mut costs: Vec<(u64, usize)> = of_partition
        .map(|entities| (partition_hash(account, table, entities[0].key.partition.as_str()), entities.len()))
        .collect();
    if costs.is_empty() {
        // Nothing was found where it began to read.
        costs.extend(admitted.bucket.map(|bucket| (bucket, 0)));
    }
    let others = page.plan.scanned.saturating_sub(page.entities.len());
    let (parts, mut rest) = (costs.len().max(1), others % costs.len().max(1));
    for (_, count) in &mut costs {
        *count += others / parts + std::mem::take(&mut rest);
    }
    let Some(begin) = admitted.bucket else { return costs };
    match costs.iter_mut().find(|(bucket, _)| *bucket == begin) {
        Some((_, count)) => *count = count.saturating_sub(1),
        // It began at the start of the table, whichever partition is there; the next one that does is to pay as well.
        None => costs.extend(costs.first().map(|(_, count)| (begin, count.saturating_sub(1)))),
    }
    costs
}

/// What a command is paid from. A query pays 1 from where it begins to read: the partition it names, or else that of its
/// continuation, or else the start of the table.
fn charge(account: &AccountName, command: &Command) -> Option<Charge> {
    let of_partition = |table: &str, partition: &str, count: usize| Charge {
        bucket: partition_hash(account, table, partition),
        per_second: PARTITION_ENTITIES_PER_SECOND,
        count,
    };
    match command {
        Command::Table(command) => {
            let table = command.table()?.as_str();
            match command {
                TableCommand::GetEntity(get) => Some(of_partition(table, get.key.partition.as_str(), 1)),
                TableCommand::WriteEntity(_, write) => {
                    Some(of_partition(table, write.key.partition.as_str(), 1))
                }
                TableCommand::TransactEntities(transaction) => {
                    let partition = transaction.writes.first()?.key.partition.as_str();
                    Some(of_partition(table, partition, transaction.writes.len()))
                }
                TableCommand::QueryEntities(query) => {
                    let named = query.filter.as_ref().and_then(only_partition);
                    let continued = query.from.as_ref().map(|token| &*token.partition);
                    Some(of_partition(table, named.or(continued).unwrap_or_default(), 1))
                }
                TableCommand::QueryTables(_)
                | TableCommand::GetTable(_)
                | TableCommand::CreateTable(_)
                | TableCommand::DeleteTable(_)
                | TableCommand::GetTableAcl(_)
                | TableCommand::SetTableAcl(..)
                | TableCommand::ProbeTable(..) => None,
            }
        }
        Command::Queue(command) => Some(Charge {
            bucket: hash(&[account.as_str(), "queue", command.queue()?.as_str()]),
            per_second: QUEUE_MESSAGES_PER_SECOND,
            count: 1,
        }),
        Command::Account(_) | Command::Blob(_) => None,
    }
}

/// The partition that a filter asks for, if it names just one.
fn only_partition(filter: &Filter) -> Option<&str> {
    // The root is last.
    let mut open = vec![filter.nodes().last()?];
    while let Some(node) = open.pop() {
        match node {
            FilterNode::And(one, other) => {
                open.extend([one, other].map(|node| &filter.nodes()[node.index()]));
            }
            FilterNode::Compare(compare)
                if compare.property == PropertyRef::PartitionKey && compare.operator == Operator::Eq =>
            {
                if let EdmValue::String(text) = compare.literal() {
                    return Some(text);
                }
            }
            FilterNode::Compare(_) | FilterNode::Constant(_) | FilterNode::Or(..) | FilterNode::Not(_) => {}
        }
    }
    None
}

fn partition_hash(account: &AccountName, table: &str, partition: &str) -> u64 {
    hash(&[account.as_str(), "table", &table.to_ascii_lowercase(), partition])
}

fn hash(parts: &[&str]) -> u64 {
    let mut hasher = Xxh3::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tavola_model::{
        Comparison, DateTime, EntityChange, EntityGroupTransaction, EntityKey, EntityToken, EntityWrite,
        FilterBuilder, GetEntity, Key, PlanKind, PlanReport, Properties, PutMessage, QueryEntities,
        QueueCommand, QueueName, StoredEntity, TableName,
    };

    use super::*;

    /// A clock that a test moves.
    #[derive(Default)]
    struct Held(AtomicU64);

    impl Held {
        fn pass_ms(&self, ms: u64) {
            self.0.fetch_add(ms * 10_000, Ordering::Relaxed);
        }
    }

    impl Clock for Held {
        fn now(&self) -> DateTime {
            DateTime::from_unix_ticks(self.0.load(Ordering::Relaxed))
        }
    }

    struct Limited {
        limits: AzureLimits,
        clock: Arc<Held>,
        account: AccountName,
    }

    impl Limited {
        fn new() -> Self {
            let clock = Arc::new(Held::default());
            let account = AccountName::parse("devstoreaccount1").unwrap();
            Self { limits: AzureLimits::new(clock.clone()), clock, account }
        }

        /// Sends a command so often, and counts those that are let in, refused with 503 and refused with 500.
        fn send(&self, count: usize, command: &Command) -> [usize; 3] {
            let mut counts = [0; 3];
            for _ in 0..count {
                let index = match self.limits.admit(&self.account, command).map_err(|error| error.code) {
                    Ok(_) => 0,
                    Err(ErrorCode::ServerBusy) => 1,
                    Err(ErrorCode::OperationTimedOut) => 2,
                    Err(other) => panic!("{other:?}"),
                };
                counts[index] += 1;
            }
            counts
        }
    }

    fn key(partition: &str) -> EntityKey {
        EntityKey { partition: Key::parse(partition).unwrap(), row: Key::parse("r").unwrap() }
    }

    fn table() -> TableName {
        TableName::parse("People").unwrap()
    }

    fn get(partition: &str) -> Command {
        TableCommand::GetEntity(GetEntity { table: table(), key: key(partition) }).into()
    }

    #[test]
    fn a_partition_takes_2000_entities_a_second_then_503_then_500() {
        let limited = Limited::new();
        assert_eq!(limited.send(2_000, &get("p")), [2_000, 0, 0]);
        assert_eq!(limited.send(2_000, &get("p")), [0, 2_000, 0]);
        assert_eq!(limited.send(10, &get("p")), [0, 0, 10]);
        assert_eq!(limited.send(10, &get("q")), [10, 0, 0], "another partition has its own");
        limited.clock.pass_ms(500);
        assert_eq!(limited.send(1_500, &get("p")), [1_000, 500, 0]);
        limited.clock.pass_ms(5_000);
        assert_eq!(limited.send(2_001, &get("p")), [2_000, 1, 0], "a second's worth at most is saved up");
    }

    #[test]
    fn a_batch_costs_as_many_as_it_writes() {
        let limited = Limited::new();
        let write = EntityWrite { key: key("p"), change: EntityChange::Insert(Properties::empty()) };
        let writes = vec![write; 100];
        let batch: Command =
            TableCommand::TransactEntities(EntityGroupTransaction { table: table(), writes }).into();
        assert_eq!(limited.send(25, &batch), [20, 5, 0]);
    }

    #[test]
    fn an_account_takes_20000_requests_a_second() {
        let limited = Limited::new();
        for partition in 0..20 {
            assert_eq!(limited.send(1_000, &get(&partition.to_string())), [1_000, 0, 0]);
        }
        assert_eq!(limited.send(5, &get("p")), [0, 5, 0]);
        let refused = limited.limits.admit(&limited.account, &get("p")).unwrap_err();
        assert_eq!(refused.message, "Operations per second is over the account limit.");
        let other = AccountName::parse("another").unwrap();
        assert!(limited.limits.admit(&other, &get("p")).is_ok());
        assert_eq!(limited.send(20_000, &get("p")), [0, 19_994, 6], "twice the target has been asked for");
    }

    #[test]
    fn a_queue_takes_2000_messages_a_second() {
        let limited = Limited::new();
        let put = |queue: &str| -> Command {
            let queue = QueueName::parse(queue).unwrap();
            let put = PutMessage { queue, text: "x".into(), hidden_seconds: 0, life_seconds: None };
            QueueCommand::PutMessage(put).into()
        };
        assert_eq!(limited.send(4_001, &put("first")), [2_000, 2_000, 1]);
        assert_eq!(limited.send(1, &put("second")), [1, 0, 0]);
    }

    fn query(partition: Option<&str>, from: Option<&str>) -> Command {
        let compare = |property, operator, literal| {
            FilterNode::Compare(Comparison::new(property, operator, EdmValue::String(literal)))
        };
        let filter = partition.map(|partition| {
            let mut filter = FilterBuilder::new();
            let partition = filter.add(compare(PropertyRef::PartitionKey, Operator::Eq, partition));
            let row = filter.add(compare(PropertyRef::RowKey, Operator::Gt, "a"));
            filter.add(FilterNode::And(row, partition));
            filter.finish()
        });
        let from = from.map(|partition| EntityToken { partition: partition.into(), row: "".into() });
        TableCommand::QueryEntities(QueryEntities { table: table(), filter, top: None, from }).into()
    }

    impl Limited {
        /// Sends a query that is let in, and answers it with a page of these entities after so many rows.
        fn page(&self, query: &Command, entities: &[(&str, usize)], scanned: usize) {
            let entity = |partition: &str| StoredEntity {
                key: key(partition),
                timestamp: DateTime::from_unix_ticks(0),
                properties: Properties::empty(),
            };
            let entities: Vec<StoredEntity> =
                entities.iter().flat_map(|(partition, count)| vec![entity(partition); *count]).collect();
            let plan = PlanReport { kind: PlanKind::TableScan, ranges: 1, scanned, returned: entities.len() };
            let page = EntityPage { entities, next: None, plan };
            let outcome = Outcome::Table(TableOutcome::EntitiesQueried(page));
            let admitted = self.limits.admit(&self.account, query).unwrap();
            self.limits.settle(&self.account, admitted, Some("people"), &outcome);
        }
    }

    #[test]
    fn a_page_is_paid_by_the_partitions_it_came_from() {
        let limited = Limited::new();
        limited.page(&query(None, None), &[("p", 1_000), ("q", 5)], 1_005);
        assert_eq!(limited.send(2_000, &get("p")), [1_000, 1_000, 0]);
        assert_eq!(limited.send(2_000, &get("q")), [1_995, 5, 0]);
        assert_eq!(limited.send(1, &query(Some("p"), None)), [0, 1, 0]);
    }

    #[test]
    fn a_scan_costs_what_it_reads_and_not_what_it_returns() {
        let limited = Limited::new();
        limited.page(&query(Some("p"), None), &[("p", 1)], 1_900);
        assert_eq!(limited.send(200, &get("p")), [100, 100, 0]);
        let limited = Limited::new();
        limited.page(&query(Some("p"), None), &[], 1_900);
        assert_eq!(limited.send(200, &get("p")), [100, 100, 0], "nothing was found, and all of it read");
        let limited = Limited::new();
        limited.page(&query(None, Some("p")), &[], 1_900);
        assert_eq!(limited.send(200, &get("p")), [100, 100, 0], "it went on where the last page ended");
    }

    #[test]
    fn queries_are_refused_for_the_partition_they_read_whether_they_name_it_or_not() {
        let limited = Limited::new();
        assert_eq!(limited.send(4_001, &query(Some("p"), None)), [2_000, 2_000, 1], "asking costs 1");
        assert_eq!(limited.send(1, &query(None, Some("p"))), [0, 0, 1]);
        assert_eq!(limited.send(1, &query(None, Some("q"))), [1, 0, 0]);
        let limited = Limited::new();
        limited.page(&query(None, None), &[("first", 10)], 2_500);
        assert_eq!(limited.send(1, &query(None, None)), [0, 1, 0], "the next scan begins there too");
        assert_eq!(limited.send(1, &get("first")), [0, 1, 0]);
        let limited = Limited::new();
        limited.page(&query(Some("p"), None), &[("p", 1_000)], 4_000);
        assert_eq!(
            limited.send(1, &query(Some("p"), None)),
            [0, 0, 1],
            "rows that were read are asked for too"
        );
    }

    #[test]
    fn targets_that_nobody_uses_are_forgotten() {
        let limited = Limited::new();
        for partition in 0..BUCKETS_KEPT {
            let _ = limited.limits.admit(&limited.account, &get(&partition.to_string()));
            limited.clock.pass_ms(1);
        }
        limited.clock.pass_ms(2_000);
        assert_eq!(limited.send(1, &get("p")), [1, 0, 0]);
        assert!(limited.limits.lock().targets.len() < 10);
    }
}
