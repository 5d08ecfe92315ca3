//! Does a stored row satisfy the filter?
//!
//! Tested on the bytes of the row: keys compare as bytes, properties where they lie. A comparison with a
//! property that the entity does not have is false, whatever the operator, so its `not` is true.
//!
//! A filter is compiled once for a query. Its comparisons are grouped by property and answered together (`cells.rs`);
//! each chain of `and` or `or` then tests the answers a word at a time. What a row costs depends on the number of
//! properties that the filter names, and next to nothing on its number of comparisons.

use std::ops::{ControlFlow, Range};

use tavola_engine::ScannedRow;
use tavola_model::{Comparison, EdmValue, Filter, FilterNode, Properties, PropertyRef};

use super::cells::{KeyCells, ValueCells, WORD_BITS};

/// A filter made ready to be tested on many rows.
pub(super) struct Matcher<'a> {
    partition: Option<(Range<usize>, KeyCells<'a>)>,
    row: Option<(Range<usize>, KeyCells<'a>)>,
    timestamp: Option<(Range<usize>, ValueCells<'a>)>,
    /// By length of the name, then by name.
    named: Vec<NamedCells<'a>>,
    /// Children before parents; the last is the whole filter.
    chains: Vec<Chain>,
    /// The answers to all comparisons for the row at hand; those of a property begin with a word of their own.
    answers: Vec<u64>,
    /// Room for the value of every chain, kept from row to row.
    values: Vec<bool>,
}

struct NamedCells<'a> {
    name: &'a str,
    words: Range<usize>,
    cells: ValueCells<'a>,
}

impl<'a> Matcher<'a> {
    pub fn new(filter: &'a Filter) -> Self {
        let mut groups: Vec<(&'a PropertyRef, Vec<(usize, &'a Comparison)>)> = Vec::new();
        for (node, comparison) in comparisons(filter) {
            groups.push((&comparison.property, vec![(node, comparison)]));
        }
        groups.sort_by(|(left, _), (right, _)| property_order(left).cmp(&property_order(right)));
        groups.dedup_by(|(property, more), (kept, comparisons)| {
            let is_same = property == kept;
            if is_same {
                comparisons.append(more);
            }
            is_same
        });
        let mut matcher = Self {
            partition: None,
            row: None,
            timestamp: None,
            named: Vec::new(),
            chains: Vec::new(),
            answers: Vec::new(),
            values: Vec::new(),
        };
        let mut bits = vec![0; filter.nodes().len()];
        for (property, group) in groups {
            let start = matcher.answers.len();
            for (index, (node, _)) in group.iter().enumerate() {
                bits[*node] = start * WORD_BITS + index;
            }
            let words = start..start + group.len().div_ceil(WORD_BITS);
            matcher.answers.resize(words.end, 0);
            let group: Vec<&'a Comparison> = group.into_iter().map(|(_, comparison)| comparison).collect();
            match property {
                PropertyRef::PartitionKey => matcher.partition = Some((words, KeyCells::new(group))),
                PropertyRef::RowKey => matcher.row = Some((words, KeyCells::new(group))),
                PropertyRef::Timestamp => matcher.timestamp = Some((words, ValueCells::new(group))),
                PropertyRef::Named(name) => {
                    matcher.named.push(NamedCells { name, words, cells: ValueCells::new(group) });
                }
            }
        }
        matcher.chains = chains(filter, &bits);
        matcher
    }

    /// Whether the row satisfies the filter; `None` if a property it asks for cannot be read.
    pub fn admits(&mut self, row: &ScannedRow<'_>) -> Option<bool> {
        let Self { partition, row: row_key, timestamp, named, chains, answers, values } = self;
        if let Some((words, cells)) = partition {
            answers[words.clone()].copy_from_slice(cells.answers(row.partition));
        }
        if let Some((words, cells)) = row_key {
            answers[words.clone()].copy_from_slice(cells.answers(row.row));
        }
        if let Some((words, cells)) = timestamp {
            answers[words.clone()].copy_from_slice(cells.answers(EdmValue::DateTime(row.version)));
        }
        if !named.is_empty() {
            answer_named(named, answers, &row.body)?;
        }
        values.clear();
        for chain in chains.iter() {
            let value = chain.holds(answers, values);
            values.push(value);
        }
        values.last().copied()
    }
}

/// Answers the comparisons of properties from the stored body; `None` if it cannot be read.
fn answer_named(named: &mut [NamedCells<'_>], answers: &mut [u64], body: &[u8]) -> Option<()> {
    for NamedCells { words, .. } in named.iter() {
        answers[words.clone()].fill(0);
    }
    let mut missing = named.len();
    let mut is_damaged = false;
    Properties::walk(body, |property| {
        let order =
            |cells: &NamedCells<'_>| name_order(cells.name.as_bytes()).cmp(&name_order(property.name));
        let Ok(found) = named.binary_search_by(order) else { return ControlFlow::Continue(()) };
        let NamedCells { words, cells, .. } = &mut named[found];
        let Some(value) = property.value() else {
            is_damaged = true;
            return ControlFlow::Break(());
        };
        answers[words.clone()].copy_from_slice(cells.answers(value));
        missing -= 1;
        if missing == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    (!is_damaged).then_some(())
}

fn comparisons(filter: &Filter) -> impl Iterator<Item = (usize, &Comparison)> {
    filter.nodes().iter().enumerate().filter_map(|(index, node)| match node {
        FilterNode::Compare(comparison) => Some((index, comparison)),
        FilterNode::Constant(_) | FilterNode::And(..) | FilterNode::Or(..) | FilterNode::Not(_) => None,
    })
}

/// Short names first: most are told apart by their length alone.
fn name_order(name: &[u8]) -> (usize, &[u8]) {
    (name.len(), name)
}

fn property_order(property: &PropertyRef) -> (u8, usize, &[u8]) {
    let rank = match property {
        PropertyRef::PartitionKey => 0,
        PropertyRef::RowKey => 1,
        PropertyRef::Timestamp => 2,
        PropertyRef::Named(_) => 3,
    };
    let (length, name) = name_order(property.name().as_bytes());
    (rank, length, name)
}

/// A chain of one operator over comparisons and other chains.
#[derive(Clone, Debug)]
struct Chain {
    operator: ChainOperator,
    is_negated: bool,
    /// Words of the answers and the bits of them that belong to the chain.
    masks: Vec<(usize, u64)>,
    /// Other chains, by index.
    children: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainOperator {
    And,
    Or,
}

impl Chain {
    fn holds(&self, answers: &[u64], values: &[bool]) -> bool {
        let holds = match self.operator {
            ChainOperator::And => {
                self.masks.iter().all(|(word, mask)| answers[*word] & mask == *mask)
                    && self.children.iter().all(|child| values[*child])
            }
            ChainOperator::Or => {
                self.masks.iter().any(|(word, mask)| answers[*word] & mask != 0)
                    || self.children.iter().any(|child| values[*child])
            }
        };
        holds != self.is_negated
    }
}

/// A chain while it is put together from the nodes below it.
#[derive(Default)]
struct Links {
    operator: Option<ChainOperator>,
    /// Bits of the answers.
    comparisons: Vec<usize>,
    children: Vec<usize>,
}

/// The chains of a filter whose comparisons have these bits.
fn chains(filter: &Filter, bits: &[usize]) -> Vec<Chain> {
    let mut chains = Vec::new();
    let mut links: Vec<Links> = Vec::with_capacity(filter.nodes().len());
    for (index, node) in filter.nodes().iter().enumerate() {
        let made = match node {
            // A chain without links: `and` of nothing is true, `or` of nothing false.
            FilterNode::Constant(flag) => {
                let operator = if *flag { ChainOperator::And } else { ChainOperator::Or };
                Links { operator: Some(operator), ..Links::default() }
            }
            FilterNode::Compare(_) => Links { comparisons: vec![bits[index]], ..Links::default() },
            FilterNode::Not(inner) => {
                let inner = std::mem::take(&mut links[inner.index()]);
                chains.push(inner.into_chain(true));
                Links { children: vec![chains.len() - 1], ..Links::default() }
            }
            FilterNode::And(left, right) | FilterNode::Or(left, right) => {
                let operator = match node {
                    FilterNode::And(..) => ChainOperator::And,
                    _ => ChainOperator::Or,
                };
                let mut joined = Links { operator: Some(operator), ..Links::default() };
                for side in [left, right] {
                    let side = std::mem::take(&mut links[side.index()]);
                    joined.join(side, &mut chains);
                }
                joined
            }
        };
        links.push(made);
    }
    let root = links.pop().unwrap_or_default();
    chains.push(root.into_chain(false));
    chains
}

impl Links {
    /// Takes in one side of an operator: its links if it is a chain of the same one or a single link, else as a child.
    fn join(&mut self, mut side: Self, chains: &mut Vec<Chain>) {
        if side.operator.is_none() || side.operator == self.operator {
            // The longer side is kept where it is, so that a long chain is not copied again for each of its links.
            if side.comparisons.len() > self.comparisons.len() {
                std::mem::swap(&mut side.comparisons, &mut self.comparisons);
            }
            self.comparisons.append(&mut side.comparisons);
            if side.children.len() > self.children.len() {
                std::mem::swap(&mut side.children, &mut self.children);
            }
            self.children.append(&mut side.children);
        } else {
            chains.push(side.into_chain(false));
            self.children.push(chains.len() - 1);
        }
    }

    fn into_chain(mut self, is_negated: bool) -> Chain {
        self.comparisons.sort_unstable();
        let mut masks: Vec<(usize, u64)> = Vec::new();
        for bit in self.comparisons {
            let (word, mask) = (bit / WORD_BITS, 1 << (bit % WORD_BITS));
            match masks.last_mut() {
                Some((last, all)) if *last == word => *all |= mask,
                _ => masks.push((word, mask)),
            }
        }
        let operator = self.operator.unwrap_or(ChainOperator::And);
        Chain { operator, is_negated, masks, children: self.children }
    }
}

/// The value of a filter whose comparisons `test` decides, given their index among the nodes.
pub(super) fn evaluate(
    nodes: &[FilterNode],
    values: &mut Vec<bool>,
    mut test: impl FnMut(usize, &Comparison) -> bool,
) -> bool {
    values.clear();
    for (index, node) in nodes.iter().enumerate() {
        let value = match node {
            FilterNode::Constant(flag) => *flag,
            FilterNode::Compare(comparison) => test(index, comparison),
            FilterNode::And(left, right) => values[left.index()] && values[right.index()],
            FilterNode::Or(left, right) => values[left.index()] || values[right.index()],
            FilterNode::Not(inner) => !values[inner.index()],
        };
        values.push(value);
    }
    values.last().copied().expect("a filter has at least one node")
}

#[cfg(test)]
mod tests;
