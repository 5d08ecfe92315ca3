//! About how many entities a table holds, and how large they are, from few reads.
//!
//! No engine counts the rows of a table, and a large table is not read for a figure. Its keys form a tree: below a start
//! of a key stand the characters that follow it. A walk goes down from the root, takes one of the branches by chance and
//! multiplies their number, until so few entities are left that it can count them. The product is right on average,
//! whatever the keys are (D. E. Knuth, *Estimating the efficiency of backtrack programs*, 1975); several walks make it
//! close. What a walk has read of the upper branches is kept for the others.

use std::collections::HashMap;

use tavola_model::{
    Comparison, EdmValue, Filter, FilterBuilder, FilterNode, Operator, PropertyRef, QueryEntities,
    ServiceError, StoredEntity, TableName,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::facts::TableReader;
use crate::findings::propose::after_prefix;

/// Walks whose mean is taken.
const WALKS: u64 = 48;
/// Entities that are counted at the end of a walk.
const COUNTED_MAX: usize = 200;
/// Branches that are looked at in one place.
const BRANCHES_MAX: usize = 512;
/// Characters of both keys together, and a few.
const DEPTH_MAX: usize = 2_100;
/// Pages that are read for the next entity; some are empty where a page ends with its partition.
const PAGES_MAX: usize = 16;

/// How much a table holds, about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableSize {
    pub entities: f64,
    pub bytes: f64,
}

/// All keys that begin so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Branch {
    Partitions(String),
    Rows { partition: String, row: String },
    One { partition: String, row: String },
}

/// What stands below a branch.
enum Below {
    Entities(TableSize),
    Branches(Vec<Branch>),
}

/// Estimates how much a table holds. The same table gives the same figures.
pub(crate) async fn estimate(reader: &TableReader<'_>, table: &TableName) -> Result<TableSize, ServiceError> {
    let mut known: HashMap<Branch, Below> = HashMap::new();
    let mut sum = TableSize::default();
    let mut chance = xxh3_64(table.as_str().as_bytes());
    for _ in 0..WALKS {
        let mut branch = Branch::Partitions(String::new());
        let mut times = 1.0;
        for _ in 0..DEPTH_MAX {
            if !known.contains_key(&branch) {
                let below = look(reader, table, &branch).await?;
                known.insert(branch.clone(), below);
            }
            match &known[&branch] {
                Below::Entities(size) => {
                    sum.entities += size.entities * times;
                    sum.bytes += size.bytes * times;
                    break;
                }
                Below::Branches(branches) => {
                    chance = xxh3_64(&chance.to_le_bytes());
                    let Some(taken) = pick(branches, chance) else { break };
                    #[allow(clippy::cast_precision_loss, reason = "few branches")]
                    let count = branches.len() as f64;
                    times *= count;
                    branch = taken.clone();
                }
            }
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "few walks")]
    let walks = WALKS as f64;
    Ok(TableSize { entities: sum.entities / walks, bytes: sum.bytes / walks })
}

fn pick(branches: &[Branch], chance: u64) -> Option<&Branch> {
    let count = u64::try_from(branches.len()).unwrap_or(1).max(1);
    branches.get(usize::try_from(chance % count).unwrap_or(0))
}

/// Counts what is below a branch if it is little, or finds where it goes on.
async fn look(reader: &TableReader<'_>, table: &TableName, branch: &Branch) -> Result<Below, ServiceError> {
    let entities = read(reader, table, branch, None, COUNTED_MAX + 1).await?;
    if entities.len() <= COUNTED_MAX {
        let bytes = entities.iter().map(|entity| entity.properties.entity_bytes(&entity.key)).sum::<usize>();
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        let size = TableSize { entities: entities.len() as f64, bytes: bytes as f64 };
        return Ok(Below::Entities(size));
    }
    let mut branches: Vec<Branch> = Vec::new();
    let mut next = entities.into_iter().next();
    while let Some(entity) = next {
        let found = branch.towards(&entity);
        next = read(reader, table, branch, Some(&found), 1).await?.into_iter().next();
        // Keys sort by UTF-16 and not as text here does, so a branch could come again; then its rest is one with it.
        if branches.len() >= BRANCHES_MAX || branches.contains(&found) {
            break;
        }
        branches.push(found);
    }
    Ok(Below::Branches(branches))
}

impl Branch {
    /// The branch below this one that an entity is in.
    fn towards(&self, entity: &StoredEntity) -> Self {
        let (partition, row) = (entity.key.partition.as_str(), entity.key.row.as_str());
        let longer = |key: &str, start: &str| {
            let next = key.get(start.len()..).and_then(|rest| rest.chars().next());
            next.map(|next| format!("{start}{next}"))
        };
        match self {
            Self::Partitions(start) => match longer(partition, start) {
                Some(start) => Self::Partitions(start),
                None => Self::Rows { partition: partition.to_owned(), row: String::new() },
            },
            Self::Rows { row: start, .. } | Self::One { row: start, .. } => match longer(row, start) {
                Some(row) => Self::Rows { partition: partition.to_owned(), row },
                None => Self::One { partition: partition.to_owned(), row: row.to_owned() },
            },
        }
    }

    /// The keys in it, and behind the last branch that was found.
    fn filter(&self, behind: Option<&Self>) -> Option<Filter> {
        use Operator::{Eq, Ge, Gt, Lt};
        use PropertyRef::{PartitionKey, RowKey};
        let mut bounds: Vec<(PropertyRef, Operator, String)> = Vec::new();
        match self {
            Self::Partitions(start) if start.is_empty() => {}
            Self::Partitions(start) => {
                bounds.push((PartitionKey, Ge, start.clone()));
                bounds.push((PartitionKey, Lt, after_prefix(start)));
            }
            Self::Rows { partition, row } => {
                bounds.push((PartitionKey, Eq, partition.clone()));
                if !row.is_empty() {
                    bounds.push((RowKey, Ge, row.clone()));
                    bounds.push((RowKey, Lt, after_prefix(row)));
                }
            }
            Self::One { partition, row } => {
                bounds.push((PartitionKey, Eq, partition.clone()));
                bounds.push((RowKey, Eq, row.clone()));
            }
        }
        match (self, behind) {
            (_, None) => {}
            (_, Some(Self::Partitions(start))) => bounds.push((PartitionKey, Ge, after_prefix(start))),
            (Self::Partitions(_), Some(Self::Rows { partition, .. } | Self::One { partition, .. })) => {
                bounds.push((PartitionKey, Gt, partition.clone()));
            }
            (_, Some(Self::Rows { row, .. })) => bounds.push((RowKey, Ge, after_prefix(row))),
            (_, Some(Self::One { row, .. })) => bounds.push((RowKey, Gt, row.clone())),
        }
        let mut builder = FilterBuilder::new();
        let mut whole = None;
        for (property, operator, text) in bounds {
            let literal = EdmValue::String(&text);
            let one = builder.add(FilterNode::Compare(Comparison::new(property, operator, literal)));
            whole = Some(match whole {
                Some(before) => builder.add(FilterNode::And(before, one)),
                None => one,
            });
        }
        whole.map(|_| builder.finish())
    }
}

/// The first entities of a branch.
async fn read(
    reader: &TableReader<'_>,
    table: &TableName,
    branch: &Branch,
    behind: Option<&Branch>,
    count: usize,
) -> Result<Vec<StoredEntity>, ServiceError> {
    let filter = branch.filter(behind);
    let (mut entities, mut from) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let top = Some(count - entities.len());
        let query = QueryEntities { table: table.clone(), filter: filter.clone(), top, from };
        let page = reader.page(query).await?;
        entities.extend(page.entities);
        from = page.next;
        if entities.len() >= count || from.is_none() {
            break;
        }
    }
    Ok(entities)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tavola_auth::Account;
    use tavola_engine::MemoryEngine;
    use tavola_model::{
        EntityChange, EntityGroupTransaction, EntityKey, EntityWrite, Key, PropertiesBuilder, TableCommand,
    };
    use tavola_service::{Service, ServiceSettings};
    use tavola_system::{SystemClock, SystemRandom};

    use super::*;

    /// The estimate for entities with these keys, over what there is.
    async fn ratio(keys: impl Iterator<Item = (String, String)>) -> (f64, f64) {
        let engine = Arc::new(MemoryEngine::new(Arc::new(SystemClock)));
        let service =
            Service::new(engine, Arc::new(SystemClock), Arc::new(SystemRandom), ServiceSettings::default());
        let account = Account::development();
        let reader = TableReader::new(&service, &account);
        let table = TableName::parse("Large").unwrap();
        reader.execute(TableCommand::CreateTable(table.clone())).await.unwrap();
        let (mut entities, mut bytes) = (0.0, 0.0);
        let mut writes: Vec<EntityWrite> = Vec::new();
        let mut keys = keys.peekable();
        while let Some((partition, row)) = keys.next() {
            let mut properties = PropertiesBuilder::new();
            properties.push("Text", EdmValue::String("some text")).unwrap();
            let key =
                EntityKey { partition: Key::parse(&partition).unwrap(), row: Key::parse(&row).unwrap() };
            let properties = properties.finish();
            entities += 1.0;
            bytes += properties.entity_bytes(&key) as f64;
            writes.push(EntityWrite { key, change: EntityChange::Insert(properties) });
            let goes_on = keys.peek().is_some_and(|(next, _)| *next == partition);
            if writes.len() == 100 || !goes_on {
                let writes = std::mem::take(&mut writes);
                let batch = EntityGroupTransaction { table: table.clone(), writes };
                reader.execute(TableCommand::TransactEntities(batch)).await.unwrap();
            }
        }
        let size = estimate(&reader, &table).await.unwrap();
        (size.entities / entities, size.bytes / bytes)
    }

    #[tokio::test]
    async fn a_table_is_estimated_from_its_keys() {
        let scattered = |n: u64| xxh3_64(&n.to_le_bytes());
        let near = |what: &str, (entities, bytes): (f64, f64)| {
            assert!(
                (0.7..1.4).contains(&entities) && (0.7..1.4).contains(&bytes),
                "{what}: {entities} {bytes}"
            );
        };
        near("numbers", ratio((0..20_000).map(|n| (format!("customer-{n:06}"), "r".to_owned()))).await);
        near("hashes", ratio((0..20_000).map(|n| (format!("{:016x}", scattered(n)), "r".to_owned()))).await);
        near("one partition", ratio((0..20_000).map(|n| ("p".to_owned(), format!("{n:08}")))).await);
        near(
            "starts of each other",
            ratio((0..10_000).map(|n| ("x".repeat(1 + n / 2_000), format!("{n:08}")))).await,
        );
        near("few", ratio((0..150).map(|n| (n.to_string(), "r".to_owned()))).await);
    }
}
