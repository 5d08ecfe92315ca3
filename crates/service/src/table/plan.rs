//! The planner: from a filter, the key ranges that must be read.
//!
//! For every node of the filter two sets are reckoned from the leaves up: the entities for which it can be
//! true, and those for which it can be false. Comparisons of keys give exact sets, all others give everything,
//! and `not` swaps the two, so that no negation ever loses an entity. What is read is tested against the whole
//! filter, so a set may be too large but never too small. The planner is pure: it looks at no data.

use tavola_engine::{Position, ScanRange};
use tavola_model::{
    Comparison, EdmValue, Filter, FilterNode, KeyBytes, Operator, PLAN_RANGES_MAX, PlanKind, PropertyRef,
};

use super::key_set::{KeySet, RowSet, Span};

/// The ranges that hold every entity a filter admits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In key order, apart from each other and not empty. No range at all if nothing can be admitted.
    pub ranges: Vec<ScanRange>,
    /// The dearest kind of access among them.
    pub kind: PlanKind,
}

/// Chooses the ranges to read.
pub fn plan(filter: Option<&Filter>) -> Plan {
    let keys = match filter {
        Some(filter) => admitted_keys(filter),
        None => KeySet::all(),
    };
    Plan::of(&keys)
}

impl Plan {
    fn of(keys: &KeySet) -> Self {
        let mut plan = Plan { ranges: Vec::new(), kind: PlanKind::Point };
        for span in &keys.spans {
            plan.add_partitions(span);
        }
        while plan.ranges.len() > PLAN_RANGES_MAX {
            plan.join_neighbours();
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

    fn add_partitions(&mut self, span: &Span<RowSet>) {
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

    /// Halves the number of ranges by reading what lies between each two.
    fn join_neighbours(&mut self) {
        let joined = self.ranges.chunks(2).filter_map(|pair| {
            let (first, last) = (pair.first()?, pair.last()?);
            Some(ScanRange { from: first.from.clone(), before: last.before.clone() })
        });
        self.ranges = joined.collect();
        self.kind = self.kind.max(PlanKind::PartitionRange);
    }
}

/// The entities for which a node can be true, and those for which it can be false.
struct Possible {
    when_true: KeySet,
    when_false: KeySet,
}

fn admitted_keys(filter: &Filter) -> KeySet {
    let mut nodes: Vec<Possible> = Vec::with_capacity(filter.nodes().len());
    for node in filter.nodes() {
        let possible = match node {
            FilterNode::Constant(flag) => constant(*flag),
            FilterNode::Compare(comparison) => compare(comparison),
            FilterNode::And(left, right) => {
                let (left, right) = (&nodes[left.index()], &nodes[right.index()]);
                Possible {
                    when_true: left.when_true.intersection(&right.when_true),
                    when_false: left.when_false.union(&right.when_false),
                }
            }
            FilterNode::Or(left, right) => {
                let (left, right) = (&nodes[left.index()], &nodes[right.index()]);
                Possible {
                    when_true: left.when_true.union(&right.when_true),
                    when_false: left.when_false.intersection(&right.when_false),
                }
            }
            FilterNode::Not(inner) => {
                let inner = &nodes[inner.index()];
                Possible { when_true: inner.when_false.clone(), when_false: inner.when_true.clone() }
            }
        };
        nodes.push(possible);
    }
    nodes.pop().map_or_else(KeySet::all, |root| root.when_true)
}

fn constant(flag: bool) -> Possible {
    let (all, none) = (KeySet::all(), KeySet::nowhere());
    match flag {
        true => Possible { when_true: all, when_false: none },
        false => Possible { when_true: none, when_false: all },
    }
}

fn compare(comparison: &Comparison) -> Possible {
    let make: fn(Operator, &[u8]) -> KeySet = match comparison.property {
        PropertyRef::PartitionKey => KeySet::partitions,
        PropertyRef::RowKey => KeySet::rows,
        PropertyRef::Timestamp | PropertyRef::Named(_) => {
            return Possible { when_true: KeySet::all(), when_false: KeySet::all() };
        }
    };
    match comparison.literal() {
        EdmValue::String(text) => {
            let key = KeyBytes::from_text(text);
            Possible {
                when_true: make(comparison.operator, key.as_slice()),
                when_false: make(opposite(comparison.operator), key.as_slice()),
            }
        }
        // Keys are strings, so against a literal of another type every key stands alike.
        other => constant(tavola_odata::holds(EdmValue::String(""), comparison.operator, other)),
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
