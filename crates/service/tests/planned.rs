//! For generated data and filters: what the plan finds is what testing every entity finds, and no row is read
//! that the plan does not claim.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::Bench;
use proptest::prelude::*;
use tavola_model::{
    Comparison, EdmValue, EntityChange, Filter, FilterBuilder, FilterNode, KeyBytes, NodeId, Operator,
    PropertiesBuilder, PropertyRef, StoredEntity,
};
use tavola_odata::{parse_filter, write_filter};
use tavola_service::plan;

/// Few keys, so that filters and entities meet; some outside the basic plane and next to it.
const KEYS: [&str; 7] = ["", "a", "aa", "b", "\u{FFFD}", "\u{1F600}", "\u{1F600}a"];

#[derive(Clone, Debug)]
enum Tree {
    Leaf(FilterNode),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
}

fn build(tree: &Tree, builder: &mut FilterBuilder) -> NodeId {
    let node = match tree {
        Tree::Leaf(node) => node.clone(),
        Tree::And(left, right) => FilterNode::And(build(left, builder), build(right, builder)),
        Tree::Or(left, right) => FilterNode::Or(build(left, builder), build(right, builder)),
        Tree::Not(inner) => FilterNode::Not(build(inner, builder)),
    };
    builder.add(node)
}

fn any_leaf() -> impl Strategy<Value = FilterNode> {
    use Operator::{Eq, Ge, Gt, Le, Lt, Ne};
    let operator = prop::sample::select(vec![Eq, Eq, Ne, Gt, Ge, Lt, Le]);
    let property =
        prop::sample::select(vec!["PartitionKey", "PartitionKey", "RowKey", "RowKey", "n", "Timestamp"]);
    let literal = prop_oneof![
        12 => prop::sample::select(KEYS.to_vec()).prop_map(EdmValue::String),
        2 => (0..4).prop_map(EdmValue::Int32),
        1 => any::<bool>().prop_map(EdmValue::Boolean),
    ];
    prop_oneof![
        20 => (property, operator, literal).prop_map(|(property, operator, literal)| {
            FilterNode::Compare(Comparison::new(PropertyRef::from_name(property), operator, literal))
        }),
        1 => any::<bool>().prop_map(FilterNode::Constant),
    ]
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let tree = any_leaf().prop_map(Tree::Leaf).prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(l, r)| Tree::And(Box::new(l), Box::new(r))),
            3 => (inner.clone(), inner.clone()).prop_map(|(l, r)| Tree::Or(Box::new(l), Box::new(r))),
            2 => inner.prop_map(|tree| Tree::Not(Box::new(tree))),
        ]
    });
    tree.prop_map(|tree| {
        let mut builder = FilterBuilder::new();
        build(&tree, &mut builder);
        builder.finish()
    })
}

/// The meaning of a filter, said again in the plainest way: by recursion, on text in UTF-16.
fn admits(filter: &Filter, index: usize, entity: &StoredEntity) -> bool {
    match &filter.nodes()[index] {
        FilterNode::Constant(flag) => *flag,
        FilterNode::And(l, r) => admits(filter, l.index(), entity) && admits(filter, r.index(), entity),
        FilterNode::Or(l, r) => admits(filter, l.index(), entity) || admits(filter, r.index(), entity),
        FilterNode::Not(inner) => !admits(filter, inner.index(), entity),
        FilterNode::Compare(comparison) => {
            let value = match &comparison.property {
                PropertyRef::PartitionKey => EdmValue::String(entity.key.partition.as_str()),
                PropertyRef::RowKey => EdmValue::String(entity.key.row.as_str()),
                PropertyRef::Timestamp => EdmValue::DateTime(entity.timestamp),
                PropertyRef::Named(name) => match entity.properties.get(name) {
                    Some(value) => value,
                    None => return false,
                },
            };
            if let (EdmValue::String(value), EdmValue::String(literal)) = (value, comparison.literal()) {
                let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
                return comparison.operator.admits(units(value).cmp(&units(literal)));
            }
            tavola_odata::holds(value, comparison.operator, comparison.literal())
        }
    }
}

/// A table with some of all combinations of keys.
fn with_entities(places: &[(usize, usize)]) -> (Bench, Vec<StoredEntity>) {
    let bench = Bench::with_table();
    for (partition, row) in places {
        let mut builder = PropertiesBuilder::new();
        match (partition + row) % 3 {
            0 => builder.push("n", EdmValue::Int32(i32::try_from(*row).unwrap())).unwrap(),
            1 => builder.push("n", EdmValue::String(KEYS[*row])).unwrap(),
            _ => {}
        }
        let key = format!("{}/{}", KEYS[*partition], KEYS[*row]);
        bench.write(&key, EntityChange::InsertOrReplace(builder.finish())).unwrap();
    }
    let all = bench.query("", None, None).entities;
    (bench, all)
}

fn keys(entities: &[StoredEntity]) -> Vec<(String, String)> {
    let texts =
        |entity: &StoredEntity| (entity.key.partition.as_str().into(), entity.key.row.as_str().into());
    entities.iter().map(texts).collect()
}

fn places() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..KEYS.len(), 0..KEYS.len()), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn planned_results_are_brute_force_results_and_reads_stay_in_the_plan(places in places(), filter in any_filter()) {
        let (bench, all) = with_entities(&places);
        let text = write_filter(&filter);
        let root = filter.nodes().len() - 1;
        let expected: Vec<_> = all.iter().filter(|entity| admits(&filter, root, entity)).cloned().collect();
        let page = bench.query(&text, None, None);
        prop_assert_eq!(keys(&page.entities), keys(&expected), "{}", text);

        let plan = plan(parse_filter(&text).unwrap().as_ref());
        let claimed = all.iter().filter(|entity| {
            let bytes = |text: &str| KeyBytes::from_text(text).into_vec();
            let (partition, row) = (bytes(entity.key.partition.as_str()), bytes(entity.key.row.as_str()));
            plan.ranges.iter().filter(|range| range.contains(&partition, &row)).count() == 1
        });
        prop_assert_eq!(page.plan.scanned, claimed.count(), "{}", text);
        prop_assert_eq!(page.plan.ranges, plan.ranges.len());
        let apart = plan.ranges.windows(2).all(|pair| pair[0].before.as_ref().is_some_and(|b| *b < pair[1].from));
        prop_assert!(apart && plan.ranges.iter().all(|range| !range.is_empty()), "{}", text);
    }

    #[test]
    fn pages_of_any_size_together_are_the_whole(places in places(), filter in any_filter(), top in 1..5usize) {
        let (bench, _) = with_entities(&places);
        let text = write_filter(&filter);
        let whole = bench.query(&text, None, None);
        prop_assert!(whole.next.is_none());
        let mut paged = Vec::new();
        let mut from = None;
        loop {
            let page = bench.query(&text, Some(top), from);
            prop_assert!(page.entities.len() <= top);
            paged.extend(page.entities);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        prop_assert_eq!(keys(&paged), keys(&whole.entities), "{}", text);
    }
}
