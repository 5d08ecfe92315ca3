//! Does a stored row satisfy the filter?
//!
//! Tested on the bytes of the row: keys compare as bytes, properties where they lie. A comparison with a
//! property that the entity does not have is false, whatever the operator, so its `not` is true.
//!
//! A filter is compiled once for a query. Its comparisons are grouped by property and answered together (`cells.rs`);
//! each chain of `and` or `or` then tests the answers a word at a time. What a row costs depends on the number of
//! properties that the filter names, and next to nothing on its number of comparisons.

use std::ops::ControlFlow;

use tavola_engine::ScannedRow;
use tavola_model::{Comparison, EdmValue, Filter, FilterNode, Properties, PropertyRef};

use super::cells::{KeyCells, ValueCells, WORD_BITS};

/// A filter made ready to be tested on many rows.
pub(super) struct Matcher<'a> {
    partition: Option<(Bits, KeyCells<'a>)>,
    row: Option<(Bits, KeyCells<'a>)>,
    timestamp: Option<(Bits, ValueCells<'a>)>,
    /// By length of the name, then by name.
    named: Vec<NamedCells<'a>>,
    /// Children before parents; the last is the whole filter.
    chains: Vec<Chain>,
    /// The answers to all comparisons for the row at hand.
    answers: Vec<u64>,
    /// A buffer for the value of every chain, kept from row to row.
    values: Vec<bool>,
}

struct NamedCells<'a> {
    name: &'a str,
    bits: Bits,
    cells: ValueCells<'a>,
}

/// Where the answers of a property are among all: from a bit of a word on. They are in one word, or begin with one.
#[derive(Clone, Copy, Debug)]
struct Bits {
    word: usize,
    shift: usize,
}

impl Bits {
    /// Reserves the bits of so many answers.
    fn reserve(count: usize, answers: &mut Vec<u64>, used: &mut usize) -> Self {
        if *used + count > WORD_BITS {
            answers.resize(answers.len() + count.div_ceil(WORD_BITS), 0);
            *used = 0;
        }
        let bits = Self { word: answers.len() - count.div_ceil(WORD_BITS), shift: *used };
        *used = if count > WORD_BITS { WORD_BITS } else { *used + count };
        bits
    }

    /// The index of one of the answers.
    fn index(self, answer: usize) -> usize {
        self.word * WORD_BITS + self.shift + answer
    }

    /// Notes the answers.
    #[inline]
    fn set(self, answers: &mut [u64], given: &[u64]) {
        for (word, given) in answers[self.word..].iter_mut().zip(given) {
            *word |= given << self.shift;
        }
    }
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
        let mut indexes = vec![0; filter.nodes().len()];
        let mut used = WORD_BITS;
        for (property, group) in groups {
            let bits = Bits::reserve(group.len(), &mut matcher.answers, &mut used);
            for (answer, (node, _)) in group.iter().enumerate() {
                indexes[*node] = bits.index(answer);
            }
            let group: Vec<&'a Comparison> = group.into_iter().map(|(_, comparison)| comparison).collect();
            match property {
                PropertyRef::PartitionKey => matcher.partition = Some((bits, KeyCells::new(group))),
                PropertyRef::RowKey => matcher.row = Some((bits, KeyCells::new(group))),
                PropertyRef::Timestamp => matcher.timestamp = Some((bits, ValueCells::new(group))),
                PropertyRef::Named(name) => {
                    matcher.named.push(NamedCells { name, bits, cells: ValueCells::new(group) });
                }
            }
        }
        matcher.chains = chains(filter, &indexes);
        matcher
    }

    /// Whether the row satisfies the filter; `None` if a property it asks for cannot be read.
    pub fn admits(&mut self, row: &ScannedRow<'_>) -> Option<bool> {
        let Self { partition, row: row_key, timestamp, named, chains, answers, values } = self;
        answers.fill(0);
        if let Some((bits, cells)) = partition {
            bits.set(answers, cells.answers(row.partition));
        }
        if let Some((bits, cells)) = row_key {
            bits.set(answers, cells.answers(row.row));
        }
        if let Some((bits, cells)) = timestamp {
            bits.set(answers, cells.answers(EdmValue::DateTime(row.version)));
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

/// Answers the comparisons of properties from the stored body; those of missing ones stay false. `None` if the body
/// cannot be read.
fn answer_named(named: &mut [NamedCells<'_>], answers: &mut [u64], body: &[u8]) -> Option<()> {
    let mut missing = named.len();
    let mut is_damaged = false;
    Properties::visit(body, |property| {
        let order =
            |cells: &NamedCells<'_>| name_order(cells.name.as_bytes()).cmp(&name_order(property.name));
        let Ok(found) = named.binary_search_by(order) else { return ControlFlow::Continue(()) };
        let NamedCells { bits, cells, .. } = &mut named[found];
        let Some(value) = property.value() else {
            is_damaged = true;
            return ControlFlow::Break(());
        };
        bits.set(answers, cells.answers(value));
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
    /// Indexes of their answers.
    comparisons: Vec<usize>,
    children: Vec<usize>,
}

/// The chains of a filter whose comparisons have these answers.
fn chains(filter: &Filter, indexes: &[usize]) -> Vec<Chain> {
    let mut chains = Vec::new();
    let mut links: Vec<Links> = Vec::with_capacity(filter.nodes().len());
    for (index, node) in filter.nodes().iter().enumerate() {
        let made = match node {
            // A chain without links: `and` of nothing is true, `or` of nothing false.
            FilterNode::Constant(flag) => {
                let operator = if *flag { ChainOperator::And } else { ChainOperator::Or };
                Links { operator: Some(operator), ..Links::default() }
            }
            FilterNode::Compare(_) => Links { comparisons: vec![indexes[index]], ..Links::default() },
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
        for index in self.comparisons {
            let (word, mask) = (index / WORD_BITS, 1 << (index % WORD_BITS));
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
