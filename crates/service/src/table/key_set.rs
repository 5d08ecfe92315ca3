//! Sets of keys, as the planner computes with them.
//!
//! The line of all keys is cut into spans. A cut is bytes; a span goes from one cut up to, but not at, the
//! next. `k` and a zero byte is the cut right behind the key `k`, since no key holds a zero. A set of entities is
//! a line of partitions on which every span has a line of rows: what belongs to the set in each partition of
//! the span. In this form a set has one writing only, and union and intersection are one walk over both.

use std::sync::Arc;

use bytes::Bytes;
use tavola_model::{Operator, PLAN_RANGES_MAX};

/// Values on spans of the key line; spans in order, apart, and never empty. What no span covers has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<V> {
    pub spans: Vec<KeySpan<V>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeySpan<V> {
    pub from: Bytes,
    /// `None` for all the rest of the line.
    pub before: Option<Bytes>,
    pub value: V,
}

/// A set of row keys.
pub(super) type RowSet = Line<()>;

/// A set of entities. No span has an empty set of rows. Spans share their rows: most have the same.
pub(super) type EntitySet = Line<Arc<RowSet>>;

impl<V> KeySpan<V> {
    /// The one key in the span, if it holds just one.
    pub fn single_key(&self) -> Option<&Bytes> {
        let before = self.before.as_ref()?;
        (before.strip_suffix(&[0]) == Some(self.from.as_ref())).then_some(&self.from)
    }
}

impl<V: Clone + PartialEq> Line<V> {
    /// The value on every key.
    pub fn everywhere(value: V) -> Self {
        Self { spans: vec![KeySpan { from: Bytes::new(), before: None, value }] }
    }

    pub fn nowhere() -> Self {
        Self { spans: Vec::new() }
    }

    /// The value on the keys that stand so to `key`.
    pub fn comparing(operator: Operator, key: &[u8], value: &V) -> Self {
        let at = Bytes::copy_from_slice(key);
        let behind = Bytes::from([key, &[0]].concat());
        let spans = match operator {
            Operator::Eq => vec![(at, Some(behind))],
            Operator::Ne => vec![(Bytes::new(), Some(at)), (behind, None)],
            Operator::Lt => vec![(Bytes::new(), Some(at))],
            Operator::Le => vec![(Bytes::new(), Some(behind))],
            Operator::Gt => vec![(behind, None)],
            Operator::Ge => vec![(at, None)],
        };
        let span = |(from, before)| KeySpan { from, before, value: value.clone() };
        let is_empty = |span: &KeySpan<V>| span.before.as_ref().is_some_and(|before| *before <= span.from);
        Self { spans: spans.into_iter().map(span).filter(|span| !is_empty(span)).collect() }
    }

    pub fn is_everywhere(&self) -> bool {
        matches!(&self.spans[..], [span] if span.from.is_empty() && span.before.is_none())
    }

    /// Walks both lines cut by cut and keeps what `combine` makes of their values; it makes nothing of nothing.
    fn overlay(&self, other: &Self, combine: impl Fn(Option<&V>, Option<&V>) -> Option<V>) -> Self {
        let mut result = Self::nowhere();
        let (mut left, mut right) = (Cursor::new(self), Cursor::new(other));
        let mut from = Bytes::new();
        loop {
            let value = combine(left.value_at(&from), right.value_at(&from));
            let next = [left.next_cut(&from), right.next_cut(&from)].into_iter().flatten().min();
            if let Some(value) = value {
                result.push(KeySpan { from, before: next.clone(), value });
            }
            match next {
                Some(cut) => from = cut,
                None => return result,
            }
        }
    }

    /// Adds a span behind all others, as part of the last one if that is its direct continuation.
    fn push(&mut self, span: KeySpan<V>) {
        match self.spans.last_mut() {
            Some(last) if last.before.as_ref() == Some(&span.from) && last.value == span.value => {
                last.before = span.before;
            }
            _ => self.spans.push(span),
        }
    }
}

impl RowSet {
    fn union(&self, other: &Self) -> Self {
        self.overlay(other, |left, right| left.or(right).copied())
    }

    fn intersection(&self, other: &Self) -> Self {
        self.overlay(other, |left, right| left.and(right).copied())
    }

    fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The smallest single span that holds the set.
    fn hull(&self) -> Self {
        match (self.spans.first(), self.spans.last()) {
            (Some(first), Some(last)) => Self {
                spans: vec![KeySpan { from: first.from.clone(), before: last.before.clone(), value: () }],
            },
            _ => Self::nowhere(),
        }
    }
}

impl EntitySet {
    pub fn all() -> Self {
        Self::everywhere(Arc::new(RowSet::everywhere(())))
    }

    /// The entities whose PartitionKey stands so to `key`.
    pub fn partitions(operator: Operator, key: &[u8]) -> Self {
        Self::comparing(operator, key, &Arc::new(RowSet::everywhere(())))
    }

    /// The entities whose RowKey stands so to `key`, in any partition.
    pub fn rows(operator: Operator, key: &[u8]) -> Self {
        let rows = RowSet::comparing(operator, key, &());
        if rows.is_empty() { Self::nowhere() } else { Self::everywhere(Arc::new(rows)) }
    }

    pub fn union(&self, other: &Self) -> Self {
        self.overlay(other, |left, right| match (left, right) {
            (Some(left), Some(right)) if left.is_everywhere() || Arc::ptr_eq(left, right) => {
                Some(left.clone())
            }
            (Some(_), Some(right)) if right.is_everywhere() => Some(right.clone()),
            (Some(left), Some(right)) => Some(Arc::new(left.union(right))),
            (one, another) => one.or(another).cloned(),
        })
        .bounded()
    }

    pub fn intersection(&self, other: &Self) -> Self {
        self.overlay(other, |left, right| match (left?, right?) {
            (left, right) if right.is_everywhere() || Arc::ptr_eq(left, right) => Some(left.clone()),
            (left, right) if left.is_everywhere() => Some(right.clone()),
            (left, right) => Some(left.intersection(right)).filter(|rows| !rows.is_empty()).map(Arc::new),
        })
        .bounded()
    }

    /// This set, or a larger one if it has too many spans. The planner may always take a larger set: what is
    /// read is still tested against the filter.
    fn bounded(mut self) -> Self {
        let rows: usize = self.spans.iter().map(|span| span.value.spans.len()).sum();
        if rows > PLAN_RANGES_MAX {
            self.spans.iter_mut().for_each(|span| span.value = Arc::new(span.value.hull()));
        }
        self
    }
}

/// A place on a line that only moves on.
struct Cursor<'a, V> {
    spans: &'a [KeySpan<V>],
}

impl<'a, V> Cursor<'a, V> {
    fn new(line: &'a Line<V>) -> Self {
        Self { spans: &line.spans }
    }

    /// The value at this cut; cuts come in order.
    fn value_at(&mut self, cut: &Bytes) -> Option<&'a V> {
        while let Some((first, rest)) = self.spans.split_first() {
            if first.before.as_ref().is_none_or(|before| before > cut) {
                return (first.from <= *cut).then_some(&first.value);
            }
            self.spans = rest;
        }
        None
    }

    /// The next cut behind this one.
    fn next_cut(&self, cut: &Bytes) -> Option<Bytes> {
        let span = self.spans.first()?;
        if span.from > *cut { Some(span.from.clone()) } else { span.before.clone() }
    }
}
