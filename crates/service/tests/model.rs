//! The whole service against a model that is a map: whatever is asked, both give the same answers and end with
//! the same entities.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::Bench;
use proptest::prelude::*;
use tavola_model::{
    DateTime, EdmValue, EntityChange, ErrorCode, Etag, EtagCondition, Properties, PropertiesBuilder,
    WriteOutcome,
};

const PARTITIONS: [&str; 2] = ["p", "q"];
const ROWS: [&str; 3] = ["", "1", "2"];
const NAMES: [&str; 4] = ["b", "B", "a", "c"];

/// What is asked, with conditions that mean something only when it is asked.
#[derive(Clone, Debug)]
struct Ask {
    partition: usize,
    row: usize,
    kind: Kind,
    condition: Condition,
    properties: Vec<(usize, i32)>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Insert,
    InsertOrReplace,
    InsertOrMerge,
    Update,
    Merge,
    Delete,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    Any,
    Current,
    Stale,
    Foreign,
}

#[derive(Clone, Debug)]
enum Step {
    One(Ask),
    Group(Vec<Ask>),
}

fn any_ask() -> impl Strategy<Value = Ask> {
    use Kind::{Delete, Insert, InsertOrMerge, InsertOrReplace, Merge, Update};
    let kind = prop::sample::select(vec![Insert, InsertOrReplace, InsertOrMerge, Update, Merge, Delete]);
    use Condition::{Any, Current, Foreign, Stale};
    let condition = prop::sample::select(vec![Any, Any, Current, Current, Current, Stale, Foreign]);
    let properties = prop::collection::vec((0..NAMES.len(), 0..5), 0..4);
    (0..PARTITIONS.len(), 0..ROWS.len(), kind, condition, properties).prop_map(
        |(partition, row, kind, condition, properties)| Ask { partition, row, kind, condition, properties },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    // Most groups keep to one partition, or nearly all would fail for that alone.
    let group = (prop::collection::vec(any_ask(), 1..4), 0..8usize).prop_map(|(mut asks, stray)| {
        let partition = asks[0].partition;
        for (index, ask) in asks.iter_mut().enumerate() {
            ask.partition = if index == stray { ask.partition } else { partition };
        }
        Step::Group(asks)
    });
    prop_oneof![3 => any_ask().prop_map(Step::One), 2 => group]
}

/// A stored entity of the model: its version and its properties in stored order.
type Stored = (DateTime, Vec<(&'static str, i32)>);
type Model = BTreeMap<(&'static str, &'static str), Stored>;

impl Ask {
    fn key(&self) -> (&'static str, &'static str) {
        (PARTITIONS[self.partition], ROWS[self.row])
    }

    /// The properties asked for, the first of each name.
    fn list(&self) -> Vec<(&'static str, i32)> {
        let mut list: Vec<(&'static str, i32)> = Vec::new();
        for (name, value) in &self.properties {
            if list.iter().all(|(known, _)| *known != NAMES[*name]) {
                list.push((NAMES[*name], *value));
            }
        }
        list
    }

    fn condition(&self, model: &Model) -> EtagCondition {
        let stale = EtagCondition::Is(Etag(DateTime::STORABLE_MIN));
        match self.condition {
            Condition::Any => EtagCondition::Any,
            Condition::Current => {
                model.get(&self.key()).map_or(stale, |(version, _)| EtagCondition::Is(Etag(*version)))
            }
            Condition::Stale => stale,
            Condition::Foreign => EtagCondition::Foreign,
        }
    }

    fn change(&self, model: &Model) -> EntityChange {
        let properties = pack(&self.list());
        match self.kind {
            Kind::Insert => EntityChange::Insert(properties),
            Kind::InsertOrReplace => EntityChange::InsertOrReplace(properties),
            Kind::InsertOrMerge => EntityChange::InsertOrMerge(properties),
            Kind::Update => EntityChange::Update(properties, self.condition(model)),
            Kind::Merge => EntityChange::Merge(properties, self.condition(model)),
            Kind::Delete => EntityChange::Delete(self.condition(model)),
        }
    }

    /// What the rules say comes of it; `None` for a deletion.
    fn apply(&self, model: &Model) -> Result<Option<Vec<(&'static str, i32)>>, ErrorCode> {
        let stored = model.get(&self.key());
        let admitted = match (self.condition, stored) {
            (_, None) => Err(ErrorCode::ResourceNotFound),
            (Condition::Any | Condition::Current, Some(_)) => Ok(()),
            (Condition::Stale | Condition::Foreign, Some(_)) => Err(ErrorCode::UpdateConditionNotSatisfied),
        };
        let sorted = |mut list: Vec<(&'static str, i32)>| {
            list.sort_by_key(|(name, _)| *name);
            list
        };
        let merged = || {
            let mut map: BTreeMap<_, _> = stored.iter().flat_map(|(_, list)| list.iter().copied()).collect();
            map.extend(self.list());
            map.into_iter().collect::<Vec<_>>()
        };
        match self.kind {
            Kind::Insert if stored.is_some() => Err(ErrorCode::EntityAlreadyExists),
            Kind::Insert => Ok(Some(self.list())),
            Kind::InsertOrReplace => Ok(Some(sorted(self.list()))),
            Kind::InsertOrMerge => Ok(Some(merged())),
            Kind::Update => admitted.map(|()| Some(sorted(self.list()))),
            Kind::Merge => admitted.map(|()| Some(merged())),
            Kind::Delete => admitted.map(|()| None),
        }
    }
}

/// What the model says about a group: the failing index and code, or what each entity becomes.
type Becomes = Vec<Option<Vec<(&'static str, i32)>>>;

fn apply_group(asks: &[Ask], model: &Model) -> Result<Becomes, (Option<usize>, ErrorCode)> {
    for (index, ask) in asks.iter().enumerate() {
        if ask.partition != asks[0].partition {
            return Err((Some(index), ErrorCode::CommandsInBatchActOnDifferentPartitions));
        }
        if asks[..index].iter().any(|earlier| earlier.row == ask.row) {
            return Err((Some(index), ErrorCode::InvalidDuplicateRow));
        }
    }
    let each = asks.iter().enumerate();
    each.map(|(index, ask)| ask.apply(model).map_err(|code| (Some(index), code))).collect()
}

fn keep(model: &mut Model, asks: &[Ask], becomes: Becomes, outcomes: &[WriteOutcome]) {
    for ((ask, list), outcome) in asks.iter().zip(becomes).zip(outcomes) {
        let version = match outcome {
            WriteOutcome::Inserted(entity) => Some(entity.timestamp),
            WriteOutcome::Updated { etag, .. } => Some(etag.0),
            WriteOutcome::Deleted => None,
        };
        assert_eq!(version.is_some(), list.is_some(), "{ask:?}");
        match version.zip(list) {
            Some((version, list)) => {
                let newest = model.values().map(|(version, _)| *version).max();
                let is_newer =
                    newest.is_none_or(|newest| newest < version || asks.len() > 1 && newest == version);
                assert!(is_newer, "versions only go up");
                model.insert(ask.key(), (version, list));
            }
            None => {
                model.remove(&ask.key());
            }
        }
    }
}

fn pack(list: &[(&'static str, i32)]) -> Properties {
    let mut builder = PropertiesBuilder::new();
    list.iter().for_each(|(name, value)| builder.push(name, EdmValue::Int32(*value)).unwrap());
    builder.finish()
}

fn path(ask: &Ask) -> String {
    let (partition, row) = ask.key();
    format!("{partition}/{row}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_service_does_what_the_model_does(steps in prop::collection::vec(any_step(), 1..24)) {
        let bench = Bench::with_table();
        let mut model = Model::new();
        for step in &steps {
            match step {
                Step::One(ask) => {
                    let answer = bench.write(&path(ask), ask.change(&model));
                    match (ask.apply(&model), answer) {
                        (Ok(list), Ok(outcome)) => {
                            keep(&mut model, std::slice::from_ref(ask), vec![list], &[outcome]);
                        }
                        (expected, answer) => prop_assert_eq!(answer.map(|_| ()), expected.map(|_| ()), "{:?}", ask),
                    }
                }
                Step::Group(asks) => {
                    let paths: Vec<_> = asks.iter().map(path).collect();
                    let writes = paths.iter().zip(asks).map(|(path, ask)| (path.as_str(), ask.change(&model))).collect();
                    let answer = bench.transact(writes);
                    match (apply_group(asks, &model), answer) {
                        (Ok(becomes), Ok(outcomes)) => keep(&mut model, asks, becomes, &outcomes),
                        (expected, answer) => prop_assert_eq!(answer.map(|_| ()), expected.map(|_| ()), "{:?}", asks),
                    }
                }
            }
            let page = bench.query("", None, None);
            let stored: Vec<_> = page.entities.iter().map(|e| {
                ((e.key.partition.as_str(), e.key.row.as_str()), (e.timestamp, e.properties.clone()))
            }).collect();
            let expected: Vec<_> = model.iter().map(|(key, (version, list))| (*key, (*version, pack(list)))).collect();
            prop_assert_eq!(stored, expected);
        }
    }
}
