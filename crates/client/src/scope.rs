//! Where a query looks: a required argument, so that a table scan is never an accident.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use serde::{Deserialize, Serialize};
use tavola_model::Operator;

use crate::filter::Filter;
use crate::key::successor;

/// The keys among which a query looks.
///
/// ```
/// use tavola_client::{Cost, In};
/// let rows = In::partition("Sales").rows("empid_000100".."empid_000200");
/// assert_eq!(rows.cost(), Cost::RangeQuery);
/// assert_eq!(
///     rows.to_string(),
///     "PartitionKey eq 'Sales' and RowKey ge 'empid_000100' and RowKey lt 'empid_000200'"
/// );
/// assert_eq!(In::whole_table().cost(), Cost::TableScan);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct In {
    partition: Span,
    row: Span,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    from: Bound<String>,
    to: Bound<String>,
}

/// What a query costs the service, known before it is sent: the four kinds of the design guide, cheapest first.
///
/// ```
/// use tavola_client::{Cost, In};
/// assert!(In::entity("Sales", "Department").cost() < In::partition("Sales").cost());
/// assert_eq!(In::partitions("A".."C").cost(), Cost::TableScan);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cost {
    /// Both keys: one lookup.
    PointQuery,
    /// One partition and a range of rows: what is read is in the answer, or filtered out of that range.
    RangeQuery,
    /// One partition, all of its rows.
    PartitionScan,
    /// Several partitions, or all: every row of them is read, by as many servers as hold them.
    TableScan,
}

impl In {
    /// All rows of one partition.
    ///
    /// ```
    /// use tavola_client::{Cost, In};
    /// assert_eq!(In::partition("Sales").cost(), Cost::PartitionScan);
    /// ```
    pub fn partition(key: impl Into<String>) -> Self {
        Self { partition: Span::one(key.into()), row: Span::all() }
    }

    /// One entity.
    ///
    /// ```
    /// use tavola_client::{Cost, In};
    /// assert_eq!(In::entity("Sales", "Department").cost(), Cost::PointQuery);
    /// ```
    pub fn entity(partition: impl Into<String>, row: impl Into<String>) -> Self {
        Self { partition: Span::one(partition.into()), row: Span::one(row.into()) }
    }

    /// A range of partitions.
    ///
    /// ```
    /// let letters = tavola_client::In::partitions("A"..="C");
    /// assert_eq!(letters.to_string(), "PartitionKey ge 'A' and PartitionKey le 'C'");
    /// ```
    pub fn partitions<'a>(range: impl RangeBounds<&'a str>) -> Self {
        Self { partition: Span::of(range), row: Span::all() }
    }

    /// Every partition whose key begins so.
    ///
    /// ```
    /// let names = tavola_client::In::partitions_with_prefix("name_");
    /// assert_eq!(names.to_string(), "PartitionKey ge 'name_' and PartitionKey lt 'name`'");
    /// ```
    pub fn partitions_with_prefix(prefix: &str) -> Self {
        Self { partition: Span::prefix(prefix), row: Span::all() }
    }

    /// Every partition of the table: as slow as the table is large.
    ///
    /// ```
    /// assert_eq!(tavola_client::In::whole_table().to_string(), "");
    /// ```
    pub fn whole_table() -> Self {
        Self { partition: Span::all(), row: Span::all() }
    }

    /// Only this range of rows.
    ///
    /// ```
    /// let rows = tavola_client::In::partition("p").rows("a"..);
    /// assert_eq!(rows.to_string(), "PartitionKey eq 'p' and RowKey ge 'a'");
    /// ```
    #[must_use]
    pub fn rows<'a>(mut self, range: impl RangeBounds<&'a str>) -> Self {
        self.row = Span::of(range);
        self
    }

    /// Only rows whose key begins so.
    ///
    /// ```
    /// let reviews = tavola_client::In::partition("Sales").rows_with_prefix("empid_000123_");
    /// assert_eq!(
    ///     reviews.to_string(),
    ///     "PartitionKey eq 'Sales' and RowKey ge 'empid_000123_' and RowKey lt 'empid_000123`'"
    /// );
    /// ```
    #[must_use]
    pub fn rows_with_prefix(mut self, prefix: &str) -> Self {
        self.row = Span::prefix(prefix);
        self
    }

    /// What the query costs.
    ///
    /// ```
    /// use tavola_client::{Cost, In};
    /// assert_eq!(In::partition("Sales").rows("a"..="a").cost(), Cost::PointQuery);
    /// ```
    pub fn cost(&self) -> Cost {
        match (self.partition.only(), self.row.only(), self.row == Span::all()) {
            (None, ..) => Cost::TableScan,
            (Some(_), Some(_), _) => Cost::PointQuery,
            (Some(_), None, true) => Cost::PartitionScan,
            (Some(_), None, false) => Cost::RangeQuery,
        }
    }

    /// The one partition in which it looks, if it is one.
    ///
    /// ```
    /// assert_eq!(tavola_client::In::partition("Sales").only_partition(), Some("Sales"));
    /// assert_eq!(tavola_client::In::whole_table().only_partition(), None);
    /// ```
    pub fn only_partition(&self) -> Option<&str> {
        self.partition.only()
    }

    /// The bounds of the PartitionKey.
    ///
    /// ```
    /// use std::ops::Bound;
    /// assert_eq!(tavola_client::In::partitions("A"..).partition_bounds(), (Bound::Included("A"), Bound::Unbounded));
    /// ```
    pub fn partition_bounds(&self) -> (Bound<&str>, Bound<&str>) {
        self.partition.bounds()
    }

    /// The bounds of the RowKey.
    ///
    /// ```
    /// use std::ops::Bound;
    /// assert_eq!(tavola_client::In::partition("A").row_bounds(), (Bound::Unbounded, Bound::Unbounded));
    /// ```
    pub fn row_bounds(&self) -> (Bound<&str>, Bound<&str>) {
        self.row.bounds()
    }

    /// The filter that looks only here; none for the whole table.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, In};
    /// let filter = In::partition("p").to_filter::<DynamicEntity>().unwrap();
    /// assert_eq!(filter.to_string(), "PartitionKey eq 'p'");
    /// ```
    pub fn to_filter<E>(&self) -> Option<Filter<E>> {
        let partition = self.partition.comparisons("PartitionKey");
        partition.into_iter().chain(self.row.comparisons("RowKey")).reduce(Filter::and)
    }

    /// The filter that is sent: here, and what `filter` says.
    ///
    /// ```
    /// use tavola_client::{DynamicEntity, In, filter};
    /// let old = filter!("Age ge 60");
    /// let filter = In::partition("p").with_filter::<DynamicEntity>(Some(&old)).unwrap();
    /// assert_eq!(filter.to_string(), "PartitionKey eq 'p' and Age ge 60");
    /// ```
    pub fn with_filter<E>(&self, filter: Option<&Filter<E>>) -> Option<Filter<E>> {
        self.to_filter().into_iter().chain(filter.cloned()).reduce(Filter::and)
    }
}

/// The text of the filter that looks only here; empty for the whole table.
impl fmt::Display for In {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_filter::<()>().map_or(Ok(()), |filter| write!(f, "{filter}"))
    }
}

impl Span {
    fn all() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    fn one(key: String) -> Self {
        Self { from: Bound::Included(key.clone()), to: Bound::Included(key) }
    }

    fn prefix(prefix: &str) -> Self {
        let to = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        // The empty prefix is that of every key: no bound, so that the cost is told as it is.
        let from = if prefix.is_empty() { Bound::Unbounded } else { Bound::Included(prefix.to_owned()) };
        Self { from, to }
    }

    fn of<'a>(range: impl RangeBounds<&'a str>) -> Self {
        let own = |bound: Bound<&&str>| bound.map(|key| (*key).to_owned());
        Self { from: own(range.start_bound()), to: own(range.end_bound()) }
    }

    fn bounds(&self) -> (Bound<&str>, Bound<&str>) {
        (self.from.as_ref().map(String::as_str), self.to.as_ref().map(String::as_str))
    }

    fn only(&self) -> Option<&str> {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) if from == to => Some(from),
            _ => None,
        }
    }

    fn comparisons<E>(&self, name: &str) -> Vec<Filter<E>> {
        let compare = |operator, key: &str| Filter::compare(name, operator, &key.into());
        if let Some(key) = self.only() {
            return vec![compare(Operator::Eq, key)];
        }
        let from = match &self.from {
            Bound::Included(key) => Some(compare(Operator::Ge, key)),
            Bound::Excluded(key) => Some(compare(Operator::Gt, key)),
            Bound::Unbounded => None,
        };
        let to = match &self.to {
            Bound::Included(key) => Some(compare(Operator::Le, key)),
            Bound::Excluded(key) => Some(compare(Operator::Lt, key)),
            Bound::Unbounded => None,
        };
        from.into_iter().chain(to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_tells_its_cost_before_it_is_asked() {
        assert_eq!(In::entity("p", "r").cost(), Cost::PointQuery);
        assert_eq!(In::partition("p").rows("a".."b").cost(), Cost::RangeQuery);
        assert_eq!(In::partition("p").rows_with_prefix("").cost(), Cost::PartitionScan);
        assert_eq!(In::partitions_with_prefix("a").rows("a"..="a").cost(), Cost::TableScan);
        assert_eq!(In::whole_table().rows("a"..="a").cost(), Cost::TableScan);
    }

    #[test]
    fn quotes_in_keys_are_doubled() {
        assert_eq!(In::partition("O'Hara").to_string(), "PartitionKey eq 'O''Hara'");
    }

    #[test]
    fn a_scope_is_plain_data() {
        let scope = In::partition("p").rows("a"..);
        let text = serde_json::to_string(&scope).unwrap();
        assert_eq!(serde_json::from_str::<In>(&text).unwrap(), scope);
    }
}
