//! The planner: from a filter, the key ranges that must be read.
//!
//! Every `not` is first pushed down to the leaves: below an odd number of them a comparison of keys takes its
//! opposite, and `and` and `or` change places. Then sets of entities are computed from the leaves up. Comparisons
//! of keys give exact sets, all others give everything, for either truth, so no negation ever loses an entity.
//! What is read is tested against the whole filter: a set may be too large but never too small. The planner is
//! pure; it looks at no data.

use std::sync::Arc;

use tavola_engine::{Position, ScanRange};
use tavola_model::{
    Comparison, EdmValue, FILTER_COMPARISONS_MAX, Filter, FilterNode, KeyBytes, NodeId, Operator,
    PLAN_RANGES_MAX, PlanKind, PropertyRef,
};

use super::key_set::{EntitySet, KeySpan, RowSet};

/// A comparison cuts the line of partitions at most twice, on both sides of one key, and `EntitySet` widens the rows
/// of its spans to one range each once there are too many. So no plan has more ranges than the limit.
const _: () = assert!(2 * FILTER_COMPARISONS_MAX <= PLAN_RANGES_MAX);

/// The ranges that hold every entity a filter admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In key order, apart from each other and not empty. No range at all if nothing can be admitted.
    pub ranges: Vec<ScanRange>,
    /// The most expensive kind of access among them.
    pub kind: PlanKind,
}

/// Chooses the ranges to read.
pub fn plan(filter: Option<&Filter>) -> Plan {
    let keys = match filter {
        Some(filter) => admitted_keys(filter),
        None => EntitySet::all(),
    };
    Plan::of(&keys)
}

impl Plan {
    fn of(keys: &EntitySet) -> Self {
        let mut plan = Plan { ranges: Vec::new(), kind: PlanKind::Point };
        for span in &keys.spans {
            plan.add_partitions(span);
        }
        if plan.ranges == [ScanRange::all()] {
            plan.kind = PlanKind::TableScan;
        }
        plan
    }

    /// The parts of the ranges that lie in `bounds`.
    #[must_use]
    pub fn within(mut self, bounds: &ScanRange) -> Self {
        for range in &mut self.ranges {
            if range.from < bounds.from {
                range.from = bounds.from.clone();
            }
            range.before = match (range.before.take(), &bounds.before) {
                (Some(before), Some(bound)) => Some(before.min(bound.clone())),
                (before, bound) => before.or_else(|| bound.clone()),
            };
        }
        self.ranges.retain(|range| !range.is_empty());
        self
    }

    fn add_partitions(&mut self, span: &KeySpan<Arc<RowSet>>) {
        let Some(partition) = span.single_key() else {
            // Rows are next to each other only within one partition; across several, all are read.
            self.add(
                PlanKind::PartitionRange,
                Position::partition_start(&span.from),
                span.before.as_ref().map(|before| Position::partition_start(before)),
            );
            return;
        };
        let is_whole = span.value.is_everywhere();
        for rows in &span.value.spans {
            let kind = match rows.single_key() {
                Some(_) => PlanKind::Point,
                None if is_whole => PlanKind::PartitionScan,
                None => PlanKind::Range,
            };
            let before = match &rows.before {
                Some(before) => Position::at(partition, before),
                None => Position::partition_end(partition),
            };
            self.add(kind, Position::at(partition, &rows.from), Some(before));
        }
    }

    fn add(&mut self, kind: PlanKind, from: Position, before: Option<Position>) {
        self.kind = self.kind.max(kind);
        match self.ranges.last_mut() {
            Some(last) if last.before.as_ref() == Some(&from) => last.before = before,
            _ => self.ranges.push(ScanRange { from, before }),
        }
    }
}

/// The entities that the filter can admit.
fn admitted_keys(filter: &Filter) -> EntitySet {
    let negated = negated_nodes(filter);
    let mut chains: Vec<Option<Chain>> = Vec::with_capacity(filter.nodes().len());
    for (node, negated) in filter.nodes().iter().zip(negated) {
        // A node has one parent. If one had two, everything would stand in for it, which is never too small.
        let mut take = |node: &NodeId| chains[node.index()].take().unwrap_or_else(|| EntitySet::all().into());
        let chain = match node {
            FilterNode::Constant(flag) => constant(*flag != negated).into(),
            FilterNode::Compare(comparison) => compare(comparison, negated).into(),
            FilterNode::Not(inner) => take(inner),
            FilterNode::And(left, right) | FilterNode::Or(left, right) => {
                let (left, right) = (take(left), take(right));
                let link = match (matches!(node, FilterNode::And(..)), negated) {
                    (true, false) | (false, true) => Link::Intersection,
                    (true, true) | (false, false) => Link::Union,
                };
                Chain::linked(link, left, right)
            }
        };
        chains.push(Some(chain));
    }
    chains.pop().flatten().map_or_else(EntitySet::all, Chain::resolve)
}

/// For each node, whether an odd number of `not`s stands above it.
fn negated_nodes(filter: &Filter) -> Vec<bool> {
    let nodes = filter.nodes();
    let mut negated = vec![false; nodes.len()];
    for (index, node) in nodes.iter().enumerate().rev() {
        match node {
            FilterNode::Constant(_) | FilterNode::Compare(_) => {}
            FilterNode::Not(inner) => negated[inner.index()] = !negated[index],
            FilterNode::And(left, right) | FilterNode::Or(left, right) => {
                negated[left.index()] = negated[index];
                negated[right.index()] = negated[index];
            }
        }
    }
    negated
}

/// Sets that wait to be linked. Filters have long chains of one operator; linked two by two, the work grows
/// with the length of the chain and not with its square.
struct Chain {
    link: Link,
    sets: Vec<EntitySet>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Union,
    Intersection,
}

impl From<EntitySet> for Chain {
    fn from(set: EntitySet) -> Self {
        Self { link: Link::Union, sets: vec![set] }
    }
}

impl Chain {
    fn linked(link: Link, left: Self, right: Self) -> Self {
        let mut sets = left.sets_for(link);
        sets.extend(right.sets_for(link));
        Self { link, sets }
    }

    /// The sets as links of another chain: as they are if the link is the same, else resolved to one.
    fn sets_for(self, link: Link) -> Vec<EntitySet> {
        if self.link == link { self.sets } else { vec![self.resolve()] }
    }

    fn resolve(self) -> EntitySet {
        let mut sets = self.sets;
        while sets.len() > 1 {
            let link_pair = |pair: &[EntitySet]| match (pair, self.link) {
                ([left, right], Link::Union) => left.union(right),
                ([left, right], Link::Intersection) => left.intersection(right),
                _ => pair[0].clone(),
            };
            sets = sets.chunks(2).map(link_pair).collect();
        }
        sets.pop().expect("a chain has at least one set")
    }
}

fn constant(flag: bool) -> EntitySet {
    if flag { EntitySet::all() } else { EntitySet::nowhere() }
}

fn compare(comparison: &Comparison, negated: bool) -> EntitySet {
    let make: fn(Operator, &[u8]) -> EntitySet = match comparison.property {
        PropertyRef::PartitionKey => EntitySet::partitions,
        PropertyRef::RowKey => EntitySet::rows,
        PropertyRef::Timestamp | PropertyRef::Named(_) => return EntitySet::all(),
    };
    match comparison.literal() {
        EdmValue::String(text) => {
            let operator = if negated { opposite(comparison.operator) } else { comparison.operator };
            make(operator, KeyBytes::from_text(text).as_slice())
        }
        // Keys are strings, so against a literal of another type every key stands alike.
        other => constant(tavola_odata::holds(EdmValue::String(""), comparison.operator, other) != negated),
    }
}

fn opposite(operator: Operator) -> Operator {
    match operator {
        Operator::Eq => Operator::Ne,
        Operator::Ne => Operator::Eq,
        Operator::Gt => Operator::Le,
        Operator::Le => Operator::Gt,
        Operator::Ge => Operator::Lt,
        Operator::Lt => Operator::Ge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_odata::parse_filter;

    /// Ranges as `from..before`, each a `partition/row`; `~` stands for the zero byte behind a key.
    fn check(filter: &str, kind: PlanKind, expected: &str) {
        let plan = plan(parse_filter(filter).unwrap().as_ref());
        let show = |position: &Position| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "~");
            format!("{}/{}", text(&position.partition), text(&position.row))
        };
        let shown: Vec<_> = plan
            .ranges
            .iter()
            .map(|range| {
                let before = range.before.as_ref().map(show).unwrap_or_default();
                format!("{}..{before}", show(&range.from))
            })
            .collect();
        assert_eq!((shown.join(" "), plan.kind), (expected.to_owned(), kind), "{filter}");
    }

    #[test]
    fn both_keys_are_a_point_and_an_or_of_row_keys_a_few() {
        check("PartitionKey eq 'p' and RowKey eq 'r'", PlanKind::Point, "p/r..p/r~");
        check(
            "PartitionKey eq 'Sales' and (RowKey eq '121' or RowKey eq '322')",
            PlanKind::Point,
            "Sales/121..Sales/121~ Sales/322..Sales/322~",
        );
        check(
            "(PartitionKey eq 'b' and RowKey eq '1') or ('a' eq PartitionKey and RowKey eq '2')",
            PlanKind::Point,
            "a/2..a/2~ b/1..b/1~",
        );
    }

    #[test]
    fn a_partition_with_row_bounds_is_a_range() {
        check("PartitionKey eq 'p' and RowKey ge 'a' and RowKey lt 'b'", PlanKind::Range, "p/a..p/b");
        check("PartitionKey eq 'p' and RowKey gt 'a'", PlanKind::Range, "p/a~..p~/");
        check("PartitionKey eq 'p' and not (RowKey eq 'a')", PlanKind::Range, "p/..p/a p/a~..p~/");
        check("PartitionKey eq 'p' and Age gt 5", PlanKind::PartitionScan, "p/..p~/");
        check("PartitionKey eq 'p' or PartitionKey eq 'q'", PlanKind::PartitionScan, "p/..p~/ q/..q~/");
    }

    #[test]
    fn bounds_on_partitions_alone_are_a_partition_range() {
        check("PartitionKey ge 'p' and PartitionKey lt 'q'", PlanKind::PartitionRange, "p/..q/");
        check("PartitionKey ne 'p'", PlanKind::PartitionRange, "/..p/ p~/..");
        check("not (PartitionKey lt 'p' or PartitionKey ge 'q')", PlanKind::PartitionRange, "p/..q/");
        check(
            "PartitionKey gt 'p' or (PartitionKey eq 'p' and RowKey gt 'r')",
            PlanKind::PartitionRange,
            "p/r~..",
        );
    }

    #[test]
    fn other_filters_scan_the_table() {
        for filter in
            ["", "Age gt 5", "RowKey eq 'r'", "PartitionKey eq 'p' or Age gt 5", "PartitionKey ge ''"]
        {
            check(filter, PlanKind::TableScan, "/..");
        }
    }

    #[test]
    fn a_contradiction_reads_nothing() {
        for filter in [
            "PartitionKey eq 'p' and PartitionKey eq 'q'",
            "PartitionKey lt ''",
            "PartitionKey eq 5",
            "false",
            "PartitionKey eq 'p' and RowKey gt 'b' and RowKey lt 'a'",
        ] {
            check(filter, PlanKind::Point, "");
        }
    }

    #[test]
    fn too_many_points_become_fewer_wider_ranges() {
        let any_of = |property: &str, count: usize| {
            let points: Vec<_> = (0..count).map(|n| format!("{property} eq '{n:03}'")).collect();
            format!("({})", points.join(" or "))
        };
        let filter = format!("{} and {}", any_of("PartitionKey", 200), any_of("RowKey", 200));
        let plan = plan(parse_filter(&filter).unwrap().as_ref());
        assert_eq!(plan.ranges.len(), 200);
        assert!(plan.ranges.iter().all(|range| range.from.row == b"000"));
        assert!(plan.ranges[0].contains(b"000", b"199") && !plan.ranges[0].contains(b"000", b"200"));
    }
}
